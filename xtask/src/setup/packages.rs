//! Packages of the operating system, installed when a command needs their program.

use std::process::Command;

use anyhow::{Error, Result, anyhow};

use super::record::{Addition, Record};
use crate::process;
use crate::toolchain::Toolchain;

/// A program, and the package of Debian and Ubuntu that contains it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Name of its program.
    pub(crate) program: &'static str,
    /// Name of the package.
    name: &'static str,
    /// Name in messages.
    title: &'static str,
}

/// QEMU, which runs images where uhyve does not.
pub const QEMU: Package = Package { program: "qemu-system-x86_64", name: "qemu-system-x86", title: "QEMU" };

/// passt, which connects uhyve's guests to the host's network without privileges.
pub const PASST: Package = Package { program: "passt", name: "passt", title: "passt" };

/// iproute2, which creates taps and other network devices.
pub const IPROUTE: Package = Package { program: "ip", name: "iproute2", title: "iproute2" };

/// wrk, a load generator for HTTP servers.
pub const WRK: Package = Package { program: "wrk", name: "wrk", title: "wrk" };

impl Package {
    /// Whether the program is in `PATH`.
    pub(crate) fn is_installed(self) -> bool {
        process::find(self.program).is_some()
    }

    /// Returns the error for a missing program, with the command that installs it.
    pub fn missing(self) -> Error {
        let sudo = if is_root() { "" } else { "sudo " };
        let Self { program, name, .. } = self;
        anyhow!(
            "{program} is not installed; on Debian or Ubuntu: {sudo}apt-get update && {sudo}apt-get install {name}"
        )
    }

    /// Makes sure that the program is installed.
    ///
    /// # Errors
    ///
    /// Fails if it is missing and this user or system cannot install it; the error names the command that does.
    pub fn ensure(self) -> Result<()> {
        if self.is_installed() {
            return Ok(());
        }
        if !is_root() || process::find("apt-get").is_none() {
            return Err(self.missing());
        }
        eprintln!("Installing {}", self.title);
        let record = Record::open(&Toolchain::detect()?)?;
        apt(&["update", "-qq"])?;
        apt(&["install", "-qq", "-y", "--no-install-recommends", self.name])?;
        record.add(Addition::Package(self.name))?;
        if self.is_installed() { Ok(()) } else { Err(self.missing()) }
    }
}

fn apt(arguments: &[&str]) -> Result<()> {
    process::run(
        Command::new("apt-get")
            .args(["-o", "Acquire::Retries=3"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // Real, then effective.
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
