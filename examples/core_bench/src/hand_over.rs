//! What it takes to hand over to another thread and to get back.
//!
//! A round trip is two switches, whatever the scheduler does: each thread waits until it is its turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::Outcome;
use crate::counter::time;

/// Round trips of a round.
const COUNT: u64 = 5_000;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Ours,
    Theirs,
    /// It is over.
    Nobodys,
}

/// Yielding until the other one had its turn.
pub(crate) fn yields() -> Outcome {
    let (theirs, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let partner = || {
        while !over.load(Ordering::Relaxed) {
            if theirs.load(Ordering::Acquire) {
                theirs.store(false, Ordering::Release);
            }
            thread::yield_now();
        }
    };
    beside(partner, || {
        let ticks = time(COUNT, || {
            theirs.store(true, Ordering::Release);
            while theirs.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        over.store(true, Ordering::Relaxed);
        ticks
    })
}

/// Waiting on a condition variable until the other one notifies.
pub(crate) fn condvar() -> Outcome {
    let (turn, changed) = (Mutex::new(Turn::Ours), Condvar::new());
    let set = |new| {
        *turn.lock().unwrap_or_else(PoisonError::into_inner) = new;
        changed.notify_one();
    };
    let wait_while = |old| {
        let guard = turn.lock().unwrap_or_else(PoisonError::into_inner);
        *changed.wait_while(guard, |turn| *turn == old).unwrap_or_else(PoisonError::into_inner)
    };
    let partner = || {
        while wait_while(Turn::Ours) == Turn::Theirs {
            set(Turn::Ours);
        }
    };
    beside(partner, || {
        let ticks = time(COUNT, || {
            set(Turn::Theirs);
            wait_while(Turn::Theirs);
        });
        set(Turn::Nobodys);
        ticks
    })
}

/// A message there and one back.
pub(crate) fn mpsc() -> Outcome {
    let (to_partner, from_us) = mpsc::channel::<u64>();
    let (to_us, from_partner) = mpsc::channel::<u64>();
    // It ends when the channel to it is closed.
    let partner = move || from_us.into_iter().try_for_each(|number| to_us.send(number)).unwrap_or_default();
    beside(partner, move || {
        let mut number = 0;
        time(COUNT, || {
            number += 1;
            let back = to_partner.send(number).ok().and_then(|()| from_partner.recv().ok());
            assert_eq!(back, Some(number), "a message was lost");
        })
    })
}

/// Runs `ours` here while `partner` runs in another thread.
fn beside(partner: impl FnOnce() + Send, ours: impl FnOnce() -> f64) -> Outcome {
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, partner).map_err(|error| error.to_string())?;
        Ok(ours())
    })
}
