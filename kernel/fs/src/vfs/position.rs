//! The position of an open file, which one call at a time uses.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

use hermit_interface::Errno;
use lock_api::{Mutex, RawMutex};

use crate::System;
use crate::system::Lock;

/// A position in bytes.
#[derive(Debug)]
pub(super) struct Position<S: System> {
    state: Lock<S, State>,
}

#[derive(Debug)]
struct State {
    offset: u64,
    is_in_use: bool,
    waiting: Vec<Waker>,
}

impl State {
    fn acquire(&mut self, context: &Context<'_>) -> Poll<Result<u64, Errno>> {
        if !self.is_in_use {
            self.is_in_use = true;
            return Poll::Ready(Ok(self.offset));
        }
        if self.waiting.try_reserve(1).is_err() {
            return Poll::Ready(Err(Errno::ENOMEM));
        }
        self.waiting.push(context.waker().clone());
        Poll::Pending
    }
}

/// A position in use by a call. Dropping it lets the next call have it.
#[derive(Debug)]
pub(super) struct PositionGuard<'a, S: System> {
    position: &'a Position<S>,
    /// The position, which is stored when the guard is dropped.
    pub(super) offset: u64,
}

impl<S: System> Position<S> {
    pub(super) const fn new() -> Self {
        let state = State { offset: 0, is_in_use: false, waiting: Vec::new() };
        Self { state: Mutex::const_new(RawMutex::INIT, state) }
    }

    /// Waits until no other call uses the position.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) async fn acquire(&self) -> Result<PositionGuard<'_, S>, Errno> {
        let offset = poll_fn(|context| self.state.lock().acquire(context)).await?;
        Ok(PositionGuard { position: self, offset })
    }
}

impl<S: System> Drop for PositionGuard<'_, S> {
    fn drop(&mut self) {
        let mut state = self.position.state.lock();
        state.offset = self.offset;
        state.is_in_use = false;
        let waiting = core::mem::take(&mut state.waiting);
        drop(state);
        for waker in waiting {
            waker.wake();
        }
    }
}
