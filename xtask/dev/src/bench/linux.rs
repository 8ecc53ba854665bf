//! The Linux guest of the suite `core`: Debian's kernel for virtual machines, with the program as its only process.
//!
//! The program is linked statically, so that it needs no other file. When it exits, Linux panics, because that was the init
//! process, and reboots at once, which ends QEMU.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::COUNT_INSTRUCTIONS;
use super::cpio::{self, EntryType};
use super::debian_kernel::{self, LinuxKernel};
use super::operations::{MEMORY, TIMEOUT};
use xtask::qemu::{End, Guest, Input};
use xtask::{build, cargo, process, workspace};

/// rustc's target of Linux programs.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The console device, `/dev/console`.
pub(super) const CONSOLE: EntryType<'_> = EntryType::Device(5, 1);

/// Linux's command line: the console, few messages, and an immediate reboot after a panic, by a triple fault.
pub(super) const OPTIONS: &str = "console=ttyS0 quiet panic=-1 reboot=t";

/// A Linux guest whose first process is `core_bench`.
#[derive(Debug)]
pub(super) struct Linux {
    kernel: LinuxKernel,
    file_system: PathBuf,
}

impl Linux {
    /// Downloads the kernel if it is missing, and builds the program.
    pub(super) fn prepare() -> Result<Self> {
        let kernel = LinuxKernel::get()?;
        let folder = debian_kernel::folder()?;
        let program = folder.join("core_bench");
        build::strip(&native_static("core_bench")?, &program)?;
        let program = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
        let entries = [
            ("dev", EntryType::Directory),
            ("dev/console", CONSOLE),
            ("init", EntryType::Executable(&program)),
        ];
        let archive = cpio::archive(&entries).context("the program is too large")?;
        let file_system = folder.join("initramfs");
        fs::write(&file_system, archive)
            .with_context(|| format!("cannot write {}", file_system.display()))?;
        Ok(Self { kernel, file_system })
    }

    /// Boots with arguments of the program, and returns the output of Linux and of the program.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut extra_options = COUNT_INSTRUCTIONS.map(str::to_owned).to_vec();
        // Overrides the command line for this kernel: QEMU uses the last `-append`.
        extra_options.extend(["-append".to_owned(), format!("{OPTIONS} -- {}", arguments.join(" "))]);
        let guest = Guest {
            memory: MEMORY.parse().map_err(anyhow::Error::msg)?,
            timeout: Some(TIMEOUT),
            extra_options,
            ..Guest::new(self.kernel.image.clone(), Some(self.file_system.clone()), "init".into())
        };
        let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
        let text = String::from_utf8_lossy(&output);
        ensure!(end == End::NoStatus, "the Linux guest ended with {end:?}:\n{text}");
        Ok(output)
    }
}

/// Builds an example for Linux, linked statically with the system's C library.
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
