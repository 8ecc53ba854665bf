//! Runs clients, the programs that measure, with a time limit.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hermit_toolchain::process;

/// Interval at which a running program is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Output and success of a program.
#[derive(Debug)]
pub(super) struct RunResult {
    /// Its standard output.
    pub(super) text: String,
    /// Success, or the reason for the failure.
    pub(super) result: Result<()>,
}

/// Runs a program and kills it after `limit`. The program must not print more than the buffer of a pipe
/// holds.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<RunResult> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", process::display(command)))?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait().context("cannot wait for a program")? {
            Some(status) => break Some(status),
            None if start.elapsed() > limit => break None,
            None => thread::sleep(POLL_INTERVAL),
        }
    };
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let mut text = String::new();
    child.stdout.take().context("a program has no output")?.read_to_string(&mut text)?;
    let result = match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(anyhow!("`{}` failed ({status})", process::display(command))),
        None => Err(anyhow!("`{}` took longer than {} s", process::display(command), limit.as_secs())),
    };
    Ok(RunResult { text, result })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::run;

    #[test]
    fn run_returns_output_of_failed_and_killed_programs() {
        let sh = |script: &str, seconds| {
            run(Command::new("sh").args(["-c", script]), Duration::from_secs(seconds)).unwrap()
        };
        assert!(sh("echo hi", 30).result.is_ok());
        let outcome = sh("echo hi; exit 3", 30);
        assert_eq!((outcome.text.as_str(), outcome.result.is_err()), ("hi\n", true));
        let outcome = sh("echo hi; exec sleep 60", 3);
        assert_eq!(outcome.text, "hi\n");
        assert!(outcome.result.unwrap_err().to_string().contains("longer"));
    }
}
