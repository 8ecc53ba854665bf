//! A running server: in a guest, or as a process of the host.
//!
//! Each [`System`] of the suite runs the same server program in another way: in uhyve at a tap or behind
//! forwarded ports, in QEMU, in a Linux guest, as a process at a veth pair or at the loopback interface, or
//! in a container.
//! The client is always a process of the host. A [`RunningServer`] hides these differences: it has an
//! address, an output and a [`NetLink`], and removes its files and devices when it is dropped. The functions
//! below it make the command line of each system. All guests have the same memory.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use hermit_machines::qemu::{Board, Guest};
use hermit_machines::uhyve::{self, Engine};
use hermit_toolchain::process;
use tempfile::TempDir;

use super::container;
use super::link::{DEVICE, HOST, MAC, NetLink, PREFIX, SERVER};
use super::plan::NetBenchPlan;
use super::relay::Relay;
use super::server_program::ServerProgram;
use super::system::System;
use crate::bench::linux;
use xtask::program;

/// Memory of each guest.
const MEMORY: &str = "512M";

/// Time limit of a guest in uhyve.
const GUEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum time from a server's start until it accepts connections.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time after which the port of a container closes a connection that its server does not accept.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// Options of QEMU's virtio-net device without segmentation offload, in both directions.
const NO_OFFLOAD: &str = ",gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off\
                     ,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off";

/// The CPU model of each guest in QEMU. It lacks the CPUID bits ERMS and FSRM, which announce a fast `rep
/// movsb`: if they are set, Linux copies with this instruction, which TCG translates to slow code. This
/// kernel's images do not use these bits.
const CPU_MODEL: [&str; 2] = ["-cpu", "max,-erms,-fsrm"];

/// Setting of Linux guests: a connection does not use metrics that earlier connections have learned, because
/// the suite changes the path between connections.
const NO_METRICS: &str = "sysctl.net.ipv4.tcp_no_metrics_save=1";

/// Name of the file with a server's output.
const LOG: &str = "log";

/// A running server. When this value is dropped, the server is killed, and then its link is removed.
#[derive(Debug)]
pub(super) struct RunningServer {
    child: Child,
    system: System,
    program: ServerProgram,
    /// Time at which the server's process was started.
    pub(super) start: Instant,
    folder: TempDir,
    link: NetLink,
}

