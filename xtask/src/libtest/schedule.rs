//! Runs the tests, several at a time.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::machine::Machine;
use super::report::{Report, WARNING_SECONDS};
use super::{Test, Verdict};

/// Start or end of a test. The channel sends it with the index of the test.
#[derive(Debug)]
enum Event {
    Starts,
    Ends(Result<(Verdict, Vec<u8>)>),
}

/// Runs the tests, `jobs` at a time, and reports them as they end.
pub(super) fn run<W: Write>(
    tests: &[Test],
    jobs: usize,
    machine: &Machine<'_>,
    report: &mut Report<W>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, events) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.min(tests.len()) {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || work(tests, next, machine, &sender));
        }
        drop(sender);
        let result = follow(tests, &events, report);
        // After an error no further tests start.
        next.store(tests.len(), Ordering::Relaxed);
        result
    })
}

/// Runs one test after the other, until no test is left or the receiver of the events is dropped.
fn work(tests: &[Test], next: &AtomicUsize, machine: &Machine<'_>, sender: &Sender<(usize, Event)>) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(test) = tests.get(index) else { return };
        let sent = sender.send((index, Event::Starts));
        if sent.is_err() || sender.send((index, Event::Ends(machine.run(test)))).is_err() {
            return;
        }
    }
}

/// Reports events until all tests have ended.
fn follow<W: Write>(tests: &[Test], events: &Receiver<(usize, Event)>, report: &mut Report<W>) -> Result<()> {
    let warning = Duration::from_secs(WARNING_SECONDS);
    // Running tests that have not been reported as slow, each with the time at which the report is due. The
    // earliest time is first.
    let mut running: Vec<(usize, Instant)> = Vec::new();
    loop {
        let due = running.first().map_or(warning, |(_, due)| due.saturating_duration_since(Instant::now()));
        match events.recv_timeout(due) {
            Ok((index, Event::Starts)) => {
                report.test_starts(&tests[index])?;
                running.push((index, Instant::now() + warning));
            }
            Ok((index, Event::Ends(result))) => {
                running.retain(|(other, _)| *other != index);
                let (verdict, output) = result?;
                report.test_ends(&tests[index], verdict, output)?;
            }
            Err(RecvTimeoutError::Timeout) if running.is_empty() => {}
            Err(RecvTimeoutError::Timeout) => report.test_is_slow(&tests[running.remove(0).0])?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
