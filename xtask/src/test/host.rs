//! A program as a guest, whatever runs it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result};
use hermit_interface::exit::NOT_STARTED;
use hermit_interface::memory_size::MemorySize;
use tempfile::TempDir;

use super::examples::Examples;
use super::machines::Machine;
use super::running::{Input, Outcome, Running};
use crate::network::{self, Port};
use crate::program;
use crate::qemu::{self, Board};
use crate::uhyve::{Engine, Uhyve};

/// No guest of these tests takes longer, even on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// What runs guests.
#[derive(Debug)]
pub(super) enum Monitor {
    /// QEMU, with this loader.
    Qemu(PathBuf),
    /// uhyve.
    Uhyve(Uhyve, Engine),
}

/// What runs guests, and their images.
#[derive(Debug)]
pub(super) struct Host<'a> {
    pub(super) monitor: Monitor,
    pub(super) examples: &'a Examples,
}

impl Host<'_> {
    /// An example as a guest, with a name as of [`Examples::image`].
    pub(super) fn guest(&self, name: &str, arguments: &[&str]) -> Guest<'_> {
        self.guest_of(&self.examples.image(name), arguments)
    }

    /// Any image as a guest.
    pub(super) fn guest_of(&self, image: &Path, arguments: &[&str]) -> Guest<'_> {
        Guest {
            monitor: &self.monitor,
            image: image.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            cpus: 1,
            memory: MemorySize::default(),
            input: Vec::new(),
            ports: Vec::new(),
            limit: LIMIT,
        }
    }

    /// uhyve runs guests.
    pub(super) fn is_uhyve(&self) -> bool {
        matches!(self.monitor, Monitor::Uhyve(..))
    }

    /// Guests run at the processor's speed.
    pub(super) fn is_native(&self) -> bool {
        matches!(&self.monitor, Monitor::Uhyve(uhyve, engine) if uhyve.works(*engine))
    }

    /// The processor is emulated instruction by instruction: there is time for the least alone.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self.monitor, Monitor::Uhyve(..)) && !self.is_native()
    }
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.monitor {
            Monitor::Qemu(_) => out.write_str("qemu"),
            Monitor::Uhyve(_, engine) => engine.fmt(out),
        }
    }
}

/// A guest that is to run.
#[derive(Clone, Debug)]
pub(super) struct Guest<'a> {
    monitor: &'a Monitor,
    image: PathBuf,
    arguments: Vec<String>,
    environment: Vec<String>,
    cpus: u32,
    memory: MemorySize,
    input: Vec<u8>,
    ports: Vec<Port>,
    limit: Duration,
}

impl Guest<'_> {
    /// With so many CPUs, in place of one.
    pub(super) fn cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    /// With so much memory.
    pub(super) fn memory(self, mebibytes: u64) -> Self {
        Self { memory: MemorySize::unchecked_mebibytes(mebibytes), ..self }
    }

    /// With one more variable, `KEY=VALUE`.
    pub(super) fn variable(mut self, variable: &str) -> Self {
        self.environment.push(variable.to_owned());
        self
    }

    /// With something to read, in place of nothing.
    pub(super) fn reads(self, input: &[u8]) -> Self {
        Self { input: input.to_owned(), ..self }
    }

    /// With a port of the host that is passed on to it.
    pub(super) fn port(mut self, port: Port) -> Self {
        self.ports.push(port);
        self
    }

    /// With so much more time.
    pub(super) fn more_time(self, time: Duration) -> Self {
        Self { limit: self.limit + time, ..self }
    }

    /// Runs it to its end.
    pub(super) fn run(&self) -> Result<Outcome> {
        match self.monitor {
            Monitor::Qemu(loader) => self.in_qemu(loader),
            Monitor::Uhyve(uhyve, engine) => self.in_uhyve(uhyve, *engine),
        }
    }

    /// Runs it and checks the exit code and that it prints certain texts, wherever.
    pub(super) fn expect(&self, code: i32, texts: &[&str]) -> Result<Outcome> {
        let outcome = self.run()?;
        outcome.check(code, texts)?;
        Ok(outcome)
    }

    fn in_uhyve(&self, uhyve: &Uhyve, engine: Engine) -> Result<Outcome> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let machine = Machine::new(uhyve.on(engine), &self.image, &arguments);
        let machine = machine.cpus(self.cpus).options(&["--memory", &self.memory.to_string()]);
        let machine =
            self.environment.iter().fold(machine, |machine, variable| machine.options(&["--env", variable]));
        let machine =
            self.ports.iter().fold(machine, |machine, port| machine.options(&["-p", &port.to_string()]));
        machine.reads(Input::Bytes(self.input.clone())).limit(self.limit).run()
    }

    fn in_qemu(&self, loader: &Path) -> Result<Outcome> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let more = network::qemu(None, &self.ports).map_err(Error::msg)?;
        let guest = qemu::Guest {
            board: if more.is_empty() { Board::Microvm } else { Board::Pc },
            more,
            cpus: self.cpus,
            memory: self.memory,
            arguments: self.arguments.iter().map(Into::into).collect(),
            environment: self.environment.iter().map(Into::into).collect(),
            ..qemu::Guest::new(loader.to_owned(), Some(self.image.clone()), program::name_of(&self.image))
        };
        let input = Input::Open(qemu::quoted(&self.input));
        let mut outcome = Running::start(guest.command(folder.path())?, input, self.limit)?.end()?;
        outcome.code = Some(qemu::status(folder.path()).unwrap_or(NOT_STARTED).into());
        Ok(outcome)
    }
}
