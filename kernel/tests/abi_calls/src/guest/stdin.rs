//! Standard input that arrives around the first read, and while a read waits.

use std::io;

use super::calls;
use super::raw_thread::{self, ANY_CPU};

/// Priority of a thread that runs while the main thread waits. On one CPU it hardly ever runs earlier.
const LOW_PRIORITY: u8 = 1;

/// Reads two lines. The first read initialises the device; the second one waits when the thread of low
/// priority prints that it does.
pub(crate) fn stdin() {
    println!("about to read");
    assert_eq!(line(), "first");
    let thread = raw_thread::spawn(LOW_PRIORITY, ANY_CPU, || {
        // If the thread has run for fairness, the main thread goes on here until it waits.
        calls::yield_now();
        println!("waiting");
    });
    assert_eq!(line(), "second");
    assert_eq!(calls::join(thread.expect("a thread")), Ok(0));
}

fn line() -> String {
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("standard input");
    line.trim_end().to_owned()
}
