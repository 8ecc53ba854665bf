//! The poll leader: the thread that polls the network stack after the next interrupt of its device.
//!
//! The stack has no thread of its own. Work that an interrupt announces, such as received frames or an empty
//! TX queue, waits until some thread polls the stack. Two kinds of threads do: the leader, a thread of the
//! program that is blocked in a call and would have to be woken anyway, and the kernel's poll thread for all
//! other cases. A [`PollLeader`] guarantees that each interrupt is followed by a poll that begins after it:
//!
//! - An interrupt takes the leader and wakes it. Without a leader the caller wakes the poll thread.
//! - A thread that becomes the leader, or that stops waiting, learns whether an interrupt has come since the
//!   last poll began. The leader then polls before it sleeps, and the thread that leaves calls the poll
//!   thread.
//!
//! The stack also holds small writes back while the device is sending, so that later ones join them. The
//! interrupt of the empty TX queue ends that. A thread that is about to sleep need not wait for the
//! interrupt: nothing will join the data. So data that is held back is a reason to poll for the leader, but
//! for no other thread.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::task::Waker;

use lock_api::RawMutex;

use crate::sync::{AtomicBool, Lock};

/// The leader, and the reasons why it must poll.
#[derive(Debug)]
pub struct PollLeader<R: RawMutex> {
    leader: Lock<R, Option<Waker>>,
    /// True if an interrupt has come since the last poll began.
    is_interrupted: AtomicBool,
    /// True if the stack may hold data back since the last poll. Accessed with the stack locked, and by
    /// threads that are about to sleep, which lock it next.
    is_holding: AtomicBool,
}

impl<R: RawMutex> PollLeader<R> {
    /// Creates the state without a leader.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        let leader = Lock::const_new(R::INIT, None);
        Self { leader, is_interrupted: AtomicBool::new(false), is_holding: AtomicBool::new(false) }
    }

    /// Takes note of an interrupt. Returns the leader, if there is one: the caller wakes it, or the poll
    /// thread.
    pub fn interrupt(&self) -> Option<Waker> {
        // The lock orders this with `lead` and `resign`: either this finds the leader, or they see the
        // interrupt.
        let mut leader = self.leader.lock();
        self.is_interrupted.store(true, Release);
        leader.take()
    }

    /// Takes note that the stack holds data back until the device's TX queue is empty. The stack is locked.
    #[inline]
    pub fn hold(&self) {
        self.is_holding.store(true, Relaxed);
    }

    /// Takes note that a poll begins, which finds everything that interrupts have announced so far. The stack
    /// is locked.
    #[inline]
    pub fn begin_poll(&self) {
        self.is_holding.store(false, Relaxed);
        if self.is_interrupted.load(Relaxed) {
            // Acquire: pairs with the release in `interrupt`, so that the poll sees what the interrupt
            // announced. A plain store could pass the poll's first reads, and would then discard a later
            // interrupt.
            self.is_interrupted.swap(false, AcqRel);
        }
    }

    /// Makes a thread the leader in place of another. Returns true if it must poll before it sleeps.
    pub fn lead(&self, waker: &Waker) -> bool {
        let mut leader = self.leader.lock();
        if !leader.as_ref().is_some_and(|leader| leader.will_wake(waker)) {
            *leader = Some(waker.clone());
        }
        self.must_poll()
    }

    /// True if an interrupt has come since the last poll began, or data is held back that no later write will
    /// join.
    #[inline]
    pub fn must_poll(&self) -> bool {
        self.is_interrupted.load(Acquire) || self.is_holding.load(Relaxed)
    }

    /// Ends a thread's role as the leader: it does not wait any more. Returns true if an interrupt came that
    /// no thread answers by a poll. The caller then calls the poll thread.
    pub fn resign(&self, waker: &Waker) -> bool {
        let mut leader = self.leader.lock();
        if leader.as_ref().is_some_and(|leader| leader.will_wake(waker)) {
            *leader = None;
        }
        // Another leader has begun to wait after the interrupt, and polls.
        leader.is_none() && self.is_interrupted.load(Acquire)
    }
}

#[cfg(not(loom))]
impl<R: RawMutex> Default for PollLeader<R> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[cfg(loom)]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::PollLeader;
    use alloc::sync::Arc;
    use core::task::Waker;
    use std::task::Wake;

    type Leader = PollLeader<parking_lot::RawMutex>;

    #[derive(Debug)]
    struct Thread;

    impl Wake for Thread {
        fn wake(self: Arc<Self>) {}
    }

    fn thread() -> Waker {
        Waker::from(Arc::new(Thread))
    }

    #[test]
    fn interrupt_takes_the_last_leader() {
        let (leader, first, second) = (Leader::new(), thread(), thread());
        assert!(!leader.lead(&first));
        assert!(!leader.lead(&second));
        let taken = leader.interrupt().expect("there is a leader");
        assert!(taken.will_wake(&second));
        assert!(leader.interrupt().is_none(), "the poll thread is called");
    }

    #[test]
    fn thread_that_was_woken_must_poll_until_a_poll_begins() {
        let (leader, waker) = (Leader::new(), thread());
        leader.lead(&waker);
        leader.interrupt();
        assert!(leader.must_poll());
        assert!(leader.lead(&waker), "an interrupt without received frames is a reason to poll as well");
        leader.begin_poll();
        assert!(!leader.lead(&waker));
    }

    #[test]
    fn thread_that_leaves_after_an_interrupt_calls_the_poll_thread() {
        let (leader, waker) = (Leader::new(), thread());
        leader.lead(&waker);
        leader.interrupt();
        assert!(leader.resign(&waker));
        leader.begin_poll();
        assert!(!leader.resign(&waker));
    }

    #[test]
    fn thread_that_leaves_relies_on_a_later_leader() {
        let (leader, first, second) = (Leader::new(), thread(), thread());
        leader.lead(&first);
        leader.interrupt();
        assert!(leader.lead(&second), "the second one polls");
        assert!(!leader.resign(&first));
    }

    #[test]
    fn held_data_is_sent_by_who_sleeps_alone() {
        let (leader, waker) = (Leader::new(), thread());
        leader.hold();
        assert!(!leader.resign(&waker), "the interrupt of the empty TX queue follows");
        assert!(leader.lead(&waker));
        leader.begin_poll();
        assert!(!leader.must_poll());
    }
}
