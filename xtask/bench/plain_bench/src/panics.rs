//! Panics that are caught.

use std::hint::black_box;
use std::panic;

use crate::rounds::{Loop, Outcome, Rounds};

/// The loop with panics.
pub(crate) const LOOPS: [Loop; 1] =
    [Loop { name: "panics", title: "2,000 panics, each caught", run: panics, checksums: [0x1e_8098, 0x1d1] }];

/// Number of frames between the one that catches the panic and the one that panics.
const DEPTH: u32 = 8;

/// Measures panics that are caught. The panic hook writes nothing, so that the time is that of unwinding.
fn panics(rounds: &Rounds) -> Outcome {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let count = rounds.scale(2000);
    let work = |()| {
        let caught = |number: usize| panic::catch_unwind(|| descend(DEPTH, number)).err();
        let numbers = (0..count).filter_map(caught).filter_map(|payload| payload.downcast::<usize>().ok());
        numbers.map(|number| *number as u64).sum()
    };
    let outcome = rounds.run(|| (), work);
    panic::set_hook(hook);
    outcome
}

/// Calls itself `depth` times and then panics with a number. Each frame has a value to drop.
#[inline(never)]
fn descend(depth: u32, number: usize) -> u32 {
    let value = black_box(Box::new(depth));
    match depth {
        0 => panic::panic_any(number),
        _ => descend(depth - 1, number) + black_box(value.as_ref()).count_ones(),
    }
}
