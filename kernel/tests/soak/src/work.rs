//! Works that threads repeat, and how often they were done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io, process, thread};

use crate::random::Random;

/// Time between two rounds of a work: a service is not always busy.
const PAUSE: Duration = Duration::from_millis(5);

/// Something that a thread repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Writes, reads, renames and removes files.
    Files,
    /// Starts threads that exchange messages.
    Threads,
    /// Resolves names.
    Names,
}

/// Number of times that each work was done.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    files: AtomicU64,
    threads: AtomicU64,
    names: AtomicU64,
    /// True if works pause.
    pub(crate) is_paused: AtomicBool,
}

impl Progress {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::default()
    }

    const fn count(&self, work: Work) -> &AtomicU64 {
        match work {
            Work::Files => &self.files,
            Work::Threads => &self.threads,
            Work::Names => &self.names,
        }
    }

    /// Starts a thread that does rounds of a work for ever. A round that fails ends the program.
    pub(crate) fn repeat(
        self: &Arc<Self>,
        work: Work,
        seed: u64,
        round: impl Fn(&mut Random) -> io::Result<()> + Send + 'static,
    ) {
        let progress = Arc::clone(self);
        thread::spawn(move || {
            let error = progress.repeat_until_error(work, &mut Random::new(seed), round);
            eprintln!("{work:?} failed after {progress}: {error}");
            process::exit(1);
        });
    }

    fn repeat_until_error(
        &self,
        work: Work,
        random: &mut Random,
        round: impl Fn(&mut Random) -> io::Result<()>,
    ) -> io::Error {
        loop {
            thread::sleep(PAUSE);
            if self.is_paused.load(Ordering::Relaxed) {
                continue;
            }
            if let Err(error) = round(random) {
                return error;
            }
            self.count(work).fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [files, threads, names] =
            [&self.files, &self.threads, &self.names].map(|count| count.load(Ordering::Relaxed));
        write!(out, "files {files} threads {threads} names {names}")
    }
}
