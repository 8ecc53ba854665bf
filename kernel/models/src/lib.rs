//! Helpers that the models of several crates share.
#![cfg(loom)]

use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use lock_api::{GuardNoSend, RawMutex};
use loom::model::Builder;
use loom::sync::{Condvar, Mutex, MutexGuard};

/// Explores all executions of a model with at most `preemptions`, loom's preemption bound, and prints their
/// number. The variable `LOOM_MAX_PREEMPTIONS` can raise the bound.
///
/// # Panics
///
/// If an execution does, or ends in a deadlock.
pub fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    let preemptions = builder.preemption_bound.map_or(preemptions, |more| more.max(preemptions));
    builder.preemption_bound = Some(preemptions);
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executions);
    builder.check(move || {
        counter.fetch_add(1, Relaxed);
        model();
    });
    println!("{} executions with at most {preemptions} preemptions", executions.load(Relaxed));
}

/// A lock for types that take a raw lock: loom explores which thread takes it first.
#[derive(Debug)]
pub struct LoomRawMutex(OnceLock<State>);

/// Made when the lock is first used, since loom's types cannot be made in constants. An execution of a model
/// has locks of its own.
#[derive(Debug)]
struct State {
    is_held: Mutex<bool>,
    released: Condvar,
}

impl LoomRawMutex {
    fn state(&self) -> (&State, MutexGuard<'_, bool>) {
        let state = self.0.get_or_init(|| State { is_held: Mutex::new(false), released: Condvar::new() });
        (state, state.is_held.lock().expect("a model that panics ends"))
    }
}

// SAFETY: a thread holds the lock after it has changed `is_held` from false to true, under a mutex; only
// `unlock`, whose caller holds the lock, changes it back. The mutex orders the accesses to the value.
#[expect(unsafe_code, reason = "the trait is unsafe")]
unsafe impl RawMutex for LoomRawMutex {
    const INIT: Self = Self(OnceLock::new());

    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        let (state, mut is_held) = self.state();
        while *is_held {
            is_held = state.released.wait(is_held).expect("a model that panics ends");
        }
        *is_held = true;
    }

    fn try_lock(&self) -> bool {
        let (_, mut is_held) = self.state();
        !mem::replace(&mut *is_held, true)
    }

    unsafe fn unlock(&self) {
        let (state, mut is_held) = self.state();
        *is_held = false;
        drop(is_held);
        state.released.notify_one();
    }
}
