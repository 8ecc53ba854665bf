//! Progress of builds that run side by side: on a terminal a line that is redrawn each second, elsewhere a line after each ten
//! seconds without one.
//!
//! Each build is a cargo process whose progress bar is read, not shown.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write, stderr};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;

/// Time without a line after which one is printed, where lines are not redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Time between two looks at whether a line is due, and between two drawings of the line on a terminal.
const TICK: Duration = Duration::from_secs(1);

/// Width of cargo's progress bar, in columns: enough for its numbers.
const BAR_WIDTH: &str = "100";

/// CPU time of a build on a machine of 2025.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU time of all crates, in seconds.
    pub(crate) seconds: f64,
    /// Share of the last crate, from 0 to 1.
    pub(crate) last_crate: f64,
}

/// A build: its name, and how far it is.
#[derive(Debug)]
struct Build {
    name: &'static str,
    cost: Cost,
    /// Crates that are compiled, and all crates; unknown before the build has begun.
    crates: Option<(u32, u32)>,
}

impl Build {
    /// Share of the cost that is spent, from 0 to 1.
    fn done(&self) -> f64 {
        match self.crates {
            None => 0.0,
            Some((done, all)) if done >= all => 1.0,
            Some((done, all)) => f64::from(done) / f64::from(all) * (1.0 - self.cost.last_crate),
        }
    }
}

/// The progress display of builds that run side by side, from creation to drop.
#[derive(Debug)]
pub(crate) struct Progress {
    display: Arc<Display>,
    /// The thread that prints lines. It ends when the sender is dropped.
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What the builds and the thread that prints lines share.
#[derive(Debug)]
struct Display {
    begin: Instant,
    is_terminal: bool,
    state: Mutex<State>,
}

/// The builds, and when a line was printed last. Times are those since the beginning.
#[derive(Debug, Default)]
struct State {
    builds: Vec<Build>,
    /// The last note: what is being done if no build runs.
    step: String,
    last_line: Duration,
}

impl Progress {
    /// Begins to measure time.
    pub(crate) fn new() -> Self {
        let display = Arc::new(Display {
            begin: Instant::now(),
            is_terminal: stderr().is_terminal(),
            state: Mutex::default(),
        });
        let (sender, receiver) = mpsc::channel();
        let shown = Arc::clone(&display);
        let ticker = thread::spawn(move || {
            while receiver.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                shown.tick();
            }
        });
        Self { display, ticker: Some((sender, ticker)) }
    }

    /// Adds a build.
    pub(crate) fn add(&self, name: &'static str, cost: Cost) -> Task<'_> {
        let mut state = self.display.lock();
        state.builds.push(Build { name, cost, crates: None });
        Task { display: &self.display, index: state.builds.len() - 1 }
    }

    /// Prints a line.
    pub(crate) fn note(&self, text: &str) {
        self.display.note(text);
    }
}

impl Drop for Progress {
    /// Ends the line that is redrawn.
    fn drop(&mut self) {
        if let Some((sender, ticker)) = self.ticker.take() {
            drop(sender);
            // A panic of the ticker has been reported, and the builds do not depend on it.
            let _: thread::Result<()> = ticker.join();
        }
        eprint!("{}", self.display.clear());
    }
}

impl Display {
    fn note(&self, text: &str) {
        let mut state = self.lock();
        let now = self.begin.elapsed();
        text.clone_into(&mut state.step);
        state.last_line = now;
        eprintln!("{}[{:>3} s] {text}", self.clear(), now.as_secs());
    }

    /// Prints or redraws the line if it is due.
    fn tick(&self) {
        let (interval, end) = if self.is_terminal { (TICK, "") } else { (LINE_INTERVAL, "\n") };
        if let Some(line) = self.lock().line(self.begin.elapsed(), interval) {
            eprint!("{}{line}{end}", self.clear());
            // A line that cannot be shown is not worth an error.
            let _: std::io::Result<()> = stderr().flush();
        }
    }

