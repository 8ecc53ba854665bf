//! Work of threads: they are started, exchange messages in a ring, share a mutex, and end.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::{io, thread};

use crate::files::expect;

/// Number of threads, and how often a message passes all of them.
const THREADS: u64 = 8;
const LAPS: u64 = 20;

/// Starts the threads and waits until all have ended.
pub(crate) fn round() -> io::Result<()> {
    let total = Mutex::new(0);
    let (first, mut receiver) = mpsc::channel();
    first.send(0).map_err(io::Error::other)?;
    let last = thread::scope(|scope| {
        let total = &total;
        for _ in 1..THREADS {
            let (sender, next) = mpsc::channel();
            let from = std::mem::replace(&mut receiver, next);
            scope.spawn(move || pass_on(&from, &sender, total));
        }
        pass_on(&receiver, &first, total);
        // If a thread has stopped early, this ends the ring.
        drop(first);
        receiver.try_iter().count()
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let expected = THREADS * LAPS;
    expect(total == expected && last == 0, &format!("{total} of {expected} messages, and {last}"))
}

/// Adds one to each number and passes it on, [`LAPS`] times. Stops earlier if the sender has ended.
fn pass_on(from: &Receiver<u64>, to: &Sender<u64>, total: &Mutex<u64>) {
    for number in from.iter().take(usize::try_from(LAPS).unwrap_or(usize::MAX)) {
        *total.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        // The last thread's message of the last lap has no receiver.
        let _: Result<(), _> = to.send(number + 1);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_round_ends() {
        super::round().unwrap();
    }
}
