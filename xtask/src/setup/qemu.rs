//! QEMU, in which images boot: installed with apt where that is possible.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::record::{Addition, Record};
use crate::process;

/// The emulator.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

const PACKAGE: &str = "qemu-system-x86";

/// Whether QEMU can be started.
pub(crate) fn is_installed() -> bool {
    process::find(PROGRAM).is_some()
}

/// Whether [`install`] has a chance.
pub(crate) fn can_install() -> bool {
    process::find("apt-get").is_some() && is_root()
}

/// Installs QEMU with apt.
pub(crate) fn install(record: &Record) -> Result<()> {
    eprintln!("      apt-get update && apt-get install {PACKAGE}");
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        process::run(command.args(["-q", "-y"]).args(args).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"]).and_then(|()| apt(&["install", "--no-install-recommends", PACKAGE]))?;
    if !is_installed() {
        bail!("the package {PACKAGE} was installed, but {PROGRAM} is not in PATH");
    }
    record.add(Addition::Package(PACKAGE))
}

/// What to do without QEMU.
pub(crate) fn advice() -> String {
    let sudo = if is_root() { "" } else { "sudo " };
    let (command, note) = if process::find("dnf").is_some() {
        (format!("{sudo}dnf install -y {PACKAGE}"), "")
    } else if process::find("pacman").is_some() {
        (format!("{sudo}pacman -S --needed {PACKAGE}"), "")
    } else {
        let install = format!("{sudo}apt-get install -y --no-install-recommends {PACKAGE}");
        (format!("{sudo}apt-get update && {install}"), " (on Debian and Ubuntu)")
    };
    format!("{PROGRAM} is not installed or not in PATH; install it{note} with: {command}")
}

/// Fails with the command to type if QEMU is missing.
pub(crate) fn require() -> Result<()> {
    if is_installed() { Ok(()) } else { Err(anyhow::anyhow!(advice())).context("QEMU is missing") }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
