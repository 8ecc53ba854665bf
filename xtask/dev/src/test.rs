//! `cargo xtask test`: runs all tests of the system. They are divided into test rings, each with the tests of
//! one kind of host. (A ring here is not a privilege level of the processor.)
//!
//! | ring | tests |
//! | --- | --- |
//! | `host` | unit, property and integration tests of the crates that run on the host; loom models |
//! | `process` | programs under uhyve's process engine, and uhyve's tests that need images |
//! | `kvm` | as `process`, with uhyve's KVM engine |
//! | `qemu` | programs under QEMU, its devices, invalid images, and usage errors of the build tool |
//! | `fuzz` | fuzz targets of uhyve and of the network stack; only if it is named or with `--long` |
//! | `miri` | tests of the kernel's crates under Miri; only if it is named or with `--long` |
//! | `soak` | one guest that runs all kinds of work at the same time, for `--seconds`; only if it is named or with `--long` |
//! | `std` | tests of core, alloc and std in guests; only if it is named or with `--long` |
//! | `crates` | programs that use crates from crates.io, on Linux and in guests; only if it is named or with `--long` |
//!
//! If no ring is named, the command runs the lints and the rings that need not be named, as CI does; it skips
//! a ring if the host lacks the ring's engine. The tests of all these rings form one queue, in the order of
//! the table. So the slow tests at the end of a ring run at the same time as the first tests of the next
//! ring.

mod boot;
mod build_tool;
mod builds;
mod cargo_test;
mod changed;
mod child;
mod crates;
mod devices;
mod documents;
mod fuzz;
mod host_tests;
mod images;
mod instructions;
pub(crate) mod limits;
mod machine_types;
mod memory_return;
mod miri;
mod mounts;
mod object_cache;
mod platform;
mod process_state;
mod programs;
mod random;
mod report;
mod run_options;
mod schedule;
mod soft_float;
mod std_tests;
mod symbols;
mod tap_nic;
mod uhyve;
mod usage_errors;

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Result, ensure};
use hermit_machines::uhyve::Engine;

use builds::Builds;
use images::Images;
use machine_types::Qemu;
use platform::{TestPlatform, TestVmm};
use report::Report;
use schedule::Tests;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rings to test; nothing named: lints and all rings
    #[arg(value_enum, value_name = "RING")]
    rings: Vec<Ring>,
    /// Also run what takes minutes; property tests start from a random seed
    #[arg(long)]
    long: bool,
    /// Run only what the changes since a commit can affect; without one, the uncommitted changes
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, require_equals = true, default_missing_value = "HEAD")]
    #[arg(conflicts_with = "rings")]
    changed: Option<String>,
    /// Of the rings named, run only tests whose names contain a text; all that the rings need is built, of
    /// `crates` the programs of these tests
    #[arg(long, value_name = "TEXT", requires = "rings")]
    only: Option<String>,
    /// How long each fuzz target runs, and the soak
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Ring {
    /// Tests that run on this machine
    Host,
    /// Programs in machines of uhyve, each in a process
    Process,
    /// Programs in virtual machines of uhyve, on KVM
    Kvm,
    /// Programs in QEMU's virtual machines
    Qemu,
    /// Fuzz targets, which take a nightly compiler; not run unless named or with --long
    Fuzz,
    /// Tests of the services under Miri, which a nightly compiler has; not run unless named or with --long
    Miri,
    /// A machine that does everything at once, like a service; not run unless named or with --long
    Soak,
    /// Tests of core, alloc and std in virtual machines; not run unless named or with --long
    Std,
    /// Programs that use crates from crates.io, on Linux and in machines of uhyve; not run unless named or
    /// with --long
    Crates,
}

impl Ring {
    /// Returns true if the ring runs only if it is named or with `--long`. Such a ring runs alone, after the
    /// other rings.
    const fn is_long(self) -> bool {
        matches!(self, Self::Fuzz | Self::Miri | Self::Soak | Self::Std | Self::Crates)
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Host => "host",
            Self::Process => "process",
            Self::Kvm => "kvm",
            Self::Qemu => "qemu",
            Self::Fuzz => "fuzz",
            Self::Miri => "miri",
            Self::Soak => "soak",
            Self::Std => "std",
            Self::Crates => "crates",
        })
    }
}

/// The lints that run before the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lints {
    None,
    /// The lints that need no compiler.
    Text,
    All,
}

/// Contents of a test run.
#[derive(Debug)]
struct TestPlan {
    lints: Lints,
    /// Rings in the order in which they run.
    rings: Vec<Ring>,
    /// Packages whose host tests run. `None` means all packages.
    packages: Option<BTreeSet<String>>,
    /// True if the command line names rings. Then it is an error if the host lacks the engine of a ring.
    is_named: bool,
    long: bool,
}

