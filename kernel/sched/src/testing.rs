//! Test threads.

extern crate std;

use core::sync::atomic::{AtomicBool, Ordering};
use std::boxed::Box;
use std::vec::Vec;

use crate::thread::{Entity, Thread};

/// A thread with a number and no stack.
#[derive(Debug, Default)]
pub(crate) struct TestThread {
    pub(crate) number: usize,
    pub(crate) entity: Entity<Self>,
    pub(crate) running: AtomicBool,
}

impl Thread for TestThread {
    fn entity(&self) -> &Entity<Self> {
        &self.entity
    }

    fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }
}

/// Creates threads, numbered from 0.
pub(crate) fn threads(count: usize) -> Vec<&'static TestThread> {
    let new = |number| &*Box::leak(Box::new(TestThread { number, ..TestThread::default() }));
    (0..count).map(new).collect()
}
