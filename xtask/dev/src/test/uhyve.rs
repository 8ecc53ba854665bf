//! The test rings of uhyve's engines, `process` and `kvm`: programs as guests of uhyve, and the tests of
//! uhyve that need images.
//!
//! Where KVM emulates the processor, the images have no floating-point instructions, and fewer tests run.

mod clock;
mod command;
mod disks;
mod many_guests;
mod memory_return;
mod options;
mod process_lifetime;
mod standard_input;
mod standard_output;
mod startup_errors;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use hermit_machines::uhyve::{Engine, Uhyve, has_kvm};
use hermit_toolchain::setup;

use super::host_tests::HostTests;
use super::platform::{TestPlatform, TestVmm};
use super::report::Report;
use super::schedule::Tests;
use super::{Builds, build_tool, documents, programs};

pub(super) use command::UhyveCommand;
pub(super) use process_lifetime::has_ended;

/// Environment variable with the folder of the images for the hypervisor's own tests.
const IMAGES_VARIABLE: &str = "HERMIT_TEST_IMAGES";

/// Environment variable with the name of the engine for the hypervisor's own tests.
const ENGINE_VARIABLE: &str = "HERMIT_TEST_ENGINE";

/// The hypervisor's integration tests that need images.
const TESTS_WITH_IMAGES: [&str; 2] = ["gdb", "sandbox"];

/// uhyve with one engine, and images for it.
#[derive(Debug)]
pub(super) struct Fixture<'a> {
    platform: TestPlatform<'a>,
    program: PathBuf,
    engine: Engine,
    host_tests: &'a HostTests,
}

impl<'a> Fixture<'a> {
    /// Returns uhyve with an engine and its images. If the host lacks the engine, skips the test ring and
    /// returns `None`, or fails if the user named the ring. Also returns `None` if a build has failed.
    pub(super) fn new(
        report: &mut Report,
        builds: &'a Builds,
        engine: Engine,
        is_named: bool,
    ) -> Result<Option<Self>> {
        let uhyve = Uhyve::check(setup::uhyve()?)?;
        let is_native = uhyve.works(engine);
        if !is_native && (engine == Engine::Process || !has_kvm()) {
            let reason = uhyve.about(engine);
            if is_named {
                bail!("the ring {engine} cannot run here: {reason}");
            }
            report.skip(&engine.to_string(), reason);
            return Ok(None);
        }
        let images = if is_native { &builds.images } else { &builds.soft_images };
        // The report contains a failed build already.
        let (Some(images), Some(host_tests)) = (images, &builds.host_tests) else { return Ok(None) };
        let program = uhyve.program.clone();
        let platform = TestPlatform { vmm: TestVmm::Uhyve(uhyve, engine), images };
        Ok(Some(Self { platform, program, engine, host_tests }))
    }

    /// Adds the tests of the engine's test ring.
    pub(super) fn add_all<'b>(&'b self, tests: &mut Tests<'b>, long: bool) -> Result<()> {
        // The longest tests start first.
        build_tool::test(tests, &self.platform, long);
        if self.engine == Engine::Process {
            documents::test(tests);
        }
        for test in TESTS_WITH_IMAGES {
            self.add(tests, &format!("uhyve's integration test {test}"), move || {
                let folder = self.platform.images.folder().display().to_string();
                let variables = [(IMAGES_VARIABLE, folder), (ENGINE_VARIABLE, self.engine.to_string())];
                self.host_tests.run_integration_test("hypervisor", test, &variables)
            });
        }
        programs::test(tests, &self.platform, long)?;
        standard_input::test(tests, self);
        standard_output::test(tests, self);
        clock::test(tests, self);
        disks::test(tests, self);
        options::test(tests, self);
        startup_errors::test(tests, self);
        if self.engine == Engine::Process {
            process_lifetime::test(tests, self);
        }
        memory_return::test(tests, self);
        if self.platform.is_native() {
            many_guests::test(tests, self);
        }
        Ok(())
    }

    /// Returns the file of a program's image.
    fn image(&self, name: &str) -> PathBuf {
        self.platform.images.image(name)
    }

    /// Returns a command that runs a program's image.
    fn command(&self, name: &str, arguments: &[&str]) -> UhyveCommand {
        self.command_for(&self.image(name), arguments)
    }

    /// Returns a command that runs an image in a file.
    fn command_for(&self, image: &Path, arguments: &[&str]) -> UhyveCommand {
        UhyveCommand::new(hermit_machines::uhyve::command(&self.program, self.engine), image, arguments)
    }

    /// Returns a command that runs a program's image without naming an engine.
    fn command_without_engine(&self, name: &str) -> UhyveCommand {
        UhyveCommand::new(Command::new(&self.program), &self.image(name), &[])
    }

    /// Adds a test whose name starts with the engine.
    fn add<'b>(&self, tests: &mut Tests<'b>, name: &str, test: impl FnOnce() -> Result<()> + Send + 'b) {
        tests.add(format!("{}: {name}", self.platform), test);
    }
}
