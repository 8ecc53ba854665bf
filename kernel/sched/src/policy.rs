//! Scheduling policies: the order in which the ready threads of a CPU run.

mod fair;
mod fifo;
mod round_robin;

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) use fair::CREDIT_NS;
pub use fair::Fair;
pub use fifo::Fifo;
pub use round_robin::RoundRobin;

use crate::thread::Thread;

/// A run queue: the ready threads of a CPU, in the order of a policy. The current thread is not in it.
pub trait Policy<T: Thread>: Default + Send {
    /// Length of a time slice in nanoseconds; `None` if the policy has no time slices.
    const SLICE: Option<u64>;

    /// Minimum run time, in nanoseconds, of a thread that computes; `None` if the policy never accounts for
    /// run time.
    const LONG_RUN: Option<u64> = None;

    /// Adds a woken or new thread. While run time is accounted, [`Self::place`] follows.
    fn enqueue(&mut self, thread: &'static T);

    /// Adds the thread that ran until now and is still ready.
    fn requeue(&mut self, thread: &'static T);

    /// Takes the next thread, after the current thread has blocked.
    fn pick_next(&mut self) -> Option<&'static T>;

    /// Takes the thread to run instead of `current`, which yields; `None` if `current` keeps the CPU.
    fn pick_on_yield(&mut self, current: &'static T) -> Option<&'static T>;

    /// Adds `current`, which yields, after the threads of its priority, and takes the first of them. Returns
    /// `None` and changes nothing if a thread of another priority is next, or if the policy decides by run
    /// time.
    fn yield_to_equal(&mut self, current: &'static T) -> Option<&'static T>;

    /// Takes the thread to run instead of `current`, whose time slice is over; `None` if `current` keeps the
    /// CPU.
    fn pick_after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        self.pick_on_yield(current)
    }

    /// Takes a thread that preempts `current`, if there is one.
    fn pick_preempting(&mut self, current: &'static T) -> Option<&'static T>;

    /// True if `woken`, which was added, preempts `current` while run time is not accounted.
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool;

    /// While run time is accounted, moves `woken`, which was added last, to its place in the order. Returns
    /// true if `woken` preempts `current`.
    fn place(&mut self, woken: &'static T, current: &'static T) -> bool {
        self.preempts(woken, current)
    }

    /// All threads of the run queue, for work stealing, with the numbers of their lists.
    fn iter(&self) -> impl Iterator<Item = (usize, &'static T)>;

    /// Removes a thread that is in the run queue, in the list of this number.
    fn dequeue(&mut self, list: usize, thread: &'static T);

    /// True if the policy accounts for run time now, so that [`Self::charge`] must be called.
    #[inline]
    fn is_accounting(&self) -> bool {
        false
    }

    /// Virtual time in nanoseconds, while run time is accounted.
    fn virtual_time(&self) -> u64 {
        0
    }

    /// Called at the time `now`, in nanoseconds, when `current` was found to compute and has run for
    /// `ran_ns`. The policy may begin to account for run time.
    fn begin_accounting(&mut self, now: u64, current: &'static T, ran_ns: u64) {
        let _ = (now, current, ran_ns);
    }

    /// Charges `current` for a run time in nanoseconds.
    fn charge(&mut self, current: &'static T, ran_ns: u64) {
        let _ = (current, ran_ns);
    }

    /// Records that `current`, which was charged, blocks or yields.
    fn end_run(&mut self, current: &'static T) {
        let _ = current;
    }

    /// Ends a time slice. The policy may stop accounting for run time.
    fn end_slice(&mut self) {}
}
