//! When there is no more memory, that is an error and not the end; and nothing is lost by it.

use std::sync::{Condvar, Mutex};
use std::thread::{Builder, ScopedJoinHandle};

use crate::arguments::Settings;
use crate::support::{lock, wait_while};
use crate::{locks, memory};

/// A block.
const BLOCK: usize = 1 << 20;

/// Blocks after which to stop on a machine that has plenty, unless told a number.
const MOST_BLOCKS: usize = 256;

/// Threads after which to stop.
const MOST_THREADS: usize = 2_000;

/// What is left for stacks and for the heap's own needs when both memory and threads are to run out.
const SPARE: usize = 16;

pub(crate) fn exhaust(settings: &Settings) {
    let most = settings.number.unwrap_or(MOST_BLOCKS);
    let first = fill(most).len();
    println!("{first} MiB in blocks of 1 MiB");
    let threads = spawn_all();
    println!("{threads} threads");
    assert!(first > 0 && threads > 0, "there is no memory, or there are no threads, to begin with");

    let mut blocks = fill(most);
    blocks.truncate(blocks.len().saturating_sub(SPARE));
    println!("{} threads beside {} MiB", spawn_all(), blocks.len());
    blocks.iter().for_each(|block| check(block));
    drop(blocks);

    memory::allocate(&Settings::default());
    locks::mutex(&Settings::default());
    let last = fill(most).len();
    assert!(last + SPARE >= first, "there were {first} MiB, and now there are {last} MiB");
    let again = spawn_all();
    assert!(again + again / 4 >= threads, "there were {threads} threads, and now there are {again}");
}

/// Takes and uses memory until there is no more.
fn fill(most: usize) -> Vec<Vec<u8>> {
    let mut blocks = Vec::with_capacity(most);
    while blocks.len() < most {
        let mut block = Vec::new();
        if block.try_reserve_exact(BLOCK).is_err() {
            break;
        }
        block.resize(BLOCK, blocks.len().to_le_bytes()[0]);
        blocks.push(block);
    }
    blocks.iter().for_each(|block| check(block));
    blocks
}

fn check(block: &[u8]) {
    assert!(block.iter().all(|&byte| byte == block[0]), "a block is damaged");
}

/// Starts threads until one is refused, and says how many there were.
fn spawn_all() -> usize {
    let (open, changed) = (Mutex::new(false), Condvar::new());
    let wait = || drop(wait_while(&changed, &open, |open| !*open));
    std::thread::scope(|scope| {
        let mut threads: Vec<ScopedJoinHandle<'_, ()>> = Vec::with_capacity(MOST_THREADS);
        while threads.len() < MOST_THREADS {
            let Ok(thread) = Builder::new().spawn_scoped(scope, wait) else { break };
            threads.push(thread);
        }
        *lock(&open) = true;
        changed.notify_all();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).count()
    })
}
