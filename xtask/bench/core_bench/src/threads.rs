//! Costs of threads, and their maximum number.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::Ticks;
use crate::counter::{per, time};

/// Number of threads per round.
const COUNT: u64 = 1_000;

/// Spawns and joins a thread with std's default stack.
pub(crate) fn spawn() -> Ticks {
    spawn_with(Builder::new)
}

/// Spawns and joins a thread with a stack of 64 KiB.
pub(crate) fn spawn_small() -> Ticks {
    spawn_with(|| Builder::new().stack_size(64 << 10))
}

fn spawn_with(builder: impl Fn() -> Builder) -> Ticks {
    let mut failure = None;
    let ticks = time(COUNT, || match builder().spawn(|| ()) {
        Ok(thread) => failure = failure.take().or_else(|| thread.join().err().map(|_| "panicked".to_owned())),
        Err(error) => failure = Some(error.to_string()),
    });
    failure.map_or(Ok(ticks), Err)
}

/// Starts threads until spawning fails, and returns the number of threads that exist at the same time.
pub(crate) fn alive() -> Ticks {
    let gate = Gate::default();
    std::thread::scope(|scope| {
        let (threads, refusal) = spawn_all(scope, &gate);
        let waiting = gate.open();
        let spawned = threads.len();
        let joined = threads.into_iter().filter_map(|thread| thread.join().ok()).count();
        if waiting != spawned || joined != spawned {
            return Err(format!("of {spawned} threads, {waiting} waited and {joined} ended"));
        }
        if spawned == 0 {
            return Err(refusal.to_string());
        }
        eprintln!("no more than {spawned} threads: {refusal}");
        Ok(per(u64::try_from(spawned).unwrap_or(u64::MAX), 1))
    })
}

/// Starts threads that wait at the gate, until spawning fails.
fn spawn_all<'scope>(
    scope: &'scope Scope<'scope, '_>,
    gate: &'scope Gate,
) -> (Vec<ScopedJoinHandle<'scope, ()>>, io::Error) {
    let mut threads = Vec::new();
    loop {
        match Builder::new().spawn_scoped(scope, || gate.wait()) {
            Ok(thread) => threads.push(thread),
            Err(error) => return (threads, error),
        }
        // Each thread reaches the gate before the next one starts. So all threads exist at the same time,
        // with stacks in use.
        gate.wait_for(threads.len());
    }
}

/// A gate at which threads wait until it is opened.
#[derive(Debug, Default)]
struct Gate {
    /// Number of waiting threads, and true if the gate is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
    arrived: Condvar,
}

impl Gate {
    fn wait(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.arrived.notify_one();
        drop(self.changed.wait_while(state, |state| !state.1).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until `count` threads wait.
    fn wait_for(&self, count: usize) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.arrived.wait_while(state, |state| state.0 < count).unwrap_or_else(PoisonError::into_inner));
    }

    /// Opens the gate, and returns the number of threads that waited.
    fn open(&self) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = true;
        self.changed.notify_all();
        state.0
    }
}
