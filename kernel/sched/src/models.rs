//! Models for [loom](https://docs.rs/loom), which tries every order in which CPUs can do their steps, and
//! every value that weakly ordered memory lets them see.
//!
//! The package `hermit-models` compiles this crate with `cfg(loom)`: `cargo test -p hermit-models --test
//! sched`. With `-- --show-output` each model prints how many executions were explored.
//!
//! A thread that waits in a model has no timeout, so a lost wake-up ends in a deadlock, which loom reports.
//! Loom does not track [`Link`](crate::thread::Link)s. Most of them change only under locks. There are two
//! exceptions: a CPU's current thread, which other CPUs use only as a hint, and the links of timers
//! ([`TimerLink`](crate::link::TimerLink)), for which loom may switch threads between two accesses.

extern crate std;

mod futex;
mod mutex;
mod placement;
mod several;
mod slice;
mod steal;
mod system;
mod timers;
mod token;
mod yielding;

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::boxed::Box;

use hermit_base::sync::atomic::{AtomicBool, AtomicU32};
use hermit_models::explore;
use loom::sync::{Condvar, Mutex};

use crate::thread::{Entity, Thread};

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// An event for which an idle CPU or a parked thread waits.
#[derive(Debug, Default)]
struct WakeEvent {
    signalled: Mutex<bool>,
    changed: Condvar,
}

impl WakeEvent {
    /// Signals the event. Returns true if it was signalled already and no thread has waited for it since
    /// then.
    fn signal(&self) -> bool {
        let mut signalled = self.signalled.lock().unwrap();
        self.changed.notify_one();
        core::mem::replace(&mut *signalled, true)
    }

    fn wait(&self) {
        let mut signalled = self.signalled.lock().unwrap();
        while !*signalled {
            signalled = self.changed.wait(signalled).unwrap();
        }
        *signalled = false;
    }
}

/// A thread of the models.
#[derive(Debug, Default)]
struct ModelThread {
    number: usize,
    entity: Entity<Self>,
    running: AtomicBool,
    event: WakeEvent,
    /// Stand-in for the contents of the stack: the number of uses, incremented without an atomic
    /// read-modify-write.
    stack: AtomicU32,
    /// Number of uses of the stack, incremented atomically.
    uses: AtomicU32,
    /// Number of switches to the thread.
    switches: AtomicU32,
}

impl Thread for ModelThread {
    fn entity(&self) -> &Entity<Self> {
        &self.entity
    }

    fn is_running(&self) -> bool {
        self.running.load(Acquire)
    }
}

impl ModelThread {
    fn new(number: usize) -> &'static Self {
        leak(Self { number, ..Self::default() })
    }

    /// Parks the thread, in models without CPUs.
    fn park(&self) {
        if self.entity.park() {
            self.event.wait();
        }
    }

    /// Unparks the thread, in models without CPUs.
    fn wake(&self) {
        if self.entity.unpark() {
            assert!(!self.event.signal(), "made ready twice");
        }
    }

    /// A CPU switches to the thread.
    fn enter(&self) {
        assert!(!self.running.swap(true, Relaxed), "two CPUs run the same thread");
        self.switches.fetch_add(1, Relaxed);
        self.use_stack();
    }

    /// The CPU has switched away from the thread.
    fn leave(&self) {
        self.use_stack();
        self.running.store(false, Release);
    }

    fn use_stack(&self) {
        let uses = self.stack.load(Relaxed);
        self.stack.store(uses + 1, Relaxed);
        assert_eq!(self.uses.fetch_add(1, Relaxed), uses, "the contents of the stack have changed");
    }
}
