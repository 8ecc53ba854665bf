//! Who is next.

mod fair;
mod fifo;
mod round_robin;

pub use fair::Fair;
pub use fifo::Fifo;
pub use round_robin::RoundRobin;

use crate::thread::Thread;

/// How the ready threads of a CPU are ordered. The thread that runs is not among them.
pub trait Policy<T: Thread>: Default + Send {
    /// After how many nanoseconds the running thread must let others run, if it must at all.
    const SLICE: Option<u64>;

    /// Whether [`Self::charge`] is to be called.
    const ACCOUNTS: bool = false;

    /// Adds a thread that was woken or is new.
    fn add(&mut self, thread: &'static T);

    /// Adds the thread that ran until now and could go on.
    fn put_back(&mut self, thread: &'static T);

    /// Takes the thread that is to run next, if the running one cannot go on.
    fn next(&mut self) -> Option<&'static T>;

    /// Takes the thread that is to run instead of `current`, which lets others go first.
    fn instead_of(&mut self, current: &'static T) -> Option<&'static T>;

    /// [`Self::instead_of`], and [`Self::put_back`] if there is somebody.
    #[inline]
    fn exchange(&mut self, current: &'static T) -> Option<&'static T> {
        let next = self.instead_of(current)?;
        self.put_back(current);
        Some(next)
    }

    /// Takes the thread that is to run because the slice of `current` is over.
    fn after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        self.instead_of(current)
    }

    /// Takes a thread that should run at once instead of `current`, if there is one.
    fn better_than(&mut self, current: &'static T) -> Option<&'static T> {
        let next = self.next()?;
        if self.preempts(next, current) {
            return Some(next);
        }
        self.put_back(next);
        None
    }

    /// Whether `woken` should run at once instead of `current`.
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool;

    /// All threads, for one to be stolen.
    fn iter(&self) -> impl Iterator<Item = &'static T>;

    /// Takes out one of them.
    fn remove(&mut self, thread: &'static T);

    /// `thread` has run for so many nanoseconds.
    fn charge(&mut self, thread: &'static T, nanoseconds: u64) {
        let _ = (thread, nanoseconds);
    }
}
