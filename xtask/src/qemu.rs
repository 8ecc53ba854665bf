//! A guest under QEMU.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hermit_interface::command_line::Encoder;
use hermit_interface::console::{END_OF_FILE, LITERAL_NEXT, needs_quoting};
use hermit_interface::exit::{QUIT_PORT, STATUS_PORT};
use tempfile::TempDir;

use crate::process;
use crate::setup::packages;
use hermit_interface::memory_size::MemorySize;

/// QEMU's program.
pub const QEMU: &str = packages::QEMU.program;

/// How often a running guest is looked at.
const POLL: Duration = Duration::from_millis(2);

/// Somebody pressed Ctrl-C.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Which of QEMU's machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Board {
    /// The smallest one, which starts fastest
    #[default]
    Microvm,
    /// The classic PC, with PCI
    Pc,
}

impl Board {
    /// The value of QEMU's option `-M`. What a PC has anyway and our kernel uses, `microvm` must be told to have.
    fn option(self) -> &'static str {
        match self {
            Self::Microvm => "microvm,pit=on,pic=on,rtc=on,isa-serial=on",
            Self::Pc => "pc",
        }
    }
}

/// What runs the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU translates the guest's code.
    #[default]
    Tcg,
    /// The host's kernel, which may need hardware for it.
    Kvm,
}

impl Accelerator {
    /// The value of QEMU's option `-accel`.
    fn option(self) -> &'static str {
        match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        }
    }
}

/// What runs, on which machine.
#[derive(Debug, Clone)]
pub struct Guest {
    /// What QEMU boots: the loader, or a loader fused with its image.
    pub kernel: PathBuf,
    /// The image for the loader.
    pub image: Option<PathBuf>,
    /// The kind of machine.
    pub board: Board,
    /// What runs its processors.
    pub accelerator: Accelerator,
    /// The machine's memory.
    pub memory: MemorySize,
    /// The machine's CPUs.
    pub cpus: u32,
    /// The name by which the program is called.
    pub name: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// The program's environment, each `KEY=VALUE`.
    pub environment: Vec<OsString>,
    /// Kill the guest after so long.
    pub timeout: Option<Duration>,
    /// Print QEMU's command line.
    pub verbose: bool,
    /// More options of QEMU.
    pub more: Vec<String>,
    /// Words for the kernel, in front of what is for the program.
    pub words: Vec<String>,
}

/// What the guest reads.
#[derive(Debug, Clone)]
pub enum Input {
    /// What we read.
    Ours,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// How a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exited(u8),
    /// It ran for too long and was killed.
    TimedOut,
    /// Ctrl-C was pressed and it was killed.
    Interrupted,
    /// QEMU ended without the guest having given a status: it was reset, or QEMU did not like its options.
    NoStatus,
}

