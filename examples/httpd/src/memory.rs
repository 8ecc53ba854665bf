//! Sizes of free memory.

use std::{fs, hint};

/// Granularity of the result, in bytes.
const STEP: usize = 4 << 10;

/// Upper limit of the search, in bytes.
const MAX_SIZE: usize = 1 << 36;

/// Size of the largest block that the program could allocate now, in bytes, by binary search.
pub(crate) fn largest_block() -> usize {
    let (mut largest, mut too_large) = (0, MAX_SIZE);
    while too_large - largest > STEP {
        let middle = largest.midpoint(too_large);
        if can_allocate(middle) {
            largest = middle;
        } else {
            too_large = middle;
        }
    }
    largest
}

/// Size of the memory that is not in use, in bytes, if the system says so.
pub(crate) fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn can_allocate(size: usize) -> bool {
    let mut block = Vec::<u8>::new();
    let can_allocate = block.try_reserve_exact(size).is_ok();
    // Keeps the compiler from removing an unused allocation.
    hint::black_box(&mut block);
    can_allocate
}

#[cfg(test)]
mod tests {
    use super::{MAX_SIZE, STEP, can_allocate, largest_block};

    #[test]
    fn largest_block_is_allocatable_and_bounded() {
        let size = largest_block();
        assert!(can_allocate(STEP) && size > STEP && size <= MAX_SIZE);
        assert!(!can_allocate(usize::MAX));
    }
}
