//! Locks without contention, channels, thread-locals, threads and clocks.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Instant, SystemTime};

use crate::rounds::{Loop, Outcome, Rounds};

/// All loops with locks, threads and clocks.
pub(crate) const LOOPS: [Loop; 9] = [
    Loop {
        name: "mutex",
        title: "lock a `Mutex` 4 M times",
        run: mutex,
        checksums: [0x746_a509_fb80, 0x7469_d876],
    },
    Loop {
        name: "rwlock-read",
        title: "lock a `RwLock` for reading 4 M times",
        run: rwlock_read,
        checksums: [0xb7_1b00, 0x2_dc6c],
    },
    Loop {
        name: "rwlock-write",
        title: "lock a `RwLock` for writing 4 M times",
        run: rwlock_write,
        checksums: [0x746_a509_fb80, 0x7469_d876],
    },
    Loop {
        name: "arc",
        title: "clone and drop an `Arc` 4 M times",
        run: arc,
        checksums: [0x131_2d00, 0x4_c4b4],
    },
    Loop {
        name: "mpsc",
        title: "send 1 M messages, and receive each",
        run: channel,
        checksums: [0x74_6a4a_e6e0, 0x746_86a4],
    },
    Loop {
        name: "thread-local",
        title: "borrow a thread-local 10 M times",
        run: thread_local,
        checksums: [0x3_6675_621c_ef70, 0x36_677d_5cfd],
    },
    Loop {
        name: "spawn",
        title: "2,000 threads, each started and joined",
        run: spawn,
        checksums: [0x9ed3_9778, 0x24ef],
    },
    Loop {
        name: "instant",
        title: "`Instant::now`, 2 M times",
        run: instant,
        checksums: [0x1e_8480, 0x7a12],
    },
    Loop {
        name: "system-time",
        title: "`SystemTime::now`, 2 M times",
        run: system_time,
        checksums: [0x1e_8480, 0x7a12],
    },
];

thread_local! {
    /// A value with a destructor, which std registers at the first use.
    static NUMBERS: RefCell<Vec<u64>> = RefCell::new(vec![0; 8]);
}

fn mutex(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(4_000_000) as u64;
    let work = |mutex: Mutex<u64>| {
        for number in 0..count {
            *black_box(&mutex).lock().unwrap_or_else(PoisonError::into_inner) += number;
        }
        mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
    };
    rounds.run(|| Mutex::new(0), work)
}

fn rwlock_read(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(4_000_000);
    let work = |lock: RwLock<u64>| {
        (0..count).map(|_| *black_box(&lock).read().unwrap_or_else(PoisonError::into_inner)).sum()
    };
    rounds.run(|| RwLock::new(3), work)
}

fn rwlock_write(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(4_000_000) as u64;
    let work = |lock: RwLock<u64>| {
        for number in 0..count {
            *black_box(&lock).write().unwrap_or_else(PoisonError::into_inner) += number;
        }
        lock.into_inner().unwrap_or_else(PoisonError::into_inner)
    };
    rounds.run(|| RwLock::new(0), work)
}

fn arc(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(4_000_000);
    let work = |arc: Arc<u64>| (0..count).map(|_| *black_box(Arc::clone(black_box(&arc)))).sum();
    rounds.run(|| Arc::new(5), work)
}

fn channel(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(1_000_000) as u64;
    let work = |()| {
        let (to, from) = mpsc::channel();
        let mut received = 0;
        for number in 0..count {
            let _: Result<(), _> = to.send(number);
            received += from.recv().unwrap_or_default();
        }
        received
    };
    rounds.run(|| (), work)
}

fn thread_local(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(10_000_000);
    let work = |()| {
        NUMBERS.with_borrow_mut(|numbers| numbers.fill(0));
        for number in 0..count {
            NUMBERS.with_borrow_mut(|numbers| black_box(numbers)[number % 8] += number as u64);
        }
        NUMBERS.with_borrow(|numbers| numbers.iter().fold(0, |sum: u64, number| sum.rotate_left(1) ^ number))
    };
    rounds.run(|| (), work)
}

fn spawn(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(2000) as u64;
    let work = |()| (0..count).filter_map(|number| thread::spawn(move || number * number).join().ok()).sum();
    rounds.run(|| (), work)
}

/// Measures reads of a clock. The checksum counts the reads whose time was not before the previous time.
fn clock<T: PartialOrd>(rounds: &Rounds, now: impl Fn() -> T) -> Outcome {
    let count = rounds.scale(2_000_000);
    let work = |mut last: T| {
        let is_in_order = |_: &usize| {
            let previous = std::mem::replace(&mut last, now());
            last >= previous
        };
        (0..count).filter(is_in_order).count() as u64
    };
    rounds.run(&now, work)
}

fn instant(rounds: &Rounds) -> Outcome {
    clock(rounds, Instant::now)
}

fn system_time(rounds: &Rounds) -> Outcome {
    clock(rounds, SystemTime::now)
}
