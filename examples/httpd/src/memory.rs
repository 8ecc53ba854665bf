//! Size of the largest possible allocation.

use std::hint;

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
