//! A wait queue for tests.

extern crate std;

use core::task::{Context, Waker};
use std::sync::Mutex;
use std::vec::Vec;

use crate::WaitQueue;

/// Wakers that wait.
#[derive(Debug, Default)]
pub(crate) struct FakeWaitQueue(pub(crate) Mutex<Vec<Waker>>);

impl WaitQueue for FakeWaitQueue {
    fn add(&self, context: &Context<'_>) {
        self.0.lock().unwrap().push(context.waker().clone());
    }

    fn remove(&self, context: &Context<'_>) -> bool {
        let mut wakers = self.0.lock().unwrap();
        let index = wakers.iter().position(|waker| waker.will_wake(context.waker()));
        index.map(|index| wakers.remove(index)).is_some()
    }

    fn wake(&self) {
        self.0.lock().unwrap().drain(..).for_each(Waker::wake);
    }

    fn wake_one(&self) {
        let mut wakers = self.0.lock().unwrap();
        let first = (!wakers.is_empty()).then(|| wakers.remove(0));
        drop(wakers);
        first.into_iter().for_each(Waker::wake);
    }
}
