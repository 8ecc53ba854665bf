//! How much memory there is.

use std::hint;

/// The answer is no more exact than this.
const STEP: usize = 4 << 10;

/// More is not looked for.
const MOST: usize = 1 << 36;

/// The size of the largest block that the program could get now.
pub(crate) fn largest_block() -> usize {
    let (mut most, mut too_much) = (0, MOST);
    while too_much - most > STEP {
        let middle = most.midpoint(too_much);
        if is_there(middle) {
            most = middle;
        } else {
            too_much = middle;
        }
    }
    most
}

fn is_there(size: usize) -> bool {
    let mut block = Vec::<u8>::new();
    let is_there = block.try_reserve_exact(size).is_ok();
    // Memory that nobody looks at need not be asked for.
    hint::black_box(&mut block);
    is_there
}

#[cfg(test)]
mod tests {
    use super::{MOST, STEP, is_there, largest_block};

    #[test]
    fn there_is_an_end() {
        let size = largest_block();
        assert!(is_there(STEP) && size > STEP && size <= MOST);
        assert!(!is_there(usize::MAX));
    }
}
