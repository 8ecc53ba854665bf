//! Exhausted memory is an error that the program survives, and nothing leaks.

use std::io;
use std::sync::{Condvar, Mutex};
use std::thread::{Builder, ScopedJoinHandle};

use crate::arguments::Settings;
use crate::support::{lock, wait_while};
use crate::{locks, memory};

/// Size of a block in bytes.
const BLOCK_SIZE: usize = 1 << 20;

/// Default maximum number of blocks, for machines with much memory.
const MAX_BLOCKS: usize = 256;

/// Maximum number of threads beside blocks.
const MAX_THREADS: usize = 2_000;

/// Default maximum number of threads without blocks, for machines with much memory.
const MANY_THREADS: usize = 200_000;

/// Size in bytes of blocks that fit between what the kernel keeps, however that is scattered.
const SMALL_BLOCK_SIZE: usize = 4 << 10;

/// Number of blocks left for stacks and for the heap's metadata when memory and threads are exhausted
/// together.
const SPARE_BLOCKS: usize = 16;

pub(crate) fn exhaust(settings: &Settings) {
    let max = settings.number.unwrap_or(MAX_BLOCKS);
    let first = fill(BLOCK_SIZE, max).len();
    println!("{first} MiB in blocks of 1 MiB");
    let threads = spawn_all(MAX_THREADS);
    println!("{threads} threads");
    assert!(first > 0 && threads > 0, "there is no memory, or there are no threads, to begin with");

    let mut blocks = fill(BLOCK_SIZE, max);
    blocks.truncate(blocks.len().saturating_sub(SPARE_BLOCKS));
    println!("{} threads beside {} MiB", spawn_all(MAX_THREADS), blocks.len());
    blocks.iter().for_each(|block| check(block));
    drop(blocks);

    memory::allocate(&Settings::default());
    locks::mutex(&Settings::default());
    let last = fill(BLOCK_SIZE, max).len();
    assert!(last + SPARE_BLOCKS >= first, "there were {first} MiB, and now there are {last} MiB");
    let again = spawn_all(MAX_THREADS);
    assert!(again + again / 4 >= threads, "there were {threads} threads, and now there are {again}");
}

/// Threads are started until that is an error; then all of them run and end, as many as before can be started
/// again, so nothing leaks, and at least half of the memory is free for other uses. How much of it depends on
/// which data of threads share regions of the heap.
pub(crate) fn exhaust_threads(settings: &Settings) {
    let max = settings.number.unwrap_or(MANY_THREADS);
    let before = FreeBlocks::count();
    let threads = spawn_all(max);
    println!("{threads} threads");
    assert!(0 < threads && threads < max, "starting threads did not fail");
    let again = spawn_all(max);
    assert!(again + again / 50 >= threads, "there were {threads} threads, and now there are {again}");
    let after = FreeBlocks::count();
    println!("before {before:?}, after {after:?}");
    assert!(after.small >= before.small / 2, "memory of threads that have ended is not free");
    assert!(after.large >= before.large / 2, "free memory is scattered");
}

/// Numbers of blocks into which free memory can be divided.
#[derive(Debug)]
struct FreeBlocks {
    /// Blocks of [`SMALL_BLOCK_SIZE`].
    small: usize,
    /// Blocks of [`BLOCK_SIZE`].
    large: usize,
}

impl FreeBlocks {
    fn count() -> Self {
        let small = fill(SMALL_BLOCK_SIZE, MAX_BLOCKS * BLOCK_SIZE / SMALL_BLOCK_SIZE).len();
        Self { small, large: fill(BLOCK_SIZE, MAX_BLOCKS).len() }
    }
}

/// Allocates and writes blocks until allocation fails.
fn fill(size: usize, max: usize) -> Vec<Vec<u8>> {
    let mut blocks = Vec::with_capacity(max);
    while blocks.len() < max {
        let mut block = Vec::new();
        if block.try_reserve_exact(size).is_err() {
            break;
        }
        block.resize(size, blocks.len().to_le_bytes()[0]);
        blocks.push(block);
    }
    blocks.iter().for_each(|block| check(block));
    blocks
}

fn check(block: &[u8]) {
    assert!(block.iter().all(|&byte| byte == block[0]), "a block is damaged");
}

/// Starts threads until spawning fails or there are `max`; returns their number.
fn spawn_all(max: usize) -> usize {
    let (open, changed) = (Mutex::new(false), Condvar::new());
    let wait = || drop(wait_while(&changed, &open, |open| !*open));
    std::thread::scope(|scope| {
        let mut threads: Vec<ScopedJoinHandle<'_, ()>> = Vec::with_capacity(max);
        while threads.len() < max {
            let Some(thread) = started(Builder::new().spawn_scoped(scope, wait)) else { break };
            threads.push(thread);
        }
        *lock(&open) = true;
        changed.notify_all();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).count()
    })
}

/// Returns the thread if it was started. A thread that cannot start fails with EAGAIN, as from
/// pthread_create(3).
fn started<T>(thread: io::Result<T>) -> Option<T> {
    thread.inspect_err(|error| assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}")).ok()
}
