//! Runs guests under uhyve, and looks at uhyve from outside.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hermit_interface::exit::NOT_STARTED;
use tempfile::TempDir;

/// Exit code of a guest that ran for too long.
pub(crate) const TIMED_OUT: i32 = 124;
/// Exit code of a guest that ended without a status.
pub(crate) const NO_STATUS: i32 = NOT_STARTED as i32;

/// The guest's memory in MiB.
const MEMORY: u64 = 32;
/// What uhyve may take besides, in KiB.
const OVERHEAD: u64 = 16 * 1024;
/// How long a guest has, in seconds, unless a test says otherwise.
const TIMEOUT: u32 = 120;
/// How long uhyve has to end after that.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with an image, and how it is run.
pub(crate) struct Host {
    folder: TempDir,
    options: Vec<String>,
    timeout: u32,
}

impl Host {
    /// Nothing, with the reason on standard output, if there is no KVM.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
            println!("skipped: /dev/kvm cannot be opened: {error}");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        Some(Self { folder, options: Vec::new(), timeout: TIMEOUT })
    }

    /// Adds an option of uhyve's.
    pub(crate) fn option(&mut self, option: &str) {
        self.options.push(option.to_owned());
    }

    /// Gives guests a network, if this host can make taps.
    pub(crate) fn network(&mut self) {
        static TAPS: AtomicU32 = AtomicU32::new(0);
        let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        if device.is_ok() && rustix::process::geteuid().is_root() {
            let number = TAPS.fetch_add(1, Ordering::Relaxed);
            self.option(&format!("--net=tap=uhk{}-{number}", std::process::id()));
        }
    }

    /// Ends guests after so many seconds.
    pub(crate) fn timeout(&mut self, seconds: u32) {
        self.timeout = seconds;
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A disk with bytes that tell its sectors apart, and a way to see that they are still the same.
    pub(crate) fn disk(&self, name: &str, sectors: u8) -> Watched {
        let content: Vec<u8> = (0..sectors).flat_map(|sector| [sector ^ 0xa5; 512]).collect();
        fs::write(self.file(name), &content).expect("room for a small file");
        Watched { file: self.file(name), content }
    }

    /// Runs a guest and returns uhyve's exit code.
    ///
    /// # Panics
    ///
    /// uhyve does not end, is ended by a signal, panics, or takes too much memory.
    pub(crate) fn run(&self, image: &[u8]) -> i32 {
        let (file, said) = (self.file("guest"), self.file("stderr"));
        fs::write(&file, image).expect("room for an image");
        let mut uhyve = Command::new(env!("CARGO_BIN_EXE_uhyve"));
        uhyve.args(["--engine", "kvm", "--stats", "--memory", &format!("{MEMORY}M")]);
        uhyve.args(["--timeout", &self.timeout.to_string()]).args(&self.options).arg(&file);
        uhyve.stdin(Stdio::null()).stdout(File::create(self.file("stdout")).expect("a file"));
        let code = self.wait(uhyve.stderr(File::create(&said).expect("a file")));
        let text = String::from_utf8_lossy(&fs::read(&said).expect("what uhyve said")).into_owned();
        println!("exit code {code:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
        let peak = peak(&text).unwrap_or_else(|| panic!("no statistics, so the guest never ran: {text}"));
        assert!(peak <= MEMORY * 1024 + OVERHEAD, "{peak} KiB");
        code.expect("an end without a signal")
    }

    fn wait(&self, uhyve: &mut Command) -> Option<i32> {
        let mut child = uhyve.spawn().expect("uhyve");
        let limit = Instant::now() + Duration::from_secs(self.timeout.into()) + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return status.code();
            }
            if Instant::now() > limit {
                child.kill().expect("a child that still runs");
                child.wait().expect("a child");
                panic!("uhyve did not end by itself");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The most memory that uhyve had at any time, in KiB.
fn peak(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("at most ")?;
    rest.split_once(" kB")?.0.trim().parse().ok()
}

/// A file that must not change.
pub(crate) struct Watched {
    file: PathBuf,
    content: Vec<u8>,
}

impl Watched {
    /// Its name, for the command line.
    pub(crate) fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// Whether it is as it was.
    pub(crate) fn is_untouched(&self) -> bool {
        self.now() == self.content
    }

    /// Its bytes as they were.
    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Its bytes now.
    pub(crate) fn now(&self) -> Vec<u8> {
        fs::read(&self.file).expect("the file is still there")
    }
}
