//! All descriptors that there are, opened by several threads at once.

use std::thread;

use hermit_abi::EMFILE;

use super::calls;
use super::eventfd::EventFd;

/// Number of descriptors of a program.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// Number of threads that open descriptors.
const THREADS: usize = 4;

/// The table grows while threads use it: each number is given out once, and all stay usable.
pub(crate) fn descriptors() {
    let counter = EventFd::new(0, 0);
    for round in 0..2 {
        let opened = thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| scope.spawn(|| open_all(&counter)));
            threads.map(|thread| thread.join().expect("a thread panicked")).concat()
        });
        check(&opened, &counter);
        for fd in opened {
            assert_eq!(calls::close(fd), Ok(0), "descriptor {fd} in round {round}");
        }
    }
}

/// Duplicates a descriptor until there is none left, and uses it at times meanwhile.
fn open_all(counter: &EventFd) -> Vec<i32> {
    let mut opened = Vec::new();
    loop {
        match calls::dup(counter.0) {
            Ok(fd) => opened.push(fd),
            Err(error) => {
                assert_eq!(error, EMFILE);
                return opened;
            }
        }
        if opened.len().is_power_of_two() {
            assert_eq!(counter.write(1), Ok(8));
        }
    }
}

/// Checks that all numbers from 0 on are open, and that each descriptor is one of the counter.
fn check(opened: &[i32], counter: &EventFd) {
    let mut numbers: Vec<i32> = [0, 1, 2, counter.0].into_iter().chain(opened.iter().copied()).collect();
    numbers.sort_unstable();
    let all = (0..).take(MAX_DESCRIPTORS);
    assert!(all.eq(numbers), "a descriptor is missing or was opened twice");
    counter.read().expect("the counter was added to");
    for (fd, value) in opened.iter().step_by(1_000).zip(1..) {
        assert_eq!(calls::write(*fd, &u64::to_le_bytes(value)), Ok(8), "descriptor {fd}");
        assert_eq!(counter.read(), Ok(value));
    }
}
