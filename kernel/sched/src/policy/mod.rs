//! Scheduling policies: the order in which the ready threads of a CPU run.

mod fair;
mod fifo;
mod round_robin;

pub use fair::Fair;
pub use fifo::Fifo;
pub use round_robin::RoundRobin;

use crate::thread::Thread;

/// A run queue: the ready threads of a CPU, in the order of a policy. The current thread is not in it.
pub trait Policy<T: Thread>: Default + Send {
    /// Length of a time slice in nanoseconds; `None` if the policy has no time slices.
    const SLICE: Option<u64>;

    /// Whether the policy accounts for run time, so that [`Self::charge`] must be called.
    const ACCOUNTS: bool = false;

    /// Adds a woken or new thread.
    fn enqueue(&mut self, thread: &'static T);

    /// Adds the thread that ran until now and is still ready.
    fn requeue(&mut self, thread: &'static T);

    /// Takes the next thread, if the current one has blocked.
    fn pick_next(&mut self) -> Option<&'static T>;

    /// Takes the thread to run instead of `current`, which yields; `None` if `current` keeps the CPU.
    fn pick_on_yield(&mut self, current: &'static T) -> Option<&'static T>;

    /// [`Self::pick_on_yield`], then [`Self::requeue`] of `current` if that found a thread.
    #[inline]
    fn yield_to_next(&mut self, current: &'static T) -> Option<&'static T> {
        let next = self.pick_on_yield(current)?;
        self.requeue(current);
        Some(next)
    }

    /// Takes the thread to run instead of `current`, whose time slice is over; `None` if `current` keeps the CPU.
    fn pick_after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        self.pick_on_yield(current)
    }

    /// Takes a thread that preempts `current`, if there is one.
    fn pick_preempting(&mut self, current: &'static T) -> Option<&'static T> {
        let next = self.pick_next()?;
        if self.preempts(next, current) {
            return Some(next);
        }
        self.requeue(next);
        None
    }

    /// Whether `woken` preempts `current`.
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool;

    /// All threads of the run queue, for work stealing.
    fn iter(&self) -> impl Iterator<Item = &'static T>;

    /// Removes a thread that is in the run queue.
    fn dequeue(&mut self, thread: &'static T);

    /// Charges `thread` for a run time in nanoseconds.
    fn charge(&mut self, thread: &'static T, nanoseconds: u64) {
        let _ = (thread, nanoseconds);
    }
}
