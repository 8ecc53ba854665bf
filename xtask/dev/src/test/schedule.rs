//! Runs independent tests at the same time.
//!
//! A test ring first collects its tests as closures in [`Tests`], and then runs all of them. Worker threads
//! take tests from a common queue. The results are reported in the order in which the tests were added, not
//! in the order in which they end, so two runs print them in the same order. The report of a failed test
//! contains the load of the host: on a busy machine, the failure may be due to a time limit.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::iter::Enumerate;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use anyhow::{Result, anyhow};

use super::report::{note, take_notes};

/// Function that runs a test.
type TestBody<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

/// A test that has not run yet.
struct Test<'a> {
    name: String,
    action: TestBody<'a>,
}

/// Tests that have not run yet.
#[derive(Default)]
pub(super) struct Tests<'a> {
    list: Vec<Test<'a>>,
    /// Tests that this machine cannot run, as pairs of a name and the reason.
    pub(super) skipped: Vec<(String, String)>,
}

impl fmt::Debug for Tests<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.list.iter().map(|test| &test.name)).finish()
    }
}

/// A test that has run.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) name: String,
    pub(super) time: Duration,
    /// Notes that the test made with [`note`](super::report::note).
    pub(super) notes: Vec<String>,
    pub(super) result: Result<()>,
}

impl<'a> Tests<'a> {
    /// Adds a test, which runs at the same time as others.
    pub(super) fn add(&mut self, name: impl Into<String>, action: impl FnOnce() -> Result<()> + Send + 'a) {
        self.list.push(Test { name: name.into(), action: Box::new(action) });
    }

    /// Adds a test that this machine cannot run, with the reason.
    pub(super) fn skip(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push((name.into(), reason.into()));
    }

    /// Adds a test unless there is a reason why this machine cannot run it.
    pub(super) fn add_unless(
        &mut self,
        reason: Option<String>,
        name: impl Into<String>,
        action: impl FnOnce() -> Result<()> + Send + 'a,
    ) {
        match reason {
            Some(reason) => self.skip(name, reason),
            None => self.add(name, action),
        }
    }

    /// Removes all tests except those whose names contain `text`. Returns true if tests are left.
    pub(super) fn keep_named(&mut self, text: &str) -> bool {
        self.list.retain(|test| test.name.contains(text));
        self.skipped.retain(|(name, _)| name.contains(text));
        !self.list.is_empty() || !self.skipped.is_empty()
    }

    /// Runs all tests, and passes the results to `record` in the order in which the tests were added. Three
    /// tests per CPU run at a time, because tests often wait for a timer or a peer.
    pub(super) fn run(self, record: impl FnMut(Finished)) {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        let jobs = 3 * cpus;
        let queue = Mutex::new(self.list.into_iter().enumerate());
        let (sender, receiver) = mpsc::channel();
        let start = Instant::now();
        thread::scope(|scope| {
            for sender in vec![sender; jobs] {
                scope.spawn(|| work(&queue, start, sender));
            }
            in_order(receiver, record);
        });
    }
}

/// Runs tests from the queue until the queue is empty. `start` is the time at which the first test began.
fn work(queue: &Mutex<Enumerate<IntoIter<Test<'_>>>>, start: Instant, results: Sender<(usize, Finished)>) {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    while let Some((index, test)) = next() {
        // An error is ignored: the receiver outlives all senders.
        results.send((index, test.run(start))).unwrap_or_default();
    }
}

/// Calls `pass_on` with the numbered results in the order of their numbers.
fn in_order<T>(results: impl IntoIterator<Item = (usize, T)>, mut pass_on: impl FnMut(T)) {
    let (mut waiting, mut next) = (BTreeMap::new(), 0);
    for (index, result) in results {
        waiting.insert(index, result);
        while let Some(result) = waiting.remove(&next) {
            pass_on(result);
            next += 1;
        }
    }
}

impl Test<'_> {
    /// Runs the test. `step` is the start of the step to which it belongs.
    fn run(self, step: Instant) -> Finished {
        let start = Instant::now();
        // The assertion of unwind safety holds: a test that panics leaves no state that another test uses.
        let result = catch_unwind(AssertUnwindSafe(self.action));
        let result = result.unwrap_or_else(|panic| Err(anyhow!("the test panicked: {}", message(&*panic))));
        if result.is_err() {
            note(format!("failed {:.0} s after the step began; {}", step.elapsed().as_secs_f64(), load()));
        }
        Finished { name: self.name, time: start.elapsed(), notes: take_notes(), result }
    }
}

/// Returns a text with the load averages of the last 1, 5 and 15 minutes, the number of runnable threads, and
/// the available memory.
fn load() -> String {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let (average, memory) = (read("/proc/loadavg"), read("/proc/meminfo"));
    let average: Vec<_> = average.split(' ').take(4).collect();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or("unknown");
    format!("load {}; {} of memory available", average.join(" "), available.trim())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("for an unknown reason")
}

#[cfg(test)]
mod tests {
    use super::{Finished, Tests, in_order};
    use crate::test::report::note;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn tests_are_kept_by_their_names() {
        let mut tests = Tests::default();
        tests.add("qemu: disk", || Ok(()));
        tests.add("qemu: threads", || Ok(()));
        tests.skip("qemu: a tap", "there is none");
        assert!(tests.keep_named("disk"));
        let mut names = Vec::new();
        assert!(tests.skipped.is_empty());
        tests.run(|finished| names.push(finished.name));
        assert_eq!(names, ["qemu: disk"]);
        assert!(!Tests::default().keep_named(""));
    }

    #[test]
    fn results_are_ordered_by_their_numbers() {
        let mut passed = Vec::new();
        in_order([(2, 'c'), (0, 'a'), (1, 'b'), (3, 'd')], |result| passed.push(result));
        assert_eq!(passed, ['a', 'b', 'c', 'd']);
    }

    #[test]
    fn every_test_runs_once_with_its_own_notes() {
        let (runs, mut tests) = (AtomicUsize::new(0), Tests::default());
        for number in 0..50 {
            let runs = &runs;
            tests.add(number.to_string(), move || {
                note(number.to_string());
                runs.fetch_add(1, Ordering::Relaxed);
                anyhow::ensure!(number != 7, "as expected");
                Ok(())
            });
        }
        let mut finished = Vec::new();
        tests.run(|test| finished.push(test));
        assert_eq!(runs.into_inner(), 50);
        assert_eq!(finished.len(), 50);
        for Finished { name, notes, result, .. } in &finished {
            let (own, of_failure) = notes.split_at(1);
            assert_eq!((own, of_failure.len()), (&[name.clone()][..], usize::from(result.is_err())));
            assert!(of_failure.iter().all(|note| note.contains("load ")), "{notes:?}");
        }
        assert!(finished.iter().all(|test| test.result.is_err() == (test.name == "7")));
        assert!((0..50).map(|number| number.to_string()).eq(finished.iter().map(|test| test.name.clone())));
    }

    #[test]
    fn panic_is_a_failure_with_its_message() {
        let mut tests = Tests::default();
        tests.add("a", || panic!("as expected"));
        tests.run(|test| assert!(test.result.unwrap_err().to_string().contains("as expected")));
    }
}
