//! The measurements of one system in one run.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::figures::Figures;
use super::plan::NetBenchPlan;
use super::server::{RunningServer, ServerProgram};
use super::system::System;
use super::topic::Topic;
use super::{http, net_bench, start};
use xtask::process;

/// Interval at which a running program is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Measures all selected topics once. A failure is recorded, and the other measurements continue.
pub(super) fn all(plan: &NetBenchPlan, system: System, figures: &mut Figures) {
    let topics = net_bench::TOPICS.into_iter().filter(|(topic, _)| plan.selection.includes(*topic));
    let words: Vec<&str> = topics.map(|(_, word)| word).collect();
    if !words.is_empty()
        && let Err(error) = with_net_bench(plan, system, &words, figures)
    {
        figures.fail(format!("{system}: {error:#}"));
    }
    if (plan.selection.includes(Topic::Http) || plan.selection.includes(Topic::Start))
        && let Err(error) = with_httpd(plan, system, figures)
    {
        figures.fail(format!("{system}, HTTP: {error:#}"));
    }
}

fn with_net_bench(plan: &NetBenchPlan, system: System, words: &[&str], figures: &mut Figures) -> Result<()> {
    let client = plan.programs.first().context("there is no client")?;
    let server = RunningServer::ready(plan, system, ServerProgram::NetBench)?;
    for word in words {
        if let Err(error) = net_bench::measure(client, &server, word, system, figures) {
            figures.fail(format!("{system}, {word}: {error:#}; the server printed:\n{}", server.printed()));
        }
    }
    Ok(())
}

fn with_httpd(plan: &NetBenchPlan, system: System, figures: &mut Figures) -> Result<()> {
    let mut server = RunningServer::start(plan, system, ServerProgram::Httpd)?;
    start::measure(&mut server, system, plan.selection.includes(Topic::Start), figures)?;
    if plan.selection.includes(Topic::Http) {
        http::measure(&server, system, figures)?;
    }
    Ok(())
}

/// Output and success of a program.
#[derive(Debug)]
pub(super) struct RunResult {
    /// Its standard output.
    pub(super) text: String,
    /// Success, or the reason of its failure.
    pub(super) result: Result<()>,
}

/// Runs a program and kills it after `limit`. It must not print more than a pipe buffers.
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
