//! What the scheduler keeps of a thread.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crossbeam_utils::atomic::AtomicCell;

use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

/// Highest priority; the lowest is 0.
pub const MAX_PRIORITY: u8 = 30;

/// A place for a thread, or for none.
pub type Slot<T> = AtomicCell<Option<&'static T>>;

/// Something that can be scheduled.
pub trait Thread: Sync + Sized + 'static {
    /// The scheduler's part of it.
    fn entity(&self) -> &Entity<Self>;

    /// Whether it still uses its stack: from the moment when a CPU switches to it until that CPU has switched
    /// to another.
    fn is_running(&self) -> bool;
}

/// The neighbours in a list.
#[derive(Debug)]
pub(crate) struct Links<T: 'static> {
    pub(crate) next: Slot<T>,
    pub(crate) previous: Slot<T>,
}

/// The place in the heap of timers.
#[derive(Debug)]
pub(crate) struct Timer<T: 'static> {
    /// When it is due.
    pub(crate) deadline: AtomicU64,
    pub(crate) child: Slot<T>,
    pub(crate) next: Slot<T>,
    /// The sibling before it, or the parent of the first child.
    pub(crate) previous: Slot<T>,
    /// Whether it is in a heap.
    pub(crate) queued: AtomicBool,
}

/// The scheduler's part of a thread.
#[derive(Debug)]
pub struct Entity<T: 'static> {
    pub(crate) ready: Links<T>,
    pub(crate) waiting: Links<T>,
    pub(crate) timer: Timer<T>,
    /// The address that it waits for, 0 if for none.
    pub(crate) address: AtomicU64,
    token: AtomicU32,
    cpu: AtomicU32,
    pinned: AtomicBool,
    /// How many priorities are higher.
    rank: AtomicU8,
    /// The level at which it is queued.
    pub(crate) level: AtomicU8,
    /// How long it has run, weighed, for the fair policy.
    pub(crate) runtime: AtomicU64,
}

/// Nobody has woken the thread since it last waited, and it runs or is ready.
const EMPTY: u32 = 0;
/// The thread waits.
const PARKED: u32 = 1;
/// The thread was woken before it waited.
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
    /// A thread of priority 0 that may run anywhere and last ran on CPU 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ready: Links::new(),
            waiting: Links::new(),
            timer: Timer {
                deadline: AtomicU64::new(0),
                child: AtomicCell::new(None),
                next: AtomicCell::new(None),
                previous: AtomicCell::new(None),
                queued: AtomicBool::new(false),
            },
            address: AtomicU64::new(0),
            token: AtomicU32::new(EMPTY),
            cpu: AtomicU32::new(0),
            pinned: AtomicBool::new(false),
            rank: AtomicU8::new(MAX_PRIORITY),
            level: AtomicU8::new(0),
            runtime: AtomicU64::new(0),
        }
    }

    /// The CPU on which it runs, or last ran, or is to run.
    #[inline]
    pub fn cpu(&self) -> u32 {
        self.cpu.load(Relaxed)
    }

    /// Notes on which CPU it runs.
    #[inline]
    pub(crate) fn set_cpu(&self, cpu: u32) {
        self.cpu.store(cpu, Relaxed);
    }

    /// Starts on this CPU, and with `pinned` stays there. To be called before the thread is made ready.
    pub fn place(&self, cpu: u32, pinned: bool) {
        self.set_cpu(cpu);
        self.pinned.store(pinned, Relaxed);
    }

    /// Whether it must stay on its CPU.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.pinned.load(Relaxed)
    }

    /// Its priority.
    #[inline]
    pub fn priority(&self) -> u8 {
        MAX_PRIORITY.saturating_sub(self.rank.load(Relaxed))
    }

    /// How many priorities are higher than its own.
    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.rank.load(Relaxed).into()
    }

    /// Changes the priority, at most to [`MAX_PRIORITY`]; it counts from when the thread next becomes ready.
    pub fn set_priority(&self, priority: u8) {
        self.rank.store(MAX_PRIORITY - priority.min(MAX_PRIORITY), Relaxed);
    }

    /// Forgets wake-ups and the time it has run, for a thread that starts anew.
    pub fn reset(&self) {
        self.token.store(EMPTY, Relaxed);
        self.runtime.store(0, Relaxed);
    }

    /// The thread itself says that it will wait. `false` if it was woken before: then it must not.
    #[inline]
    #[must_use]
    pub fn park(&self) -> bool {
        if self.token.compare_exchange(EMPTY, PARKED, AcqRel, Acquire).is_ok() {
            return true;
        }
        self.token.swap(EMPTY, AcqRel);
        false
    }

    /// Wakes the thread. `true` if it waits: then whoever asked must make it ready. Else it will not wait when it
    /// next wants to.
    #[inline]
    #[must_use]
    pub fn unpark(&self) -> bool {
        let mut token = self.token.load(Relaxed);
        loop {
            let next = if token == PARKED { EMPTY } else { NOTIFIED };
            // Even a token that stays as it is has to be written: what the waker did before must be seen.
            match self.token.compare_exchange(token, next, AcqRel, Relaxed) {
                Ok(_) => return token == PARKED,
                Err(now) => token = now,
            }
        }
    }

    /// Whether it waits for an address.
    #[inline]
    pub fn waits(&self) -> bool {
        self.address.load(Acquire) != 0
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{Entity, MAX_PRIORITY};
    use crate::testing::Simple;

    #[test]
    fn a_wake_up_before_the_wait_is_kept_once() {
        let entity = Entity::<Simple>::new();
        assert!(!entity.unpark());
        assert!(!entity.unpark());
        assert!(!entity.park());
        assert!(entity.park());
        assert!(entity.unpark());
        assert!(!entity.unpark());
        assert!(!entity.park());
    }

    #[test]
    fn priorities_have_a_limit() {
        let entity = Entity::<Simple>::new();
        entity.set_priority(u8::MAX);
        assert_eq!(entity.priority(), MAX_PRIORITY);
    }
}
