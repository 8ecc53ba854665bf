//! A Linux guest to compare with: Debian's kernel for virtual machines, with the program as its only process.
//!
//! The program is linked statically, so that it needs no other file. It ends, Linux panics because its first process did, and
//! restarts at once, which ends QEMU.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::COUNT_INSTRUCTIONS;
use super::core::{LIMIT, MEMORY};
use super::cpio::{self, Kind};
use super::debian_kernel::{self, Kernel};
use xtask::qemu::{End, Guest, Input};
use xtask::{build, cargo, process, workspace};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The numbers of the device that is the console.
pub(super) const CONSOLE: Kind<'_> = Kind::Device(5, 1);

/// What Linux is told: where to print, to print little, to restart at once when it panics, by the way that every
/// machine has.
pub(super) const OPTIONS: &str = "console=ttyS0 quiet panic=-1 reboot=t";

/// A Linux guest whose first process is `core_bench`.
#[derive(Debug)]
pub(super) struct Linux {
    kernel: Kernel,
    file_system: PathBuf,
}

impl Linux {
    /// Fetches the kernel if need be and builds the program.
    pub(super) fn prepare() -> Result<Self> {
        let kernel = Kernel::get()?;
        let folder = debian_kernel::folder()?;
        let program = folder.join("core_bench");
        build::strip(&native_static("core_bench")?, &program)?;
        let program = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
        let entries = [("dev", Kind::Folder), ("dev/console", CONSOLE), ("init", Kind::Program(&program))];
        let archive = cpio::archive(&entries).context("the program is too large")?;
        let file_system = folder.join("initramfs");
        fs::write(&file_system, archive)
            .with_context(|| format!("cannot write {}", file_system.display()))?;
        Ok(Self { kernel, file_system })
    }

    /// Boots, and gives what the program printed that was told `arguments`, and what Linux printed.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut more = COUNT_INSTRUCTIONS.map(str::to_owned).to_vec();
        // In place of the command line that our kernel would get: QEMU goes by the last one.
        more.extend(["-append".to_owned(), format!("{OPTIONS} -- {}", arguments.join(" "))]);
        let guest = Guest {
            memory: MEMORY.parse().map_err(anyhow::Error::msg)?,
            timeout: Some(LIMIT),
            more,
            ..Guest::new(self.kernel.image.clone(), Some(self.file_system.clone()), "init".into())
        };
        let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
        let text = String::from_utf8_lossy(&output);
        ensure!(end == End::NoStatus, "the Linux guest ended with {end:?}:\n{text}");
        Ok(output)
    }
}

/// Builds a program for Linux, linked statically with the system's C library.
pub(super) fn native_static(name: &str) -> Result<PathBuf> {
    native_with(name, "-C target-feature=+crt-static")
}

/// Builds an example as an ordinary program of Linux, optimised as the guest's.
pub(super) fn native(name: &str) -> Result<PathBuf> {
    native_with(name, "")
}

fn native_with(name: &str, flags: &str) -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--package", name]);
    cargo.args(["--release", "--target", TARGET]);
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", flags);
    let artifacts = cargo::artifacts(&mut cargo).with_context(|| format!("cannot build {name} for Linux"))?;
    let executable = artifacts.into_iter().find_map(|artifact| artifact.executable);
    executable.with_context(|| format!("cargo built {name}, but names no executable"))
}
