//! The rings of uhyve's engines: programs as its guests, and the tests of uhyve that need images.
//!
//! Where KVM emulates the processor, the images have no floating-point instructions, and fewer tests run.

mod command;
mod disks;
mod many_guests;
mod options;
mod process_lifetime;
mod standard_input;
mod standard_output;
mod startup_errors;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::host_tests::HostTests;
use super::platform::{TestPlatform, TestVmm};
use super::report::Report;
use super::schedule::Tests;
use super::{Builds, build_tool, programs};
use xtask::setup;
use xtask::uhyve::{Engine, Uhyve, has_kvm};

pub(super) use command::UhyveCommand;
pub(super) use process_lifetime::has_ended;

/// The environment variable that names the folder with images for the hypervisor's own tests.
const IMAGES_VARIABLE: &str = "HERMIT_TEST_IMAGES";

/// The environment variable that names the engine for the hypervisor's own tests.
const ENGINE_VARIABLE: &str = "HERMIT_TEST_ENGINE";

/// The hypervisor's integration tests that need images.
const TESTS_WITH_IMAGES: [&str; 2] = ["gdb", "sandbox"];

/// What the command line says about the ring of an engine.
#[derive(Debug)]
pub(super) struct RingOptions {
    pub(super) engine: Engine,
    /// The ring is named on the command line: a host without the engine is an error.
    pub(super) is_named: bool,
    /// Tests that take minutes run, too.
    pub(super) long: bool,
}

/// uhyve with one engine, and images for it.
#[derive(Debug)]
struct Fixture<'a> {
    platform: TestPlatform<'a>,
    program: PathBuf,
    engine: Engine,
}

impl Fixture<'_> {
    /// The file of an example's image.
    fn image(&self, name: &str) -> PathBuf {
        self.platform.images.image(name)
    }

    /// A command that runs an example's image.
    fn command(&self, name: &str, arguments: &[&str]) -> UhyveCommand {
        self.command_for(&self.image(name), arguments)
    }

    /// A command that runs a file.
    fn command_for(&self, image: &Path, arguments: &[&str]) -> UhyveCommand {
        UhyveCommand::new(xtask::uhyve::command(&self.program, self.engine), image, arguments)
    }

    /// A command that runs an example's image without naming an engine.
    fn command_without_engine(&self, name: &str) -> UhyveCommand {
        UhyveCommand::new(Command::new(&self.program), &self.image(name), &[])
    }

    /// Adds a test whose name starts with the engine.
    fn add<'a>(&self, tests: &mut Tests<'a>, name: &str, test: impl FnOnce() -> Result<()> + Send + 'a) {
        tests.add(format!("{}: {name}", self.platform), test);
    }
}

/// Runs the ring of an engine. A host without the engine is an error if the ring is named; otherwise the ring is skipped.
pub(super) fn test(report: &mut Report, builds: &Builds, options: &RingOptions) -> Result<()> {
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    let RingOptions { engine, .. } = *options;
    let is_native = uhyve.works(engine);
    if !is_native && (engine == Engine::Process || !has_kvm()) {
        let reason = uhyve.about(engine);
        if options.is_named {
            bail!("the ring {engine} cannot run here: {reason}");
        }
        report.skip(&engine.to_string(), reason);
        return Ok(());
    }
    let images = if is_native { &builds.images } else { &builds.soft_images };
    // A build that has failed is in the report already.
    let (Some(images), Some(host_tests)) = (images, &builds.host_tests) else { return Ok(()) };
    let program = uhyve.program.clone();
    let platform = TestPlatform { vmm: TestVmm::Uhyve(uhyve, engine), images };
    let fixture = Fixture { platform, program, engine };
    let mut tests = Tests::default();
    add(&mut tests, &fixture, host_tests, options)?;
    report.run(tests);
    Ok(())
}

fn add<'a>(
    tests: &mut Tests<'a>,
    fixture: &'a Fixture<'_>,
    host_tests: &'a HostTests,
    options: &RingOptions,
) -> Result<()> {
    // What takes longest starts first.
    build_tool::test(tests, &fixture.platform);
    for test in TESTS_WITH_IMAGES {
        fixture.add(tests, &format!("uhyve's integration test {test}"), move || {
            let folder = fixture.platform.images.folder().display().to_string();
            let variables = [(IMAGES_VARIABLE, folder), (ENGINE_VARIABLE, fixture.engine.to_string())];
            host_tests.run_integration_test("hypervisor", test, &variables)
        });
    }
    programs::test(tests, &fixture.platform, options.long)?;
    standard_input::test(tests, fixture);
    standard_output::test(tests, fixture);
    disks::test(tests, fixture);
    options::test(tests, fixture);
    startup_errors::test(tests, fixture);
    if options.engine == Engine::Process {
        process_lifetime::test(tests, fixture);
    }
    if fixture.platform.is_native() {
        many_guests::test(tests, fixture, options.long);
    }
    Ok(())
}
