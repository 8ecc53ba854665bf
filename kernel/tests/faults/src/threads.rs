//! Faults of named threads, whose names the messages show, and of several threads at a time.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use crate::{Action, ActionResult, faults};

/// Writes through a null pointer in a thread.
pub(crate) fn null() -> ActionResult {
    run("worker", faults::null)
}

/// Panics in a thread.
pub(crate) fn panic() -> ActionResult {
    run("worker", faults::panic)
}

/// Writes through a null pointer in a thread with a long name, which is truncated inside a UTF-8 sequence.
pub(crate) fn long_name() -> ActionResult {
    run("a name of which 29 bytes stay\u{20ac} and no more", faults::null)
}

/// Writes through a null pointer in a thread while others keep all CPUs busy.
pub(crate) fn null_busy() -> ActionResult {
    keep_busy()?;
    run("worker", || {
        thread::sleep(Duration::from_millis(50));
        faults::null()
    })
}

/// Recurses in a thread until its stack overflows, on another CPU than the main thread if there is one.
pub(crate) fn recursion() -> ActionResult {
    let thread = start("worker", faults::recursion)?;
    while !thread.is_finished() {
        hint::spin_loop();
    }
    outcome(thread)
}

/// Writes through a null pointer in two threads at the same time.
pub(crate) fn two_faults() -> ActionResult {
    static READY: AtomicUsize = AtomicUsize::new(0);
    let fault = || {
        READY.fetch_add(1, Ordering::SeqCst);
        while READY.load(Ordering::SeqCst) < 2 {
            hint::spin_loop();
        }
        faults::null()
    };
    let threads = [start("worker", fault)?, start("worker", fault)?];
    threads.into_iter().try_fold("no threads", |_, thread| outcome(thread))
}

/// Is preempted by other threads while its stack pointer is unmapped.
pub(crate) fn preempted_nowhere() -> ActionResult {
    keep_busy()?;
    run("worker", faults::nowhere_stack_later)
}

/// Starts two endless threads per CPU.
fn keep_busy() -> Result<(), String> {
    let cpus = thread::available_parallelism().map_err(|error| error.to_string())?;
    (0..2 * cpus.get()).try_for_each(|_| {
        start("busy", || {
            loop {
                hint::spin_loop();
            }
        })
        .map(drop)
    })
}

/// Runs an action in a thread with a name.
fn run(name: &str, action: Action) -> ActionResult {
    outcome(start(name, action)?)
}

fn start(name: &str, action: Action) -> Result<JoinHandle<ActionResult>, String> {
    Builder::new().name(name.to_owned()).spawn(action).map_err(|error| error.to_string())
}

fn outcome(thread: JoinHandle<ActionResult>) -> ActionResult {
    thread.join().unwrap_or_else(|_| Err("the thread panicked".to_owned()))
}
