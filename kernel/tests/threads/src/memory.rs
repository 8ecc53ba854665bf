//! The heap is used by all threads at once, and memory is freed by other threads than the one that allocated
//! it.

use std::hint::black_box;
use std::io;
use std::sync::Mutex;

use crate::arguments::Settings;
use crate::support::{Random, cpus, in_threads, lock};

/// Number of allocations of each thread.
const STEPS: usize = 2_000;

/// Maximum number of blocks that wait for another thread.
const MAX_SHARED: usize = 50;

/// A block whose bytes all have the same value.
struct HeapBlock {
    bytes: Vec<u8>,
    value: u8,
}

impl HeapBlock {
    fn new(size: usize, value: u8) -> Self {
        Self { bytes: vec![value; size], value }
    }

    fn check(&self) {
        let wrong = self.bytes.iter().position(|&byte| byte != self.value);
        assert!(wrong.is_none(), "byte {wrong:?} of {} is not {}", self.bytes.len(), self.value);
    }

    /// Grows or shrinks the block; the remaining bytes must not change.
    fn resize(&mut self, size: usize) {
        self.bytes.resize(size, self.value);
        self.bytes.shrink_to_fit();
        self.check();
    }
}

pub(crate) fn allocate(settings: &Settings) {
    let shared = Mutex::new(Vec::with_capacity(MAX_SHARED));
    let steps = settings.number.unwrap_or(STEPS);
    in_threads(cpus() + 3, |index| {
        let mut random = Random::new(index);
        for step in 0..steps {
            let mut block = HeapBlock::new(size(&mut random, step), random.below(256).to_le_bytes()[0]);
            if random.below(4) == 0 {
                block.resize(size(&mut random, 1));
            }
            let other = exchange(&shared, block, &mut random);
            other.iter().for_each(HeapBlock::check);
        }
    });
    lock(&shared).iter().for_each(HeapBlock::check);
}

/// Sizes in bytes of small blocks of [`spike`]: one of the general allocator, and one of spans.
const SMALL_BLOCK: usize = 4000;
const TINY_BLOCK: usize = 200;

/// Uses much memory, first as one block, then as small ones, and frees it. Then waits for the end of the
/// input, and uses as much again: the host may have taken the memory back meanwhile.
pub(crate) fn spike(settings: &Settings) {
    let size = settings.number.unwrap_or(64) << 20;
    HeapBlock::new(size, 1).check();
    all_small_blocks(size);
    println!("freed");
    io::copy(&mut io::stdin(), &mut io::sink()).expect("standard input can be read");
    HeapBlock::new(size, 2).check();
    all_small_blocks(size);
}

fn all_small_blocks(size: usize) {
    small_blocks(size, SMALL_BLOCK);
    // The vector of blocks takes memory, too.
    small_blocks(size / 2, TINY_BLOCK);
}

fn small_blocks(total: usize, size: usize) {
    let blocks: Vec<_> = (0..total / size).map(|_| HeapBlock::new(size, 3)).collect();
    blocks.iter().for_each(HeapBlock::check);
}

/// Size of a page in bytes.
const PAGE: usize = 4096;

/// Waits for a line of input, touches each page of much memory and frees it, waits for another line, and does
/// so again: the host may have taken the memory back meanwhile.
pub(crate) fn touch(settings: &Settings) {
    let size = settings.number.unwrap_or(64) << 20;
    for name in ["started", "freed"] {
        println!("{name}");
        io::stdin().read_line(&mut String::new()).expect("standard input can be read");
        touch_pages(size);
    }
}

/// Writes one word to each page of a new block, and checks the words: a slow machine takes little time for
/// that.
fn touch_pages(size: usize) {
    let mut block: Vec<usize> = Vec::with_capacity(size / size_of::<usize>());
    let words = block.spare_capacity_mut().iter_mut().step_by(PAGE / size_of::<usize>());
    let written: Vec<_> = words.enumerate().map(|(index, word)| word.write(index)).collect();
    let wrong = black_box(&written).iter().enumerate().position(|(index, word)| **word != index);
    assert!(wrong.is_none(), "page {wrong:?} has another word");
}

/// A random size: mostly small, sometimes medium, rarely large.
fn size(random: &mut Random, step: usize) -> usize {
    let limit = match random.below(20) {
        0..=13 => 256,
        14..=18 => 8 << 10,
        _ if step.is_multiple_of(50) => 1 << 20,
        _ => 100 << 10,
    };
    random.below(limit)
}

/// Leaves a block for other threads; takes one of theirs if there are many.
fn exchange(shared: &Mutex<Vec<HeapBlock>>, block: HeapBlock, random: &mut Random) -> Option<HeapBlock> {
    let mut shared = lock(shared);
    shared.push(block);
    if shared.len() < MAX_SHARED {
        return None;
    }
    let index = random.below(shared.len());
    Some(shared.swap_remove(index))
}
