//! The suite `net`: measures the same server program in guests of this kernel, in Linux guests on the same
//! host, and on the host itself.
//!
//! Server and client are `xtask/bench/net_bench`, and for HTTP `examples/httpd` and wrk. This module also
//! measures the suite `web`, with `examples/web` and wrk. The client runs on the host; most guests are
//! connected by a tap. The suite runs in its own network namespace. So its names and addresses do not collide
//! with the host's, and the host's kernel removes all its devices even if the suite is killed.
//!
//! [`main`] makes the `NetBenchPlan` outside of the namespace, where programs can be built and packages
//! installed. [`inside`] executes the plan in the namespace.

mod aims;
mod client;
mod container;
mod figures;
mod http;
mod idle;
mod link;
mod loss;
mod measure;
mod namespace;
mod net_bench;
mod plan;
mod plot;
mod relay;
mod server;
mod server_program;
mod start;
mod system;
mod table;
mod topic;
mod web;

use std::fs;

use anyhow::{Context, Result};
use hermit_toolchain::workspace;
use serde_json::Value;
use tempfile::TempDir;

use figures::Figures;
pub(crate) use plan::{NetBenchPlan, NetSelection};

use super::BenchPlatform;

/// Measures all figures, prints and returns them.
pub(super) fn main(selection: &NetSelection, platform: Option<BenchPlatform>) -> Result<Value> {
    namespace::check()?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let file = folder.path().join("figures");
    let plan = NetBenchPlan::prepare(selection, platform, &file)?;
    namespace::run(&plan.arguments(), folder.path())?;
    let text = fs::read_to_string(file).context("cannot read the figures")?;
    serde_json::from_str(&text).context("cannot parse the figures")
}

/// Executes the plan. This is the command `net-bench`, which [`main`] starts in a new network namespace.
pub(crate) fn inside(plan: &NetBenchPlan) -> Result<()> {
    namespace::end_with_parent();
    link::prepare_namespace()?;
    let mut figures = Figures::default();
    if plan.selection.is_lossy {
        loss::all(plan, &mut figures)?;
    } else {
        measure_runs(plan, &mut figures);
    }
    table::print(&figures, &plan.selection.systems);
    let folder = workspace::target_dir().join("bench").join("net");
    if let Err(error) = plot::draw(&figures, &plan.selection.systems, &folder) {
        eprintln!("net: {error:#}");
    }
    let mut json = figures.to_json(table::ratios_of);
    if let Some(aims) = loss::aims_reached(&figures) {
        println!("throughput beside the Linux guest: {aims}");
        json["aims reached"] = aims;
    }
    let text = serde_json::to_string(&json)?;
    fs::write(&plan.figures, text).with_context(|| format!("cannot write {}", plan.figures.display()))
}

/// Measures the topics on all systems. Repeats that for the number of runs in the selection.
fn measure_runs(plan: &NetBenchPlan, figures: &mut Figures) {
    for run in 1..=plan.selection.runs {
        for &system in &plan.selection.systems {
            eprintln!("net: run {run} of {}: {system}", plan.selection.runs);
            measure::all(plan, system, figures);
        }
    }
}
