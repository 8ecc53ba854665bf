//! The scheduler's part of a thread: the [`Entity`], with its park token.
//!
//! The kernel's thread type contains an [`Entity`] and implements [`Thread`]. All links of the scheduler's
//! lists, trees and heaps are fields of the entity, so no operation allocates.
//!
//! A thread blocks in two steps, as in `std::thread::park`: it registers itself with its waker, and then
//! parks. A wake-up between the two steps must not be lost. So the entity has a token: [`Entity::unpark`]
//! sets it if the thread is not parked, and [`Entity::park`] consumes it and returns at once. Kernel code
//! that sleeps for its own purposes uses the same token. Such a sleep may consume a wake-up that was meant
//! for the program's wait; [`Entity::poll_several`] handles this case.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::task::Poll;

use crossbeam_utils::atomic::AtomicCell;

pub use crate::link::Link;
use hermit_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use crate::link::TimerLink;
use crate::wait_tree::TreeNode;

/// Highest priority; the lowest is 0.
pub const MAX_PRIORITY: u8 = 30;

/// Special virtual runtime of a thread that is new on its CPU. It counts as the virtual time of the CPU.
pub(crate) const NO_CREDIT: u64 = u64::MAX;

/// Virtual runtime of a thread that has slept and wakes up on another CPU, if one of the two CPUs does not
/// account for run time. It gives the thread the maximum credit.
pub(crate) const FULL_CREDIT: u64 = 0;

/// Priority of std's threads.
pub const NORMAL_PRIORITY: u8 = 2;

/// Rank of [`NORMAL_PRIORITY`]: the index of its list in a run queue.
pub(crate) const NORMAL_RANK: usize = (MAX_PRIORITY - NORMAL_PRIORITY) as usize;

/// Number of unused ranks between the normal priority and the lower ones. A policy that keeps normal threads
/// in several lists uses the lists of these ranks.
pub(crate) const NORMAL_LISTS: u8 = 32;

/// Returns the rank of a priority: ready threads of a lower rank run first.
fn rank(priority: u8) -> u32 {
    let gap = if priority < NORMAL_PRIORITY { NORMAL_LISTS } else { 0 };
    (MAX_PRIORITY - priority.min(MAX_PRIORITY) + gap).into()
}

/// A thread that can be scheduled.
pub trait Thread: Sync + Sized + 'static {
    /// The scheduler's part of the thread.
    fn entity(&self) -> &Entity<Self>;

    /// Returns true if the thread uses its stack: from the moment when a CPU switches to it until that CPU
    /// has switched away from it.
    fn is_running(&self) -> bool;
}

/// The links of a list (see [`crate::list`]).
#[derive(Debug)]
pub(crate) struct Links<T: 'static> {
    pub(crate) next: Link<T>,
    /// The previous thread. The value is arbitrary in the first thread of a list.
    pub(crate) previous: Link<T>,
}

/// The node in a [`TimerHeap`](crate::timers::TimerHeap).
#[derive(Debug)]
pub(crate) struct TimerNode<T: 'static> {
    /// Time at which the timer expires, in nanoseconds of the caller's clock.
    pub(crate) deadline: AtomicU64,
    pub(crate) children: [TimerLink<T>; 2],
    pub(crate) parent: TimerLink<T>,
    /// One more than the lower rank of the two children; an absent child has rank 0.
    pub(crate) rank: AtomicU8,
    /// True if the node is in a heap. When it has left the heap, the owner may insert it into another CPU's
    /// heap.
    pub(crate) queued: AtomicBool,
}

/// The scheduler's part of a thread.
#[derive(Debug)]
pub struct Entity<T: 'static> {
    pub(crate) ready: Links<T>,
    pub(crate) waiting: Links<T>,
    pub(crate) tree: TreeNode<T>,
    pub(crate) timer: TimerNode<T>,
    /// The futex address that the thread waits for; 0 if it waits for none.
    pub(crate) address: AtomicU64,
    /// Epoch of the futex bucket when the thread began to wait.
    pub(crate) wait_epoch: AtomicU64,
    /// The park token: [`EMPTY`], [`PARKED`] or [`NOTIFIED`].
    token: AtomicU32,
    /// Number of the thread's sleeps, which wraps. Only the thread itself accesses it.
    sleeps: AtomicU32,
    cpu: AtomicU32,
    pinned: AtomicBool,
    /// Position of the thread's priority in the order of priorities, highest first ([`rank`]).
    rank: AtomicU32,
    /// Virtual runtime in nanoseconds on the thread's CPU, for the fair policy, or [`NO_CREDIT`] or
    /// [`FULL_CREDIT`].
    pub(crate) runtime: AtomicU64,
    /// The thread that last woke this one, where several CPUs run. Threads are never freed.
    pub(crate) woken_by: Link<T>,
    /// Number of the thread's next wake-ups that must not place the woken thread on this thread's CPU. Only
    /// the CPU that runs the thread accesses it.
    pub(crate) apart: AtomicU32,
    /// Accounted run time of the thread, in nanoseconds, since it last blocked or yielded.
    pub(crate) run_ns: AtomicU64,
}

