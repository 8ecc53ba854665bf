//! The poll leader: the thread that polls the network stack after the next interrupt of the network device.
//!
//! The stack has no thread of its own. Work that an interrupt announces, such as received frames or an empty
//! TX queue, waits until some thread polls the stack. This is either the leader or the kernel's poll thread.
//! The leader is a thread of the program that is blocked in a call, so it would have to be woken anyway. The
//! poll thread handles all other cases. A [`PollLeader`] guarantees that after each interrupt a new poll
//! begins:
//!
//! - An interrupt handler takes the leader and wakes it. If there is no leader, it wakes the poll thread.
//! - A thread that becomes the leader checks whether an interrupt has come since the last poll began, and
//!   polls before it sleeps if so. A leader that stops waiting checks the same, and wakes the poll thread if
//!   so.
//!
//! While the device is sending, the stack also holds back small writes, so that it can send them together
//! with later writes. When the TX queue is empty, an interrupt ends this. But when a thread is about to
//! sleep, no later write will join its data, so it need not wait for the interrupt. So data that is held back
//! is a reason for the leader to poll, but not for other threads.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::task::Waker;

use hermit_base::const_fn;
use hermit_base::sync::Mutex;
use hermit_base::sync::atomic::AtomicBool;
use lock_api::RawMutex;

/// The leader, and the reasons why it must poll.
#[derive(Debug)]
pub struct PollLeader<R: RawMutex> {
    leader: Mutex<R, Option<Waker>>,
    /// True if an interrupt has come since the last poll began.
    is_interrupted: AtomicBool,
    /// True if the stack may be holding back data since the last poll. It is written while the stack is
    /// locked. Threads that are about to sleep read it without the lock, but they lock the stack next.
    is_holding: AtomicBool,
}

impl<R: RawMutex> PollLeader<R> {
    const_fn! {
        /// Creates the state, without a leader.
        #[must_use]
        pub const fn new() -> Self {
            let leader = Mutex::const_new(R::INIT, None);
            Self { leader, is_interrupted: AtomicBool::new(false), is_holding: AtomicBool::new(false) }
        }
    }

    /// Notes an interrupt. Takes and returns the leader. The caller wakes the leader, or the poll thread if
    /// there is no leader.
    pub fn interrupt(&self) -> Option<Waker> {
        // The lock orders this function with `lead` and `resign`: either this function finds the leader, or
        // they see the interrupt.
        let mut leader = self.leader.lock();
        self.is_interrupted.store(true, Release);
        leader.take()
    }

    /// Notes that the stack holds back data until the device's TX queue is empty. The stack is locked.
    #[inline]
    pub fn hold(&self) {
        self.is_holding.store(true, Relaxed);
    }

    /// Notes that a poll begins. The poll finds all work that interrupts have announced so far. The stack is
    /// locked.
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

    /// Makes a thread the leader, in place of the previous leader. Returns true if the thread must poll
    /// before it sleeps.
    pub fn lead(&self, waker: &Waker) -> bool {
        let mut leader = self.leader.lock();
        if !leader.as_ref().is_some_and(|leader| leader.will_wake(waker)) {
            *leader = Some(waker.clone());
        }
        self.must_poll()
    }

    /// Returns true if the leader must poll: an interrupt has come since the last poll began, or the stack
    /// holds back data, which no later write will join.
    #[inline]
    pub fn must_poll(&self) -> bool {
        self.is_interrupted.load(Acquire) || self.is_holding.load(Relaxed)
    }

    /// Ends a thread's role as the leader, because it does not wait any more. Returns true if an interrupt
    /// has come after which no other thread polls. The caller then wakes the poll thread.
    pub fn resign(&self, waker: &Waker) -> bool {
        let mut leader = self.leader.lock();
        if leader.as_ref().is_some_and(|leader| leader.will_wake(waker)) {
            *leader = None;
        }
        // If there is another leader, it became the leader after the interrupt, and polls.
        leader.is_none() && self.is_interrupted.load(Acquire)
    }
}

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
