//! Those who wait for an object of the kernel to change.

use alloc::vec::Vec;
use core::task::{Context, Waker};

use hermit_hal::sync::SpinLock;

/// Wakers, each once.
#[derive(Debug)]
pub(crate) struct Waiters(SpinLock<Vec<Waker>>);

impl Waiters {
    /// Nobody waits.
    pub(crate) const fn new() -> Self {
        Self(SpinLock::new(Vec::new()))
    }
}

impl hermit_io::Waiters for Waiters {
    fn add(&self, context: &mut Context<'_>) {
        let mut wakers = self.0.lock();
        if wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            return;
        }
        if wakers.try_reserve(1).is_ok() {
            wakers.push(context.waker().clone());
        } else {
            // It will ask again.
            context.waker().wake_by_ref();
        }
    }

    fn wake(&self) {
        let wakers = core::mem::take(&mut *self.0.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}
