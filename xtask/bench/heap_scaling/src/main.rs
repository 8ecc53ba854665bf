//! Measures how the heap scales: the allocation rate of several threads, and how often they take the shared
//! lock.
//!
//! `heap_scaling THREADS` prints lines `name<TAB>number`. One figure is the number of operations per
//! millisecond, where allocating and freeing count separately. The other figure is the number of
//! acquisitions, per operation, of the heap lock that all CPUs share; only this kernel counts it. Both are
//! measured twice: first with blocks that the allocating thread frees, then with blocks that another thread
//! frees.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Instant;

/// Number of blocks that a thread holds at a time.
const WINDOW: usize = 256;

/// Number of allocations of each thread.
const COUNT: usize = 400_000;

/// Number of blocks passed at a time.
const BATCH_SIZE: usize = 128;

/// Work of a thread, which gets the thread's number. It begins after all threads have reached a barrier.
type Work = fn(&ThreadRing, usize);

/// Blocks that are passed to the next thread at the same time.
type Batch = Vec<Box<[u8]>>;

/// Channels from each thread to the next.
#[derive(Debug)]
struct ThreadRing {
    start: Barrier,
    to_next: Vec<SyncSender<Batch>>,
    from_previous: Vec<Mutex<Receiver<Batch>>>,
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
    let ring = Arc::new(ThreadRing {
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

/// Allocates a block of one of many sizes, up to 1 KiB.
fn block(number: usize) -> Box<[u8]> {
    black_box(vec![0; number * 37 % 1000 + 1].into_boxed_slice())
}

/// Work in which each thread frees its own blocks, a while after it has allocated them.
fn own(_: &ThreadRing, _: usize) {
    let mut blocks: Vec<_> = (0..WINDOW).map(block).collect();
    for number in 0..COUNT {
        blocks[number * 7 % WINDOW] = block(number);
    }
}

/// Work in which each thread frees the blocks that the previous thread has allocated.
fn handed_over(ring: &ThreadRing, own: usize) {
    let next = (own + 1) % ring.to_next.len();
    for batch in 0..COUNT / BATCH_SIZE {
        let blocks = (0..BATCH_SIZE).map(|number| block(batch + number)).collect();
        ring.to_next[next].send(blocks).expect("the next thread is there");
        let receiver = ring.from_previous[own].lock().expect("a thread panicked");
        drop(receiver.recv().expect("the thread before is there"));
    }
}

/// Returns the number of acquisitions of the heap lock that all CPUs share.
#[cfg(target_os = "hermit")]
#[expect(unsafe_code, reason = "a kernel function that std does not wrap")]
fn heap_locks() -> Option<u64> {
    // SAFETY: the function is linked into the image; it takes no arguments and only reads a counter.
    Some(unsafe { hermit_abi::heap_lock_count() })
}

/// Returns `None`: other systems have no such counter.
#[cfg(not(target_os = "hermit"))]
fn heap_locks() -> Option<u64> {
    None
}
