//! Progress of builds that run at the same time. On a terminal, one line is redrawn every second. Elsewhere,
//! a new line is printed if there was none for ten seconds.
//!
//! Each build is a cargo process. Its progress bar is not shown but parsed: it contains the number of crates
//! and the names of the crates that are being compiled. Cargo's JSON messages name the crates that are
//! complete. Large crates take much longer than an average crate, so each has its own weight in the estimate
//! of the time left. The estimate is shown only while it decreases.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write, stderr};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{cargo, process};

/// Time between two lines where lines are not redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Interval at which the display checks if a line is due, and at which it redraws the line on a terminal.
const TICK: Duration = Duration::from_secs(1);

/// Width of cargo's progress bar, in columns: enough for its numbers and some names.
const BAR_WIDTH: &str = "160";

/// Maximum number of crates that a line names.
const MAX_NAMES: usize = 2;

/// CPU time of a build on a machine of 2025.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU time of all crates, in seconds.
    pub(crate) seconds: f64,
    /// CPU time of large crates, in seconds, by the name of the library or program.
    pub(crate) large: &'static [(&'static str, f64)],
}

impl Cost {
    /// Cost of a step that builds no crates, such as a download.
    pub(crate) const UNKNOWN: Self = Self { seconds: 0.0, large: &[] };
}

/// Contents of cargo's progress bar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bar {
    /// Number of crates that are complete.
    done: u32,
    all: u32,
    /// Names of crates that are being compiled. The bar may be too short for all names.
    active: Vec<String>,
}

/// A build: its name, and how far it is.
#[derive(Debug)]
struct Build {
    name: &'static str,
    cost: Cost,
    /// Unknown before the build has begun.
    bar: Option<Bar>,
    /// Large crates that are complete: name, CPU time in seconds, and true if the crate was up to date
    /// before.
    large_done: Vec<(&'static str, f64, bool)>,
    /// Number of other crates that were up to date before the build.
    fresh: u32,
    is_complete: bool,
}

impl Build {
    fn new(name: &'static str, cost: Cost) -> Self {
        Self { name, cost, bar: None, large_done: Vec::new(), fresh: 0, is_complete: false }
    }

    /// Returns the CPU time of the completed crates and that of the whole build, in seconds. Large crates
    /// have weights; the other crates share the rest of the build's time evenly. Crates that were up to date
    /// before the build take no time.
    fn seconds(&self) -> (f64, f64) {
        let Some(bar) = &self.bar else { return (0.0, self.cost.seconds) };
        let large: f64 = self.cost.large.iter().map(|(_, seconds)| seconds).sum();
        let others = f64::from(bar.all) - self.cost.large.len() as f64;
        let each = if others > 0.0 { (self.cost.seconds - large) / others } else { 0.0 };
        let sum = |is_fresh| {
            let done = self.large_done.iter().filter(|(_, _, fresh)| *fresh == is_fresh);
            done.map(|(_, seconds, _)| seconds).sum::<f64>()
        };
        let others_done = f64::from(bar.done.saturating_sub(self.fresh)) - self.large_done.len() as f64;
        let done = sum(false) + each * others_done.max(0.0);
        let all = large - sum(true) + each * (others - f64::from(self.fresh)).max(0.0);
        if self.is_complete { (all, all) } else { (done.min(all), all) }
    }

    /// Records that a crate is complete. `is_fresh` is true if it was up to date before the build.
    fn complete_crate(&mut self, name: &str, is_fresh: bool) {
        let large = self.cost.large.iter().find(|(large, _)| *large == name);
        match large {
            Some((large, _)) if self.large_done.iter().any(|(known, ..)| known == large) => {}
            Some((large, seconds)) => self.large_done.push((large, *seconds, is_fresh)),
            None => self.fresh += u32::from(is_fresh),
        }
    }

    /// Returns the progress of the build as text: `std: 7 of 31 crates, compiling core`.
    fn describe(&self) -> Option<String> {
        let Bar { done, all, active } = self.bar.as_ref()?;
        let names = active.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { names } else { format!(", compiling {names}") };
        Some(format!("{}: {done} of {all} crates{names}", self.name))
    }
}

/// The progress display of builds that run side by side, from creation to drop.
#[derive(Debug)]
pub(crate) struct Progress {
    display: Arc<Display>,
    /// The thread that prints lines. It ends when the sender is dropped.
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

/// State that the builds share with the thread that prints lines.
#[derive(Debug)]
struct Display {
    begin: Instant,
    is_terminal: bool,
    state: Mutex<State>,
}

/// The builds, and the time at which a line was printed last. Times count from [`Display::begin`].
#[derive(Debug, Default)]
struct State {
    builds: Vec<Build>,
    /// CPU time of a build that is not shown, in seconds.
    hidden_seconds: f64,
    /// The last note, which names the current step while no build runs.
    step: String,
    last_line: Duration,
    /// Time at which a crate was completed last, and the completed work at that time, in seconds of CPU time.
    last_crate: (Duration, f64),
    /// The time left that was shown last.
    shown_left: Option<f64>,
    /// Another program writes to the terminal.
    is_paused: bool,
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
        state.builds.push(Build::new(name, cost));
        Task { display: &self.display, index: state.builds.len() - 1 }
    }

