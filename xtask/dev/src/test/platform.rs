//! A program as a guest, whatever runs it.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result};
use hermit_interface::exit::NOT_STARTED;
use hermit_interface::memory_size::MemorySize;
use hermit_interface::port_forward::PortForward;
use tempfile::TempDir;

use super::child::{ChildProcess, Input, Outcome};
use super::images::Images;
use super::tap_nic::TapNic;
use super::uhyve::UhyveCommand;
use xtask::network;
use xtask::program;
use xtask::qemu::{self, Board};
use xtask::uhyve::{Engine, Uhyve};

/// No guest of these tests takes longer, even on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// What runs guests.
#[derive(Debug)]
pub(super) enum Vmm {
    /// QEMU, with this loader.
    Qemu(PathBuf),
    /// uhyve.
    Uhyve(Uhyve, Engine),
}

/// What runs guests, and their images.
#[derive(Debug)]
pub(super) struct Platform<'a> {
    pub(super) vmm: Vmm,
    pub(super) images: &'a Images,
}

impl Platform<'_> {
    /// An example as a guest, with a name as of [`Examples::image`].
    pub(super) fn guest(&self, name: &str, arguments: &[&str]) -> Guest<'_> {
        self.guest_of(&self.images.image(name), arguments)
    }

    /// Any image as a guest.
    pub(super) fn guest_of(&self, image: &Path, arguments: &[&str]) -> Guest<'_> {
        Guest {
            vmm: &self.vmm,
            image: image.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            cpus: 1,
            memory: MemorySize::default(),
            input: Vec::new(),
            net: Net::None,
            nameserver: None,
            more: Vec::new(),
            limit: LIMIT,
        }
    }

    /// uhyve runs guests.
    pub(super) fn is_uhyve(&self) -> bool {
        matches!(self.vmm, Vmm::Uhyve(..))
    }

    /// Guests run at the processor's speed.
    pub(super) fn is_native(&self) -> bool {
        matches!(&self.vmm, Vmm::Uhyve(uhyve, engine) if uhyve.works(*engine))
    }

    /// The processor is emulated instruction by instruction: there is time for the least alone.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self.vmm, Vmm::Uhyve(..)) && !self.is_native()
    }
}

impl fmt::Display for Platform<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.vmm {
            Vmm::Qemu(_) => out.write_str("qemu"),
            Vmm::Uhyve(_, engine) => engine.fmt(out),
        }
    }
}

/// A guest that is to run.
#[derive(Clone, Debug)]
pub(super) struct Guest<'a> {
    vmm: &'a Vmm,
    image: PathBuf,
    arguments: Vec<String>,
    environment: Vec<String>,
    cpus: u32,
    memory: MemorySize,
    input: Vec<u8>,
    net: Net,
    nameserver: Option<IpAddr>,
    /// More options of QEMU.
    more: Vec<String>,
    limit: Duration,
}

/// How a guest is connected.
#[derive(Clone, Debug)]
enum Net {
    None,
    /// By sockets of the host, which has passt or QEMU make its connections, and passes these ports on.
    Sockets(Vec<PortForward>),
    /// To an interface of the host.
    TapNic(TapNic),
}

/// A guest that runs.
#[derive(Debug)]
pub(super) struct Started {
    running: ChildProcess,
    /// Where QEMU leaves the guest's status.
    folder: Option<TempDir>,
}

impl Started {
    /// Waits until these bytes are on standard output.
    pub(super) fn has_printed(&self, bytes: &[u8]) -> Result<()> {
        self.running.has_printed(bytes)
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        self.running.has_ended()
    }

    /// Waits for the end.
    pub(super) fn end(self) -> Result<Outcome> {
        let mut outcome = self.running.end()?;
        if let Some(folder) = self.folder {
            outcome.code = Some(qemu::status(folder.path()).unwrap_or(NOT_STARTED).into());
        }
        Ok(outcome)
    }

    /// Ends it as a power cut does.
    pub(super) fn kill(mut self) -> Result<Outcome> {
        self.running.kill()?;
        self.end()
    }
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

