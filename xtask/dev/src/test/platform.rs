//! Programs as guests, on any platform of `cargo xtask run`.
//!
//! Most tests run on three platforms: QEMU and both engines of uhyve. Such a test must not depend on the
//! platform. A [`TestPlatform`] is a platform with its images. It makes a [`TestGuest`], a description that a
//! test completes step by step: CPUs, memory, input, network, disk. [`TestGuest::start`] returns a
//! [`Started`] guest, which the test observes until the end, an [`Outcome`]. The functions `in_uhyve` and
//! `in_qemu` translate the description into command lines. `in_qemu` also starts `uhyve net`, the process
//! that provides the user-mode network.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use hermit_interface::exit::NOT_STARTED;
use hermit_interface::memory_size::MemorySize;
use hermit_interface::port_forward::PortForward;
use hermit_machines::qemu::{self, Board};
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_machines::user_network::UserNetwork;
use hermit_options::open::Opener;
use hermit_options::root::Initramfs;
use tempfile::TempDir;

use super::child::{ChildInput, ChildProcess, Outcome, started_by};
use super::images::Images;
use super::process_state;
use super::tap_nic::TapNic;
use super::uhyve::UhyveCommand;
use xtask::program;

/// Time limit of a guest. The limit only bounds how long a test hangs: even on a busy machine, a guest takes
/// far less time.
pub(super) const LIMIT: Duration = Duration::from_secs(180);

/// Prompt of QEMU's monitor.
const PROMPT: &[u8] = b"(qemu) ";

/// Number of prompts that the monitor prints until it has executed two commands.
const PAUSE_PROMPTS: usize = 3;

/// File in QEMU's folder with the output of `uhyve net`.
const NETWORK_LOG: &str = "network";

/// The virtual machine monitor that runs guests.
#[derive(Debug)]
pub(super) enum TestVmm {
    /// QEMU.
    Qemu {
        /// File of the loader.
        loader: PathBuf,
        /// Executable of uhyve, which provides the user-mode network.
        uhyve: PathBuf,
    },
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
    /// Returns a guest that runs the image that [`Images::image`] returns for a name.
    pub(super) fn guest(&self, name: &str, arguments: &[&str]) -> TestGuest<'_> {
        self.guest_of(&self.images.image(name), arguments)
    }

    /// Returns a guest that runs any image.
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
            kernel_options: Vec::new(),
            disk: None,
            initramfs: None,
            more: Vec::new(),
            starter: Vec::new(),
            limit: LIMIT,
        }
    }

    /// Returns true if uhyve runs guests.
    pub(super) fn is_uhyve(&self) -> bool {
        matches!(self.vmm, TestVmm::Uhyve(..))
    }

    /// Returns true if guests run at the processor's speed.
    pub(super) fn is_native(&self) -> bool {
        matches!(&self.vmm, TestVmm::Uhyve(uhyve, engine) if uhyve.works(*engine))
    }

    /// Returns true if the host emulates the processor instruction by instruction, so that there is time for
    /// few tests only.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self.vmm, TestVmm::Uhyve(..)) && !self.is_native()
    }
}

impl fmt::Display for TestPlatform<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.vmm {
            TestVmm::Qemu { .. } => out.write_str("qemu"),
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
    /// True if the guest can reach the host's loopback interface.
    host_loopback: bool,
    /// More keys of the user-mode network, each with a comma before it.
    keys: String,
    /// Additional options of the kernel in QEMU.
    kernel_options: Vec<String>,
    disk: Option<PathBuf>,
    /// Folder with the initramfs.
    initramfs: Option<PathBuf>,
    /// Additional options of QEMU.
    more: Vec<String>,
    /// Program that starts the VMM, and its first arguments. Empty if the test itself starts the VMM.
    starter: Vec<String>,
    limit: Duration,
}

/// Network of a guest.
#[derive(Clone, Debug)]
enum GuestNetwork {
    None,
    /// The user-mode network, with these forwarded ports.
    Sockets(Vec<PortForward>),
    /// A tap of the host.
    TapNic(TapNic),
}

/// A running guest.
#[derive(Debug)]
pub(super) struct Started {
    running: ChildProcess,
    /// The user-mode network of a guest in QEMU. It ends after QEMU.
    network: Option<UserNetwork>,
    /// The folder of QEMU's files, such as the guest's status.
    folder: Option<TempDir>,
}

impl Started {
    /// Waits until standard output contains these bytes.
    pub(super) fn has_printed(&self, bytes: &[u8]) -> Result<()> {
        self.running.has_printed(bytes)
    }

