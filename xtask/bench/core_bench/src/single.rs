//! Operations of a single thread.

use std::hint::black_box;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::Ticks;
use crate::counter::time;

const COUNT: u64 = 100_000;

/// Measures the cheapest system call. The compiler cannot remove the call, because the kernel is in a
/// separate object file.
pub(crate) fn process_id() -> Ticks {
    Ok(time(COUNT, || _ = process::id()))
}

pub(crate) fn now() -> Ticks {
    Ok(time(COUNT, || _ = black_box(Instant::now())))
}

/// Measures `yield_now` when no other thread is ready.
pub(crate) fn yield_now() -> Ticks {
    Ok(time(COUNT, thread::yield_now))
}

/// Locks and unlocks an uncontended mutex around an increment.
pub(crate) fn mutex() -> Ticks {
    let mutex = Mutex::new(0_u64);
    let mutex = black_box(&mutex);
    Ok(time(COUNT, || *mutex.lock().unwrap_or_else(PoisonError::into_inner) += 1))
}

/// Measures the allocation of a small box. The bytes are not zero: for zeros the compiler would call
/// `alloc_zeroed`, which is slower with some allocators.
pub(crate) fn small_box() -> Ticks {
    Ok(time(COUNT, || drop(black_box(Box::new([1_u8; 64])))))
}

pub(crate) fn vec() -> Ticks {
    Ok(time(COUNT, || drop(black_box(Vec::<u8>::with_capacity(4096)))))
}
