//! A thread's stack is as large as it was asked for.

use std::hint::black_box;
use std::thread::Builder;

use crate::arguments::Settings;

/// What a stack holds besides the recursion: std, and the last calls.
const RESERVE: usize = 24 << 10;

/// Recursion uses up stacks of several sizes, alone and at the same time.
pub(crate) fn stack(_: &Settings) {
    for size in [64 << 10, 256 << 10, 1 << 20, 3 << 20, 16 << 20] {
        use_up(&[size]);
    }
    use_up(&[1 << 20; 8]);
    use_up(&[128 << 10, 4 << 20, 512 << 10, 2 << 20]);
    // More pages than a process of Linux may have mappings.
    use_up(&[300 << 20]);
}

/// Starts threads with stacks of these sizes and uses nearly all of each.
fn use_up(sizes: &[usize]) {
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

/// Calls itself until `size` bytes below `top` are in use; says how often, and finds on the way back what it left.
#[inline(never)]
fn descend(top: usize, size: usize, depth: usize) -> usize {
    let frame = black_box([depth; 64]);
    let used = top.abs_diff(frame.as_ptr().addr());
    let deepest = if used < size { descend(top, size, depth + 1) } else { depth };
    assert!(black_box(&frame).iter().all(|&value| value == depth), "the stack is damaged");
    deepest
}
