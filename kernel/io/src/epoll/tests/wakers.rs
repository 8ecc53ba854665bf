//! The wakers of a watched object, which tests can look at.

extern crate std;

use core::task::{Context, Waker};
use std::sync::{Mutex, MutexGuard};
use std::vec::Vec;

/// Wakers in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Wakers(Mutex<Vec<Waker>>);

impl Wakers {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap()
    }

    /// Returns true if the waker of `context` is among them.
    pub(super) fn has(&self, context: &Context<'_>) -> bool {
        self.lock().iter().any(|waker| waker.will_wake(context.waker()))
    }

    pub(super) fn add(&self, context: &Context<'_>) {
        self.lock().push(context.waker().clone());
    }

    pub(super) fn remove(&self, context: &Context<'_>) {
        self.lock().retain(|waker| !waker.will_wake(context.waker()));
    }

    /// Removes and wakes all.
    pub(super) fn wake(&self) {
        let wakers = core::mem::take(&mut *self.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}
