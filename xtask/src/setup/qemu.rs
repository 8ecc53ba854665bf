//! QEMU, which runs images.

use std::process::Command;

use anyhow::{Error, Result, anyhow};

use super::record::{Addition, Record};
use crate::process;
use crate::qemu::QEMU;

const PACKAGE: &str = "qemu-system-x86";

/// Whether QEMU is there.
pub(crate) fn is_installed() -> bool {
    process::find(QEMU).is_some()
}

/// What to say when it is not.
pub(crate) fn missing() -> Error {
    let sudo = if is_root() { "" } else { "sudo " };
    anyhow!(
        "{QEMU} is not installed; on Debian or Ubuntu: {sudo}apt-get update && {sudo}apt-get install {PACKAGE}"
    )
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // Real, then effective.
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

/// Installs QEMU if this user may.
pub(crate) fn install(record: &Record) -> Result<()> {
    if !is_root() || process::find("apt-get").is_none() {
        return Err(missing());
    }
    let apt = |arguments: &[&str]| {
        process::run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-qq"])?;
    apt(&["install", "-qq", "-y", "--no-install-recommends", PACKAGE])?;
    record.add(Addition::Package(PACKAGE))?;
    if is_installed() { Ok(()) } else { Err(missing()) }
}
