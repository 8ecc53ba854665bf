//! Round trips between two threads.
//!
//! A round trip is two thread switches. This does not depend on the scheduler, because each thread waits for
//! its turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::Ticks;
use crate::counter::time;

/// Number of round trips per round.
const COUNT: u64 = 5_000;

/// The thread that runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Main,
    Partner,
    /// The measurement is complete, and neither thread continues.
    Finished,
}

/// Measures round trips by `yield_now`: a thread yields until its partner has had its turn.
pub(crate) fn yields() -> Ticks {
    let (is_partners_turn, is_finished) = (AtomicBool::new(false), AtomicBool::new(false));
    let partner = || {
        while !is_finished.load(Ordering::Relaxed) {
            if is_partners_turn.load(Ordering::Acquire) {
                is_partners_turn.store(false, Ordering::Release);
            }
            thread::yield_now();
        }
    };
    with_partner(partner, || {
        let ticks = time(COUNT, || {
            is_partners_turn.store(true, Ordering::Release);
            while is_partners_turn.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        is_finished.store(true, Ordering::Relaxed);
        ticks
    })
}

/// Measures round trips by a condition variable: a thread waits until its partner notifies it.
pub(crate) fn condvar() -> Ticks {
    let (turn, changed) = (Mutex::new(Turn::Main), Condvar::new());
    let set = |new| {
        *turn.lock().unwrap_or_else(PoisonError::into_inner) = new;
        changed.notify_one();
    };
    let wait_while = |old| {
        let guard = turn.lock().unwrap_or_else(PoisonError::into_inner);
        *changed.wait_while(guard, |turn| *turn == old).unwrap_or_else(PoisonError::into_inner)
    };
    let partner = || {
        while wait_while(Turn::Main) == Turn::Partner {
            set(Turn::Main);
        }
    };
    with_partner(partner, || {
        let ticks = time(COUNT, || {
            set(Turn::Partner);
            wait_while(Turn::Partner);
        });
        set(Turn::Finished);
        ticks
    })
}

/// Measures round trips by channels: a thread sends a message and receives one.
pub(crate) fn mpsc() -> Ticks {
    let (to_partner, from_us) = mpsc::channel::<u64>();
    let (to_us, from_partner) = mpsc::channel::<u64>();
    // The partner ends when the channel to it is closed.
    let partner = move || from_us.into_iter().try_for_each(|number| to_us.send(number)).unwrap_or_default();
    with_partner(partner, move || {
        let mut number = 0;
        time(COUNT, || {
            number += 1;
            let back = to_partner.send(number).ok().and_then(|()| from_partner.recv().ok());
            assert_eq!(back, Some(number), "a message was lost");
        })
    })
}

/// Runs `measure` in this thread while `partner` runs in another one.
fn with_partner(partner: impl FnOnce() + Send, measure: impl FnOnce() -> f64) -> Ticks {
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, partner).map_err(|error| error.to_string())?;
        Ok(measure())
    })
}