    /// Prints a line.
    pub(crate) fn note(&self, text: &str) {
        self.display.note(text);
    }

    /// Adds `seconds` of CPU time to the time left, for a build that is not shown.
    pub(crate) fn add_hidden(&self, seconds: f64) {
        self.display.lock().hidden_seconds += seconds;
    }

    /// Calls `run`, which writes to standard error itself, and returns its result. No line is redrawn
    /// meanwhile.
    pub(crate) fn beside<T>(&self, run: impl FnOnce() -> T) -> T {
        self.display.lock().is_paused = true;
        eprint!("{}", self.display.clear());
        let result = run();
        self.display.lock().is_paused = false;
        result
    }
}

impl Drop for Progress {
    /// Ends the line that is redrawn.
    fn drop(&mut self) {
        if let Some((sender, ticker)) = self.ticker.take() {
            drop(sender);
            // A panic of the ticker is ignored: it has been reported, and the builds do not depend on the
            // ticker.
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
        let mut state = self.lock();
        if self.is_terminal && state.is_paused {
            return;
        }
        if let Some(line) = state.line(self.begin.elapsed(), interval) {
            eprint!("{}{line}{end}", self.clear());
            // An error is ignored: the builds do not depend on the display.
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

    /// Runs the build with cargo, or another program that takes long, and returns its standard output.
    ///
    /// # Errors
    ///
    /// Fails if the program fails. The error contains the program's output.
    pub(crate) fn run(self, command: &mut Command) -> Result<String> {
        command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", BAR_WIDTH);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // An earlier command of the same task may have marked the build as complete.
        self.update(|build| build.is_complete = false);
        let mut child =
            command.spawn().with_context(|| format!("cannot start `{}`", process::display(command)))?;
        let (stdout, messages) = (child.stdout.take(), child.stderr.take());
        let (output, text) = thread::scope(|scope| {
            let reader = scope.spawn(|| self.read_output(stdout));
            let text = self.watch(messages);
            (reader.join().unwrap_or_default(), text)
        });
        if !child.wait()?.success() {
            let output = output.lines().filter(|line| cargo::message(line).is_none());
            let output: String = output.flat_map(|line| [line, "\n"]).collect();
            bail!("`{}` failed\n{output}{text}", process::display(command));
        }
        self.complete();
        Ok(output)
    }

    /// Reads cargo's standard error to its end, and returns the text without progress bars.
    fn watch(self, messages: Option<impl Read>) -> String {
        let mut text = String::new();
        for part in messages.into_iter().flat_map(|messages| BufReader::new(messages).split(b'\r')) {
            let part = String::from_utf8_lossy(&part.unwrap_or_default()).into_owned();
            for line in part.lines().filter(|line| !line.trim().is_empty()) {
                match bar(line) {
                    Some(bar) => self.update(|build| build.bar = Some(bar)),
                    None => text.extend([line, "\n"]),
                }
            }
        }
        text
    }

    /// Reads standard output to its end, and returns the text. Records the crates that cargo's messages
    /// report as complete.
    fn read_output(self, output: Option<impl Read>) -> String {
        let mut text = String::new();
        for line in output.into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
            let line = String::from_utf8_lossy(&line.unwrap_or_default()).into_owned();
            let message = cargo::message(&line).filter(|message| message["reason"] == "compiler-artifact");
            if let Some(name) = message.as_ref().and_then(|message| message["target"]["name"].as_str()) {
                let is_fresh = message.as_ref().is_some_and(|message| message["fresh"] == true);
                self.update(|build| build.complete_crate(name, is_fresh));
            }
            text.extend([&line, "\n"]);
        }
        text
    }

    fn update(self, change: impl FnOnce(&mut Build)) {
        let mut state = self.display.lock();
        let now = self.display.begin.elapsed();
        state.builds.get_mut(self.index).map(change);
        state.note_progress(now);
    }

    fn complete(self) {
        self.update(|build| build.is_complete = true);
    }
}

impl State {
    /// Returns the line that is due. Returns `None` if the last line was printed less than `interval` ago, or
    /// if all builds are complete.
    fn line(&mut self, now: Duration, interval: Duration) -> Option<String> {
        if now.saturating_sub(self.last_line) < interval {
            return None;
        }
        let text = self.describe(now)?;
        self.last_line = now;
        Some(format!("[{:>3} s] {text}", now.as_secs()))
    }

    /// Returns a text with the progress of the builds and the time left. If no build has begun yet, the text
    /// names the current step instead.
    fn describe(&mut self, now: Duration) -> Option<String> {
        let mut unfinished = self.builds.iter().filter(|build| !build.is_complete).peekable();
        unfinished.peek()?;
        let parts: Vec<_> = unfinished.filter_map(Build::describe).collect();
        if parts.is_empty() {
            let names: Vec<_> = self.builds.iter().map(|build| build.name).collect();
            return Some(if self.step.is_empty() {
                format!("waiting for cargo: {}", names.join(", "))
            } else {
                self.step.clone()
            });
        }
        let left = self.left(now).map(|left| format!("; about {left:.0} s left")).unwrap_or_default();
        Some(parts.join("; ") + &left)
    }

    /// Takes note of crates that were completed since the last call.
    fn note_progress(&mut self, now: Duration) {
        let done = self.builds.iter().map(|build| build.seconds().0).sum();
        if done > self.last_crate.1 {
            self.last_crate = (now, done);
        }
    }

    /// Estimates the time left, in seconds. Returns `None` while too little work is done for an estimate, and
    /// if the estimate is longer than the last one shown.
    fn left(&mut self, now: Duration) -> Option<f64> {
        let all = self.builds.iter().map(|build| build.seconds().1).sum::<f64>() + self.hidden_seconds;
        let (at, done) = self.last_crate;
        // The first crates are too few to estimate the speed of the others.
        if done < 0.1 * all {
            return None;
        }
        let left = at.as_secs_f64() * (all - done) / done - now.saturating_sub(at).as_secs_f64();
        let is_less = left >= 1.0 && self.shown_left.is_none_or(|shown| left <= shown);
        is_less.then(|| *self.shown_left.insert(left))
    }
}

/// Reads cargo's progress bar: `    Building [=====>    ] 12/95: syn, quote(build)`.
fn bar(line: &str) -> Option<Bar> {
    let (_, rest) = line.split_once("Building [")?;
    let (_, rest) = rest.split_once("] ")?;
    let (numbers, names) = rest.split_once(':').unwrap_or((rest, ""));
    let (done, all) = numbers.trim().split_once('/')?;
    let names = names.split(',').map(|name| name.split('(').next().unwrap_or(name).trim());
    let is_name = |name: &&str| !name.is_empty() && !name.ends_with("...");
    Some(Bar {
        done: done.parse().ok()?,
        all: all.parse().ok()?,
        active: names.filter(is_name).map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Bar, Build, Cost, Progress, State, bar};
    use std::process::Command;
    use std::time::Duration;

    const COST: Cost = Cost { seconds: 10.0, large: &[("core", 6.0)] };

    fn state(builds: Vec<Build>) -> State {
        State { builds, ..State::default() }
    }

    fn build(done: u32, all: u32) -> Build {
        let bar = Some(Bar { done, all, active: Vec::new() });
        Build { bar, ..Build::new("std", COST) }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn crates_are_read_from_the_progress_bar() {
        let expected = |done, all, active: &[&str]| {
            Some(Bar { done, all, active: active.iter().map(|&name| name.to_owned()).collect() })
        };
        let line = "\u{1b}[K    Building [====>   ] 12/95: syn, quote(build), ...";
        assert_eq!(bar(line), expected(12, 95, &["syn", "quote"]));
        assert_eq!(bar("    Building [====>   ] 3/4"), expected(3, 4, &[]));
        assert_eq!(bar("   Compiling syn v2.0.1"), None);
        assert_eq!(bar("    Building [====>   ] x/95"), None);
    }

    #[test]
    fn large_crates_count_by_their_weight_and_fresh_ones_not_at_all() {
        let is = |build: &Build, done: f64, all: f64| {
            let found = build.seconds();
            assert!((found.0 - done).abs() + (found.1 - all).abs() < 1e-9, "{found:?}");
        };
        let mut build = build(1, 3);
        is(&build, 2.0, 10.0);
        build.complete_crate("core", false);
        build.complete_crate("core", false);
        is(&build, 6.0, 10.0);
        build.bar = Some(Bar { done: 2, all: 3, ..Bar::default() });
        is(&build, 8.0, 10.0);
        build.complete_crate("small", true);
        is(&build, 6.0, 8.0);
        build.is_complete = true;
        is(&build, 8.0, 8.0);
        let mut again = self::build(1, 3);
        again.complete_crate("core", true);
        is(&again, 0.0, 4.0);
    }

    #[test]
    fn line_names_what_is_compiled() {
        let active = ["core", "syn", "quote"].map(str::to_owned).to_vec();
        let std = Build { bar: Some(Bar { done: 1, all: 3, active }), ..Build::new("std", COST) };
        let mut state = state(vec![std, build(0, 2)]);
        assert_eq!(
            state.describe(seconds(5)).unwrap(),
            "std: 1 of 3 crates, compiling core, syn; std: 0 of 2 crates"
        );
    }

    #[test]
    fn time_left_is_shown_only_while_it_falls() {
        let mut state = state(vec![build(0, 3)]);
        state.note_progress(seconds(5));
        assert_eq!(state.left(seconds(5)), None);
        state.builds[0] = build(1, 3);
        state.note_progress(seconds(20));
        assert_eq!(state.left(seconds(20)), Some(80.0));
        assert_eq!(state.left(seconds(50)), Some(50.0));
        // The crate takes longer than its weight predicts.
        state.builds[0] = build(2, 3);
        state.note_progress(seconds(90));
        assert_eq!(state.left(seconds(90)), None);
        assert_eq!(state.left(seconds(180)), Some(45.0));
        assert_eq!(state.left(seconds(230)), None);
    }

    #[test]
    fn time_of_a_hidden_build_is_left() {
        let mut state = State { hidden_seconds: 10.0, ..state(vec![build(2, 3)]) };
        state.note_progress(seconds(8));
        assert_eq!(state.left(seconds(8)), Some(32.0));
    }

    #[test]
    fn line_is_due_after_each_interval_without_one() {
        let mut state = state(vec![build(0, 2)]);
        let mut line = |now| state.line(seconds(now), seconds(10));
        assert_eq!(line(9), None);
        assert_eq!(line(12).unwrap(), "[ 12 s] std: 0 of 2 crates");
        assert_eq!(line(21), None);
        assert_eq!(line(22).unwrap(), "[ 22 s] std: 0 of 2 crates");
    }

    #[test]
    fn line_names_the_step_before_a_build_and_is_none_after_it() {
        let later = seconds(20);
        let mut waiting = state(vec![Build::new("std", COST)]);
        assert_eq!(waiting.line(later, later).unwrap(), "[ 20 s] waiting for cargo: std");
        waiting.step = "downloading".to_owned();
        assert_eq!(waiting.line(later * 2, later).unwrap(), "[ 40 s] downloading");
        waiting.builds[0].is_complete = true;
        assert_eq!(waiting.line(later * 3, later), None);
        assert_eq!(state(Vec::new()).line(later, later), None);
    }

    #[test]
    fn note_postpones_the_next_line() {
        let progress = Progress::new();
        progress.add("test", COST).note("a note of the test");
        let mut state = progress.display.lock();
        assert_eq!(state.step, "a note of the test");
        let (noted, interval) = (state.last_line, seconds(1000));
        assert_eq!(state.line(noted + interval - Duration::from_millis(1), interval), None);
        assert!(state.line(noted + interval, interval).unwrap().ends_with("] a note of the test"));
    }

    #[test]
    fn run_follows_crates_and_reports_messages_of_a_failure() {
        let progress = Progress::new();
        let task = progress.add("test", COST);
        let mut shell = Command::new("sh");
        let artifact = r#"{"reason":"compiler-artifact","target":{"name":"core"}}"#;
        let script = format!("printf '    Building [>] 1/2: a\\r' >&2; echo out; echo '{artifact}'");
        assert_eq!(task.run(shell.args(["-c", &script])).unwrap(), format!("out\n{artifact}\n"));
        let state = progress.display.lock();
        assert!(state.builds[0].is_complete);
        assert_eq!(state.builds[0].large_done, [("core", 6.0, false)]);
        drop(state);
        let mut shell = Command::new("sh");
        let script = format!("echo '{artifact}'; echo 'of dpkg'; echo 'error: no' >&2; exit 3");
        let failed = task.run(shell.args(["-c", &script])).unwrap_err().to_string();
        assert!(failed.contains("error: no") && failed.contains("of dpkg"), "{failed}");
        assert!(!failed.contains("\n{\""), "{failed}");
    }
}
