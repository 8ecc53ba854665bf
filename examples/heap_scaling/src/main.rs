//! How much more several threads allocate than one, and how often they meet at a lock.
//!
//! `heap_scaling THREADS` prints, for blocks that each thread frees itself and for blocks that it hands to the next one,
//! operations per millisecond (allocating and freeing count apart), and how often an operation took the lock of the heap
//! that all CPUs share: a line `name<TAB>number` each. Only our kernel counts the latter.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Instant;

/// Blocks that a thread has at a time.
const WINDOW: usize = 256;

/// How often each thread allocates.
const COUNT: usize = 400_000;

/// Blocks that are handed over at a time.
const PARCEL: usize = 128;

/// What a thread does with its number, after it has met the others at the barrier.
type Work = fn(&Ring, usize);

/// Blocks that are handed over.
type Parcel = Vec<Box<[u8]>>;

/// Where each thread hands its blocks.
#[derive(Debug)]
struct Ring {
    start: Barrier,
    to_next: Vec<SyncSender<Parcel>>,
    from_previous: Vec<Mutex<Receiver<Parcel>>>,
}

fn main() -> ExitCode {
    let Some(threads) = env::args().nth(1).and_then(|count| count.parse().ok()).filter(|&count| count > 0)
    else {
        eprintln!("usage: heap_scaling THREADS");
        return ExitCode::from(2);
    };
    measure("own blocks", threads, own);
    measure("handed over", threads, handed_over);
    ExitCode::SUCCESS
}

fn measure(name: &str, threads: usize, work: Work) {
    let (to, from): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::sync_channel(4)).unzip();
    let ring = Arc::new(Ring {
        start: Barrier::new(threads + 1),
        to_next: to,
        from_previous: from.into_iter().map(Mutex::new).collect(),
    });
    let start = |number| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || {
            ring.start.wait();
            work(&ring, number);
        })
    };
    let threads: Vec<_> = (0..threads).map(start).collect();
    let (locks, time) = (heap_locks(), Instant::now());
    ring.start.wait();
    let count = threads.len() * COUNT * 2;
    threads.into_iter().for_each(|thread| thread.join().expect("a thread panicked"));
    let count = u32::try_from(count).map_or(f64::INFINITY, f64::from);
    println!("{name}: operations per millisecond\t{:.0}", count / time.elapsed().as_secs_f64() / 1000.0);
    if let (Some(before), Some(after)) = (locks, heap_locks()) {
        let locks = u32::try_from(after - before).map_or(f64::INFINITY, f64::from);
        println!("{name}: shared locks per operation\t{:.5}", locks / count);
    }
}

/// A block of one of many sizes, up to 1 KiB.
fn block(number: usize) -> Box<[u8]> {
    black_box(vec![0; number * 37 % 1000 + 1].into_boxed_slice())
}

/// Each thread frees what it has allocated, some time later.
fn own(_: &Ring, _: usize) {
    let mut blocks: Vec<_> = (0..WINDOW).map(block).collect();
    for number in 0..COUNT {
        blocks[number * 7 % WINDOW] = block(number);
    }
}

/// Each thread frees what the one before it has allocated.
fn handed_over(ring: &Ring, own: usize) {
    let next = (own + 1) % ring.to_next.len();
    for parcel in 0..COUNT / PARCEL {
        let blocks = (0..PARCEL).map(|number| block(parcel + number)).collect();
        ring.to_next[next].send(blocks).expect("the next thread is there");
        let receiver = ring.from_previous[own].lock().expect("a thread panicked");
        drop(receiver.recv().expect("the thread before is there"));
    }
}

/// How often the lock that all CPUs share was taken.
#[cfg(target_os = "hermit")]
#[expect(unsafe_code, reason = "a function of the kernel that std does not know")]
fn heap_locks() -> Option<u64> {
    // SAFETY: the kernel is in the image; the function takes nothing and only reads.
    Some(unsafe { hermit_abi::heap_lock_count() })
}

/// As on other systems.
#[cfg(not(target_os = "hermit"))]
fn heap_locks() -> Option<u64> {
    None
}
