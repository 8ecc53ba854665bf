//! Backtraces at all depths of a stack that has not been used before. Finding the callers must not make the
//! stack grow while the lock of the memory is held. Another thread maps memory meanwhile. No caller may be
//! missing because that thread holds the lock.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hermit_abi::PROT_READ;

use super::calls;
use super::memory::{PAGE, map, unmap};

/// Size of the stack in bytes.
const STACK_SIZE: usize = 256 * 1024;

/// Number of frames of [`descend`] on it.
const DEPTH: usize = 400;

/// Number of callers that are asked for.
const CALLERS: usize = 4;

/// Number of backtraces in each frame.
const BACKTRACES: usize = 20;

pub(crate) fn backtrace() {
    let is_done = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        scope.spawn(|| map_until(&is_done));
        let thread = thread::Builder::new().stack_size(STACK_SIZE).spawn(|| descend(DEPTH));
        let found = thread.expect("there is no thread").join();
        is_done.store(true, Ordering::Relaxed);
        found.expect("a thread panicked")
    });
    assert_eq!(found, DEPTH * BACKTRACES * CALLERS);
}

/// Maps and unmaps pages.
fn map_until(is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        let page = map(PAGE, PROT_READ).expect("no memory");
        assert_eq!(unmap(page), Ok(0));
    }
}

/// Number of callers found, by this call and those below it, in frames of some 200 bytes.
#[inline(never)]
fn descend(depth: usize) -> usize {
    let frame = hint::black_box([depth; 24]);
    if depth == 0 {
        return 0;
    }
    let found: usize = (0..BACKTRACES).map(|_| calls::backtrace(&mut [0; CALLERS])).sum();
    found + descend(frame[0] - 1)
}