    /// Escape sequence that clears the line that is redrawn.
    fn clear(&self) -> &'static str {
        if self.is_terminal { "\r\u{1b}[K" } else { "" }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A build in the progress display.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    display: &'a Display,
    index: usize,
}

impl Task<'_> {
    /// Prints a line.
    pub(crate) fn note(self, text: &str) {
        self.display.note(text);
    }

    /// Runs the build with cargo and returns its standard output.
    ///
    /// # Errors
    ///
    /// Fails if cargo does; what it printed is part of the error.
    pub(crate) fn run(self, command: &mut Command) -> Result<String> {
        command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", BAR_WIDTH);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().with_context(|| format!("cannot start `{}`", process::display(command)))?;
        let (stdout, messages) = (child.stdout.take(), child.stderr.take());
        let (output, text) = thread::scope(|scope| {
            let reader = scope.spawn(|| read_all(stdout));
            let text = self.watch(messages);
            (reader.join().unwrap_or_default(), text)
        });
        if !child.wait()?.success() {
            bail!("`{}` failed\n{text}", process::display(command));
        }
        self.complete();
        Ok(output)
    }

    /// Follows cargo's standard error to its end; returns it without progress bars.
    fn watch(self, messages: Option<impl Read>) -> String {
        let mut text = String::new();
        for part in messages.into_iter().flat_map(|messages| BufReader::new(messages).split(b'\r')) {
            let part = String::from_utf8_lossy(&part.unwrap_or_default()).into_owned();
            for line in part.lines().filter(|line| !line.trim().is_empty()) {
                match crates(line) {
                    Some(crates) => self.update(crates),
                    None => text.extend([line, "\n"]),
                }
            }
        }
        text
    }

    fn update(self, crates: (u32, u32)) {
        if let Some(build) = self.display.lock().builds.get_mut(self.index) {
            build.crates = Some(crates);
        }
    }

    /// Cargo's bar does not count the last crate.
    fn complete(self) {
        if let Some(build) = self.display.lock().builds.get_mut(self.index) {
            let all = build.crates.map_or(1, |(_, all)| all);
            build.crates = Some((all, all));
        }
    }
}

impl State {
    /// Returns the line that is due: none if one was printed less than `interval` ago, or if all builds are complete.
    fn line(&mut self, now: Duration, interval: Duration) -> Option<String> {
        if now.saturating_sub(self.last_line) < interval {
            return None;
        }
        let text = self.describe(now)?;
        self.last_line = now;
        Some(format!("[{:>3} s] {text}", now.as_secs()))
    }

    /// Says how far the builds are, and how long they still take; before the first has begun, what is done instead.
    fn describe(&self, now: Duration) -> Option<String> {
        let mut unfinished = self.builds.iter().filter(|build| build.done() < 1.0).peekable();
        unfinished.peek()?;
        let running = unfinished.filter_map(|build| Some((build.name, build.crates?)));
        let parts: Vec<_> =
            running.map(|(name, (done, all))| format!("{name}: crate {done} of {all}")).collect();
        if parts.is_empty() {
            let names: Vec<_> = self.builds.iter().map(|build| build.name).collect();
            return Some(if self.step.is_empty() {
                format!("waiting for cargo: {}", names.join(", "))
            } else {
                self.step.clone()
            });
        }
        let all: f64 = self.builds.iter().map(|build| build.cost.seconds).sum();
        let done = self.builds.iter().map(|build| build.cost.seconds * build.done()).sum::<f64>() / all;
        let left = match now.as_secs_f64() * (1.0 - done) / done {
            // The first crates say little about the others.
            left if done > 0.1 => format!("; about {left:.0} s left"),
            _ => String::new(),
        };
        Some(parts.join(", ") + &left)
    }
}

/// Reads the numbers of cargo's progress bar: `    Building [=====>    ] 12/95: syn, quote`.
fn crates(line: &str) -> Option<(u32, u32)> {
    let (_, rest) = line.split_once("Building [")?;
    let (_, rest) = rest.split_once("] ")?;
    let (done, rest) = rest.split_once('/')?;
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    Some((done.trim().parse().ok()?, rest.get(..digits)?.parse().ok()?))
}

