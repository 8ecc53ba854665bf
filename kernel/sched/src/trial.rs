//! Trials: short slices that test if a thread that was placed on the CPU of its waker has to wait for the
//! waker. Such a thread is *beside* its waker.

use core::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::atomic::AtomicCell;
use hermit_base::sync::atomic::{AtomicBool, AtomicU64};

use crate::list::is;
use crate::thread::Thread;

/// Length of a trial, in nanoseconds.
pub(crate) const TRIAL_NS: u64 = 250_000;

/// Minimum number of wake-ups in a trial between threads that wake each other and do little else. For such
/// threads, waiting for the CPU takes no longer than a wake-up on another CPU.
pub(crate) const MIN_TRIAL_PLACED: u64 = 8;

/// After a trial in which a thread had to wait for its waker: number of the waker's next wake-ups that place
/// no thread beside it.
pub(crate) const APART: u32 = 64;

/// The trials of a CPU. Only the CPU itself accesses it.
#[derive(Debug)]
pub(crate) struct Trial<T: 'static> {
    /// The thread that was last placed beside its waker. Its waker is its
    /// [`woken_by`](crate::thread::Entity::woken_by).
    beside: AtomicCell<Option<&'static T>>,
    /// True if a trial runs.
    runs: AtomicBool,
    /// Number of threads that were placed beside their wakers since the trial began.
    placed: AtomicU64,
}

impl<T: Thread> Trial<T> {
    pub(crate) fn new() -> Self {
        Self { beside: AtomicCell::new(None), runs: AtomicBool::new(false), placed: AtomicU64::new(0) }
    }

    /// Begins a trial.
    pub(crate) fn begin(&self) {
        self.runs.store(true, Relaxed);
        self.placed.store(0, Relaxed);
    }

    /// True during a trial.
    pub(crate) fn runs(&self) -> bool {
        self.runs.load(Relaxed)
    }

    /// Ends the trial, if there is one. Returns the number of threads that were placed beside their wakers
    /// during the trial.
    pub(crate) fn end(&self) -> Option<u64> {
        let ran = self.runs();
        self.runs.store(false, Relaxed);
        ran.then(|| self.placed.load(Relaxed))
    }

    /// Records that a thread is placed beside its waker.
    pub(crate) fn place(&self, thread: &'static T) {
        self.placed.store(self.placed.load(Relaxed).wrapping_add(1), Relaxed);
        self.beside.store(Some(thread));
    }

    /// The thread that was last placed beside its waker, if its waker is `waker`.
    pub(crate) fn beside(&self, waker: &'static T) -> Option<&'static T> {
        self.beside.load().filter(|thread| is(thread.entity().woken_by.load(), waker))
    }

    /// Ensures that the next [`APART`] threads that `waker` wakes are not placed beside it.
    pub(crate) fn separate(&self, waker: &'static T) {
        self.beside.store(None);
        waker.entity().apart.store(APART, Relaxed);
    }
}

/// Records that `waker` wakes `thread`. Returns true if the two threads wake each other and have the same
/// priority, so that `thread` probably waited for `waker`.
pub(crate) fn is_answer<T: Thread>(waker: &'static T, thread: &'static T) -> bool {
    let (own, other) = (waker.entity(), thread.entity());
    other.woken_by.store(Some(waker));
    let is_answer = is(own.woken_by.load(), thread) && own.rank() == other.rank();
    let apart = own.apart.load(Relaxed);
    if is_answer && apart > 0 {
        own.apart.store(apart - 1, Relaxed);
    }
    is_answer && apart == 0
}
