//! Turns of calls at something that one of them uses at a time, longer than a lock may be held.

use alloc::vec::Vec;
use core::mem;
use core::task::{Context, Waker};

use hermit_interface::Errno;

/// Whether a call has its turn, and the calls that wait for its end. It lies under a lock, which is held for each of the
/// methods only.
#[derive(Debug)]
pub(crate) struct Turns {
    is_taken: bool,
    waiting: Vec<Waker>,
}

impl Turns {
    pub(crate) const fn new() -> Self {
        Self { is_taken: false, waiting: Vec::new() }
    }

    /// Whether a call has its turn; then the waker is registered for its end.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub(crate) fn is_pending(&mut self, context: &Context<'_>) -> Result<bool, Errno> {
        if self.is_taken {
            self.waiting.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            self.waiting.push(context.waker().clone());
        }
        Ok(self.is_taken)
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
        mem::take(&mut self.waiting)
    }
}

/// Wakes calls that waited for the end of a turn.
pub(crate) fn wake(waiting: Vec<Waker>) {
    for waker in waiting {
        waker.wake();
    }
}
