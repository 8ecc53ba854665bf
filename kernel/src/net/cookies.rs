//! Who is woken when the stack names a cookie.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::Waiters as _;

use crate::fallible;
use crate::waiters::Waiters;

static TABLE: SpinLock<Table> = SpinLock::new(Table { entries: Vec::new(), free: None });

/// Waiters by cookie. Free entries are linked.
#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    free: Option<usize>,
}

#[derive(Debug)]
enum Entry {
    Used(Arc<Waiters>),
    /// The next one that is free.
    Free(Option<usize>),
}

/// A cookie, and those who are woken by it. It must not be in use with the stack any more when it is dropped.
#[derive(Debug)]
pub(super) struct Cookie {
    number: usize,
    waiters: Arc<Waiters>,
}

impl Cookie {
    /// A new one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        let waiters = fallible::arc(Waiters::new()).ok_or(Errno::ENOMEM)?;
        let entry = Entry::Used(Arc::clone(&waiters));
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
        Ok(Self { number, waiters })
    }

    /// What the stack gets.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// Those who are woken.
    pub(super) fn waiters(&self) -> &Waiters {
        &self.waiters
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
    let waiters = match TABLE.lock().entries.get(number) {
        Some(Entry::Used(waiters)) => Arc::clone(waiters),
        _ => return,
    };
    waiters.wake();
}
