//! `cargo xtask test`: all tests of the system.
//!
//! | ring | tests |
//! | --- | --- |
//! | `host` | unit, property and integration tests of the crates that run on the development machine; loom models |
//! | `process` | programs under uhyve's process engine, and uhyve's tests that need images |
//! | `qemu` | programs under QEMU, its devices, invalid images, and usage errors of the build tool |
//! | `kvm` | as `process`, with uhyve's KVM engine |
//! | `fuzz` | uhyve's fuzz targets; only if it is named or with `--long` |
//!
//! Without a ring: the lints and all other rings in this order, as CI runs them. A ring whose engine the host lacks is then
//! skipped.

mod boot;
mod build_tool;
mod child;
mod devices;
mod fuzz;
mod host_tests;
mod images;
mod instructions;
mod machine_types;
mod platform;
mod programs;
mod report;
mod schedule;
mod soft_float;
mod symbols;
mod tap_nic;
mod uhyve;
mod usage_errors;

use std::fmt;

use anyhow::Result;

use crate::lint;
use host_tests::HostTests;
use images::{Built, Images};
use machine_types::Qemu;
use platform::{Platform, Vmm};
use report::Report;
use schedule::Tests;
use uhyve::RingOptions;
use xtask::setup;
use xtask::uhyve::{Engine, Uhyve, has_kvm};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to test; nothing named: lints and all rings
    #[arg(value_enum, value_name = "RING")]
    rings: Vec<Ring>,
    /// Also run what takes minutes; property tests start from a random seed
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

impl fmt::Display for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Host => "host",
            Self::Process => "process",
            Self::Qemu => "qemu",
            Self::Kvm => "kvm",
            Self::Fuzz => "fuzz",
        })
    }
}

impl Arguments {
    /// The rings to run, in their order.
    fn chosen(&self) -> Vec<Ring> {
        let is_default = |ring: &Ring| self.rings.is_empty() && (*ring != Ring::Fuzz || self.long);
        let all = [Ring::Host, Ring::Process, Ring::Qemu, Ring::Kvm, Ring::Fuzz];
        all.into_iter().filter(|ring| is_default(ring) || self.rings.contains(ring)).collect()
    }
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    let rings = arguments.chosen();
    let mut report = Report::new(2 + rings.len());
    report.step("setup", |_| prepare(&rings))?;
    let builds = report.step("lints and builds", |report| Builds::run(report, arguments, &rings))?;
    for ring in rings {
        report.step(&format!("ring {ring}"), |report| test(report, ring, &builds, arguments))?;
    }
    report.finish()
}

/// Installs what the rings need.
fn prepare(rings: &[Ring]) -> Result<()> {
    if rings.contains(&Ring::Qemu) {
        setup::ensure_with_qemu()
    } else if rings == [Ring::Fuzz] {
        Ok(())
    } else {
        setup::ensure()
    }
}

/// What the rings share: each part is built once. A part that is missing is not needed, or its build failed.
#[derive(Debug)]
struct Builds {
    host_tests: Option<HostTests>,
    images: Option<Images>,
    /// Images without floating-point instructions.
    soft_images: Option<Images>,
}

impl Builds {
    /// Builds what these rings need, and runs the lints if everything is tested.
    fn run(report: &mut Report, arguments: &Arguments, rings: &[Ring]) -> Result<Self> {
        let runs_uhyve = rings.contains(&Ring::Process) || rings.contains(&Ring::Kvm);
        let is_native = |engine| Uhyve::check(setup::uhyve()?).map(|uhyve| uhyve.works(engine));
        let slow_kvm = rings.contains(&Ring::Kvm) && has_kvm() && !is_native(Engine::Kvm)?;
        let (host_tests, images, soft_images) = (Built::nothing(), Built::nothing(), Built::nothing());
        let mut tests = Tests::default();
        if runs_uhyve || rings.contains(&Ring::Qemu) {
            tests.add("build: images", || images.build(Images::build));
        }
        if arguments.rings.is_empty() {
            tests.add("lint", lint::check);
        }
        if slow_kvm || rings.contains(&Ring::Qemu) {
            tests.add("build: images without floating-point instructions", || {
                soft_images.build(Images::build_soft)
            });
        }
        if runs_uhyve || rings.contains(&Ring::Host) {
            tests.add("build: host tests", || host_tests.build(|| HostTests::build(arguments.long)));
        }
        report.run(tests);
        Ok(Self { host_tests: host_tests.get(), images: images.get(), soft_images: soft_images.get() })
    }
}

/// Runs a ring; one whose parts could not be built has failed already.
fn test(report: &mut Report, ring: Ring, builds: &Builds, arguments: &Arguments) -> Result<()> {
    let is_named = arguments.rings.contains(&ring);
    let options = |engine| RingOptions { engine, is_named, long: arguments.long };
    match ring {
        Ring::Host => {
            let mut tests = Tests::default();
            builds.host_tests.iter().for_each(|host_tests| host_tests.add(&mut tests));
            report.run(tests);
            Ok(())
        }
        Ring::Process => uhyve::test(report, builds, &options(Engine::Process)),
        Ring::Qemu => match (&builds.images, &builds.soft_images) {
            (Some(images), Some(soft_images)) => qemu(report, images, soft_images, arguments.long),
            _ => Ok(()),
        },
        Ring::Kvm => uhyve::test(report, builds, &options(Engine::Kvm)),
        Ring::Fuzz => fuzz::test(report, arguments.seconds),
    }
}

fn qemu(report: &mut Report, images: &Images, soft: &Images, long: bool) -> Result<()> {
    let qemu = Qemu::new(images)?;
    let platform = Platform { vmm: Vmm::Qemu(qemu.loader.clone()), images };
    let mut tests = Tests::default();
    programs::test(&mut tests, &platform, long)?;
    machine_types::test(&mut tests, &qemu);
    devices::test(&mut tests, &qemu);
    boot::test(&mut tests, &qemu)?;
    symbols::test(&mut tests, images);
    soft_float::test(&mut tests, &qemu, soft);
    build_tool::test(&mut tests, &platform);
    usage_errors::test(&mut tests, images)?;
    report.run(tests);
    Ok(())
}
