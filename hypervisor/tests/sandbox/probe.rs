//! Runs this test program as a child process, for actions that end or confine the process.

use std::env;
use std::ffi::OsString;
use std::process::{Command, Output, exit};

use crate::{calls, roles};

/// Environment variable with the action of the child process.
const ACTION_VARIABLE: &str = "UHYVE_TEST_PROBE";

/// Exit code of a child process whose action has succeeded.
const SUCCESS: i32 = 77;

/// Messages and exit status of the child process.
pub(crate) struct Outcome {
    pub(crate) errors: String,
    pub(crate) output: Output,
}

impl Outcome {
    /// Asserts that the action has succeeded.
    #[track_caller]
    pub(crate) fn expect_success(&self) {
        assert_eq!(self.output.status.code(), Some(SUCCESS), "{}", self.errors);
    }
}

/// Performs an action in a child process.
pub(crate) fn run(action: &str) -> Outcome {
    let mut command = Command::new(env::current_exe().unwrap());
    finish(command.args(arguments()), action)
}

/// Performs an action in a child process that inherits /dev/null as file descriptor `number`.
pub(crate) fn run_with_descriptor(number: u32, action: &str) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {number}</dev/null")]);
    finish(command.arg(env::current_exe().unwrap()).args(arguments()), action)
}

fn arguments() -> [OsString; 4] {
    ["--ignored", "--exact", "--nocapture", "probe::child_process"].map(OsString::from)
}

fn finish(command: &mut Command, action: &str) -> Outcome {
    // A confined process cannot remove its own temporary files: the folder is removed here.
    let folder = tempfile::tempdir().unwrap();
    command.env(ACTION_VARIABLE, action).env("TMPDIR", folder.path()).env("RUST_BACKTRACE", "1");
    let output = command.output().unwrap();
    Outcome { errors: String::from_utf8_lossy(&output.stderr).into_owned(), output }
}

#[test]
#[ignore = "the other tests run it in a child process"]
fn child_process() {
    let action = env::var(ACTION_VARIABLE).expect("the other tests set the variable");
    match action.split_once(": ").expect("GROUP: ACTION") {
        ("call", action) => calls::act(action),
        ("role", action) => roles::act(action),
        (group, _) => panic!("there is no group `{group}`"),
    }
    exit(SUCCESS);
}
