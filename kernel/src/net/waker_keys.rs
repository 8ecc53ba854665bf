//! Waker keys: numbers by which the stack names the waiters of a socket.

use alloc::sync::Arc;

use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::SlotMap;

use crate::fallible;
use crate::sync::WaitQueue;

/// Wait queues by waker key.
static TABLE: SpinLock<SlotMap<Arc<Waiters>>> = SpinLock::new(SlotMap::new());

/// Threads that wait for a socket, or for the sockets of a lookup.
#[derive(Debug)]
struct Waiters {
    all: WaitQueue,
    exclusive: WaitQueue,
}

/// A waker key with its wait queues. The stack must not use the key any more when this value is dropped.
#[derive(Debug)]
pub(super) struct WakerKey {
    number: usize,
    waiters: Arc<Waiters>,
}

impl WakerKey {
    /// Allocates a waker key.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        let waiters = Waiters { all: WaitQueue::new(), exclusive: WaitQueue::new() };
        let waiters = fallible::arc(waiters).ok_or(Errno::ENOMEM)?;
        loop {
            let mut table = TABLE.lock();
            if let Ok(number) = table.insert(Arc::clone(&waiters)) {
                return Ok(Self { number, waiters });
            }
            let plan = table.plan();
            drop(table);
            // The chunk is allocated without the spinlock, which masks interrupts. If another thread has
            // grown the table meanwhile, the chunk is also freed without the spinlock.
            let chunk = plan.ok_or(Errno::ENOMEM)?.allocate().map_err(|_| Errno::ENOMEM)?;
            let surplus = TABLE.lock().grow(chunk);
            drop(surplus);
        }
    }

    /// Returns the number that the stack uses.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// Returns the queue of waiters that are all woken by each event.
    pub(super) fn waiters(&self) -> &WaitQueue {
        &self.waiters.all
    }

    /// Returns the queue of exclusive waiters: each event wakes only one of them. It is for events that a
    /// single thread consumes: a connection to accept, or a datagram.
    ///
    /// No wake-up is lost: a woken thread retries its call, and waits again only if the call fails with
    /// `EAGAIN`. So while threads wait, at least as many woken threads have yet to retry as there are events.
    pub(super) fn exclusive_waiters(&self) -> &WaitQueue {
        &self.waiters.exclusive
    }
}

impl Drop for WakerKey {
    fn drop(&mut self) {
        let waiters = TABLE.lock().remove(self.number);
        // The queues are freed without the spinlock.
        drop(waiters);
    }
}

/// Wakes the waiters of a waker key.
pub(super) fn wake(number: usize) {
    let waiters = TABLE.lock().get(number).map(Arc::clone);
    let Some(waiters) = waiters else { return };
    waiters.all.wake();
    waiters.exclusive.wake_one();
}
