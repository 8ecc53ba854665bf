//! A thread's stack has the requested size.

use std::hint::black_box;
use std::thread::Builder;

use crate::arguments::Settings;

/// Bytes of a stack that are not used by the recursion: std's frames, and the last calls.
const RESERVE: usize = 24 << 10;

/// Recursion fills stacks of several sizes, alone and concurrently.
pub(crate) fn stack(_: &Settings) {
    for size in [64 << 10, 256 << 10, 1 << 20, 3 << 20, 16 << 20] {
        fill_stacks(&[size]);
    }
    fill_stacks(&[1 << 20; 8]);
    fill_stacks(&[128 << 10, 4 << 20, 512 << 10, 2 << 20]);
    // More pages than a Linux process may have mappings.
    fill_stacks(&[300 << 20]);
}

/// Starts threads with stacks of these sizes and uses nearly all of each stack.
fn fill_stacks(sizes: &[usize]) {
    let start = |&size: &usize| {
        let builder = Builder::new().stack_size(size);
        let thread = builder.spawn(move || {
            let top = 0_u8;
            descend((&raw const top).addr(), size - RESERVE, 1)
        });
        thread.unwrap_or_else(|error| panic!("no thread with a stack of {size} bytes: {error}"))
    };
    let threads: Vec<_> = sizes.iter().map(start).collect();
    for (thread, size) in threads.into_iter().zip(sizes) {
        let depth = thread.join().expect("a thread panicked");
        assert!(depth >= (size - RESERVE) / 8192, "a stack of {size} bytes held {depth} calls only");
    }
}

/// Recurses until `size` bytes below `top` are used; returns the depth. On the way back it checks the frames.
#[inline(never)]
fn descend(top: usize, size: usize, depth: usize) -> usize {
    let frame = black_box([depth; 64]);
    let used = top.abs_diff(frame.as_ptr().addr());
    let deepest = if used < size { descend(top, size, depth + 1) } else { depth };
    assert!(black_box(&frame).iter().all(|&value| value == depth), "the stack is damaged");
    deepest
}
