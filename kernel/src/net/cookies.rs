//! Who is woken when the stack names a cookie.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::WaitQueue as _;

use crate::fallible;
use crate::sync::WaitQueue;

static TABLE: SpinLock<Table> = SpinLock::new(Table { entries: Vec::new(), free: None });

/// Wait queues by cookie. Free entries are linked.
#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    free: Option<usize>,
}

#[derive(Debug)]
enum Entry {
    Used(Arc<Waiting>),
    /// The next one that is free.
    Free(Option<usize>),
}

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
        let entry = Entry::Used(Arc::clone(&waiting));
        let mut table = TABLE.lock();
        let number = match table.free {
            Some(number) => number,
            None => {
                table.entries.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                table.entries.push(Entry::Free(None));
                table.entries.len() - 1
            }
        };
        if let Some(slot) = table.entries.get_mut(number)
            && let Entry::Free(next) = core::mem::replace(slot, entry)
        {
            table.free = next;
        }
        Ok(Self { number, waiting })
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
        let mut table = TABLE.lock();
        let next = table.free.replace(self.number);
        let number = self.number;
        let entry = table.entries.get_mut(number).map(|slot| core::mem::replace(slot, Entry::Free(next)));
        drop(table);
        drop(entry);
    }
}

/// Wakes those who wait for a cookie.
pub(super) fn wake(number: usize) {
    let waiting = match TABLE.lock().entries.get(number) {
        Some(Entry::Used(waiting)) => Arc::clone(waiting),
        _ => return,
    };
    waiting.all.wake();
    waiting.takers.wake_one();
}