    /// With connections made by the host, to wherever the host gets.
    pub(super) fn connected(mut self) -> Self {
        if !matches!(self.net, Net::Sockets(_)) {
            self.net = Net::Sockets(Vec::new());
        }
        self
    }

    /// With somebody who knows the addresses of names, told on the command line.
    pub(super) fn nameserver(self, nameserver: IpAddr) -> Self {
        Self { nameserver: Some(nameserver), ..self }
    }

    /// With a port of the host that is passed on to it.
    pub(super) fn port(self, port: PortForward) -> Self {
        let mut guest = self.connected();
        if let Net::Sockets(ports) = &mut guest.net {
            ports.push(port);
        }
        guest
    }

    /// On an interface of the host.
    pub(super) fn nic(self, nic: TapNic) -> Self {
        Self { net: Net::TapNic(nic), ..self }
    }

    /// With more options, should it be QEMU that runs it.
    pub(super) fn qemu_options(mut self, options: &[&str]) -> Self {
        self.more.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// With so much more time.
    pub(super) fn more_time(self, time: Duration) -> Self {
        Self { limit: self.limit + time, ..self }
    }

    /// Starts it.
    pub(super) fn start(&self) -> Result<Started> {
        match self.vmm {
            Vmm::Qemu(loader) => self.in_qemu(loader),
            Vmm::Uhyve(uhyve, engine) => self.in_uhyve(uhyve, *engine),
        }
    }

    /// Runs it to its end.
    pub(super) fn run(&self) -> Result<Outcome> {
        self.start()?.end()
    }

    /// Runs it and checks the exit code and that it prints certain texts, wherever.
    pub(super) fn expect(&self, code: i32, texts: &[&str]) -> Result<Outcome> {
        let outcome = self.run()?;
        outcome.check(code, texts)?;
        Ok(outcome)
    }

    fn in_uhyve(&self, uhyve: &Uhyve, engine: Engine) -> Result<Started> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let machine = UhyveCommand::new(uhyve.on(engine), &self.image, &arguments);
        let machine = machine.cpus(self.cpus).options(&["--memory", &self.memory.to_string()]);
        let machine =
            self.environment.iter().fold(machine, |machine, variable| machine.options(&["--env", variable]));
        let machine = match &self.net {
            Net::None => machine,
            Net::Sockets(ports) => {
                let names = self.nameserver.map(|server| format!(",dns={server}")).unwrap_or_default();
                ports.iter().fold(machine.options(&["--net", &format!("passt{names}")]), |machine, port| {
                    machine.options(&["-p", &port.to_string()])
                })
            }
            Net::TapNic(nic) => machine.options(&["--net", &nic.uhyve()]),
        };
        let running = machine.reads(Input::Bytes(self.input.clone())).limit(self.limit).start()?;
        Ok(Started { running, folder: None })
    }

    fn in_qemu(&self, loader: &Path) -> Result<Started> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let (net, words) = match &self.net {
            Net::None => (Vec::new(), Vec::new()),
            Net::Sockets(ports) => {
                let names = self.nameserver.map(|server| format!("nameserver={server}"));
                (network::qemu_options(Some("user"), ports).map_err(Error::msg)?, names.into_iter().collect())
            }
            Net::TapNic(nic) => (nic.qemu().to_vec(), nic.words()),
        };
        let more = [net, self.more.clone()].concat();
        let guest = qemu::Guest {
            board: if more.is_empty() { Board::Microvm } else { Board::Pc },
            extra_options: more,
            kernel_options: words,
            cpus: self.cpus,
            memory: self.memory,
            arguments: self.arguments.iter().map(Into::into).collect(),
            environment: self.environment.iter().map(Into::into).collect(),
            ..qemu::Guest::new(loader.to_owned(), Some(self.image.clone()), program::name_of(&self.image))
        };
        let input = Input::Open(qemu::quoted(&self.input));
        let running = ChildProcess::start(guest.command(folder.path())?, input, self.limit)?;
        Ok(Started { running, folder: Some(folder) })
    }
}
