//! Who is woken when the stack names a cookie.

use alloc::sync::Arc;

use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{SlotMap, WaitQueue as _};

use crate::fallible;
use crate::sync::WaitQueue;

/// Wait queues by cookie.
static TABLE: SpinLock<SlotMap<Arc<Waiting>>> = SpinLock::new(SlotMap::new());

/// Those who wait for something of a socket, or for an answer.
#[derive(Debug)]
struct Waiting {
    all: WaitQueue,
    takers: WaitQueue,
}

/// A cookie, and those who are woken by it. It must not be in use with the stack any more when it is dropped.
#[derive(Debug)]
pub(super) struct Cookie {
    number: usize,
    waiting: Arc<Waiting>,
}

impl Cookie {
    /// A new one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        let waiting = Waiting { all: WaitQueue::new(), takers: WaitQueue::new() };
        let waiting = fallible::arc(waiting).ok_or(Errno::ENOMEM)?;
        loop {
            let mut table = TABLE.lock();
            if let Ok(number) = table.insert(Arc::clone(&waiting)) {
                return Ok(Self { number, waiting });
            }
            let plan = table.plan();
            drop(table);
            // Allocated without the lock, which masks interrupts; freed, too, if another thread was faster.
            let chunk = plan.ok_or(Errno::ENOMEM)?.allocate().map_err(|_| Errno::ENOMEM)?;
            let surplus = TABLE.lock().grow(chunk);
            drop(surplus);
        }
    }

    /// What the stack gets.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// Those who are all woken.
    pub(super) fn waiters(&self) -> &WaitQueue {
        &self.waiting.all
    }

    /// Those of whom one is woken each time: for what comes singly, and is the same to all of them.
    ///
    /// No wake-up is lost, for whoever is woken looks, takes what is there, and waits again only if nothing is: those who have been
    /// woken and have not looked yet are never fewer than what is there, as long as somebody waits.
    pub(super) fn takers(&self) -> &WaitQueue {
        &self.waiting.takers
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        let waiting = TABLE.lock().remove(self.number);
        // Without the lock.
        drop(waiting);
    }
}

/// Wakes those who wait for a cookie.
pub(super) fn wake(number: usize) {
    let waiting = TABLE.lock().get(number).map(Arc::clone);
    let Some(waiting) = waiting else { return };
    waiting.all.wake();
    waiting.takers.wake_one();
}
