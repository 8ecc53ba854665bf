//! The position of an open file, which one call at a time uses.

use core::future::poll_fn;
use core::task::{Context, Poll};

use hermit_interface::Errno;
use lock_api::{Mutex, RawMutex};

use crate::System;
use crate::system::Lock;
use crate::turns::{Turns, wake};

/// A position in bytes.
#[derive(Debug)]
pub(super) struct Position<S: System> {
    state: Lock<S, State>,
}

#[derive(Debug)]
struct State {
    offset: u64,
    calls: Turns,
}

impl State {
    fn acquire(&mut self, context: &Context<'_>) -> Poll<Result<u64, Errno>> {
        match self.calls.is_pending(context) {
            Ok(true) => Poll::Pending,
            Ok(false) => {
                self.calls.begin();
                Poll::Ready(Ok(self.offset))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
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
        let state = State { offset: 0, calls: Turns::new() };
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
        let waiting = state.calls.end();
        drop(state);
        wake(waiting);
    }
}
