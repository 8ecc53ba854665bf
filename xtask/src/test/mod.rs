//! `cargo xtask test`: everything that says whether the system works.
//!
//! | ring | what |
//! | --- | --- |
//! | `host` | unit, property and integration tests of everything that runs on the development machine; models |
//! | `qemu` | programs in virtual machines, bad images, and the build tool as users call it |
//! | `kvm` | programs in machines of our hypervisor, which has its tests here too |
//! | `fuzz` | the hypervisor's fuzz targets; only if it is named or with `--long` |
//!
//! Without a ring: the lints and all other rings, which is what CI needs. Where there is no KVM to use, its ring is then
//! skipped.

mod abi;
mod clock;
mod devices;
mod fuzz;
mod guests;
mod images;
mod instructions;
mod kvm;
mod report;
mod soft_float;
mod symbols;
mod threads;
mod users;

use anyhow::{Result, bail};

use crate::{lint, process, setup, workspace};
use report::Report;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to test; nothing named: lints and all rings
    #[arg(value_enum, value_name = "RING")]
    rings: Vec<Ring>,
    /// Also run what takes minutes
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
    /// Programs in QEMU's virtual machines
    Qemu,
    /// Fuzz targets, which take a nightly compiler; not run unless named or with --long
    Fuzz,
    /// Not available yet
    Process,
    /// Programs in virtual machines of uhyve, on KVM
    Kvm,
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.rings.contains(&Ring::Process) {
        bail!("this ring is not available yet: there are host, qemu, kvm and fuzz");
    }
    let wanted = |ring| arguments.rings.is_empty() || arguments.rings.contains(&ring);
    if wanted(Ring::Qemu) {
        setup::ensure_with_qemu()?;
    } else if arguments.rings != [Ring::Fuzz] {
        setup::ensure()?;
    }
    let mut report = Report::default();
    if arguments.rings.is_empty() {
        report.check("lint", lint::check);
    }
    if wanted(Ring::Host) {
        report.check("host tests", host);
        report.check("loom models of the scheduler", models);
    }
    if wanted(Ring::Qemu) {
        qemu(&mut report, arguments.long)?;
    }
    if wanted(Ring::Kvm) {
        kvm::test(&mut report, arguments.rings.contains(&Ring::Kvm))?;
    }
    if arguments.rings.contains(&Ring::Fuzz) || (arguments.rings.is_empty() && arguments.long) {
        fuzz::test(&mut report, arguments.seconds)?;
    }
    report.finish()
}

fn host() -> Result<()> {
    process::run(process::cargo().current_dir(workspace::root()).arg("test"))
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

fn qemu(report: &mut Report, long: bool) -> Result<()> {
    let examples = guests::Examples::build()?;
    symbols::test(report);
    guests::test(report, &examples, long);
    threads::test(report, &examples, long)?;
    clock::test(report, &examples)?;
    devices::test(report, &examples)?;
    abi::test(report, &examples)?;
    images::test(report, &examples)?;
    soft_float::test(report, &examples);
    users::test(report, &examples)
}
