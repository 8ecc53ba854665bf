//! The position of an open file. One call at a time uses it.

use core::future::poll_fn;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_interface::Errno;
use lock_api::{Mutex, RawMutex};

use crate::interface::System;
use crate::interface::async_mutex::AsyncMutex;
use crate::interface::system::Lock;

/// A position in bytes.
#[derive(Debug)]
pub(super) struct Position<S: System> {
    /// The offset is atomic only so that it can be stored through a shared reference: only the call that has
    /// acquired the position accesses it.
    offset: AtomicU64,
    mutex: Lock<S, AsyncMutex>,
}

/// A position that a call has acquired. Dropping it releases the position.
#[derive(Debug)]
pub(super) struct PositionGuard<'a, S: System> {
    position: &'a Position<S>,
    /// Value of the position. The drop of the guard stores it in the [`Position`].
    pub(super) offset: u64,
}

impl<S: System> Position<S> {
    pub(super) const fn new() -> Self {
        Self { offset: AtomicU64::new(0), mutex: Mutex::const_new(RawMutex::INIT, AsyncMutex::new()) }
    }

    /// Waits until no other call uses the position.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) async fn acquire(&self) -> Result<PositionGuard<'_, S>, Errno> {
        poll_fn(|context| self.poll_lock(context)).await?;
        Ok(PositionGuard { position: self, offset: self.offset.load(Relaxed) })
    }

    fn poll_lock(&self, context: &Context<'_>) -> Poll<Result<(), Errno>> {
        self.mutex.lock().poll_lock(context)
    }

    /// Reads the position without acquiring it. The caller ensures that no other call uses the position, and
    /// that earlier calls happen before this one.
    pub(super) fn load_exclusive(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    /// Sets the position without acquiring it. The caller ensures that no other call uses the position.
    pub(super) fn store_exclusive(&self, offset: u64) {
        self.offset.store(offset, Relaxed);
    }
}

impl<S: System> Drop for PositionGuard<'_, S> {
    fn drop(&mut self) {
        let mut mutex = self.position.mutex.lock();
        self.position.offset.store(self.offset, Relaxed);
        let unlocked = mutex.unlock();
        drop(mutex);
        unlocked.wake();
    }
}
