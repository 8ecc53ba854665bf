//! The suite `net`: one program as a server in our guests, in Linux guests on the same machine, and on Linux itself.
//!
//! Server and client are `examples/net_bench` and, for HTTP, `examples/httpd` and wrk. Guests are at a tap, the client is on this
//! host. Everything happens in a network namespace of its own: no name and no address collides with the host's, and nothing of it
//! remains, however the suite ends.
//!
//! The `Plan` is made outside, where programs can be built and packages installed; [`inside`] carries it out.

mod aims;
mod figures;
mod http;
mod link;
mod measure;
mod namespace;
mod net_bench;
mod plan;
mod plot;
mod server;
mod start;
mod system;
mod table;
mod topic;

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use figures::Figures;
pub(crate) use plan::{Choice, Plan};

use super::Platform;
use xtask::workspace;

/// Measures and prints all figures, and returns them.
pub(super) fn main(choice: &Choice, platform: Option<Platform>) -> Result<Value> {
    namespace::check()?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let file = folder.path().join("figures");
    let plan = Plan::prepare(choice, platform, &file)?;
    namespace::run(&plan.arguments(), folder.path())?;
    let text = fs::read_to_string(file).context("cannot read the figures")?;
    serde_json::from_str(&text).context("cannot understand the figures")
}

/// What `cargo xtask net-bench` does, which [`main`] starts in a network namespace of its own.
pub(crate) fn inside(plan: &Plan) -> Result<()> {
    namespace::end_with_parent();
    link::switch_on_loopback()?;
    let mut figures = Figures::default();
    for run in 1..=plan.choice.runs {
        for &system in &plan.choice.systems {
            eprintln!("net: run {run} of {}: {system}", plan.choice.runs);
            measure::all(plan, system, &mut figures);
        }
    }
    table::print(&figures, &plan.choice.systems);
    let folder = workspace::target_dir().join("bench").join("net");
    if let Err(error) = plot::draw(&figures, &plan.choice.systems, &folder) {
        eprintln!("net: {error:#}");
    }
    let text = serde_json::to_string(&figures.to_json(table::ratios_of))?;
    fs::write(&plan.figures, text).with_context(|| format!("cannot write {}", plan.figures.display()))
}
