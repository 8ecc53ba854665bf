//! Models for [loom](https://docs.rs/loom), which tries every order in which CPUs can do their steps, and every value
//! that weakly ordered memory lets them see.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p hermit-sched --release --target-dir target/loom`
//!
//! Nobody who waits here has a way out but to be woken: whatever gets lost ends as a deadlock, which loom reports.
//! [`Slot`](crate::thread::Slot)s are not tracked: they are only changed under locks, except for a CPU's current thread,
//! which others only use to guess.

extern crate std;

mod futex;
mod queue;
mod steal;
mod system;
mod token;
mod yielding;

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::boxed::Box;

use loom::model::Builder;
use loom::sync::{Condvar, Mutex};

use crate::sync::{AtomicBool, AtomicU32};
use crate::thread::{Entity, Thread};

/// Tries all orders in which the running CPU changes at most `switches` times without need.
fn explore(switches: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// What somebody without anything to do waits for.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Returns whether it was rung before, and nobody has heard it.
    fn ring(&self) -> bool {
        let mut rung = self.rung.lock().unwrap();
        self.changed.notify_one();
        core::mem::replace(&mut *rung, true)
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// A thread.
#[derive(Debug, Default)]
struct Actor {
    number: usize,
    entity: Entity<Self>,
    running: AtomicBool,
    bell: Bell,
    /// What it has written to its stack: how often the stack was used.
    stack: AtomicU32,
    /// The same, counted so that nothing can be missed.
    uses: AtomicU32,
    /// How often a CPU switched to it.
    turns: AtomicU32,
}

impl Thread for Actor {
    fn entity(&self) -> &Entity<Self> {
        &self.entity
    }

    fn is_running(&self) -> bool {
        self.running.load(Acquire)
    }
}

impl Actor {
    fn new(number: usize) -> &'static Self {
        leak(Self { number, ..Self::default() })
    }

    /// It waits, where there are no CPUs that could do something else meanwhile.
    fn park(&self) {
        if self.entity.park() {
            self.bell.wait();
        }
    }

    /// Wakes one that waits in this way.
    fn wake(&self) {
        if self.entity.unpark() {
            assert!(!self.bell.ring(), "made ready twice");
        }
    }

    /// A CPU switches to it.
    fn enter(&self) {
        assert!(!self.running.swap(true, Relaxed), "two CPUs run the same thread");
        self.turns.fetch_add(1, Relaxed);
        self.use_stack();
    }

    /// The CPU has switched to another.
    fn leave(&self) {
        self.use_stack();
        self.running.store(false, Release);
    }

    fn use_stack(&self) {
        let uses = self.stack.load(Relaxed);
        self.stack.store(uses + 1, Relaxed);
        assert_eq!(self.uses.fetch_add(1, Relaxed), uses, "its stack is not what it left");
    }
}
