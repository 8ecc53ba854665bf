//! Machines of uhyve: programs in them, on each engine, and the tests of uhyve that need images.
//!
//! Where KVM merely emulates the processor, the images have no floating-point instructions, and less is tested.

mod command;
mod crowd;
mod disks;
mod machine;
mod output;
mod processes;
mod refusals;
mod streams;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::host::{Host, Monitor};
use super::host_tests::HostTests;
use super::report::Report;
use super::schedule::Tests;
use super::{Builds, programs, users};
use xtask::setup;
use xtask::uhyve::{Engine, Uhyve, has_kvm};

pub(super) use machine::Machine;

/// The variable by which the hypervisor's own tests learn where the images are.
const IMAGES_VARIABLE: &str = "HERMIT_TEST_IMAGES";

/// The variable by which they learn what is to run them.
const ENGINE_VARIABLE: &str = "HERMIT_TEST_ENGINE";

/// The hypervisor's integration tests that need images.
const WITH_IMAGES: [&str; 2] = ["gdb", "sandbox"];

/// Whether, and how, the tests of an engine run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) engine: Engine,
    /// A host that does not have it is an error.
    pub(super) is_asked_for: bool,
    /// Also what takes minutes.
    pub(super) long: bool,
}

/// uhyve with one engine, and images for it.
#[derive(Debug)]
struct Ring<'a> {
    host: Host<'a>,
    program: PathBuf,
    engine: Engine,
}

impl Ring<'_> {
    /// The file of an image.
    fn image(&self, name: &str) -> PathBuf {
        self.host.examples.image(name)
    }

    /// A machine for an image of ours.
    fn machine(&self, name: &str, arguments: &[&str]) -> Machine {
        self.machine_for(&self.image(name), arguments)
    }

    /// A machine for any file.
    fn machine_for(&self, image: &Path, arguments: &[&str]) -> Machine {
        Machine::new(xtask::uhyve::command(&self.program, self.engine), image, arguments)
    }

    /// A machine for an image of ours whose engine is not said.
    fn any_machine(&self, name: &str) -> Machine {
        Machine::new(Command::new(&self.program), &self.image(name), &[])
    }

    /// Adds a test whose name starts with the engine.
    fn add<'a>(&self, tests: &mut Tests<'a>, name: &str, test: impl FnOnce() -> Result<()> + Send + 'a) {
        tests.add(format!("{}: {name}", self.host), test);
    }
}

/// Runs the ring of an engine. A host without the engine is an error if the ring is named; otherwise the ring is skipped.
pub(super) fn test(report: &mut Report, builds: &Builds, plan: &Plan) -> Result<()> {
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    let Plan { engine, .. } = *plan;
    let is_native = uhyve.works(engine);
    if !is_native && (engine == Engine::Process || !has_kvm()) {
        let reason = uhyve.about(engine);
        if plan.is_asked_for {
            bail!("the ring {engine} cannot run here: {reason}");
        }
        report.skip(&engine.to_string(), reason);
        return Ok(());
    }
    let examples = if is_native { &builds.images } else { &builds.soft_images };
    // What could not be built has failed already.
    let (Some(examples), Some(host_tests)) = (examples, &builds.host_tests) else { return Ok(()) };
    let program = uhyve.program.clone();
    let ring = Ring { host: Host { monitor: Monitor::Uhyve(uhyve, engine), examples }, program, engine };
    let mut tests = Tests::default();
    add(&mut tests, &ring, host_tests, plan)?;
    report.run(tests);
    Ok(())
}

fn add<'a>(tests: &mut Tests<'a>, ring: &'a Ring<'_>, host_tests: &'a HostTests, plan: &Plan) -> Result<()> {
    programs::test(tests, &ring.host, plan.long)?;
    streams::test(tests, ring);
    output::test(tests, ring);
    disks::test(tests, ring);
    command::test(tests, ring);
    refusals::test(tests, ring);
    if plan.engine == Engine::Process {
        processes::test(tests, ring);
    }
    if ring.host.is_native() {
        crowd::test(tests, ring);
    }
    users::test(tests, &ring.host);
    for test in WITH_IMAGES {
        ring.add(tests, &format!("uhyve's tests `{test}`"), move || {
            let folder = ring.host.examples.folder().display().to_string();
            let variables = [(IMAGES_VARIABLE, folder), (ENGINE_VARIABLE, ring.engine.to_string())];
            host_tests.run_integration_test("hypervisor", test, &variables)
        });
    }
    Ok(())
}
