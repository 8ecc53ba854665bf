//! Programs as guests, on any platform of `cargo xtask run`.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use hermit_interface::exit::NOT_STARTED;
use hermit_interface::memory_size::MemorySize;
use hermit_interface::port_forward::PortForward;
use hermit_options::open::Opener;
use hermit_options::root::RootTree;
use tempfile::TempDir;

use super::child::{ChildInput, ChildProcess, Outcome, started_by};
use super::images::Images;
use super::process_state;
use super::tap_nic::TapNic;
use super::uhyve::UhyveCommand;
use xtask::network;
use xtask::passt::Passt;
use xtask::program;
use xtask::qemu::{self, Board};
use xtask::uhyve::{Engine, Uhyve};

/// Time limit of a guest. It only bounds how long a test hangs, and is far above what a guest takes on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(180);

/// Prompt of QEMU's monitor.
const PROMPT: &[u8] = b"(qemu) ";

/// Number of prompts until the monitor has executed two commands.
const PAUSE_PROMPTS: usize = 3;

/// The virtual machine monitor that runs guests.
#[derive(Debug)]
pub(super) enum TestVmm {
    /// QEMU, with the file of the loader.
    Qemu(PathBuf),
    /// uhyve.
    Uhyve(Uhyve, Engine),
}

/// A virtual machine monitor, and images for its guests.
#[derive(Debug)]
pub(super) struct TestPlatform<'a> {
    pub(super) vmm: TestVmm,
    pub(super) images: &'a Images,
}

impl TestPlatform<'_> {
    /// An example as a guest, with a name as of [`Images::image`].
    pub(super) fn guest(&self, name: &str, arguments: &[&str]) -> TestGuest<'_> {
        self.guest_of(&self.images.image(name), arguments)
    }

    /// A guest with any image.
    pub(super) fn guest_of(&self, image: &Path, arguments: &[&str]) -> TestGuest<'_> {
        TestGuest {
            vmm: &self.vmm,
            image: image.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            cpus: 1,
            memory: MemorySize::default(),
            input: Vec::new(),
            net: GuestNetwork::None,
            nameserver: None,
            host_loopback: false,
            keys: String::new(),
            has_passt: false,
            has_user: false,
            disk: None,
            tree: None,
            more: Vec::new(),
            starter: Vec::new(),
            limit: LIMIT,
        }
    }

    /// Whether uhyve runs guests.
    pub(super) fn is_uhyve(&self) -> bool {
        matches!(self.vmm, TestVmm::Uhyve(..))
    }

    /// Whether guests run at the processor's speed.
    pub(super) fn is_native(&self) -> bool {
        matches!(&self.vmm, TestVmm::Uhyve(uhyve, engine) if uhyve.works(*engine))
    }

    /// Whether the host emulates the processor instruction by instruction, so that there is time for few tests only.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self.vmm, TestVmm::Uhyve(..)) && !self.is_native()
    }
}

impl fmt::Display for TestPlatform<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.vmm {
            TestVmm::Qemu(_) => out.write_str("qemu"),
            TestVmm::Uhyve(_, engine) => engine.fmt(out),
        }
    }
}

/// A guest that can be started.
#[derive(Clone, Debug)]
pub(super) struct TestGuest<'a> {
    vmm: &'a TestVmm,
    image: PathBuf,
    arguments: Vec<String>,
    environment: Vec<String>,
    cpus: u32,
    memory: MemorySize,
    input: Vec<u8>,
    net: GuestNetwork,
    nameserver: Option<IpAddr>,
    /// The guest reaches the host's loopback.
    host_loopback: bool,
    /// More keys of passt's network, which QEMU does not have.
    keys: String,
    /// passt connects the guest under QEMU, too.
    has_passt: bool,
    /// Under uhyve, the guest's connections are sockets of uhyve's own.
    has_user: bool,
    disk: Option<PathBuf>,
    /// Folder with the initial tree of files.
    tree: Option<PathBuf>,
    /// Additional options of QEMU.
    more: Vec<String>,
    /// Program that starts the VMM, with its first arguments.
    starter: Vec<String>,
    limit: Duration,
}

/// Network of a guest.
#[derive(Clone, Debug)]
enum GuestNetwork {
    None,
    /// passt or, under QEMU, its user-mode network, with these forwarded ports.
    Sockets(Vec<PortForward>),
    /// A tap of the host.
    TapNic(TapNic),
}

/// A running guest.
#[derive(Debug)]
pub(super) struct Started {
    running: ChildProcess,
    /// The folder in which QEMU writes the guest's status.
    folder: Option<TempDir>,
}

impl Started {
    /// Waits until these bytes are on standard output.
    pub(super) fn has_printed(&self, bytes: &[u8]) -> Result<()> {
        self.running.has_printed(bytes)
    }

