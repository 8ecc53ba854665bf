//! Programs in virtual machines of uhyve, on KVM, and the tests of uhyve that need images.
//!
//! Where KVM merely emulates the processor, the images have no floating-point instructions.

mod command;
mod disks;
mod faults;
mod hello;
mod input;
mod machine;
mod refusals;
mod threads;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::guests::{example, soft_example};
use super::report::Report;
use super::users;
use crate::uhyve::{Uhyve, has_kvm};
use crate::{process, workspace};
use machine::Machine;

/// The images that the tests boot.
const IMAGES: [&str; 5] = ["hello_world", "threads", "faults", "stdin", "disk"];

/// The variable by which the hypervisor's own tests learn where the images are.
const IMAGES_VARIABLE: &str = "HERMIT_TEST_IMAGES";

/// uhyve, and a folder with the images.
#[derive(Debug)]
struct Ring {
    uhyve: Uhyve,
    folder: TempDir,
}

impl Ring {
    /// Builds everything.
    fn build(uhyve: Uhyve) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        for name in IMAGES {
            let image = if uhyve.is_fast { example(name, true) } else { soft_example(name, true) }?;
            std::fs::copy(&image, folder.path().join(name))
                .with_context(|| format!("cannot copy {}", image.display()))?;
        }
        Ok(Self { uhyve, folder })
    }

    /// The file of an image.
    fn image(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A machine for an image of ours.
    fn machine(&self, name: &str, arguments: &[&str]) -> Machine {
        self.machine_for(&self.image(name), arguments)
    }

    /// A machine for any file.
    fn machine_for(&self, image: &Path, arguments: &[&str]) -> Machine {
        Machine::new(self.uhyve.on_kvm(), image, arguments)
    }
}

/// Runs the ring. A host without KVM is an error if the ring is `asked_for`; otherwise the ring is skipped.
pub(super) fn test(report: &mut Report, asked_for: bool) -> Result<()> {
    let uhyve = Uhyve::ask()?;
    if !has_kvm() {
        if asked_for {
            bail!("the ring kvm cannot run here: {}", uhyve.about_kvm);
        }
        report.skip("kvm", &uhyve.about_kvm);
        return Ok(());
    }
    let ring = Ring::build(uhyve)?;
    hello::test(report, &ring);
    faults::test(report, &ring);
    threads::test(report, &ring);
    input::test(report, &ring);
    disks::test(report, &ring);
    command::test(report, &ring);
    refusals::test(report, &ring);
    report.check("kvm: run --platform kvm", || {
        users::runs(&["--platform", "kvm"], &ring.image("hello_world").display().to_string())
    });
    report.check("kvm: run --platform kvm --block", || {
        users::disk(&["--platform", "kvm"], &ring.image("disk"), ring.folder.path())
    });
    report.check("kvm: tests of the hypervisor with images", || hypervisor(&ring));
    Ok(())
}

fn hypervisor(ring: &Ring) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).env(IMAGES_VARIABLE, ring.folder.path());
    process::run(cargo.args(["test", "--quiet", "--release", "--package", "uhyve"]))
}
