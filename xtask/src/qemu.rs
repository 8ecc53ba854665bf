//! Guests under QEMU: the command line, input, exit status and time limit.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hermit_interface::command_line::Encoder;
use hermit_interface::console::{END_OF_FILE, LITERAL_NEXT, needs_quoting};
use hermit_interface::exit::{QUIT_PORT, SHUTDOWN_HANDLED_PORT, STATUS_PORT};
use hermit_interface::memory_size::MemorySize;
use hermit_options::disk::DiskConfig;
use tempfile::TempDir;

use crate::setup::packages;
use crate::{process, signals};

/// Name of QEMU's executable.
pub const QEMU: &str = packages::QEMU.program;

/// Interval at which a running guest is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Time limit for writing out the rest of standard error of a guest that was killed.
const RELAY_TIMEOUT: Duration = Duration::from_secs(1);
/// Program of util-linux that has QEMU killed when this process is, however it ends.
const SETPRIV: &str = "setpriv";

/// Maximum length of the path of a Unix socket (`sun_path`), without the terminating NUL.
const MAX_SOCKET_PATH: usize = 107;

/// A machine type of QEMU (`-M`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Board {
    /// The smallest one, which starts fastest
    #[default]
    Microvm,
    /// The classic PC, with PCI
    Pc,
    /// The PC with PCI Express
    Q35,
}

impl Board {
    /// Returns the value of QEMU's option `-M`. `microvm` lacks devices of a PC that the kernel uses, unless they are enabled.
    fn option(self) -> &'static str {
        match self {
            Self::Microvm => "microvm,pit=on,pic=on,rtc=on,isa-serial=on",
            Self::Pc => "pc",
            Self::Q35 => "q35",
        }
    }
}

/// An accelerator of QEMU (`-accel`), which executes the code of the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU translates it.
    #[default]
    Tcg,
    /// The host's kernel runs it, on hardware or in software emulation.
    Kvm,
}

impl Accelerator {
    /// Returns the value of QEMU's option `-cpu`: all that the accelerator offers. QEMU 7.2 aborts where KVM refuses the register
    /// IA32_ARCH_CAPABILITIES that it has offered.
    fn cpu_model(self) -> &'static str {
        match self {
            Self::Tcg => "max",
            Self::Kvm => "max,-arch-capabilities",
        }
    }

    /// Returns the value of QEMU's option `-accel`.
    fn option(self) -> &'static str {
        match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        }
    }
}

/// A guest and its machine.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The file that QEMU boots: the loader, or a loader fused with its image.
    pub kernel: PathBuf,
    /// The image for the loader.
    pub image: Option<PathBuf>,
    /// Machine type.
    pub board: Board,
    /// Accelerator.
    pub accelerator: Accelerator,
    /// Memory of the machine.
    pub memory: MemorySize,
    /// Number of CPUs.
    pub cpus: u32,
    /// The program's `argv[0]`.
    pub name: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// The program's environment, each `KEY=VALUE`.
    pub environment: Vec<OsString>,
    /// Time limit, after which the guest is killed.
    pub timeout: Option<Duration>,
    /// Time from a signal, if the program handles it, until the guest is killed.
    pub grace: Duration,
    /// Print QEMU's command line.
    pub verbose: bool,
    /// Further options of QEMU.
    pub extra_options: Vec<String>,
    /// Options of the kernel on its command line.
    pub kernel_options: Vec<String>,
    /// Whether the machine has a second serial port, for the guest's standard error: without it there is one stream.
    pub has_error_stream: bool,
}

/// Standard input of a guest.
#[derive(Debug, Clone)]
pub enum Input {
    /// The standard input of this process.
    Inherit,
    /// These bytes, then the end of file.
    Bytes(Vec<u8>),
}

/// How a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(u8),
    /// It reached its time limit and was killed.
    TimedOut,
    /// It was killed by a signal to this process, to which this exit code belongs: its program does not handle it, or it was the
    /// second one.
    Signal(u8),
    /// It did not end within the grace period after a signal and was killed.
    GraceExpired,
    /// QEMU exited before the guest wrote a status: the machine was reset, or QEMU rejected its options.
    NoStatus,
}

impl Guest {
    /// Returns a guest with the default machine: microvm, one CPU, TCG.
    pub fn new(kernel: PathBuf, image: Option<PathBuf>, name: OsString) -> Self {
        Self {
            kernel,
            image,
            board: Board::default(),
            accelerator: Accelerator::default(),
            memory: MemorySize::default(),
            cpus: 1,
            name,
            arguments: Vec::new(),
            environment: Vec::new(),
            timeout: None,
            grace: Duration::ZERO,
            verbose: false,
            extra_options: Vec::new(),
            kernel_options: Vec::new(),
            has_error_stream: true,
        }
    }