    /// Has QEMU pause the guest for a time of the host.
    pub(super) fn pause(&self, duration: Duration) -> Result<()> {
        let folder = self.folder.as_ref().context("only QEMU pauses guests")?;
        let mut monitor =
            qemu::send_to_monitor(folder.path(), "stop").context("cannot reach QEMU's monitor")?;
        thread::sleep(duration);
        monitor.write_all(b"cont\n").context("cannot reach QEMU's monitor")?;
        // QEMU drops a command that it has not read when the connection is closed.
        let mut answer: Vec<u8> = Vec::new();
        while answer.windows(PROMPT.len()).filter(|window| *window == PROMPT).count() < PAUSE_PROMPTS {
            let mut bytes = [0; 512];
            let count = monitor.read(&mut bytes).context("cannot reach QEMU's monitor")?;
            ensure!(count > 0, "QEMU has closed its monitor");
            answer.extend(bytes.get(..count).unwrap_or_default());
        }
        Ok(())
    }

    /// Whether the guest has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        self.running.has_ended()
    }

    /// Waits until the guest ends.
    pub(super) fn end(self) -> Result<Outcome> {
        let mut outcome = self.running.end()?;
        if let Some(folder) = self.folder {
            outcome.code = Some(qemu::status(folder.path()).unwrap_or(NOT_STARTED).into());
        }
        Ok(outcome)
    }

    /// The ID of the VMM's process.
    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// State of the VMM and its descendants, such as uhyve's passt.
    pub(super) fn state(&self) -> String {
        process_state::describe(self.running.id())
    }

    /// Kills the guest.
    pub(super) fn kill(mut self) -> Result<Outcome> {
        self.running.kill()?;
        self.end()
    }
}

