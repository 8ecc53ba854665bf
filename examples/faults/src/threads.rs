//! The faults of threads that have names, which the messages are to show.

use std::thread::Builder;

use crate::{Action, Outcome, faults};

/// Writes through a null pointer in a thread.
pub(crate) fn null() -> Outcome {
    run("worker", faults::null)
}

/// Panics in a thread.
pub(crate) fn panic() -> Outcome {
    run("worker", faults::panic)
}

/// Writes through a null pointer in a thread with a long name, which must be cut inside a character.
pub(crate) fn long_name() -> Outcome {
    run("a name of which 29 bytes stay\u{20ac} and no more", faults::null)
}

/// Does something in a thread of this name.
fn run(name: &str, action: Action) -> Outcome {
    let thread = Builder::new().name(name.to_owned()).spawn(action).map_err(|error| error.to_string())?;
    thread.join().unwrap_or_else(|_| Err("the thread panicked".to_owned()))
}