impl TestPlan {
    fn new(arguments: &Arguments) -> Result<Self> {
        let long = arguments.long;
        let all = [Ring::Host, Ring::Process, Ring::Kvm, Ring::Qemu];
        let slow = [Ring::Fuzz, Ring::Miri, Ring::Soak, Ring::Std, Ring::Crates].into_iter().filter(|_| long);
        let everything = || all.into_iter().chain(slow.clone()).collect();
        if let Some(base) = &arguments.changed {
            let changed::Affected { lints, everything: all, packages, rings } = changed::select(base)?;
            let lints = if lints { Lints::All } else { Lints::Text };
            if all {
                return Ok(Self { lints, rings: everything(), packages: None, is_named: false, long });
            }
            let host = (!packages.is_empty()).then_some(Ring::Host);
            let rings: BTreeSet<Ring> = host.into_iter().chain(rings.into_keys()).collect();
            let rings = rings.into_iter().collect();
            return Ok(Self { lints, rings, packages: Some(packages), is_named: false, long });
        }
        if arguments.rings.is_empty() {
            return Ok(Self {
                lints: Lints::All,
                rings: everything(),
                packages: None,
                is_named: false,
                long,
            });
        }
        let rings: BTreeSet<Ring> = arguments.rings.iter().copied().collect();
        let rings = rings.into_iter().collect();
        Ok(Self { lints: Lints::None, rings, packages: None, is_named: true, long })
    }
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    let plan = TestPlan::new(arguments)?;
    let (slow, rings): (Vec<_>, Vec<_>) = plan.rings.iter().copied().partition(|ring| ring.is_long());
    let mut report = Report::new(1 + usize::from(!rings.is_empty()) + slow.len());
    let builds = report.step("setup, lints and builds", |report| Builds::run(report, &plan));
    if !rings.is_empty() {
        let names: Vec<_> = rings.iter().map(ToString::to_string).collect();
        let name = format!("rings: {}", names.join(", "));
        report.step(&name, |report| {
            let result = test(report, &builds, &plan, arguments.only.as_deref());
            report.check(&name, result);
        });
    }
    for ring in slow {
        let name = format!("ring {ring}");
        report.step(&name, |report| {
            let result = match ring {
                Ring::Miri => miri::test(report, plan.is_named),
                Ring::Soak => programs::soak(report, arguments.seconds),
                Ring::Std => std_tests::test(report, plan.long),
                Ring::Crates => crates::test(report, plan.long, arguments.only.as_deref()),
                _ => fuzz::test(report, arguments.seconds),
            };
            report.check(&name, result);
        });
    }
    report.finish()
}

/// Runs all rings except those that run alone. Leaves out a ring whose parts could not be built; the report
/// has the failed build already. With `only`, runs only tests whose names contain that text.
fn test(report: &mut Report, builds: &Builds, plan: &TestPlan, only: Option<&str>) -> Result<()> {
    let has = |ring| plan.rings.contains(&ring);
    let mut engines = Vec::new();
    for (ring, engine) in [(Ring::Process, Engine::Process), (Ring::Kvm, Engine::Kvm)] {
        if has(ring) {
            engines.extend(uhyve::Fixture::new(report, builds, engine, plan.is_named)?);
        }
    }
    let images = builds.images.as_ref().zip(builds.soft_images.as_ref()).filter(|_| has(Ring::Qemu));
    let qemu = images.map(|(images, soft)| QemuFixture::new(images, soft)).transpose()?;
    let mut tests = Tests::default();
    if let Some(host_tests) = builds.host_tests.as_ref().filter(|_| has(Ring::Host)) {
        host_tests.add(&mut tests, plan.packages.as_ref());
    }
    engines.iter().try_for_each(|fixture| fixture.add_all(&mut tests, plan.long))?;
    qemu.iter().try_for_each(|fixture| fixture.add_all(&mut tests, plan.long))?;
    if let Some(text) = only {
        ensure!(tests.keep_named(text), "no name of a test contains {text:?}");
    }
    report.run(tests);
    Ok(())
}

/// Images and platform of the ring `qemu`.
#[derive(Debug)]
struct QemuFixture<'a> {
    qemu: Qemu<'a>,
    platform: TestPlatform<'a>,
    soft_images: &'a Images,
}

impl<'a> QemuFixture<'a> {
    fn new(images: &'a Images, soft_images: &'a Images) -> Result<Self> {
        let qemu = Qemu::new(images)?;
        let vmm = TestVmm::Qemu { loader: qemu.loader.clone(), uhyve: qemu.uhyve.clone() };
        let platform = TestPlatform { vmm, images };
        Ok(Self { qemu, platform, soft_images })
    }

    fn add_all<'b>(&'b self, tests: &mut Tests<'b>, long: bool) -> Result<()> {
        let Self { qemu, platform, soft_images } = self;
        // The longest tests start first.
        object_cache::test(tests);
        build_tool::test(tests, platform, long);
        programs::test(tests, platform, long)?;
        machine_types::test(tests, qemu);
        devices::test(tests, qemu);
        boot::test(tests, qemu)?;
        limits::test(tests, qemu);
        symbols::test(tests, platform.images);
        soft_float::test(tests, qemu, soft_images);
        usage_errors::test(tests, platform.images)
    }
}
