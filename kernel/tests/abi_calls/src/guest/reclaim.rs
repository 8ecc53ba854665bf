//! Before an allocation fails, the heap uses the free blocks that other CPUs keep.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::memory::HeapBlock;
use super::raw_thread::{NORMAL_PRIORITY, spawn};
use super::support::wait_until;

/// Size of the blocks that exhaust the memory, in bytes: CPUs keep none of this size.
const BLOCK: usize = 64 << 10;

/// Maximum number of these blocks: 256 MiB, more than the machine has.
const MAX_BLOCKS: usize = 4096;

/// Size in bytes of the largest blocks that CPUs cache.
const MAX_KEPT: usize = 32 << 10;

/// Number of blocks by which two fillings may differ, because the heap and the threads use memory in between.
/// A CPU caches more blocks than that.
const TOLERANCE: usize = 8;

/// Next action of the other thread.
const WAIT: u32 = 0;
const FILL: u32 = 1;
const FILLED: u32 = 2;
const END: u32 = 3;

pub(crate) fn reclaim() {
    let last = std::thread::available_parallelism().expect("their number is known").get() - 1;
    let step = Arc::new(AtomicU32::new(WAIT));
    let shared = Arc::clone(&step);
    let other = move || {
        wait_until("the request to fill", || shared.load(Acquire) == FILL);
        fill_cache();
        shared.store(FILLED, Release);
        wait_until("the end", || shared.load(Acquire) == END);
    };
    spawn(NORMAL_PRIORITY, isize::try_from(last).expect("there are few CPUs"), other).expect("no thread");
    let before = exhaust();
    step.store(FILL, Release);
    wait_until("free blocks on the other CPU", || step.load(Acquire) == FILLED);
    let after = exhaust();
    step.store(END, Release);
    assert!(before < MAX_BLOCKS, "the machine has too much memory for this check");
    assert!(after + TOLERANCE >= before, "there were {before} blocks, and then {after}");
}

/// Allocates blocks until there is no memory. Returns their number.
fn exhaust() -> usize {
    let mut blocks = Vec::with_capacity(MAX_BLOCKS);
    while blocks.len() < MAX_BLOCKS {
        let Ok(block) = HeapBlock::allocate(BLOCK, 16) else { break };
        blocks.push(block);
    }
    blocks.len()
}

/// Allocates and frees blocks of many sizes, so that this CPU keeps about as many as it can.
fn fill_cache() {
    let sizes = (16..=1024).step_by(16).chain((1280..=MAX_KEPT).step_by(256));
    for size in sizes {
        let count = (MAX_KEPT / size).clamp(3, 255);
        let blocks: Vec<_> = (0..count).map(|_| HeapBlock::allocate(size, 16).expect("no memory")).collect();
        drop(blocks);
    }
}
