//! Progress of builds that run side by side: on a terminal a line that is redrawn, elsewhere a line every few seconds.
//!
//! Each build is a cargo process whose progress bar is read, not shown.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write, stderr};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;

/// Time between two lines of progress where they are not redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Width of cargo's progress bar, in columns: enough for its numbers.
const BAR_WIDTH: &str = "100";

/// A build: its name, and how far it is.
#[derive(Debug)]
struct Build {
    name: &'static str,
    /// CPU time that it takes, in seconds, on a machine of 2025.
    cost: f64,
    /// Crates that are compiled, and all crates; unknown before the build has begun.
    crates: Option<(u32, u32)>,
}

impl Build {
    fn done(&self) -> f64 {
        self.crates.map_or(0.0, |(done, all)| f64::from(done) / f64::from(all.max(1)))
    }
}

/// What is shown of builds that run side by side.
#[derive(Debug)]
pub(crate) struct Progress {
    begin: Instant,
    is_terminal: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    builds: Vec<Build>,
    last_line: Option<Instant>,
}

impl Progress {
    /// Begins to measure time.
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), is_terminal: stderr().is_terminal(), state: Mutex::default() }
    }

    /// Adds a build that takes about `cost` seconds of CPU time.
    pub(crate) fn add(&self, name: &'static str, cost: f64) -> Task<'_> {
        let mut state = self.lock();
        state.builds.push(Build { name, cost, crates: None });
        Task { progress: self, index: state.builds.len() - 1 }
    }

    /// Prints a line.
    pub(crate) fn note(&self, text: &str) {
        let _state = self.lock();
        eprintln!("{}[{:>3} s] {text}", self.clear(), self.begin.elapsed().as_secs());
    }

    fn update(&self, index: usize, crates: (u32, u32)) {
        let mut state = self.lock();
        if let Some(build) = state.builds.get_mut(index) {
            build.crates = Some(crates);
        }
        let is_due = self.is_terminal || state.last_line.is_none_or(|time| time.elapsed() >= LINE_INTERVAL);
        if is_due {
            state.last_line = Some(Instant::now());
            let end = if self.is_terminal { "" } else { "\n" };
            let elapsed = self.begin.elapsed();
            eprint!("{}[{:>3} s] {}{end}", self.clear(), elapsed.as_secs(), state.describe(elapsed));
            // A line that cannot be shown is not worth an error.
            let _: std::io::Result<()> = stderr().flush();
        }
    }

    /// Ends the line that is redrawn.
    pub(crate) fn finish(&self) {
        let _state = self.lock();
        eprint!("{}", self.clear());
    }

    /// What removes the line that is redrawn.
    fn clear(&self) -> &'static str {
        if self.is_terminal { "\r\u{1b}[K" } else { "" }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A build in what is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    progress: &'a Progress,
    index: usize,
}

impl Task<'_> {
    /// Prints a line.
    pub(crate) fn note(self, text: &str) {
        self.progress.note(text);
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
                    Some(crates) => self.progress.update(self.index, crates),
                    None => text.extend([line, "\n"]),
                }
            }
        }
        text
    }

    /// Cargo's bar does not count the last crate.
    fn complete(self) {
        if let Some(build) = self.progress.lock().builds.get_mut(self.index) {
            let all = build.crates.map_or(1, |(_, all)| all);
            build.crates = Some((all, all));
        }
    }
}

impl State {
    /// Says how far the builds are, and how long they still take.
    fn describe(&self, elapsed: Duration) -> String {
        let started = self.builds.iter().filter_map(|build| Some((build.name, build.crates?)));
        let parts: Vec<_> =
            started.map(|(name, (done, all))| format!("{name}: crate {done} of {all}")).collect();
        let all: f64 = self.builds.iter().map(|build| build.cost).sum();
        let done = self.builds.iter().map(|build| build.cost * build.done()).sum::<f64>() / all;
        let left = match elapsed.as_secs_f64() * (1.0 - done) / done {
            // The first crates say little about the others.
            left if done > 0.1 => format!("; about {left:.0} s left"),
            _ => String::new(),
        };
        parts.join(", ") + &left
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
    use super::{Build, Progress, State, crates};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn crates_are_read_from_the_progress_bar() {
        assert_eq!(crates("\u{1b}[K    Building [====>   ] 12/95: syn, quote"), Some((12, 95)));
        assert_eq!(crates("    Building [====>   ] 3/4"), Some((3, 4)));
        assert_eq!(crates("   Compiling syn v2.0.1"), None);
        assert_eq!(crates("    Building [====>   ] x/95"), None);
    }

    #[test]
    fn remaining_time_follows_from_what_is_done() {
        let build = |crates| Build { name: "std", cost: 10.0, crates };
        let describe = |builds| State { builds, last_line: None }.describe(Duration::from_secs(20));
        assert_eq!(describe(vec![build(Some((1, 2)))]), "std: crate 1 of 2; about 20 s left");
        assert_eq!(describe(vec![build(Some((1, 2))), build(None)]), "std: crate 1 of 2; about 60 s left");
        assert_eq!(describe(vec![build(Some((0, 2)))]), "std: crate 0 of 2");
    }

    #[test]
    fn run_returns_output_and_reports_messages_of_a_failure() {
        let progress = Progress::new();
        let task = progress.add("test", 1.0);
        let mut shell = Command::new("sh");
        let script = "printf '    Building [>] 1/2: a\\r' >&2; echo out";
        assert_eq!(task.run(shell.args(["-c", script])).unwrap(), "out\n");
        assert_eq!(progress.lock().builds[0].crates, Some((2, 2)));
        let mut shell = Command::new("sh");
        let failed = task.run(shell.args(["-c", "echo 'error: no' >&2; exit 3"])).unwrap_err();
        assert!(failed.to_string().contains("error: no"), "{failed}");
    }
}
