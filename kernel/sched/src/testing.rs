//! Threads for tests.

extern crate std;

use core::sync::atomic::{AtomicBool, Ordering};
use std::boxed::Box;
use std::vec::Vec;

use crate::thread::{Entity, Thread};

/// A thread that only has a number.
#[derive(Debug, Default)]
pub(crate) struct Simple {
    pub(crate) number: usize,
    pub(crate) entity: Entity<Self>,
    pub(crate) running: AtomicBool,
}

impl Thread for Simple {
    fn entity(&self) -> &Entity<Self> {
        &self.entity
    }

    fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }
}

/// New threads, numbered from 0.
pub(crate) fn threads(count: usize) -> Vec<&'static Simple> {
    let new = |number| &*Box::leak(Box::new(Simple { number, ..Simple::default() }));
    (0..count).map(new).collect()
}
