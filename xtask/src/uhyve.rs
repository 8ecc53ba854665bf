//! uhyve, our hypervisor: whether this host can use it, and how it is called.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::build;

/// The device by which KVM is reached.
const KVM: &str = "/dev/kvm";

/// The program, and what it says about this host.
#[derive(Debug)]
pub(crate) struct Uhyve {
    /// Its file.
    pub(crate) program: PathBuf,
    /// KVM runs guests at full speed.
    pub(crate) is_fast: bool,
    /// What it says about KVM.
    pub(crate) about_kvm: String,
}

impl Uhyve {
    /// Builds it if need be, and asks it.
    pub(crate) fn ask() -> Result<Self> {
        let program = build::uhyve()?;
        let mut command = Command::new(&program);
        command.arg("--check").stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let about_kvm = about_kvm(&text).unwrap_or("uhyve --check says nothing about KVM").to_owned();
        Ok(Self { program, is_fast: output.status.success(), about_kvm })
    }

    /// Its command that runs a guest on KVM, whatever KVM does.
    pub(crate) fn on_kvm(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--engine", "kvm"]);
        command
    }
}

/// What uhyve says about KVM.
fn about_kvm(report: &str) -> Option<&str> {
    report.lines().find_map(|line| line.strip_prefix("kvm: "))
}

/// There is KVM, and we may use it. This costs nothing, unlike building uhyve.
pub(crate) fn has_kvm() -> bool {
    OpenOptions::new().read(true).write(true).open(KVM).is_ok()
}

#[cfg(test)]
mod tests {
    use super::about_kvm;

    #[test]
    fn the_line_about_kvm_is_found() {
        let report = "kvm: there is none\nprocess: not available yet\n";
        assert_eq!(about_kvm(report), Some("there is none"));
        assert_eq!(about_kvm("process: works\n"), None);
    }
}