    /// Pauses a guest in QEMU for the given time.
    pub(super) fn pause(&self, duration: Duration) -> Result<()> {
        let folder = self.folder.as_ref().context("only QEMU pauses guests")?;
        let mut monitor =
            qemu::send_to_monitor(folder.path(), "stop").context("cannot reach QEMU's monitor")?;
        thread::sleep(duration);
        monitor.write_all(b"cont\n").context("cannot reach QEMU's monitor")?;
        // The connection must stay open until QEMU has executed the commands, because a closed connection
        // drops unread commands.
        let mut answer: Vec<u8> = Vec::new();
        while answer.windows(PROMPT.len()).filter(|window| *window == PROMPT).count() < PAUSE_PROMPTS {
            let mut bytes = [0; 512];
            let count = monitor.read(&mut bytes).context("cannot reach QEMU's monitor")?;
            ensure!(count > 0, "QEMU has closed its monitor");
            answer.extend(bytes.get(..count).unwrap_or_default());
        }
        Ok(())
    }

    /// Returns true if the guest has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        self.running.has_ended()
    }

    /// Waits until the guest ends.
    pub(super) fn end(self) -> Result<Outcome> {
        let mut outcome = self.running.end()?;
        drop(self.network);
        if let Some(folder) = self.folder {
            outcome.errors.extend(network_messages(&folder));
            outcome.code = Some(qemu::status(folder.path()).unwrap_or(NOT_STARTED).into());
        }
        Ok(outcome)
    }

    /// Returns the ID of the VMM's process.
    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Returns the states of the VMM, its descendants, and `uhyve net` if the guest is in QEMU.
    pub(super) fn state(&self) -> String {
        let network = self.network.as_ref().map(|network| process_state::describe(network.id()));
        process_state::describe(self.running.id()) + &network.unwrap_or_default()
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

    /// Connects the guest to the user-mode network.
    pub(super) fn connected(mut self) -> Self {
        if !matches!(self.net, GuestNetwork::Sockets(_)) {
            self.net = GuestNetwork::Sockets(Vec::new());
        }
        self
    }

    /// Connects the guest to the user-mode network, and lets it reach the host's loopback interface.
    pub(super) fn host_loopback(self) -> Self {
        Self { host_loopback: true, ..self.connected() }
    }

    /// Sets the address of the DNS server.
    pub(super) fn nameserver(self, nameserver: IpAddr) -> Self {
        Self { nameserver: Some(nameserver), ..self }
    }

    /// Connects the guest to the user-mode network, with more keys such as `egress=none`.
    pub(super) fn network_keys(self, keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| format!(",{key}")).collect();
        Self { keys, ..self.connected() }
    }

    /// Connects the guest to the user-mode network, and forwards a port of the host to the guest.
    pub(super) fn port(self, port: PortForward) -> Self {
        let mut guest = self.connected();
        if let GuestNetwork::Sockets(ports) = &mut guest.net {
            ports.push(port);
        }
        guest
    }

    /// Connects the guest to a tap.
    pub(super) fn nic(self, nic: TapNic) -> Self {
        Self { net: GuestNetwork::TapNic(nic), ..self }
    }

    /// Attaches a file as the first disk.
    pub(super) fn disk(self, file: &Path) -> Self {
        Self { disk: Some(file.to_owned()), ..self }
    }

    /// Sets the folder with the initramfs.
    pub(super) fn initramfs(self, folder: &Path) -> Self {
        Self { initramfs: Some(folder.to_owned()), ..self }
    }

    /// Adds options of QEMU, which uhyve ignores.
    pub(super) fn qemu_options(mut self, options: &[&str]) -> Self {
        self.more.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Adds an option of the kernel in QEMU, which uhyve ignores.
    pub(super) fn kernel_option(mut self, option: &str) -> Self {
        self.kernel_options.push(option.to_owned());
        self
    }

    /// Makes a shell script start the VMM. In the script, `"$@"` is the command line of the VMM.
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
            TestVmm::Qemu { loader, uhyve } => self.in_qemu(loader, uhyve),
            TestVmm::Uhyve(uhyve, engine) => self.in_uhyve(uhyve, *engine),
        }
    }

    /// Runs the guest to its end.
    pub(super) fn run(&self) -> Result<Outcome> {
        self.start()?.end()
    }

    /// Runs the guest. Checks the exit code, and that standard output or standard error contains each text.
    pub(super) fn expect(&self, code: i32, texts: &[&str]) -> Result<Outcome> {
        let outcome = self.run()?;
        outcome.check(code, texts)?;
        Ok(outcome)
    }

    fn starter(&self) -> Option<Vec<&str>> {
        (!self.starter.is_empty()).then(|| self.starter.iter().map(String::as_str).collect())
    }

    /// Returns the key of the DNS server with a comma before it, or an empty text.
    fn dns(&self) -> String {
        self.nameserver.map(|server| format!(",dns={server}")).unwrap_or_default()
    }

    /// Returns the value of `--net` for a guest with the user-mode network.
    fn user_network(&self) -> String {
        let loopback = if self.host_loopback { ",host-loopback" } else { "" };
        format!("user{}{loopback}{}", self.dns(), self.keys)
    }

    fn in_uhyve(&self, uhyve: &Uhyve, engine: Engine) -> Result<Started> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let machine = UhyveCommand::new(uhyve.on(engine), &self.image, &arguments);
        let machine = machine.cpus(self.cpus).options(&["--memory", &self.memory.to_string()]);
        let machine =
            self.environment.iter().fold(machine, |machine, variable| machine.options(&["--env", variable]));
        let machine = match &self.net {
            GuestNetwork::None => machine,
            GuestNetwork::Sockets(ports) => {
                ports.iter().fold(machine.options(&["--net", &self.user_network()]), |machine, port| {
                    machine.options(&["-p", &port.to_string()])
                })
            }
            GuestNetwork::TapNic(nic) => machine.options(&["--net", &(nic.uhyve() + &self.dns())]),
        };
        let machine = match self.starter() {
            Some(words) => machine.started_by(&words),
            None => machine,
        };
        let machine = match &self.disk {
            Some(file) => machine.disk(&file.display().to_string()),
            None => machine,
        };
        let machine = match &self.initramfs {
            Some(initramfs) => machine.options(&["--root", &initramfs.display().to_string()]),
            None => machine,
        };
        let running = machine.reads(ChildInput::Bytes(self.input.clone())).limit(self.limit).start()?;
        Ok(Started { running, network: None, folder: None })
    }

    /// Starts `uhyve net` for a guest in QEMU, if the guest has the user-mode network. The messages of the
    /// process go to a file in the folder.
    fn network_for_qemu(&self, uhyve: &Path, folder: &TempDir) -> Result<Option<UserNetwork>> {
        let GuestNetwork::Sockets(ports) = &self.net else { return Ok(None) };
        let messages = File::create(folder.path().join(NETWORK_LOG)).context("cannot make a file")?;
        let started = UserNetwork::start(uhyve, Some(&self.user_network()), ports, &[], messages);
        started.map(Some).with_context(|| String::from_utf8_lossy(&network_messages(folder)).into_owned())
    }

    fn in_qemu(&self, loader: &Path, uhyve: &Path) -> Result<Started> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let network = self.network_for_qemu(uhyve, &folder)?;
        let (net, mut words) = match (&self.net, &network) {
            (_, Some(network)) => (network.qemu_options().to_vec(), network.kernel_options().to_vec()),
            (GuestNetwork::TapNic(nic), None) => {
                let names = self.nameserver.map(|server| format!("nameserver={server}"));
                (nic.qemu().to_vec(), nic.parameters().into_iter().chain(names).collect())
            }
            _ => (Vec::new(), Vec::new()),
        };
        words.extend(self.kernel_options.iter().cloned());
        let disk = self.disk.iter().flat_map(|file| {
            let drive = format!("file={},format=raw,if=none,id=disk", file.display());
            ["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"].map(str::to_owned)
        });
        let more = [net, disk.collect(), self.more.clone()].concat();
        let pack = |root: &PathBuf| {
            let archive = folder.path().join("root.tar");
            fs::write(&archive, Initramfs::load(&Opener::default(), root, self.memory.bytes())?.archive)?;
            Ok::<_, Error>(archive)
        };
        let guest = qemu::Guest {
            initramfs: self.initramfs.as_ref().map(pack).transpose()?,
            board: if more.is_empty() { Board::Microvm } else { Board::Pc },
            extra_options: more,
            kernel_options: words,
            cpus: self.cpus,
            memory: self.memory,
            arguments: self.arguments.iter().map(Into::into).collect(),
            environment: self.environment.iter().map(Into::into).collect(),
            ..qemu::Guest::new(loader.to_owned(), Some(self.image.clone()), program::name_of(&self.image))
        };
        // The input stays open, because QEMU closes the console when its standard input is closed. `quoted`
        // appends a byte that stands for the end of file.
        let input = ChildInput::Open(qemu::quoted(&self.input));
        let command = guest.command(folder.path())?;
        let command = self.starter().map(|words| started_by(&command, &words)).unwrap_or(command);
        let running = ChildProcess::start(command, input, self.limit)?;
        Ok(Started { running, network, folder: Some(folder) })
    }
}

/// Returns the output of `uhyve net` of a guest in QEMU.
fn network_messages(folder: &TempDir) -> Vec<u8> {
    // An error is ignored: a guest without a user-mode network has no such file.
    fs::read(folder.path().join(NETWORK_LOG)).unwrap_or_default()
}
