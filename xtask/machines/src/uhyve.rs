//! uhyve, this repository's hypervisor: its command line, and its report about the host.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// KVM's device.
const KVM: &str = "/dev/kvm";

/// Origin of the program that a guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The developer's own program, built by this tool or by cargo. It also runs on hosts before Linux 6.12,
    /// with fewer protections, and may control the terminal, as under QEMU.
    Own,
    /// A file that may come from elsewhere.
    Foreign,
}

impl Trust {
    /// Returns uhyve's options for programs with this trust.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Own => &["--allow-partial-sandbox", "--console=raw"],
            Self::Foreign => &[],
        }
    }
}

/// An engine of uhyve, which executes the guest's CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The KVM of the host's kernel, on hardware or in software emulation.
    Kvm,
    /// A sandboxed process.
    Process,
}

impl fmt::Display for Engine {
    /// Writes the value of uhyve's option `--engine`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Kvm => "kvm",
            Self::Process => "process",
        })
    }
}

/// The executable of uhyve, and its report about this host.
#[derive(Debug)]
pub struct Uhyve {
    /// File of the executable.
    pub program: PathBuf,
    /// True if at least one engine runs guests at full speed.
    pub is_fast: bool,
    /// Output of `uhyve --check`: a line for each engine and each protection.
    pub report: String,
}

impl Uhyve {
    /// Runs `uhyve --check` for the developer's own programs, and keeps its report.
    pub fn check(program: PathBuf) -> Result<Self> {
        Self::check_for(program, Trust::Own)
    }

    /// Runs `uhyve --check` as [`Self::check`], for programs with the given trust.
    pub fn check_for(program: PathBuf, trust: Trust) -> Result<Self> {
        let mut command = command_for(&program, None, trust);
        command.arg("--check").stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
        let report = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        Ok(Self { program, is_fast: output.status.success(), report })
    }

    /// Returns what the report says about an engine.
    pub fn about(&self, engine: Engine) -> &str {
        about(&self.report, engine).unwrap_or("uhyve --check says nothing about it")
    }

    /// Returns true if the engine runs guests at full speed.
    pub fn works(&self, engine: Engine) -> bool {
        self.about(engine).starts_with("works")
    }

    /// Returns KVM if it runs guests at full speed, otherwise the process engine. The process engine may not
    /// work on this host.
    pub fn fast_engine(&self) -> Engine {
        if self.works(Engine::Kvm) { Engine::Kvm } else { Engine::Process }
    }

    /// Returns the command that runs a guest on an engine, without a check that the engine works.
    pub fn on(&self, engine: Engine) -> Command {
        command(&self.program, engine)
    }
}

/// Returns uhyve's command that runs a program of the developer on an engine.
pub fn command(program: &Path, engine: Engine) -> Command {
    command_for(program, Some(engine), Trust::Own)
}

/// Returns uhyve's command that runs a program on an engine. Without an engine, uhyve chooses the one that it
/// prefers.
pub fn command_for(program: &Path, engine: Option<Engine>, trust: Trust) -> Command {
    let mut command = Command::new(program);
    if let Some(engine) = engine {
        command.args(["--engine", &engine.to_string()]);
    }
    command.args(trust.options());
    command
}

fn about(report: &str, engine: Engine) -> Option<&str> {
    let prefix = format!("{engine}: ");
    report.lines().find_map(|line| line.strip_prefix(&prefix))
}

/// Returns true if this user may open KVM's device. KVM may still emulate in software.
pub fn has_kvm() -> bool {
    OpenOptions::new().read(true).write(true).open(KVM).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Engine, Trust, Uhyve, about, command_for};

    #[test]
    fn only_own_programs_run_in_a_partial_sandbox_or_control_the_terminal() {
        let arguments = |engine, trust| {
            let command = command_for("uhyve".as_ref(), engine, trust);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let own = arguments(Some(Engine::Process), Trust::Own);
        assert_eq!(own, ["--engine", "process", "--allow-partial-sandbox", "--console=raw"]);
        assert_eq!(arguments(Some(Engine::Kvm), Trust::Foreign), ["--engine", "kvm"]);
        assert!(arguments(None, Trust::Foreign).is_empty());
    }

    #[test]
    fn about_finds_the_line_of_an_engine() {
        let report = "kvm: there is none\nprocess: works, at full speed\n";
        assert_eq!(about(report, Engine::Kvm), Some("there is none"));
        assert_eq!(about("kvm: works\n", Engine::Process), None);
        let uhyve = Uhyve { program: "uhyve".into(), is_fast: true, report: report.to_owned() };
        assert!(uhyve.works(Engine::Process) && !uhyve.works(Engine::Kvm));
    }
}
