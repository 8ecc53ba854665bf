//! Linux guests: Debian's kernel for virtual machines, with a program as its only process.
//!
//! The program is linked statically, so that it needs no other file. It is the init process: when it exits,
//! Linux panics and reboots at once, which ends QEMU.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hermit_machines::qemu::{End, Guest, Input};
use hermit_toolchain::{build, cargo, process, workspace};

use super::cpio::{self, EntryType};
use super::debian_kernel::{self, LinuxKernel};

/// rustc's target of Linux programs.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The console device, `/dev/console`.
pub(super) const CONSOLE: EntryType<'_> = EntryType::Device(5, 1);

/// Linux's command line: the console, few messages, and an immediate reboot by a triple fault after a panic.
pub(super) const OPTIONS: &str = "console=ttyS0 quiet panic=-1 reboot=t";

/// Arguments of `linux_init`, which precede the arguments of the program: the loopback interface, and the
/// program's path.
const LOOPBACK: &str = "lo /program ";

/// A Linux guest with one program.
#[derive(Debug)]
pub(super) struct Linux {
    kernel: LinuxKernel,
    file_system: PathBuf,
    /// Arguments of the first process, which precede the arguments of the program.
    init_arguments: &'static str,
}

impl Linux {
    /// Returns a guest whose first process is the example. Downloads the kernel if it is missing, and builds
    /// the example.
    pub(super) fn with_init(example: &str) -> Result<Self> {
        Self::prepare(example, &[("init", example)], "")
    }

    /// Returns a guest whose first process is `linux_init`, which sets up the loopback interface and then
    /// starts the example.
    pub(super) fn with_loopback(example: &str) -> Result<Self> {
        Self::prepare(example, &[("init", "linux_init"), ("program", example)], LOOPBACK)
    }

    fn prepare(example: &str, programs: &[(&str, &str)], init_arguments: &'static str) -> Result<Self> {
        let (kernel, folder) = (LinuxKernel::get()?, debian_kernel::folder()?);
        let folders =
            [("dev", EntryType::Directory), ("dev/console", CONSOLE), ("tmp", EntryType::Directory)];
        let read = |&(_, package): &(&str, &str)| stripped(package, &folder);
        let contents = programs.iter().map(read).collect::<Result<Vec<_>>>()?;
        let files = programs.iter().zip(&contents);
        let files = files.map(|((name, _), contents)| (*name, EntryType::Executable(contents)));
        let entries: Vec<_> = folders.into_iter().chain(files).collect();
        let archive = cpio::archive(&entries).context("the program is too large")?;
        let file_system = folder.join(format!("initramfs-{example}"));
        fs::write(&file_system, archive)
            .with_context(|| format!("cannot write {}", file_system.display()))?;
        Ok(Self { kernel, file_system, init_arguments })
    }

    /// Returns the guest with arguments of the program, on the default machine.
    pub(super) fn guest(&self, arguments: &[&str]) -> Guest {
        let mut guest = Guest::new(self.kernel.image.clone(), Some(self.file_system.clone()), "init".into());
        // This `-append` overrides an earlier one with the command line for this project's kernel: QEMU uses
        // the last one.
        let options = format!("{OPTIONS} -- {}{}", self.init_arguments, arguments.join(" "));
        guest.extra_options = vec!["-append".to_owned(), options];
        guest
    }
}

/// Runs a Linux guest, and returns the output of Linux and of the program.
pub(super) fn run(guest: &Guest) -> Result<Vec<u8>> {
    let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
    let text = String::from_utf8_lossy(&output);
    ensure!(end == End::NoStatus, "the Linux guest ended with {end:?}:\n{text}");
    Ok(output)
}

/// Builds a package for Linux, and returns the contents of the stripped program.
fn stripped(package: &str, folder: &Path) -> Result<Vec<u8>> {
    let file = folder.join(package);
    build::strip(&native_static(package)?, &file)?;
    fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// Builds a package for Linux, linked statically with the system's C library.
pub(super) fn native_static(name: &str) -> Result<PathBuf> {
    native_with(name, "-C target-feature=+crt-static")
}

/// Builds an example for Linux, with the profile of the guest's images.
pub(super) fn native(name: &str) -> Result<PathBuf> {
    native_with(name, "")
}

/// Builds an example for Linux with flags for rustc.
fn native_with(name: &str, flags: &str) -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--package", name]);
    cargo.args(["--release", "--target", TARGET]);
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", flags);
    let artifacts = cargo::artifacts(&mut cargo).with_context(|| format!("cannot build {name} for Linux"))?;
    let executable = artifacts.into_iter().find_map(|artifact| artifact.executable);
    executable.with_context(|| format!("cargo built {name}, but names no executable"))
}