impl RunningServer {
    /// Starts a server, without waiting until it accepts connections.
    pub(super) fn start(plan: &NetBenchPlan, system: System, program: ServerProgram) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let link = match system {
            System::Loopback => NetLink::Loopback,
            System::Veth => NetLink::veth()?,
            System::UhyvePorts | System::Podman | System::Slirp => NetLink::Ports,
            System::Pasta => NetLink::pasta()?,
            _ if plan.selection.is_lossy => NetLink::relay(folder.path())?,
            _ => NetLink::tap()?,
        };
        let mut command = match system {
            System::Uhyve => uhyve(plan, program)?,
            System::UhyvePorts => uhyve_with_ports(plan, program)?,
            System::Qemu => qemu(plan, program, folder.path(), &link)?,
            System::Linux => linux(plan, program, folder.path(), &link, "")?,
            System::LinuxNoTso => linux(plan, program, folder.path(), &link, NO_OFFLOAD)?,
            System::Veth | System::Loopback => native(plan, program, &link)?,
            System::Podman => container::podman(plan, program, folder.path(), container::PROXY)?,
            System::Slirp => container::podman(plan, program, folder.path(), container::SLIRP)?,
            System::Pasta => container::pasta(plan, program)?,
        };
        let log = File::create(folder.path().join(LOG)).context("cannot make a file")?;
        // Standard input is a pipe that stays open, because QEMU closes the console when its standard input
        // is closed.
        command.stdin(Stdio::piped()).stderr(log.try_clone()?).stdout(log);
        let start = Instant::now();
        let child =
            command.spawn().with_context(|| format!("cannot start {}", process::display(&command)))?;
        Ok(Self { child, system, program, start, folder, link })
    }

    /// Starts a server and waits until it accepts connections.
    pub(super) fn ready(plan: &NetBenchPlan, system: System, program: ServerProgram) -> Result<Self> {
        let mut server = Self::start(plan, system, program)?;
        loop {
            server.check()?;
            match TcpStream::connect_timeout(&server.socket_address(), Duration::from_millis(200)) {
                Ok(stream) if !system.is_container() || stays_open(&stream) => return Ok(server),
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Returns the server's address.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.link.server()
    }

    /// Returns the address at which the server reaches the host. Returns `None` if the server is behind
    /// ports.
    pub(super) fn host(&self) -> Option<Ipv4Addr> {
        self.link.host()
    }

    /// Returns the server's address and port.
    pub(super) fn socket_address(&self) -> SocketAddr {
        (self.address(), self.program.port()).into()
    }

    /// Returns the relay between the server and the host, if there is one.
    pub(super) fn relay(&self) -> Option<&Relay> {
        if let NetLink::Relay(relay) = &self.link { Some(relay) } else { None }
    }

    /// Fails if the server has exited, or if its time to become ready is over.
    pub(super) fn check(&mut self) -> Result<()> {
        self.check_running()?;
        if self.start.elapsed() > READY_TIMEOUT {
            bail!("there was no answer for {} s:\n{}", READY_TIMEOUT.as_secs(), self.printed());
        }
        Ok(())
    }

    /// Fails if the server has exited.
    pub(super) fn check_running(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("cannot wait for the server")? {
            bail!("the server exited ({status}):\n{}", self.printed());
        }
        Ok(())
    }

    /// Returns the server's output.
    pub(super) fn printed(&self) -> String {
        let mut bytes = Vec::new();
        // An error is ignored: the part that was read before is returned.
        let _: io::Result<usize> =
            File::open(self.folder.path().join(LOG)).and_then(|mut log| log.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Both calls fail if the process has been reaped already, which is not an error.
        let _: io::Result<()> =
            if self.system.is_container() { container::kill(&mut self.child) } else { self.child.kill() };
        let _: io::Result<ExitStatus> = self.child.wait();
    }
}

/// Returns true if the peer keeps a connection open. The ports of a container accept connections before its
/// server listens, and then close them.
fn stays_open(mut stream: &TcpStream) -> bool {
    let is_timeout = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
    stream.set_read_timeout(Some(CLOSE_TIMEOUT)).is_ok()
        && stream.read(&mut [0]).is_err_and(|error| is_timeout(error.kind()))
}

/// Returns the command of a guest in uhyve at a tap.
fn uhyve(plan: &NetBenchPlan, program: ServerProgram) -> Result<Command> {
    let congestion = plan.selection.congestion.iter().map(|name| format!(",congestion={name}"));
    let congestion: String = congestion.collect();
    let net = format!("tap={},mac={MAC},ip={SERVER}/{PREFIX},gateway={HOST}{congestion}", DEVICE);
    uhyve_with(plan, program, ["--net".to_owned(), net])
}

/// Returns the command of a guest in uhyve behind ports of the host. The guest has two CPUs: it is compared
/// with the process at the loopback interface, which has all CPUs of the host.
fn uhyve_with_ports(plan: &NetBenchPlan, program: ServerProgram) -> Result<Command> {
    let ports = program.ports().flat_map(|port| ["-p".to_owned(), format!("{port}:{port}")]);
    let cpus = ["--cpus", "2"].map(str::to_owned);
    uhyve_with(plan, program, ports.chain(cpus))
}

/// Returns the command of a guest in uhyve, with options of its network.
fn uhyve_with(
    plan: &NetBenchPlan,
    program: ServerProgram,
    network: impl IntoIterator<Item = String>,
) -> Result<Command> {
    let mut command = uhyve::command(&plan.uhyve, Engine::Process);
    command.args(["--memory", MEMORY, "--timeout", &GUEST_TIMEOUT.as_secs().to_string()]).args(network);
    command.arg(program.of(&plan.images)?).arg("--").args(program.arguments());
    Ok(command)
}

/// Returns a PC with one CPU, connected to the link.
fn machine(kernel: &Path, image: &Path, name: OsString, link: &NetLink, device: &str) -> Result<Guest> {
    let device = format!("virtio-net-pci,disable-legacy=on,netdev=net,mac={MAC}{device}");
    let mut extra_options = ["-netdev".to_owned(), link.netdev(), "-device".to_owned(), device].to_vec();
    extra_options.extend(CPU_MODEL.map(str::to_owned));
    Ok(Guest {
        board: Board::Pc,
        memory: MEMORY.parse().map_err(Error::msg)?,
        extra_options,
        ..Guest::new(kernel.to_owned(), Some(image.to_owned()), name)
    })
}

/// Returns the command of a guest of this kernel in QEMU.
fn qemu(plan: &NetBenchPlan, program: ServerProgram, folder: &Path, link: &NetLink) -> Result<Command> {
    let image = program.of(&plan.images)?;
    let guest = machine(&plan.loader, image, program::name_of(image), link, "")?;
    let guest = guest
        .with_kernel_option(&format!("ip={SERVER}/{PREFIX}"))
        .with_kernel_option(&format!("gateway={HOST}"));
    let congestion = plan.selection.congestion.iter();
    let guest = congestion.fold(guest, |guest, name| guest.with_kernel_option(&format!("congestion={name}")));
    let arguments = program.arguments().iter().map(OsString::from).collect();
    Guest { arguments, ..guest }.command(folder)
}

/// Returns the command of a Linux guest in QEMU.
fn linux(
    plan: &NetBenchPlan,
    program: ServerProgram,
    folder: &Path,
    link: &NetLink,
    device: &str,
) -> Result<Command> {
    let files = plan.kernel.as_deref().zip(plan.file_system.as_deref());
    let (kernel, file_system) = files.context("there is no Linux guest")?;
    let guest = machine(kernel, file_system, "init".into(), link, device)?;
    let (name, arguments) = (program.name(), program.arguments().join(" "));
    // This `-append` overrides an earlier one with the command line for this project's kernel: QEMU uses the
    // last one.
    let line = format!("{} {NO_METRICS} -- {SERVER}/{PREFIX} /{name} {arguments}", linux::OPTIONS);
    guest.with_options(&["-append", &line]).command(folder)
}

/// Returns the command of a process of the host.
fn native(plan: &NetBenchPlan, program: ServerProgram, link: &NetLink) -> Result<Command> {
    let file = program.of(&plan.programs)?;
    let mut command = match link {
        NetLink::Veth(namespace) => {
            let mut command = namespace.enter();
            command.arg(file);
            command
        }
        _ => Command::new(file),
    };
    command.args(program.arguments());
    Ok(command)
}
