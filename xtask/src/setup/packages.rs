//! Programs of the operating system's packages that are installed when something needs them.

use std::process::Command;

use anyhow::{Error, Result, anyhow};

use super::record::{Addition, Record};
use crate::process;
use crate::toolchain::Toolchain;

/// A program, and the package of Debian and Ubuntu that has it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Name of its program.
    pub(crate) program: &'static str,
    name: &'static str,
    /// How people call it.
    called: &'static str,
}

/// Runs images where uhyve does not.
pub const QEMU: Package = Package { program: "qemu-system-x86_64", name: "qemu-system-x86", called: "QEMU" };

/// Connects uhyve's guests without rights.
pub const PASST: Package = Package { program: "passt", name: "passt", called: "passt" };

/// Makes taps and other network devices.
pub const IPROUTE: Package = Package { program: "ip", name: "iproute2", called: "iproute2" };

/// Asks HTTP servers as often as goes.
pub const WRK: Package = Package { program: "wrk", name: "wrk", called: "wrk" };

impl Package {
    /// Whether it is there.
    pub(crate) fn is_installed(self) -> bool {
        process::find(self.program).is_some()
    }

    /// What to say when it is not.
    pub fn missing(self) -> Error {
        let sudo = if is_root() { "" } else { "sudo " };
        let Self { program, name, .. } = self;
        anyhow!(
            "{program} is not installed; on Debian or Ubuntu: {sudo}apt-get update && {sudo}apt-get install {name}"
        )
    }

    /// Makes sure that it is there.
    ///
    /// # Errors
    ///
    /// It is not, and cannot be installed by this user or on this system: the error says what to do.
    pub fn ensure(self) -> Result<()> {
        if self.is_installed() {
            return Ok(());
        }
        if !is_root() || process::find("apt-get").is_none() {
            return Err(self.missing());
        }
        eprintln!("Installing {}", self.called);
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
