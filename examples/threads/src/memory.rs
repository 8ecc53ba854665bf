//! The heap is used by all threads at once, and memory is freed by other threads than the one that allocated it.

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