    /// Adds options of QEMU.
    pub fn with_options(mut self, options: &[&str]) -> Self {
        self.extra_options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Adds an option of the kernel.
    pub fn with_kernel_option(mut self, option: &str) -> Self {
        self.kernel_options.push(option.to_owned());
        self
    }

    /// Runs the guest until it exits. Its output streams are those of this process, or one stream if these are one file,
    /// such as a terminal, which keeps the order of what the guest writes to both.
    pub fn run(&self, input: Input) -> Result<End> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let guest = Self {
            has_error_stream: !is_same_file(io::stdout().as_fd(), io::stderr().as_fd()),
            ..self.clone()
        };
        // QEMU opens the file of its standard error once more, as it can a pipe, but not every file.
        let errors = if guest.has_error_stream { Stdio::piped() } else { Stdio::inherit() };
        let command = dies_with_parent(guest.command(folder.path())?);
        let mut child = guest.start(command, Stdio::inherit(), errors)?;
        feed(&mut child, input);
        let relay = child.stderr.take().map(|pipe| thread::spawn(move || relay_errors(pipe)));
        let end = guest.wait(&mut child, folder.path())?;
        if let Some(relay) = relay {
            // A reader that has stopped reading does not delay the end of a guest that was killed, nor Ctrl-C.
            let limit = if let End::Exited(_) | End::NoStatus = end { Duration::MAX } else { RELAY_TIMEOUT };
            let (start, signals) = (Instant::now(), signals::count());
            while !relay.is_finished() && start.elapsed() < limit && signals::count() == signals {
                thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(end)
    }

    /// Runs the guest until it exits, and returns its output followed by the standard error of QEMU.
    pub fn capture(&self, input: Input) -> Result<(End, Vec<u8>)> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let mut child = self.start(self.command(folder.path())?, Stdio::piped(), Stdio::piped())?;
        feed(&mut child, input);
        let output = child.stdout.take().map(|pipe| thread::spawn(move || drain(pipe)));
        let errors = child.stderr.take().map(|pipe| thread::spawn(move || drain(pipe)));
        let end = self.wait(&mut child, folder.path());
        let collect =
            |reader: Option<thread::JoinHandle<Vec<u8>>>| reader.and_then(|thread| thread.join().ok());
        let mut text = collect(output).unwrap_or_default();
        text.extend(collect(errors).unwrap_or_default());
        Ok((end?, text))
    }

    /// Runs the guest until its first byte of output and returns the time since QEMU was started. Without an image that
    /// is the loader's report of an error, at standard error.
    pub fn time_to_output(&self) -> Result<Duration> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let start = Instant::now();
        let mut child = self.start(self.command(folder.path())?, Stdio::piped(), Stdio::piped())?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let first = match (output, errors) {
            (Some(mut output), Some(_)) if self.image.is_some() => output.read_exact(&mut [0]),
            (Some(_), Some(mut errors)) => errors.read_exact(&mut [0]),
            _ => bail!("the guest has no output"),
        };
        let time = start.elapsed();
        // Killing fails if it has exited meanwhile, which is as good.
        let _: io::Result<()> = child.kill();
        child.wait().context("cannot wait for QEMU")?;
        first.context("the guest printed nothing")?;
        Ok(time)
    }

    fn start(&self, mut command: Command, output: Stdio, errors: Stdio) -> Result<Child> {
        command.stdin(Stdio::piped()).stdout(output).stderr(errors);
        if self.verbose {
            eprintln!("{}", process::display(&command));
        }
        if process::find(QEMU).is_none() {
            return Err(packages::QEMU.missing());
        }
        command.spawn().with_context(|| format!("cannot start {QEMU}"))
    }