fn read_all(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // A truncated output is not what its reader expects, who reports that.
    let _: Option<std::io::Result<usize>> = stream.map(|mut stream| stream.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Build, Cost, Progress, State, crates};
    use std::process::Command;
    use std::time::Duration;

    const COST: Cost = Cost { seconds: 10.0, last_crate: 0.0 };

    fn state(builds: Vec<Build>) -> State {
        State { builds, ..State::default() }
    }

    fn build(crates: Option<(u32, u32)>) -> Build {
        Build { name: "std", cost: COST, crates }
    }

    #[test]
    fn crates_are_read_from_the_progress_bar() {
        assert_eq!(crates("\u{1b}[K    Building [====>   ] 12/95: syn, quote"), Some((12, 95)));
        assert_eq!(crates("    Building [====>   ] 3/4"), Some((3, 4)));
        assert_eq!(crates("   Compiling syn v2.0.1"), None);
        assert_eq!(crates("    Building [====>   ] x/95"), None);
    }

    #[test]
    fn remaining_time_follows_from_what_is_done() {
        let describe = |builds| state(builds).describe(Duration::from_secs(20)).unwrap();
        assert_eq!(describe(vec![build(Some((1, 2)))]), "std: crate 1 of 2; about 20 s left");
        assert_eq!(describe(vec![build(Some((1, 2))), build(None)]), "std: crate 1 of 2; about 60 s left");
        assert_eq!(describe(vec![build(Some((0, 2)))]), "std: crate 0 of 2");
        assert_eq!(
            describe(vec![build(Some((2, 2))), build(Some((1, 2)))]),
            "std: crate 1 of 2; about 7 s left"
        );
        let cost = Cost { seconds: 10.0, last_crate: 0.5 };
        let large = Build { name: "uhyve", cost, crates: Some((4, 5)) };
        assert_eq!(describe(vec![large]), "uhyve: crate 4 of 5; about 30 s left");
    }

    #[test]
    fn line_is_due_after_each_interval_without_one() {
        let mut state = state(vec![build(Some((0, 2)))]);
        let mut line = |now| state.line(Duration::from_secs(now), Duration::from_secs(10));
        assert_eq!(line(9), None);
        assert_eq!(line(12).unwrap(), "[ 12 s] std: crate 0 of 2");
        assert_eq!(line(21), None);
        assert_eq!(line(22).unwrap(), "[ 22 s] std: crate 0 of 2");
    }

    #[test]
    fn line_names_the_step_before_a_build_and_is_none_after_it() {
        let later = Duration::from_secs(20);
        let mut waiting = state(vec![build(None)]);
        assert_eq!(waiting.line(later, later).unwrap(), "[ 20 s] waiting for cargo: std");
        waiting.step = "downloading".to_owned();
        assert_eq!(waiting.line(later * 2, later).unwrap(), "[ 40 s] downloading");
        assert_eq!(state(vec![build(Some((2, 2)))]).line(later, later), None);
        assert_eq!(state(Vec::new()).line(later, later), None);
    }

    #[test]
    fn note_postpones_the_next_line() {
        let progress = Progress::new();
        progress.add("test", COST).note("a note of the test");
        let mut state = progress.display.lock();
        assert_eq!(state.step, "a note of the test");
        let (noted, interval) = (state.last_line, Duration::from_secs(1000));
        assert_eq!(state.line(noted + interval - Duration::from_millis(1), interval), None);
        assert!(state.line(noted + interval, interval).unwrap().ends_with("] a note of the test"));
    }

    #[test]
    fn run_returns_output_and_reports_messages_of_a_failure() {
        let progress = Progress::new();
        let task = progress.add("test", COST);
        let mut shell = Command::new("sh");
        let script = "printf '    Building [>] 1/2: a\\r' >&2; echo out";
        assert_eq!(task.run(shell.args(["-c", script])).unwrap(), "out\n");
        assert_eq!(progress.display.lock().builds[0].crates, Some((2, 2)));
        let mut shell = Command::new("sh");
        let failed = task.run(shell.args(["-c", "echo 'error: no' >&2; exit 3"])).unwrap_err();
        assert!(failed.to_string().contains("error: no"), "{failed}");
    }
}
