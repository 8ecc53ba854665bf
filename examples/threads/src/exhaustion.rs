//! Exhausted memory is an error that the program survives, and nothing leaks.

use std::sync::{Condvar, Mutex};
use std::thread::{Builder, ScopedJoinHandle};

use crate::arguments::Settings;
use crate::support::{lock, wait_while};
use crate::{locks, memory};

/// Size of a block in bytes.
const BLOCK_SIZE: usize = 1 << 20;

/// Default maximum number of blocks, for machines with much memory.
const MAX_BLOCKS: usize = 256;

/// Maximum number of threads.
const MAX_THREADS: usize = 2_000;

/// Number of blocks left for stacks and for the heap's metadata when memory and threads are exhausted together.
const SPARE_BLOCKS: usize = 16;

pub(crate) fn exhaust(settings: &Settings) {
    let max = settings.number.unwrap_or(MAX_BLOCKS);
    let first = fill(max).len();
    println!("{first} MiB in blocks of 1 MiB");
    let threads = spawn_all();
    println!("{threads} threads");
    assert!(first > 0 && threads > 0, "there is no memory, or there are no threads, to begin with");

    let mut blocks = fill(max);
    blocks.truncate(blocks.len().saturating_sub(SPARE_BLOCKS));
    println!("{} threads beside {} MiB", spawn_all(), blocks.len());
    blocks.iter().for_each(|block| check(block));
    drop(blocks);

    memory::allocate(&Settings::default());
    locks::mutex(&Settings::default());
    let last = fill(max).len();
    assert!(last + SPARE_BLOCKS >= first, "there were {first} MiB, and now there are {last} MiB");
    let again = spawn_all();
    assert!(again + again / 4 >= threads, "there were {threads} threads, and now there are {again}");
}

/// Allocates and writes blocks until allocation fails.
fn fill(max: usize) -> Vec<Vec<u8>> {
    let mut blocks = Vec::with_capacity(max);
    while blocks.len() < max {
        let mut block = Vec::new();
        if block.try_reserve_exact(BLOCK_SIZE).is_err() {
            break;
        }
        block.resize(BLOCK_SIZE, blocks.len().to_le_bytes()[0]);
        blocks.push(block);
    }
    blocks.iter().for_each(|block| check(block));
    blocks
}

fn check(block: &[u8]) {
    assert!(block.iter().all(|&byte| byte == block[0]), "a block is damaged");
}

/// Starts threads until spawning fails; returns their number.
fn spawn_all() -> usize {
    let (open, changed) = (Mutex::new(false), Condvar::new());
    let wait = || drop(wait_while(&changed, &open, |open| !*open));
    std::thread::scope(|scope| {
        let mut threads: Vec<ScopedJoinHandle<'_, ()>> = Vec::with_capacity(MAX_THREADS);
        while threads.len() < MAX_THREADS {
            let Ok(thread) = Builder::new().spawn_scoped(scope, wait) else { break };
            threads.push(thread);
        }
        *lock(&open) = true;
        changed.notify_all();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).count()
    })
}
