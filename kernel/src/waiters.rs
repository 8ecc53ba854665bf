//! Those who wait for an object of the kernel to change.

use alloc::vec::Vec;
use core::task::{Context, Waker};

use hermit_hal::sync::SpinLock;

/// Wakers, each once.
#[derive(Debug)]
pub(crate) struct Waiters(SpinLock<Wakers>);

/// Nearly always there is one, which needs no memory. In the order in which they came.
#[derive(Debug)]
struct Wakers {
    /// There are no others without it.
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    fn pop(&mut self) -> Option<Waker> {
        let next = (!self.others.is_empty()).then(|| self.others.remove(0));
        core::mem::replace(&mut self.first, next)
    }
}

impl Waiters {
    /// Nobody waits.
    pub(crate) const fn new() -> Self {
        Self(SpinLock::new(Wakers { first: None, others: Vec::new() }))
    }
}

impl Waiters {
    /// The one who polls does not wait any more.
    pub(crate) fn remove(&self, context: &Context<'_>) {
        let is_other = |waker: &Waker| !waker.will_wake(context.waker());
        let mut wakers = self.0.lock();
        let is_first = wakers.first.as_ref().is_some_and(|waker| !is_other(waker));
        let removed = if is_first { wakers.pop() } else { None };
        wakers.others.retain(is_other);
        drop(wakers);
        drop(removed);
    }

    /// Wakes the one who has waited longest, and forgets it.
    pub(crate) fn wake_one(&self) {
        let first = self.0.lock().pop();
        if let Some(first) = first {
            first.wake();
        }
    }
}

impl hermit_io::Waiters for Waiters {
    fn add(&self, context: &Context<'_>) {
        let mut wakers = self.0.lock();
        let is_known = |waker: &Waker| waker.will_wake(context.waker());
        if wakers.first.as_ref().is_some_and(is_known) || wakers.others.iter().any(is_known) {
            return;
        }
        if wakers.first.is_none() {
            wakers.first = Some(context.waker().clone());
        } else if wakers.others.try_reserve(1).is_ok() {
            wakers.others.push(context.waker().clone());
        } else {
            // It will ask again.
            context.waker().wake_by_ref();
        }
    }

    fn wake(&self) {
        let mut wakers = self.0.lock();
        let (first, others) = (wakers.first.take(), core::mem::take(&mut wakers.others));
        drop(wakers);
        first.into_iter().chain(others).for_each(Waker::wake);
    }
}