impl Guest {
    /// A guest with the usual machine.
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
            verbose: false,
            more: Vec::new(),
            words: Vec::new(),
        }
    }

    /// With more options of QEMU.
    pub fn with_options(mut self, options: &[&str]) -> Self {
        self.more.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// With a word for the kernel.
    pub fn with_word(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    /// Runs the guest to its end; what it prints goes to our standard output.
    pub fn run(&self, input: Input) -> Result<End> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let mut child = self.start(folder.path(), Stdio::inherit(), Stdio::inherit())?;
        feed(&mut child, input);
        self.wait(&mut child, folder.path())
    }

    /// Runs the guest to its end and returns what it printed, and what QEMU had to say.
    pub fn capture(&self, input: Input) -> Result<(End, Vec<u8>)> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let mut child = self.start(folder.path(), Stdio::piped(), Stdio::piped())?;
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

    /// Runs the guest until it prints something and returns how long that took.
    pub fn time_to_output(&self) -> Result<Duration> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let start = Instant::now();
        let mut child = self.start(folder.path(), Stdio::piped(), Stdio::null())?;
        let mut output = child.stdout.take().context("the guest has no output")?;
        let first = output.read_exact(&mut [0]);
        let time = start.elapsed();
        // It may have ended in this moment; then there is nothing to kill.
        let _: io::Result<()> = child.kill();
        child.wait().context("cannot wait for QEMU")?;
        first.context("the guest printed nothing")?;
        Ok(time)
    }

    fn start(&self, folder: &Path, output: Stdio, errors: Stdio) -> Result<Child> {
        let mut command = self.command(folder)?;
        command.stdin(Stdio::piped()).stdout(output).stderr(errors);
        if self.verbose {
            eprintln!("{}", process::display(&command));
        }
        command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => packages::QEMU.missing(),
            _ => anyhow::Error::new(error).context(format!("cannot start {QEMU}")),
        })
    }

    /// The way QEMU is called, with its files in `folder`. The last two devices are how the guest ends, see `hermit_interface::exit`.
    pub fn command(&self, folder: &Path) -> Result<Command> {
        let mut qemu = Command::new(QEMU);
        qemu.args([
            "-accel",
            self.accelerator.option(),
            "-cpu",
            "max",
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
            // QEMU takes commas in this name for separators, and multiboot loaders see blanks as such.
            let link = folder.join("image");
            let image = image.canonicalize().with_context(|| format!("cannot find {}", image.display()))?;
            std::os::unix::fs::symlink(&image, &link).context("cannot make a link in a temporary folder")?;
            qemu.arg("-initrd").arg(quote_commas(&link));
        }
        qemu.arg("-append").arg(std::ffi::OsStr::from_bytes(&self.command_line()));
        qemu.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        qemu.args(["-chardev", &format!("file,id=status,path={}", quote_commas(&status_file(folder)))]);
        let status = format!("isa-debugcon,iobase={STATUS_PORT:#x},readback={STATUS_PORT:#x},chardev=status");
        qemu.args([
            "-device",
            &status,
            "-device",
            &format!("isa-debug-exit,iobase={QUIT_PORT:#x},iosize=0x01"),
        ]);
        qemu.args(&self.more);
        Ok(qemu)
    }

    fn command_line(&self) -> Vec<u8> {
        let mut line = Encoder::new();
        line.argv0(self.name.as_bytes());
        self.environment.iter().for_each(|variable| line.env(variable.as_bytes()));
        self.arguments.iter().for_each(|argument| line.arg(argument.as_bytes()));
        let words = self.words.iter().flat_map(|word| [word.as_bytes(), b" "].concat());
        words.chain(line.finish()).collect()
    }

    /// Why a guest that runs since `start` must be killed, if it must.
    fn must_end(&self, start: Instant) -> Option<End> {
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Some(End::Interrupted);
        }
        let late = self.timeout.is_some_and(|timeout| start.elapsed() >= timeout);
        late.then_some(End::TimedOut)
    }

    fn wait(&self, child: &mut Child, folder: &Path) -> Result<End> {
        let start = Instant::now();
        while child.try_wait().context("cannot wait for QEMU")?.is_none() {
            if let Some(end) = self.must_end(start) {
                // It may have ended in this moment; then there is nothing to kill.
                let _: io::Result<()> = child.kill();
                child.wait().context("cannot wait for QEMU")?;
                return Ok(end);
            }
            thread::sleep(POLL);
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Ok(End::Interrupted);
        }
        Ok(status(folder).map_or(End::NoStatus, End::Exited))
    }
}

/// The status that a guest with files in `folder` gave before it ended, if it gave one.
pub fn status(folder: &Path) -> Option<u8> {
    match fs::read(status_file(folder)).unwrap_or_default()[..] {
        [status] => Some(status),
        _ => None,
    }
}

/// All of a guest's input as its console expects it, with the mark of the end.
pub fn quoted(mut bytes: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::new();
    // Memory takes all bytes.
    relay(&mut bytes, &mut quoted).unwrap_or_default();
    quoted
}

/// The options that give a machine with PCI one more disk, written `FILE` or `FILE:ro`.
pub fn disk(number: usize, disk: &str) -> [String; 4] {
    let (file, read_only) = disk.strip_suffix(":ro").map_or((disk, "off"), |file| (file, "on"));
    let file = quote_commas(Path::new(file));
    [
        "-drive".to_owned(),
        format!("if=none,id=disk{number},format=raw,read-only={read_only},file={file}"),
        "-device".to_owned(),
        format!("virtio-blk-pci,disable-legacy=on,drive=disk{number}"),
    ]
}

/// A path as a value among others that commas separate.
fn quote_commas(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn status_file(folder: &Path) -> PathBuf {
    folder.join("status")
}

/// Hands the input on, in a thread that ends when the guest does or when this program does.
fn feed(child: &mut Child, input: Input) {
    let Some(mut pipe) = child.stdin.take() else { return };
    thread::spawn(move || {
        // A guest that has ended reads no more: nothing is left to be done about an error.
        let _: io::Result<()> = match input {
            Input::Ours => relay(&mut io::stdin().lock(), &mut pipe),
            Input::Bytes(bytes) => relay(&mut bytes.as_slice(), &mut pipe),
        };
        // The pipe stays open: QEMU would take its end for the end of the console.
        std::mem::forget(pipe);
    });
}

/// Copies bytes, quoted as the guest's console expects them, and says where they end.
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
    // What was read before an error counts.
    let _: io::Result<usize> = pipe.read_to_end(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{disk, quoted};

    #[test]
    fn a_disk_may_have_any_name() {
        assert_eq!(disk(1, "a,b:ro")[1], "if=none,id=disk1,format=raw,read-only=on,file=a,,b");
        assert_eq!(disk(0, "ro")[1], "if=none,id=disk0,format=raw,read-only=off,file=ro");
    }

    #[test]
    fn input_is_quoted_and_ended() {
        assert_eq!(quoted(b"a\x04\x16\r\n"), b"a\x16\x04\x16\x16\x16\r\n\x04");
    }
}