    /// Returns QEMU's command line; QEMU keeps its files in `folder`. Through the last two devices the guest exits, see
    /// [`hermit_interface::exit`]. If the guest has an error stream, QEMU's standard error is to be a pipe or `/dev/null`.
    pub fn command(&self, folder: &Path) -> Result<Command> {
        let mut qemu = Command::new(QEMU);
        qemu.args([
            "-accel",
            self.accelerator.option(),
            "-cpu",
            self.accelerator.cpu_model(),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        qemu.args([
            "-M",
            self.board.option(),
            "-m",
            &self.memory.to_string(),
            "-smp",
            &self.cpus.to_string(),
        ]);
        qemu.arg("-kernel").arg(&self.kernel);
        if let Some(image) = &self.image {
            // In this option QEMU separates files by commas; a multiboot loader separates the path from arguments by a blank.
            let link = folder.join("image");
            let image = image.canonicalize().with_context(|| format!("cannot find {}", image.display()))?;
            std::os::unix::fs::symlink(&image, &link).context("cannot make a link in a temporary folder")?;
            qemu.arg("-initrd").arg(quote_commas(&link));
        }
        qemu.arg("-append").arg(std::ffi::OsStr::from_bytes(&self.command_line()));
        qemu.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        if self.has_error_stream {
            qemu.args(["-chardev", "file,id=stderr,path=/proc/self/fd/2,append=on"]);
            qemu.args(["-device", "isa-serial,index=1,chardev=stderr"]);
        }
        qemu.args(file_port("status", STATUS_PORT, &status_file(folder)));
        qemu.args(file_port("handled", SHUTDOWN_HANDLED_PORT, &handled_file(folder)));
        let monitor = monitor(folder);
        if monitor.as_os_str().len() <= MAX_SOCKET_PATH {
            qemu.args(["-monitor", &format!("unix:{},server=on,wait=off", quote_commas(&monitor))]);
        }
        qemu.args(["-device", &format!("isa-debug-exit,iobase={QUIT_PORT:#x},iosize=0x01")]);
        qemu.args(&self.extra_options);
        Ok(qemu)
    }

    fn command_line(&self) -> Vec<u8> {
        let mut line = Encoder::new();
        line.argv0(self.name.as_bytes());
        self.environment.iter().for_each(|variable| line.env(variable.as_bytes()));
        self.arguments.iter().for_each(|argument| line.arg(argument.as_bytes()));
        let options = self.kernel_options.iter().flat_map(|option| [option.as_bytes(), b" "].concat());
        options.chain(line.finish()).collect()
    }

    fn wait(&self, child: &mut Child, folder: &Path) -> Result<End> {
        let mut watch = Watch::new(self, folder);
        while child.try_wait().context("cannot wait for QEMU")?.is_none() {
            if let Some(end) = watch.reason_to_kill() {
                // Killing fails if it has exited meanwhile, which is as good.
                let _: io::Result<()> = child.kill();
                child.wait().context("cannot wait for QEMU")?;
                return Ok(end);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(status(folder).map_or(End::NoStatus, End::Exited))
    }
}

/// Time limit of a running guest, and signals to this process.
#[derive(Debug)]
struct Watch<'a> {
    guest: &'a Guest,
    folder: &'a Path,
    start: Instant,
    /// The connection by which the power button was pressed after the first signal, and when.
    request: Option<(UnixStream, Instant)>,
}

impl<'a> Watch<'a> {
    fn new(guest: &'a Guest, folder: &'a Path) -> Self {
        Self { guest, folder, start: Instant::now(), request: None }
    }

    /// Returns the reason to kill the guest, if there is one. After the first signal the power button is pressed instead,
    /// if the program handles it.
    fn reason_to_kill(&mut self) -> Option<End> {
        match (signals::count(), &self.request) {
            (0, _) => {}
            (1, None) => match press_power_button(self.folder) {
                Some(connection) => self.request = Some((connection, Instant::now())),
                None => return signals::exit_code().map(End::Signal),
            },
            (1, Some((_, since))) if since.elapsed() >= self.guest.grace => return Some(End::GraceExpired),
            (1, Some(_)) => {}
            _ => return signals::exit_code().map(End::Signal),
        }
        let late = self.guest.timeout.is_some_and(|timeout| self.start.elapsed() >= timeout);
        late.then_some(End::TimedOut)
    }
}

/// Presses the power button of the guest in `folder`, if its program handles that. Returns the connection to QEMU's monitor,
/// which stays open until QEMU has read the command.
fn press_power_button(folder: &Path) -> Option<UnixStream> {
    let is_handled = fs::metadata(handled_file(folder)).is_ok_and(|file| file.len() > 0);
    is_handled.then(|| send_to_monitor(folder, "system_powerdown"))?.ok()
}

/// Sends a command to the monitor of the guest whose files are in `folder`. Returns the connection, which is to stay open
/// until QEMU has read the command.
pub fn send_to_monitor(folder: &Path, command: &str) -> io::Result<UnixStream> {
    let mut connection = UnixStream::connect(monitor(folder))?;
    connection.write_all(command.as_bytes())?;
    connection.write_all(b"\n")?;
    Ok(connection)
}

/// Returns the command as one that is killed when this process ends, however it does, and that the terminal's Ctrl-C does
/// not reach: this process handles it.
fn dies_with_parent(command: Command) -> Command {
    let mut command = match process::find(SETPRIV) {
        Some(setpriv) => {
            let mut wrapped = Command::new(setpriv);
            wrapped.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
            wrapped
        }
        None => command,
    };
    command.process_group(0);
    command
}

/// Returns the exit status that a guest wrote to its file in `folder`, if it wrote one.
pub fn status(folder: &Path) -> Option<u8> {
    match fs::read(status_file(folder)).unwrap_or_default()[..] {
        [status] => Some(status),
        _ => None,
    }
}

/// Encodes all input of a guest for its console, with the end of file.
pub fn quoted(mut bytes: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::new();
    // Writing to a vector does not fail.
    relay(&mut bytes, &mut quoted).unwrap_or_default();
    quoted
}

/// Returns the options of a virtio disk of a machine with PCI.
pub fn disk_options(number: usize, disk: &DiskConfig) -> [String; 4] {
    let read_only = if disk.read_only { "on" } else { "off" };
    let file = quote_commas(&disk.file);
    [
        "-drive".to_owned(),
        format!("if=none,id=disk{number},format=raw,read-only={read_only},file={file}"),
        "-device".to_owned(),
        format!("virtio-blk-pci,disable-legacy=on,drive=disk{number}"),
    ]
}

/// Escapes commas, which separate the parts of QEMU's options.
fn quote_commas(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Options of an I/O port at which QEMU appends the bytes that the guest writes to a file.
fn file_port(id: &str, port: u16, file: &Path) -> [String; 4] {
    let file = format!("file,id={id},path={}", quote_commas(file));
    ["-chardev".to_owned(), file, "-device".to_owned(), debug_console(port, id)]
}

/// The device of an I/O port that passes written bytes to a character device. Reading the port returns its number.
pub(crate) fn debug_console(port: u16, chardev: &str) -> String {
    format!("isa-debugcon,iobase={port:#x},readback={port:#x},chardev={chardev}")
}

fn status_file(folder: &Path) -> PathBuf {
    folder.join("status")
}

/// The file to which the guest writes once its program handles requests to end.
fn handled_file(folder: &Path) -> PathBuf {
    folder.join("handled")
}

/// The socket of QEMU's monitor.
fn monitor(folder: &Path) -> PathBuf {
    folder.join("monitor")
}

/// Copies the input to the guest, in a thread that ends with the guest or with this process.
fn feed(child: &mut Child, input: Input) {
    let Some(mut pipe) = child.stdin.take() else { return };
    thread::spawn(move || {
        // Writing fails when the guest has exited; then the rest of the input is not needed.
        let _: io::Result<()> = match input {
            Input::Inherit => relay(&mut io::stdin().lock(), &mut pipe),
            Input::Bytes(bytes) => relay(&mut bytes.as_slice(), &mut pipe),
        };
        // The pipe stays open: QEMU closes the console when its standard input is closed.
        std::mem::forget(pipe);
    });
}

/// Copies standard error of QEMU and the guest to that of this process.
fn relay_errors(mut pipe: impl Read) {
    if io::copy(&mut pipe, &mut io::stderr()).is_err() {
        // Without a reader, the rest is dropped: the guest is not to wait for one.
        let _: io::Result<u64> = io::copy(&mut pipe, &mut io::sink());
    }
}

/// Whether two descriptors are those of one file, pipe, socket or terminal.
fn is_same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let identity = |descriptor: BorrowedFd<'_>| -> io::Result<(u64, u64)> {
        let metadata = File::from(descriptor.try_clone_to_owned()?).metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    };
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Copies bytes, encoded for the guest's console, and appends the end of file.
fn relay(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let quoted: Vec<u8> = buffer[..count].iter().flat_map(|&byte| quote(byte)).collect();
        to.write_all(&quoted)?;
        to.flush()?;
    }
    to.write_all(&[END_OF_FILE])?;
    to.flush()
}

fn quote(byte: u8) -> impl Iterator<Item = u8> {
    needs_quoting(byte).then_some(LITERAL_NEXT).into_iter().chain([byte])
}

fn drain(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The bytes that were read before an error are returned.
    let _: io::Result<usize> = pipe.read_to_end(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{disk_options, is_same_file, quoted};
    use std::io;
    use std::os::fd::AsFd;

    #[test]
    fn disk_options_escape_commas() {
        let options = |number, disk: &str| disk_options(number, &disk.parse().unwrap())[1].clone();
        assert_eq!(options(1, "a,b:ro"), "if=none,id=disk1,format=raw,read-only=on,file=a,,b");
        assert_eq!(options(0, "ro"), "if=none,id=disk0,format=raw,read-only=off,file=ro");
    }

    #[test]
    fn descriptors_of_one_pipe_are_the_same_file() {
        let ((_reader, writer), (_other_reader, other)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let duplicate = writer.try_clone().unwrap();
        assert!(is_same_file(writer.as_fd(), duplicate.as_fd()));
        assert!(!is_same_file(writer.as_fd(), other.as_fd()));
    }

    #[test]
    fn input_is_quoted_and_ends_with_end_of_file() {
        assert_eq!(quoted(b"a\x04\x16\r\n"), b"a\x16\x04\x16\x16\x16\r\n\x04");
    }
}
