//! Runs this test program again, to do in a confined process what would end this one.

use std::env;
use std::ffi::OsString;
use std::process::{Command, Output, exit};

use crate::{calls, roles};

/// What the other process is to do, in words.
const VARIABLE: &str = "UHYVE_TEST_PROBE";

/// Its exit code when everything that it tried has worked.
const DONE: i32 = 77;

/// What another process has said, and how it has ended.
pub(crate) struct Outcome {
    pub(crate) errors: String,
    pub(crate) output: Output,
}

impl Outcome {
    /// Checks that everything has worked.
    #[track_caller]
    pub(crate) fn expect_done(&self) {
        assert_eq!(self.output.status.code(), Some(DONE), "{}", self.errors);
    }
}

/// Has another process do this.
pub(crate) fn run(deed: &str) -> Outcome {
    let mut command = Command::new(env::current_exe().unwrap());
    finish(command.args(arguments()), deed)
}

/// The same with a descriptor that the process did not ask for.
pub(crate) fn run_with_descriptor(number: u32, deed: &str) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {number}</dev/null")]);
    finish(command.arg(env::current_exe().unwrap()).args(arguments()), deed)
}

fn arguments() -> [OsString; 4] {
    ["--ignored", "--exact", "--nocapture", "probe::the_other_process"].map(OsString::from)
}

fn finish(command: &mut Command, deed: &str) -> Outcome {
    // A confined process cannot remove its own temporary files.
    let folder = tempfile::tempdir().unwrap();
    command.env(VARIABLE, deed).env("TMPDIR", folder.path()).env("RUST_BACKTRACE", "1");
    let output = command.output().unwrap();
    Outcome { errors: String::from_utf8_lossy(&output.stderr).into_owned(), output }
}

#[test]
#[ignore = "the other tests run it, in a process of its own"]
fn the_other_process() {
    let deed = env::var(VARIABLE).expect("the other tests run this one");
    match deed.split_once(": ").expect("GROUP: DEED") {
        ("call", deed) => calls::act(deed),
        ("role", deed) => roles::act(deed),
        (group, _) => panic!("there is no group `{group}`"),
    }
    exit(DONE);
}
