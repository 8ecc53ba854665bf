//! Runs guests with uhyve.

use std::fs::{self, OpenOptions};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::{debugger, program};

/// Image of a guest in a temporary folder, and options of uhyve.
pub(crate) struct Host {
    folder: TempDir,
    options: Vec<&'static str>,
}

/// Exit code and output of uhyve.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    pub(crate) errors: String,
}

impl Outcome {
    /// Returns the part that is equal in each run. The rest may differ, because arguments of system calls may
    /// be addresses.
    fn summary(&self) -> (Option<i32>, &str, &str) {
        let errors = self.errors.split_once("arguments").map_or(&*self.errors, |(before, _)| before);
        (self.code, &self.text, errors)
    }
}

impl Host {
    pub(crate) fn new(image: &[u8], options: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        fs::write(folder.path().join("guest"), image).expect("room for an image");
        Self { folder, options: options.to_vec() }
    }

    /// Returns the command of uhyve with the guest.
    pub(crate) fn command(&self) -> Command {
        let mut uhyve = Command::new(program::uhyve());
        uhyve.args(["--engine", "process", "--memory", "16M"]).args(&self.options);
        if !self.options.contains(&"--timeout") {
            uhyve.args(["--timeout", "60"]);
        }
        uhyve.arg(self.folder.path().join("guest"));
        uhyve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        uhyve
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), text: text(&output.stdout), errors: text(&output.stderr) }
    }
}

/// Returns the option for a network with a new TAP interface, which uhyve creates and removes. If this host
/// cannot create a TAP interface, prints the reason and returns `None`.
pub(crate) fn new_tap() -> Option<String> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let is_possible = device.is_ok() && rustix::process::geteuid().is_root();
    if !is_possible {
        println!("skipped: only root creates TAP interfaces, where there is /dev/net/tun");
    }
    is_possible.then(|| format!("--net=tap=uhf{}", std::process::id()))
}

/// Runs a guest to its end, then runs it again with a debugger, and asserts that the outcomes are equal.
pub(crate) fn run(image: &[u8], options: &[&'static str]) -> Outcome {
    let host = Host::new(image, options);
    let outcome = Outcome::from(host.command().output().unwrap());
    assert!(!outcome.errors.contains("panicked"), "{outcome:?}");
    let debugged = Outcome::from(debugger::output(&mut host.command()));
    assert_eq!(debugged.summary(), outcome.summary());
    outcome
}
