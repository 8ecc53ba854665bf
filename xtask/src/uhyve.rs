//! uhyve, our hypervisor: what this host offers it, and how it is called.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// The device by which KVM is reached.
const KVM: &str = "/dev/kvm";

/// What runs a machine's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The host's kernel, which may need hardware for it.
    Kvm,
    /// A process that may do next to nothing.
    Process,
}

impl fmt::Display for Engine {
    /// The value of uhyve's option `--engine`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Kvm => "kvm",
            Self::Process => "process",
        })
    }
}

/// The program, and what it says about this host.
#[derive(Debug)]
pub struct Uhyve {
    /// Its file.
    pub program: PathBuf,
    /// Something runs guests at full speed.
    pub is_fast: bool,
    /// What it says about each engine, a line for each.
    pub report: String,
}

impl Uhyve {
    /// Runs `uhyve --check` and keeps its report.
    pub fn check(program: PathBuf) -> Result<Self> {
        let mut command = Command::new(&program);
        command.arg("--check").stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
        let report = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        Ok(Self { program, is_fast: output.status.success(), report })
    }

    /// What it says about an engine.
    pub fn about(&self, engine: Engine) -> &str {
        about(&self.report, engine).unwrap_or("uhyve --check says nothing about it")
    }

    /// An engine runs guests at full speed.
    pub fn works(&self, engine: Engine) -> bool {
        self.about(engine).starts_with("works")
    }

    /// Its command that runs a guest on an engine, whatever uhyve says about that one.
    pub fn on(&self, engine: Engine) -> Command {
        command(&self.program, engine)
    }
}

/// uhyve's command that runs a guest on an engine.
pub fn command(program: &Path, engine: Engine) -> Command {
    let mut command = Command::new(program);
    command.args(["--engine", &engine.to_string()]);
    command
}

fn about(report: &str, engine: Engine) -> Option<&str> {
    let prefix = format!("{engine}: ");
    report.lines().find_map(|line| line.strip_prefix(&prefix))
}

/// There is KVM, and we may use it, even if it merely emulates.
pub fn has_kvm() -> bool {
    OpenOptions::new().read(true).write(true).open(KVM).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Engine, Uhyve, about};

    #[test]
    fn the_line_about_an_engine_is_found() {
        let report = "kvm: there is none\nprocess: works, at full speed\n";
        assert_eq!(about(report, Engine::Kvm), Some("there is none"));
        assert_eq!(about("kvm: works\n", Engine::Process), None);
        let uhyve = Uhyve { program: "uhyve".into(), is_fast: true, report: report.to_owned() };
        assert!(uhyve.works(Engine::Process) && !uhyve.works(Engine::Kvm));
    }
}
