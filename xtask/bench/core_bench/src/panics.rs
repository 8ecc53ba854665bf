//! Panics that are caught.

use std::hint::black_box;
use std::panic;

use crate::Ticks;
use crate::counter::time;

const COUNT: u64 = 500;

/// Number of frames between the one that catches the panic and the one that panics.
const DEPTH: u32 = 8;

/// Panics and catches the panic. The panic hook writes nothing, so that the figure is the cost of unwinding.
pub(crate) fn catch_unwind() -> Ticks {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let ticks = time(COUNT, || _ = black_box(panic::catch_unwind(|| descend(DEPTH))));
    panic::set_hook(hook);
    Ok(ticks)
}

/// Calls itself `depth` times and then panics. Each frame has a value to drop.
#[inline(never)]
fn descend(depth: u32) -> usize {
    let value = black_box(Box::new(depth));
    match depth {
        0 => panic!("caught"),
        _ => descend(depth - 1) + black_box(value.as_ref()).count_ones() as usize,
    }
}
