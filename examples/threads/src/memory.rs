//! The heap serves all threads at once, and memory may be freed by another thread than the one that asked for it.

use std::sync::Mutex;

use crate::arguments::Settings;
use crate::support::{Random, cpus, in_threads, lock};

/// Steps of each thread.
const STEPS: usize = 2_000;

/// Most blocks that wait for another thread.
const WAITING: usize = 50;

/// Memory whose bytes all have one value.
struct Block {
    bytes: Vec<u8>,
    value: u8,
}

impl Block {
    fn new(size: usize, value: u8) -> Self {
        Self { bytes: vec![value; size], value }
    }

    fn check(&self) {
        let wrong = self.bytes.iter().position(|&byte| byte != self.value);
        assert!(wrong.is_none(), "byte {wrong:?} of {} is not {}", self.bytes.len(), self.value);
    }

    /// Makes it larger or smaller; what stays must not change.
    fn resize(&mut self, size: usize) {
        self.bytes.resize(size, self.value);
        self.bytes.shrink_to_fit();
        self.check();
    }
}

pub(crate) fn allocate(settings: &Settings) {
    let shared = Mutex::new(Vec::with_capacity(WAITING));
    let steps = settings.number.unwrap_or(STEPS);
    in_threads(cpus() + 3, |index| {
        let mut random = Random::new(index);
        for step in 0..steps {
            let mut block = Block::new(size(&mut random, step), random.below(256).to_le_bytes()[0]);
            if random.below(4) == 0 {
                block.resize(size(&mut random, 1));
            }
            let other = exchange(&shared, block, &mut random);
            other.iter().for_each(Block::check);
        }
    });
    lock(&shared).iter().for_each(Block::check);
}

/// Mostly little, sometimes more, and now and then a lot.
fn size(random: &mut Random, step: usize) -> usize {
    let limit = match random.below(20) {
        0..=13 => 256,
        14..=18 => 8 << 10,
        _ if step.is_multiple_of(50) => 1 << 20,
        _ => 100 << 10,
    };
    random.below(limit)
}

/// Leaves a block for others; takes one of theirs if there are many.
fn exchange(shared: &Mutex<Vec<Block>>, block: Block, random: &mut Random) -> Option<Block> {
    let mut shared = lock(shared);
    shared.push(block);
    if shared.len() < WAITING {
        return None;
    }
    let index = random.below(shared.len());
    Some(shared.swap_remove(index))
}