/// The thread runs or is ready, and has not been unparked since it last parked.
const EMPTY: u32 = 0;
/// The thread is parked.
const PARKED: u32 = 1;
/// The thread was unparked while it was not parked: its next park returns at once.
const NOTIFIED: u32 = 2;

impl<T> Links<T> {
    fn new() -> Self {
        Self { next: AtomicCell::new(None), previous: AtomicCell::new(None) }
    }
}

impl<T> Default for Entity<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Entity<T> {
    /// Creates the entity of a thread of priority 0 that is not pinned and last ran on CPU 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ready: Links::new(),
            waiting: Links::new(),
            tree: TreeNode::new(),
            timer: TimerNode {
                deadline: AtomicU64::new(0),
                children: [TimerLink::new(None), TimerLink::new(None)],
                parent: TimerLink::new(None),
                rank: AtomicU8::new(0),
                queued: AtomicBool::new(false),
            },
            address: AtomicU64::new(0),
            wait_epoch: AtomicU64::new(0),
            token: AtomicU32::new(EMPTY),
            sleeps: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            pinned: AtomicBool::new(false),
            rank: AtomicU32::new(rank(0)),
            runtime: AtomicU64::new(NO_CREDIT),
            woken_by: AtomicCell::new(None),
            apart: AtomicU32::new(0),
            run_ns: AtomicU64::new(0),
        }
    }

    /// Number of the CPU on which the thread runs, last ran, or will run next.
    #[inline]
    pub fn cpu(&self) -> u32 {
        self.cpu.load(Relaxed)
    }

    /// Records the CPU on which the thread runs. If it is a different CPU than before, sets the virtual
    /// runtime to `runtime`.
    #[inline]
    pub(crate) fn set_cpu(&self, cpu: u32, runtime: u64) {
        if self.cpu() != cpu {
            self.runtime.store(runtime, Relaxed);
            self.cpu.store(cpu, Relaxed);
        }
    }

    /// Assigns the thread to a CPU; with `pinned` it never migrates. Must be called before the thread is made
    /// ready.
    pub fn assign_cpu(&self, cpu: u32, pinned: bool) {
        self.set_cpu(cpu, NO_CREDIT);
        self.pinned.store(pinned, Relaxed);
    }

    /// Sets a new thread's virtual runtime to that of its creator, which has the same CPU and priority. An
    /// entity that is used again keeps its old virtual runtime if that is greater.
    pub(crate) fn inherit(&self, creator: &Self) {
        let own = self.runtime.load(Relaxed);
        let inherited = creator.accounted_runtime().filter(|_| self.rank() == NORMAL_RANK);
        if let Some(inherited) = inherited.filter(|&inherited| own == NO_CREDIT || own < inherited) {
            self.runtime.store(inherited, Relaxed);
        }
    }

    /// Virtual runtime in nanoseconds; `None` if the thread is new on its CPU, or if it does not have normal
    /// priority: such threads are not charged.
    pub(crate) fn accounted_runtime(&self) -> Option<u64> {
        let runtime = self.runtime.load(Relaxed);
        (runtime != NO_CREDIT && self.rank() == NORMAL_RANK).then_some(runtime)
    }

    /// Returns true if the thread is pinned to its CPU.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.pinned.load(Relaxed)
    }

    /// Priority of the thread.
    #[inline]
    pub fn priority(&self) -> u8 {
        let rank = self.rank.load(Relaxed).to_le_bytes()[0];
        let gap = if usize::from(rank) > NORMAL_RANK { NORMAL_LISTS } else { 0 };
        (MAX_PRIORITY + gap).saturating_sub(rank)
    }

    /// Index of the list of the thread's priority in a run queue. Threads with a lower rank run first.
    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.rank.load(Relaxed) as usize
    }

    /// Sets the priority, at most [`MAX_PRIORITY`]. It takes effect when the thread next becomes ready.
    pub fn set_priority(&self, priority: u8) {
        self.rank.store(rank(priority), Relaxed);
    }

    /// Clears the park token, for an entity that is reused for a new thread.
    ///
    /// Keeps the virtual runtime. Otherwise a program could get more than its share by starting and joining
    /// threads.
    pub fn reset(&self) {
        self.token.store(EMPTY, Relaxed);
    }

    /// Parks the calling thread. Returns false if the thread was unparked before: then the token is consumed,
    /// and the thread must not block.
    #[inline]
    #[must_use]
    pub fn park(&self) -> bool {
        if self.token.compare_exchange(EMPTY, PARKED, AcqRel, Acquire).is_ok() {
            return true;
        }
        self.token.swap(EMPTY, AcqRel);
        false
    }

    /// Unparks the thread. Returns true if the thread was parked: then the caller must make it ready.
    /// Otherwise the next park of the thread returns at once.
    #[inline]
    #[must_use]
    pub fn unpark(&self) -> bool {
        // The usual case: the thread is parked.
        if self.token.compare_exchange(PARKED, EMPTY, AcqRel, Relaxed).is_ok() {
            true
        } else {
            self.unpark_slow()
        }
    }

    /// Slow path of [`Self::unpark`], for a thread that was not parked.
    #[cold]
    fn unpark_slow(&self) -> bool {
        let mut token = self.token.load(Relaxed);
        loop {
            let next = if token == PARKED { EMPTY } else { NOTIFIED };
            // Writes the token even if its value stays the same: the release makes earlier writes of the
            // waker visible to the thread.
            match self.token.compare_exchange(token, next, AcqRel, Relaxed) {
                Ok(_) => return token == PARKED,
                Err(now) => token = now,
            }
        }
    }

    /// Counts a sleep of the calling thread, which is about to park for the kernel's own purposes.
    #[inline]
    pub fn count_sleep(&self) {
        self.sleeps.store(self.sleeps.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Polls several objects for the calling thread, which will park if none of them is ready.
    ///
    /// A poll may sleep, to wait for a lock or for a device. Such a sleep consumes the park token, although
    /// an object that was polled earlier may have set it meanwhile. So after a sleep this sets the token
    /// again. The thread then polls once more instead of parking.
    #[inline]
    pub fn poll_several<R>(&self, poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
        let before = self.sleeps.load(Relaxed);
        let polled = poll();
        if polled.is_pending() && self.sleeps.load(Relaxed) != before {
            self.set_token();
        }
        polled
    }

    /// Makes the next park of the calling thread return at once.
    #[cold]
    fn set_token(&self) {
        // The calling thread is not parked, so it need not be made ready.
        let _: bool = self.unpark();
    }

    /// Returns true if the thread waits for a futex address.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.address.load(Acquire) != 0
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use core::task::Poll;

    extern crate std;

    use super::{Entity, MAX_PRIORITY, NO_CREDIT, NORMAL_PRIORITY, NORMAL_RANK, Relaxed};
    use crate::testing::TestThread;
    use std::vec::Vec;

    #[test]
    fn new_thread_has_the_runtime_of_its_creator_or_more_of_its_own() {
        let [creator, thread, high] = [(); 3].map(|()| Entity::<TestThread>::new());
        [&creator, &thread].into_iter().for_each(|entity| entity.set_priority(NORMAL_PRIORITY));
        high.set_priority(NORMAL_PRIORITY + 1);
        [&creator, &high].into_iter().for_each(|entity| entity.runtime.store(5, Relaxed));
        thread.inherit(&high);
        assert_eq!(thread.runtime.load(Relaxed), NO_CREDIT, "a thread of high priority is not charged");
        for (own, expected) in [(NO_CREDIT, 5), (3, 5), (8, 8)] {
            thread.runtime.store(own, Relaxed);
            thread.inherit(&creator);
            assert_eq!(thread.runtime.load(Relaxed), expected);
        }
    }

    #[test]
    fn unpark_before_park_is_kept_once() {
        let entity = Entity::<TestThread>::new();
        assert!(!entity.unpark());
        assert!(!entity.unpark());
        assert!(!entity.park());
        assert!(entity.park());
        assert!(entity.unpark());
        assert!(!entity.unpark());
        assert!(!entity.park());
    }

    /// The first object sets the token, and the poll of the second sleeps, which consumes it.
    #[test]
    fn token_that_a_sleep_in_a_poll_of_several_objects_consumes_is_set_again() {
        let entity = Entity::<TestThread>::new();
        let polled = entity.poll_several(|| {
            assert!(!entity.unpark());
            entity.count_sleep();
            assert!(!entity.park());
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert!(!entity.park(), "the thread waits");
        assert!(entity.park());
    }

    #[test]
    fn poll_of_several_objects_without_a_sleep_or_with_a_ready_object_sets_no_token() {
        let entity = Entity::<TestThread>::new();
        // Sleeps before the poll do not matter.
        entity.count_sleep();
        assert!(entity.poll_several(|| Poll::<()>::Pending).is_pending());
        let ready = entity.poll_several(|| {
            entity.count_sleep();
            Poll::Ready(7)
        });
        assert_eq!(ready, Poll::Ready(7));
        assert!(entity.park());
    }

    #[test]
    fn set_priority_clamps_to_max_priority() {
        let entity = Entity::<TestThread>::new();
        entity.set_priority(u8::MAX);
        assert_eq!(entity.priority(), MAX_PRIORITY);
    }

    #[test]
    fn ranks_are_in_the_order_of_priorities_with_a_gap_behind_the_normal_one() {
        let entity = Entity::<TestThread>::new();
        let ranks = (0..=MAX_PRIORITY).rev().map(|priority| {
            entity.set_priority(priority);
            assert_eq!(entity.priority(), priority);
            entity.rank()
        });
        let ranks: Vec<_> = ranks.collect();
        assert!(ranks.is_sorted() && ranks[0] == 0);
        assert_eq!(ranks[NORMAL_RANK..], [28, 61, 62]);
    }
}
