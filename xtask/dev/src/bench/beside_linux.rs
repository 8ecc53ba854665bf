//! Runs a program as a guest of uhyve's process engine and as a process of this host. Both are pinned to the
//! same CPUs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_toolchain::setup;

use super::native::{allowed_cpus, pinned};
use super::{example, linux};

/// An example, built for guest and host.
#[derive(Debug)]
pub(super) struct BesideLinux {
    uhyve: Uhyve,
    image: PathBuf,
    program: PathBuf,
    /// The CPUs that this process may use.
    cpus: Vec<u32>,
}

impl BesideLinux {
    /// Builds the example for guest and host. If the engine does not run code at full speed on this host,
    /// prints a message and returns `None`.
    pub(super) fn prepare(example_name: &str) -> Result<Option<Self>> {
        let uhyve = Uhyve::check(setup::uhyve()?)?;
        if !uhyve.works(Engine::Process) {
            eprintln!("{}: not available: {}", Engine::Process, uhyve.about(Engine::Process));
            return Ok(None);
        }
        let (image, program) = (example(example_name)?, linux::native(example_name)?);
        let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
        let cpus = allowed_cpus(&status).context("/proc/self/status has no Cpus_allowed_list")?;
        Ok(Some(Self { uhyve, image, program, cpus }))
    }

    /// Returns the maximum number of CPUs of guest and process.
    pub(super) fn max_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Returns a list of `count` CPUs for taskset(1). Takes the last CPUs, because the first CPU often
    /// handles more interrupts.
    fn list(&self, count: usize) -> String {
        let cpus = &self.cpus[self.cpus.len().saturating_sub(count)..];
        cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    /// Returns the command of the guest with `count` CPUs. The caller appends the program's arguments.
    pub(super) fn guest(&self, count: usize, memory: &str, timeout: Duration) -> Command {
        let mut command = pinned(&self.uhyve.program, &self.list(count));
        command.args(["--engine", &Engine::Process.to_string(), "--cpus", &count.to_string()]);
        command.args(["--memory", memory, "--timeout", &timeout.as_secs().to_string()]);
        command.arg(&self.image).arg("--");
        command
    }

    /// Returns the command of the process with `count` CPUs. The caller appends the program's arguments.
    pub(super) fn process(&self, count: usize) -> Command {
        pinned(&self.program, &self.list(count))
    }
}