impl TestGuest<'_> {
    /// Sets the number of CPUs, which is one by default.
    pub(super) fn cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    /// Sets the size of the memory.
    pub(super) fn memory(self, mebibytes: u64) -> Self {
        Self { memory: MemorySize::unchecked_mebibytes(mebibytes), ..self }
    }

    /// Adds an environment variable, `KEY=VALUE`.
    pub(super) fn variable(mut self, variable: &str) -> Self {
        self.environment.push(variable.to_owned());
        self
    }

    /// Sets standard input, which is empty by default.
    pub(super) fn reads(self, input: &[u8]) -> Self {
        Self { input: input.to_owned(), ..self }
    }

    /// Connects the guest by sockets of the host.
    pub(super) fn connected(mut self) -> Self {
        if !matches!(self.net, GuestNetwork::Sockets(_)) {
            self.net = GuestNetwork::Sockets(Vec::new());
        }
        self
    }

    /// Connects the guest by sockets of the host, and lets it reach the host's loopback.
    pub(super) fn host_loopback(self) -> Self {
        Self { host_loopback: true, ..self.connected() }
    }

    /// Sets the address of the DNS server.
    pub(super) fn nameserver(self, nameserver: IpAddr) -> Self {
        Self { nameserver: Some(nameserver), ..self }
    }

    /// Adds keys of passt's network under uhyve, such as `egress=none`, and connects the guest.
    pub(super) fn network_keys(self, keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| format!(",{key}")).collect();
        Self { keys, ..self.connected() }
    }

    /// Forwards a port of the host to the guest.
    pub(super) fn port(self, port: PortForward) -> Self {
        let mut guest = self.connected();
        if let GuestNetwork::Sockets(ports) = &mut guest.net {
            ports.push(port);
        }
        guest
    }

    /// Has passt connect the guest by sockets of the host, under QEMU, too.
    pub(super) fn passt(self) -> Self {
        Self { has_passt: true, ..self }
    }

    /// Has uhyve connect the guest by sockets of its own.
    pub(super) fn user_network(self) -> Self {
        Self { has_user: true, ..self.connected() }
    }

    /// Connects the guest to a tap.
    pub(super) fn nic(self, nic: TapNic) -> Self {
        Self { net: GuestNetwork::TapNic(nic), ..self }
    }

    /// Attaches a file as the first disk.
    pub(super) fn disk(self, file: &Path) -> Self {
        Self { disk: Some(file.to_owned()), ..self }
    }

    /// Sets the folder with the initial tree of files.
    pub(super) fn tree(self, folder: &Path) -> Self {
        Self { tree: Some(folder.to_owned()), ..self }
    }

    /// Adds options of QEMU, which uhyve ignores.
    pub(super) fn qemu_options(mut self, options: &[&str]) -> Self {
        self.more.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Starts the VMM by a shell script, in which `"$@"` is its command line.
    pub(super) fn in_script(self, script: &str) -> Self {
        Self { starter: ["sh", "-c", script, "sh"].map(str::to_owned).to_vec(), ..self }
    }

    /// Raises the time limit.
    pub(super) fn more_time(self, time: Duration) -> Self {
        Self { limit: self.limit + time, ..self }
    }

    /// Starts the guest.
    pub(super) fn start(&self) -> Result<Started> {
        match self.vmm {
            TestVmm::Qemu(loader) => self.in_qemu(loader),
            TestVmm::Uhyve(uhyve, engine) => self.in_uhyve(uhyve, *engine),
        }
    }

    /// Runs the guest to its end.
    pub(super) fn run(&self) -> Result<Outcome> {
        self.start()?.end()
    }

    /// Runs the guest; checks the exit code, and that each text is in standard output or standard error.
    pub(super) fn expect(&self, code: i32, texts: &[&str]) -> Result<Outcome> {
        let outcome = self.run()?;
        outcome.check(code, texts)?;
        Ok(outcome)
    }

    fn starter(&self) -> Option<Vec<&str>> {
        (!self.starter.is_empty()).then(|| self.starter.iter().map(String::as_str).collect())
    }

    fn in_uhyve(&self, uhyve: &Uhyve, engine: Engine) -> Result<Started> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let machine = UhyveCommand::new(uhyve.on(engine), &self.image, &arguments);
        let machine = machine.cpus(self.cpus).options(&["--memory", &self.memory.to_string()]);
        let machine =
            self.environment.iter().fold(machine, |machine, variable| machine.options(&["--env", variable]));
        let names = self.nameserver.map(|server| format!(",dns={server}")).unwrap_or_default();
        let machine = match &self.net {
            GuestNetwork::None => machine,
            GuestNetwork::Sockets(ports) => {
                let loopback = if self.host_loopback { ",host-loopback" } else { "" };
                let backend = if self.has_user { "user" } else { "passt" };
                let net = format!("{backend}{names}{loopback}{}", self.keys);
                ports.iter().fold(machine.options(&["--net", &net]), |machine, port| {
                    machine.options(&["-p", &port.to_string()])
                })
            }
            GuestNetwork::TapNic(nic) => machine.options(&["--net", &(nic.uhyve() + &names)]),
        };
        let machine = match self.starter() {
            Some(words) => machine.started_by(&words),
            None => machine,
        };
        let machine = match &self.disk {
            Some(file) => machine.disk(&file.display().to_string()),
            None => machine,
        };
        let machine = match &self.tree {
            Some(tree) => machine.options(&["--root", &tree.display().to_string()]),
            None => machine,
        };
        let running = machine.reads(ChildInput::Bytes(self.input.clone())).limit(self.limit).start()?;
        Ok(Started { running, folder: None })
    }

    fn in_qemu(&self, loader: &Path) -> Result<Started> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        // Lives until QEMU has inherited its socket.
        let passt = match &self.net {
            GuestNetwork::Sockets(ports) if self.has_passt => Some(Passt::start(ports, self.host_loopback)?),
            _ => None,
        };
        let names = self.nameserver.map(|server| format!("nameserver={server}"));
        let (net, words) = match (&self.net, &passt) {
            (GuestNetwork::None, _) => (Vec::new(), Vec::new()),
            (_, Some(passt)) => (passt.qemu_options().to_vec(), passt.kernel_options().to_vec()),
            (GuestNetwork::Sockets(ports), None) => {
                let net = Some(if self.host_loopback { "user,host-loopback" } else { "user" });
                let words = network::kernel_options(net).into_iter().chain(names).collect();
                (network::qemu_options(net, ports).map_err(Error::msg)?, words)
            }
            (GuestNetwork::TapNic(nic), None) => {
                (nic.qemu().to_vec(), nic.parameters().into_iter().chain(names).collect())
            }
        };
        let disk = self.disk.iter().flat_map(|file| {
            let drive = format!("file={},format=raw,if=none,id=disk", file.display());
            ["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"].map(str::to_owned)
        });
        let more = [net, disk.collect(), self.more.clone()].concat();
        let pack = |root: &PathBuf| {
            let archive = folder.path().join("root.tar");
            fs::write(&archive, RootTree::load(&Opener::default(), root, self.memory.bytes())?.archive)?;
            Ok::<_, Error>(archive)
        };
        let guest = qemu::Guest {
            tree: self.tree.as_ref().map(pack).transpose()?,
            board: if more.is_empty() { Board::Microvm } else { Board::Pc },
            extra_options: more,
            kernel_options: words,
            cpus: self.cpus,
            memory: self.memory,
            arguments: self.arguments.iter().map(Into::into).collect(),
            environment: self.environment.iter().map(Into::into).collect(),
            ..qemu::Guest::new(loader.to_owned(), Some(self.image.clone()), program::name_of(&self.image))
        };
        let input = ChildInput::Open(qemu::quoted(&self.input));
        let command = guest.command(folder.path())?;
        let command = self.starter().map(|words| started_by(&command, &words)).unwrap_or(command);
        let running = ChildProcess::start(command, input, self.limit)?;
        Ok(Started { running, folder: Some(folder) })
    }
}
