//! A server at work: in a guest, or as a process of this host.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use tempfile::TempDir;

use super::link::{DEVICE, HARDWARE, HOST, Link, PREFIX, SERVER};
use super::plan::Plan;
use super::system::System;
use crate::bench::linux;
use xtask::qemu::{Board, Guest};
use xtask::uhyve::{self, Engine};
use xtask::{network, process, program};

/// The memory of every guest.
const MEMORY: &str = "512M";

/// No server is needed for longer.
const LIMIT: Duration = Duration::from_secs(300);

/// How long a server may take to be there.
const PATIENCE: Duration = Duration::from_secs(60);

/// What switches the device's segmentation off, in both directions.
const PLAIN: &str = ",gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off\
                     ,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off";

/// The processor of every guest in QEMU: without the promise that `rep movsb` is quick. It is not, translated: Linux, which believes
/// it, copies at a quarter of the speed that it has without. Our programs never ask.
const PROCESSOR: [&str; 2] = ["-cpu", "max,-erms,-fsrm"];

/// The file of what a server prints.
const LOG: &str = "log";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    NetBench,
    Httpd,
}

impl Program {
    /// Its port if nothing else is said.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::NetBench => 7777,
            Self::Httpd => 8080,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::NetBench => "net_bench",
            Self::Httpd => "httpd",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::NetBench => &["server"],
            Self::Httpd => &[],
        }
    }

    /// The one of two files that is this program's.
    fn of(self, files: &[PathBuf]) -> Result<&Path> {
        let mut files = files.iter().map(PathBuf::as_path);
        let file = match self {
            Self::NetBench => files.next(),
            Self::Httpd => files.nth(1),
        };
        file.with_context(|| format!("there is no {}", self.name()))
    }
}

/// A server that runs. It ends when this is dropped, and its wire is gone.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    program: Program,
    /// When its process was started.
    pub(super) start: Instant,
    folder: TempDir,
    link: Link,
}

impl Server {
    /// Starts it, and does not wait until it is there.
    pub(super) fn start(plan: &Plan, system: System, program: Program) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let link = match system {
            System::Loopback => Link::Loopback,
            System::Veth => Link::pair()?,
            _ => Link::tap()?,
        };
        let mut command = match system {
            System::Uhyve => uhyve(plan, program)?,
            System::Qemu => qemu(plan, program, folder.path())?,
            System::Linux => linux(plan, program, folder.path(), "")?,
            System::LinuxPlain => linux(plan, program, folder.path(), PLAIN)?,
            System::Veth | System::Loopback => native(plan, program, &link)?,
        };
        let log = File::create(folder.path().join(LOG)).context("cannot make a file")?;
        // QEMU would take the end of its input for the end of the console.
        command.stdin(Stdio::piped()).stderr(log.try_clone()?).stdout(log);
        let start = Instant::now();
        let child =
            command.spawn().with_context(|| format!("cannot start {}", process::display(&command)))?;
        Ok(Self { child, program, start, folder, link })
    }

    /// Starts it and waits until it takes connections.
    pub(super) fn ready(plan: &Plan, system: System, program: Program) -> Result<Self> {
        let mut server = Self::start(plan, system, program)?;
        loop {
            server.check()?;
            match TcpStream::connect_timeout(&server.socket_address(), Duration::from_millis(200)) {
                Ok(_) => return Ok(server),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Its address.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.link.server()
    }

    /// Its address with its port.
    pub(super) fn socket_address(&self) -> SocketAddr {
        (self.address(), self.program.port()).into()
    }

    /// Fails if it has ended, or should have answered by now.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("cannot wait for the server")? {
            bail!("the server ended ({status}):\n{}", self.printed());
        }
        if self.start.elapsed() > PATIENCE {
            bail!("there was no answer for {} s:\n{}", PATIENCE.as_secs(), self.printed());
        }
        Ok(())
    }

    /// What it printed.
    pub(super) fn printed(&self) -> String {
        let mut bytes = Vec::new();
        // What can be read is better than nothing.
        let _: io::Result<usize> =
            File::open(self.folder.path().join(LOG)).and_then(|mut log| log.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _: io::Result<()> = self.child.kill();
        let _: io::Result<ExitStatus> = self.child.wait();
    }
}

fn uhyve(plan: &Plan, program: Program) -> Result<Command> {
    let mut command = uhyve::command(&plan.uhyve, Engine::Process);
    let net = format!("tap={},mac={HARDWARE},ip={SERVER}/{PREFIX},gateway={HOST}", DEVICE);
    command.args(["--memory", MEMORY, "--net", &net, "--timeout", &LIMIT.as_secs().to_string()]);
    command.arg(program.of(&plan.images)?).arg("--").args(program.arguments());
    Ok(command)
}

/// The classic PC with one CPU, at the tap.
fn machine(kernel: &Path, image: &Path, name: OsString, device: &str) -> Result<Guest> {
    let net = format!("tap={}", DEVICE);
    let mut more = network::qemu(Some(&net), &[]).map_err(Error::msg)?;
    // The last one is the device.
    if let Some(option) = more.last_mut() {
        option.push_str(&format!(",mac={HARDWARE}{device}"));
    }
    more.extend(PROCESSOR.map(str::to_owned));
    Ok(Guest {
        board: Board::Pc,
        memory: MEMORY.parse().map_err(Error::msg)?,
        more,
        ..Guest::new(kernel.to_owned(), Some(image.to_owned()), name)
    })
}

fn qemu(plan: &Plan, program: Program, folder: &Path) -> Result<Command> {
    let image = program.of(&plan.images)?;
    let guest = machine(&plan.loader, image, program::name_of(image), "")?;
    let guest = guest.with_word(&format!("ip={SERVER}/{PREFIX}")).with_word(&format!("gateway={HOST}"));
    let arguments = program.arguments().iter().map(OsString::from).collect();
    Guest { arguments, ..guest }.command(folder)
}

fn linux(plan: &Plan, program: Program, folder: &Path, device: &str) -> Result<Command> {
    let files = plan.kernel.as_deref().zip(plan.file_system.as_deref());
    let (kernel, file_system) = files.context("there is no Linux guest")?;
    let guest = machine(kernel, file_system, "init".into(), device)?;
    let (name, arguments) = (program.name(), program.arguments().join(" "));
    // In place of the command line that our kernel would get: QEMU goes by the last one.
    let line = format!("{} -- {SERVER}/{PREFIX} /{name} {arguments}", linux::OPTIONS);
    guest.with_options(&["-append", &line]).command(folder)
}

fn native(plan: &Plan, program: Program, link: &Link) -> Result<Command> {
    let file = program.of(&plan.programs)?;
    let mut command = match link {
        Link::Pair(namespace) => {
            let mut command = namespace.enter();
            command.arg(file);
            command
        }
        _ => Command::new(file),
    };
    command.args(program.arguments());
    Ok(command)
}
