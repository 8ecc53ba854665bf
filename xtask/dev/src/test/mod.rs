//! `cargo xtask test`: everything that says whether the system works.
//!
//! | ring | what |
//! | --- | --- |
//! | `host` | unit, property and integration tests of everything that runs on the development machine; models |
//! | `process` | programs in machines of our hypervisor, each a process of the host, and the hypervisor's tests with images |
//! | `qemu` | programs in virtual machines of QEMU, its devices, bad images, and users' mistakes |
//! | `kvm` | as `process`, in virtual machines on KVM |
//! | `fuzz` | the hypervisor's fuzz targets; only if it is named or with `--long` |
//!
//! Without a ring: the lints and all other rings in this order, which is what CI needs. A ring of an engine that the host does
//! not have is then skipped.

mod boards;
mod cable;
mod devices;
mod examples;
mod fuzz;
mod host;
mod images;
mod instructions;
mod machines;
mod mistakes;
mod programs;
mod report;
mod running;
mod soft_float;
mod symbols;
mod users;

use anyhow::Result;

use crate::lint;
use boards::Qemu;
use examples::Examples;
use host::{Host, Monitor};
use machines::Plan;
use report::Report;
use xtask::uhyve::Engine;
use xtask::{process, setup, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to test; nothing named: lints and all rings
    #[arg(value_enum, value_name = "RING")]
    rings: Vec<Ring>,
    /// Also run what takes minutes; property tests begin somewhere new
    #[arg(long)]
    long: bool,
    /// How long each fuzz target runs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ring {
    /// Tests that run on this machine
    Host,
    /// Programs in machines of uhyve, each in a process
    Process,
    /// Programs in QEMU's virtual machines
    Qemu,
    /// Programs in virtual machines of uhyve, on KVM
    Kvm,
    /// Fuzz targets, which take a nightly compiler; not run unless named or with --long
    Fuzz,
}

/// Where property tests begin: always the same, so that no change is blamed for what another one did. With `--long` it is
/// somewhere new.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "6");

impl Arguments {
    fn wants(&self, ring: Ring) -> bool {
        self.rings.is_empty() || self.rings.contains(&ring)
    }

    fn plan(&self, engine: Engine, ring: Ring) -> Option<Plan> {
        let plan = Plan { engine, is_asked_for: self.rings.contains(&ring), long: self.long };
        self.wants(ring).then_some(plan)
    }
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.wants(Ring::Qemu) {
        setup::ensure_with_qemu()?;
    } else if arguments.rings != [Ring::Fuzz] {
        setup::ensure()?;
    }
    let mut report = Report::default();
    if arguments.rings.is_empty() {
        report.check("lint", lint::check);
    }
    if arguments.wants(Ring::Host) {
        report.check("host tests", || host(arguments.long));
        report.check("loom models of the scheduler", models);
    }
    // Built when the first ring needs them.
    let mut examples = None;
    if let Some(plan) = arguments.plan(Engine::Process, Ring::Process) {
        machines::test(&mut report, &mut examples, &plan)?;
    }
    if arguments.wants(Ring::Qemu) {
        qemu(&mut report, ordinary(&mut examples)?, arguments.long)?;
    }
    if let Some(plan) = arguments.plan(Engine::Kvm, Ring::Kvm) {
        machines::test(&mut report, &mut examples, &plan)?;
    }
    if arguments.rings.contains(&Ring::Fuzz) || (arguments.rings.is_empty() && arguments.long) {
        fuzz::test(&mut report, arguments.seconds)?;
    }
    report.finish()
}

/// The ordinary images, built if they are not yet.
fn ordinary(examples: &mut Option<Examples>) -> Result<&Examples> {
    let built = match examples.take() {
        Some(built) => built,
        None => Examples::build()?,
    };
    Ok(examples.insert(built))
}

fn host(long: bool) -> Result<()> {
    let mut cargo = process::cargo();
    if !long {
        cargo.envs([PROPERTY_SEED]);
    }
    process::run(cargo.current_dir(workspace::root()).arg("test"))
}

/// Every order in which CPUs can do their steps: see `kernel/sched/src/models`.
fn models() -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).env("RUSTFLAGS", "--cfg loom");
    process::run(cargo.args([
        "test",
        "--release",
        "--package",
        "hermit-sched",
        "--target-dir",
        "target/loom",
    ]))
}

fn qemu(report: &mut Report, examples: &Examples, long: bool) -> Result<()> {
    let qemu = Qemu::new(examples)?;
    let host = Host { monitor: Monitor::Qemu(qemu.loader.clone()), examples };
    symbols::test(report);
    programs::test(report, &host, long)?;
    boards::test(report, &qemu);
    devices::test(report, &qemu);
    images::test(report, &qemu)?;
    soft_float::test(report, &qemu)?;
    users::test(report, &host);
    mistakes::test(report, examples)
}
