//! The position of an open file. One call at a time uses it.

use core::future::poll_fn;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_interface::Errno;
use lock_api::{Mutex, RawMutex};

use crate::System;
use crate::async_mutex::AsyncMutex;
use crate::system::Lock;

/// A position in bytes.
#[derive(Debug)]
pub(super) struct Position<S: System> {
    /// Atomic only because it is shared: only the call that has acquired the position loads and stores it.
    offset: AtomicU64,
    mutex: Lock<S, AsyncMutex>,
}

/// A position that a call has acquired. Dropping it releases the position.
#[derive(Debug)]
pub(super) struct PositionGuard<'a, S: System> {
    position: &'a Position<S>,
    /// Value of the position. It is stored when the guard is dropped.
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

    /// Reads the position. The caller excludes other calls, and earlier calls happened before.
    pub(super) fn load_exclusive(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    /// Sets the position. The caller excludes other calls.
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
