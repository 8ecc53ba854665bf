//! Runs guests under uhyve and observes uhyve from outside.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hermit_interface::exit::NOT_STARTED;
use tempfile::TempDir;

use crate::program;

/// uhyve's exit code after `--timeout`.
pub(crate) const TIMED_OUT: i32 = 124;
/// uhyve's exit code for a guest that ends without a status.
pub(crate) const NO_STATUS: i32 = NOT_STARTED as i32;

/// Size of guest memory in MiB.
pub(crate) const MEMORY: u64 = 32;
/// Limit of uhyve's own memory in KiB.
const MAX_OVERHEAD: u64 = 16 * 1024;
/// Default of `--timeout` in seconds.
const GUEST_TIMEOUT: u32 = 120;
/// Time limit for uhyve's exit after the guest's timeout.
const EXIT_TIMEOUT: Duration = Duration::from_secs(150);

/// A temporary folder with an image, and the options of uhyve.
pub(crate) struct Host {
    folder: TempDir,
    options: Vec<String>,
    timeout: u32,
}

impl Host {
    /// Creates a host without options. If there is no KVM, prints the reason and returns `None`.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
            println!("skipped: /dev/kvm cannot be opened: {error}");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        Some(Self { folder, options: Vec::new(), timeout: GUEST_TIMEOUT })
    }

    /// Adds a command line option of uhyve.
    pub(crate) fn option(&mut self, option: &str) {
        self.options.push(option.to_owned());
    }

    /// Adds a network device, if this host can create TAP interfaces.
    pub(crate) fn network(&mut self) {
        static TAPS: AtomicU32 = AtomicU32::new(0);
        let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        if device.is_ok() && rustix::process::geteuid().is_root() {
            let number = TAPS.fetch_add(1, Ordering::Relaxed);
            self.option(&format!("--net=tap=uhk{}-{number}", std::process::id()));
        }
    }

    /// Sets `--timeout` in seconds.
    pub(crate) fn timeout(&mut self, seconds: u32) {
        self.timeout = seconds;
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a disk image in which each byte depends on its sector.
    pub(crate) fn disk(&self, name: &str, sectors: u8) -> DiskImage {
        let original: Vec<u8> = (0..sectors).flat_map(|sector| [sector ^ 0xa5; 512]).collect();
        fs::write(self.file(name), &original).expect("space for a small file");
        DiskImage { file: self.file(name), original }
    }

    /// Returns the command of uhyve with a guest.
    pub(crate) fn command(&self, image: &[u8]) -> Command {
        let file = self.file("guest");
        fs::write(&file, image).expect("space for an image");
        let mut uhyve = Command::new(program::uhyve());
        uhyve.args(["--engine", "kvm", "--memory", &format!("{MEMORY}M")]);
        uhyve.args(["--timeout", &self.timeout.to_string()]).args(&self.options).arg(&file);
        uhyve.stdin(Stdio::null());
        uhyve
    }

    /// Runs a guest and returns uhyve's exit code.
    ///
    /// # Panics
    ///
    /// uhyve does not exit in time, is killed by a signal, panics, or exceeds its memory limit.
    pub(crate) fn run(&self, image: &[u8]) -> i32 {
        let stderr = self.file("stderr");
        let mut uhyve = self.command(image);
        uhyve.arg("--stats").stdout(File::create(self.file("stdout")).expect("a file"));
        let code = self.wait(uhyve.stderr(File::create(&stderr).expect("a file")));
        let text = String::from_utf8_lossy(&fs::read(&stderr).expect("uhyve's messages")).into_owned();
        println!("exit code {code:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
        let peak =
            peak_memory(&text).unwrap_or_else(|| panic!("no statistics: the guest did not run: {text}"));
        assert!(peak <= MEMORY * 1024 + MAX_OVERHEAD, "{peak} KiB");
        code.expect("an exit without a signal")
    }

    fn wait(&self, uhyve: &mut Command) -> Option<i32> {
        let mut child = uhyve.spawn().expect("uhyve");
        let limit = Instant::now() + Duration::from_secs(self.timeout.into()) + EXIT_TIMEOUT;
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return status.code();
            }
            if Instant::now() > limit {
                child.kill().expect("a child that still runs");
                child.wait().expect("a child");
                panic!("uhyve did not exit by itself");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the peak resident memory of uhyve in KiB, from its statistics.
fn peak_memory(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("at most ")?;
    rest.split_once(" kB")?.0.trim().parse().ok()
}

/// A disk image and its original contents.
pub(crate) struct DiskImage {
    file: PathBuf,
    original: Vec<u8>,
}

impl DiskImage {
    /// Path of the file, for the command line.
    pub(crate) fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// Returns true if the contents are the original ones.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.current() == self.original
    }

    /// Original contents.
    pub(crate) fn original(&self) -> &[u8] {
        &self.original
    }

    /// Current contents.
    pub(crate) fn current(&self) -> Vec<u8> {
        fs::read(&self.file).expect("the file is still there")
    }
}
