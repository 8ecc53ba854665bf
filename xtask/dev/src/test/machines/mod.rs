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

use super::examples::Examples;
use super::host::{Host, Monitor};
use super::report::Report;
use super::{PROPERTY_SEED, programs, users};
use xtask::uhyve::{Engine, Uhyve, has_kvm};
use xtask::{process, setup, workspace};

pub(super) use machine::Machine;

/// The variable by which the hypervisor's own tests learn where the images are.
const IMAGES_VARIABLE: &str = "HERMIT_TEST_IMAGES";

/// The variable by which they learn what is to run them.
const ENGINE_VARIABLE: &str = "HERMIT_TEST_ENGINE";

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

    /// Runs a test with a name of its own.
    fn check(&self, report: &mut Report, name: &str, test: impl FnOnce() -> Result<()>) {
        report.check(&format!("{}: {name}", self.host), test);
    }
}

/// Runs the ring of an engine. A host without it is an error if it is asked for; otherwise the ring is skipped.
/// `ordinary` are the images for everything that is not slow.
pub(super) fn test(report: &mut Report, ordinary: &mut Option<Examples>, plan: &Plan) -> Result<()> {
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
    if is_native {
        let examples = super::ordinary(ordinary)?;
        machines(report, examples, uhyve, plan)
    } else {
        machines(report, &Examples::build_soft()?, uhyve, plan)
    }
}

fn machines(report: &mut Report, examples: &Examples, uhyve: Uhyve, plan: &Plan) -> Result<()> {
    let Plan { engine, long, .. } = *plan;
    let program = uhyve.program.clone();
    let ring = Ring { host: Host { monitor: Monitor::Uhyve(uhyve, engine), examples }, program, engine };
    programs::test(report, &ring.host, long)?;
    streams::test(report, &ring);
    output::test(report, &ring);
    disks::test(report, &ring);
    command::test(report, &ring);
    refusals::test(report, &ring);
    if engine == Engine::Process {
        processes::test(report, &ring);
    }
    if ring.host.is_native() {
        crowd::test(report, &ring);
    }
    users::test(report, &ring.host);
    ring.check(report, "tests of the hypervisor with images", || hypervisor(&ring));
    Ok(())
}

fn hypervisor(ring: &Ring<'_>) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).env(IMAGES_VARIABLE, ring.host.examples.folder());
    cargo.env(ENGINE_VARIABLE, ring.engine.to_string()).envs([PROPERTY_SEED]);
    process::run(cargo.args(["test", "--quiet", "--release", "--package", "uhyve"]))
}
