//! Turns of calls at something that one of them uses at a time, longer than a lock may be held.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::{Context, Waker};

use hermit_interface::Errno;

use crate::system::boxed;

/// Whether a call has its turn, and the calls that wait for its end. It lies under a lock, which is held for each of the
/// methods only.
#[derive(Debug)]
pub(crate) struct Turns {
    is_taken: bool,
    /// `None` until a call waits: most of what has turns never has a list to free.
    waiting: Option<Waiting>,
}

/// Calls that wait. An array of one list, since a box of it can be allocated without panicking.
type Waiting = Box<[Vec<Waker>; 1]>;

impl Turns {
    pub(crate) const fn new() -> Self {
        Self { is_taken: false, waiting: None }
    }

    /// Whether a call has its turn; then the waker is registered for its end.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub(crate) fn is_pending(&mut self, context: &Context<'_>) -> Result<bool, Errno> {
        if self.is_taken {
            self.wait(context)?;
        }
        Ok(self.is_taken)
    }

    #[cold]
    fn wait(&mut self, context: &Context<'_>) -> Result<(), Errno> {
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            none => none.insert(boxed(Vec::new)?),
        };
        let [waiting] = &mut **waiting;
        waiting.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        waiting.push(context.waker().clone());
        Ok(())
    }

    /// Whether a call has its turn.
    #[inline]
    pub(crate) const fn is_taken(&self) -> bool {
        self.is_taken
    }

    pub(crate) const fn begin(&mut self) {
        self.is_taken = true;
    }

    /// Ends the turn; returns the calls that wait, to be [woken](wake) when the lock is not held any more.
    pub(crate) fn end(&mut self) -> Vec<Waker> {
        self.is_taken = false;
        self.waiting.take().map_or_else(Vec::new, |waiting| {
            let [waiting] = *waiting;
            waiting
        })
    }
}

/// Wakes calls that waited for the end of a turn.
pub(crate) fn wake(waiting: Vec<Waker>) {
    for waker in waiting {
        waker.wake();
    }
}
