//! Backtraces at all depths of a stack that has not been used before: finding the callers must not make it grow while
//! the memory is locked.

use std::hint;
use std::thread;

use super::calls;

/// Size of the stack in bytes.
const STACK_SIZE: usize = 256 * 1024;

/// How many frames of [`descend`] lie on it.
const DEPTH: usize = 400;

/// Number of callers that are asked for.
const CALLERS: usize = 4;

/// How often they are asked for. Fewer are found while another CPU, such as one that is starting, changes page tables: a
/// backtrace does not wait for that.
const ATTEMPTS: usize = 100_000;

pub(crate) fn backtrace() {
    let thread = thread::Builder::new().stack_size(STACK_SIZE).spawn(|| descend(DEPTH));
    let found = thread.expect("there is no thread").join().expect("a thread panicked");
    assert_eq!(found, DEPTH * CALLERS);
}

/// Number of callers found, by this call and those below it, in frames of some 200 bytes.
#[inline(never)]
fn descend(depth: usize) -> usize {
    let frame = hint::black_box([depth; 24]);
    if depth == 0 {
        return 0;
    }
    let mut attempts = (0..ATTEMPTS).map(|_| calls::backtrace(&mut [0; CALLERS]));
    let found = attempts.find(|found| *found == CALLERS).unwrap_or(0);
    found + descend(frame[0] - 1)
}
