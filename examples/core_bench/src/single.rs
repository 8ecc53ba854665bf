//! What one thread does by itself.

use std::hint::black_box;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::Outcome;
use crate::counter::time;

const COUNT: u64 = 100_000;

/// The cheapest call of the system there is. The kernel is another object: the call cannot be left out.
pub(crate) fn process_id() -> Outcome {
    Ok(time(COUNT, || _ = process::id()))
}

pub(crate) fn now() -> Outcome {
    Ok(time(COUNT, || _ = black_box(Instant::now())))
}

/// Giving the processor up when nobody else wants it.
pub(crate) fn yield_now() -> Outcome {
    Ok(time(COUNT, thread::yield_now))
}

/// Locking and unlocking. The value is counted up, so that there is something to guard.
pub(crate) fn mutex() -> Outcome {
    let mutex = Mutex::new(0_u64);
    let mutex = black_box(&mutex);
    Ok(time(COUNT, || *mutex.lock().unwrap_or_else(PoisonError::into_inner) += 1))
}

/// Not of zeroes: the compiler would ask for zeroed memory, which some allocators give in another, slower way.
pub(crate) fn small_box() -> Outcome {
    Ok(time(COUNT, || drop(black_box(Box::new([1_u8; 64])))))
}

pub(crate) fn vec() -> Outcome {
    Ok(time(COUNT, || drop(black_box(Vec::<u8>::with_capacity(4096)))))
}
