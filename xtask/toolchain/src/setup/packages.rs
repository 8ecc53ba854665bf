//! Packages of the host's Linux distribution. A package is installed when a command needs its program.

use std::process::Command;

use anyhow::{Error, Result, anyhow};
use rustix::process::geteuid;

use super::progress::{Cost, Progress};
use super::record::{Addition, Record};
use crate::process;
use crate::toolchain::Toolchain;

/// Time in seconds for which apt-get waits for the lock of another package manager.
const LOCK_SECONDS: u32 = 600;

/// A program, and the package of Debian and Ubuntu that contains it.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Name of the program's executable.
    pub program: &'static str,
    /// Name of the package.
    name: &'static str,
    /// Name in messages.
    title: &'static str,
}

/// QEMU, which runs images where uhyve does not.
pub const QEMU: Package = Package { program: "qemu-system-x86_64", name: "qemu-system-x86", title: "QEMU" };

/// iproute2, which creates taps and other network devices.
pub const IPROUTE: Package = Package { program: "ip", name: "iproute2", title: "iproute2" };

/// wrk, a load generator for HTTP servers.
pub const WRK: Package = Package { program: "wrk", name: "wrk", title: "wrk" };

impl Package {
    /// Returns true if the program is in `PATH`.
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
    /// Fails if the program is missing and cannot be installed. If the user is not root, or there is no
    /// apt-get, the error names the command that installs the program.
    pub fn ensure(self) -> Result<()> {
        if self.is_installed() {
            return Ok(());
        }
        if !is_root() || process::find("apt-get").is_none() {
            return Err(self.missing());
        }
        let record = Record::open(&Toolchain::detect()?)?;
        let progress = Progress::new();
        let task = progress.add(self.program, Cost::UNKNOWN);
        task.note(&format!("installing {}: apt-get install {}", self.title, self.name));
        task.run(&mut apt(&["update"]))?;
        task.run(&mut apt(&["install", "--yes", "--no-remove", "--no-install-recommends", self.name]))?;
        record.add(Addition::Package(self.name))?;
        if self.is_installed() { Ok(()) } else { Err(self.missing()) }
    }
}

/// Returns a command that runs apt-get without questions. It waits while another package manager holds the
/// lock.
fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["-qq", "-o", "Acquire::Retries=3", "-o"])
        .arg(format!("DPkg::Lock::Timeout={LOCK_SECONDS}"));
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::apt;

    #[test]
    fn apt_waits_for_another_one() {
        let command = apt(&["update"]);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words, ["-qq", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=600", "update"]);
    }
}
