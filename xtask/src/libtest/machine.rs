//! Boots a machine for each test.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};
use hermit_interface::exit::{ABORTED, NOT_STARTED};

use super::TEST_LIST;
use super::{FAILED, Test, Verdict};
use crate::run::TIMED_OUT;

/// Environment variable with the options of the virtual machine, as for `run`. A variable is necessary
/// because cargo passes no options to the runner.
pub(crate) const RUN_ARGS: &str = "HERMIT_RUN_ARGS";

/// libtest's environment variable with the name of the test that a process runs. If the name is empty, the
/// patched libtest lists the tests.
const INVOKE: &str = "__RUST_TEST_INVOKE";

/// libtest's exit code of a process whose test has passed.
const PASSED: i32 = 50;

/// First exit code that means that a signal ended the program, as in a shell. The program's message names the
/// signal.
const SIGNALS: i32 = 128;

/// Resources of a machine that limit the number of machines at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmNeeds {
    /// CPUs of a machine.
    pub(crate) cpus: usize,
    /// True if the machines use a resource of the host that only one machine can use at a time.
    pub(crate) is_exclusive: bool,
}

/// Boots an image for each test. For each machine, this program starts itself as the runner of a single
/// machine.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    runner: PathBuf,
    image: &'a Path,
    /// uhyve's executable, found once for all machines. `None` if each machine finds its VMM itself.
    uhyve: Option<PathBuf>,
    /// [`RUN_ARGS`] of this process.
    run_args: OsString,
    captures: bool,
}

impl<'a> Machine<'a> {
    /// Prepares to boot machines for the tests of `image`. With `captures`, [`Self::run`] returns the output
    /// of a test; otherwise the output goes to the streams of this process.
    pub(super) fn new(image: &'a Path, captures: bool, uhyve: Option<PathBuf>) -> Result<Self> {
        let runner = env::current_exe().context("cannot find this executable")?;
        let run_args = env::var_os(RUN_ARGS).unwrap_or_default();
        Ok(Self { runner, image, uhyve, run_args, captures })
    }

    /// Returns the tests of the image. Returns `None` if the image prints no list: then it is another
    /// program, which happens to contain [`TEST_LIST`].
    pub(super) fn list(&self) -> Result<Option<Vec<Test>>> {
        let mut command = self.command("")?;
        let output = command.stderr(Stdio::inherit()).output().context("cannot list the tests")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines().skip_while(|line| *line != TEST_LIST);
        if lines.next().is_none() {
            ensure!(
                output.status.success(),
                "cannot list the tests: the machine ended with {}",
                output.status
            );
            return Ok(None);
        }
        Ok(Some(lines.filter_map(Test::parse).collect()))
    }

    /// Runs a test in a machine, and returns its verdict and its captured output.
    pub(super) fn run(&self, test: &Test) -> Result<(Verdict, Vec<u8>)> {
        if test.ignored.is_some() {
            return Ok((Verdict::Ignored, Vec::new()));
        }
        let mut command = self.command(&test.name)?;
        let context = || format!("cannot run the test {}", test.name);
        if !self.captures {
            let status = command.status().with_context(context)?;
            let (verdict, note) = verdict(status);
            // An error is ignored: standard error may be closed.
            let _: io::Result<()> = io::stderr().write_all(note.as_bytes());
            return Ok((verdict, Vec::new()));
        }
        let (status, mut output) = capture(command).with_context(context)?;
        let (verdict, note) = verdict(status);
        output.extend(note.bytes());
        Ok((verdict, output))
    }

    /// Returns the command of a machine that runs the test `name`, or lists the tests if `name` is empty.
    fn command(&self, name: &str) -> Result<Command> {
        let variable = format!("{INVOKE}={name}");
        let variable = shlex::try_quote(&variable).context("the name of a test contains a zero byte")?;
        let mut run_args = self.run_args.clone();
        run_args.push(format!(" --env {variable}"));
        let mut command = Command::new(&self.runner);
        command.args(["runner", "--single"]);
        if let Some(uhyve) = &self.uhyve {
            command.arg("--uhyve").arg(uhyve);
        }
        command.arg(self.image).env(RUN_ARGS, run_args).stdin(Stdio::null());
        Ok(command)
    }
}

/// Runs a command, and returns its exit status and its output. Standard output and standard error are one
/// pipe, so the output is in the order of the writes.
fn capture(mut command: Command) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (mut reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The read below ends when all writers of the pipe are closed. The command holds two of them.
    drop(command);
    let mut output = Vec::new();
    reader.read_to_end(&mut output)?;
    Ok((child.wait()?, output))
}

/// Returns the verdict of a test whose machine ended with this status, and a message. The message is empty if
/// the output of the machine explains the status.
fn verdict(status: ExitStatus) -> (Verdict, String) {
    let code = status.code();
    let explained = [FAILED, ABORTED, TIMED_OUT, NOT_STARTED].map(i32::from);
    match code {
        Some(PASSED) => (Verdict::Passed, String::new()),
        Some(code) if code >= SIGNALS || explained.contains(&code) => (Verdict::Failed, String::new()),
        Some(code) => (Verdict::Failed, format!("the test ended the machine with exit code {code}\n")),
        None => (Verdict::Failed, format!("the machine was killed: {status}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Verdict, capture, verdict};
    use std::ffi::OsStr;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    #[test]
    fn command_of_a_machine_passes_uhyve_on() {
        let arguments = |uhyve: Option<&str>| {
            let machine = Machine::new("image".as_ref(), true, uhyve.map(Into::into)).unwrap();
            let command = machine.command("a test").unwrap();
            command.get_args().map(OsStr::to_os_string).collect::<Vec<_>>()
        };
        assert_eq!(arguments(None), ["runner", "--single", "image"]);
        assert_eq!(arguments(Some("/u")), ["runner", "--single", "--uhyve", "/u", "image"]);
    }

    #[test]
    fn only_the_exit_code_of_success_is_a_pass() {
        let of = |code: i32| verdict(ExitStatus::from_raw(code << 8));
        assert_eq!(of(50), (Verdict::Passed, String::new()));
        for code in [101, 124, 125, 134, 139] {
            assert_eq!(of(code), (Verdict::Failed, String::new()), "{code}");
        }
        assert_eq!(of(0), (Verdict::Failed, "the test ended the machine with exit code 0\n".to_owned()));
        assert!(verdict(ExitStatus::from_raw(9)).1.contains("killed"));
    }

    #[test]
    fn capture_keeps_the_order_of_both_streams() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo one; echo two >&2; echo three; exit 50"]);
        let (status, output) = capture(shell).unwrap();
        assert_eq!((status.code(), output.as_slice()), (Some(50), &b"one\ntwo\nthree\n"[..]));
    }
}
