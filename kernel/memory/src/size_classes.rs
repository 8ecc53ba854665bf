//! Size classes: a block of the heap is as large as the next class, so that a free one suits whoever asks for that class.
//!
//! Up to 1 KiB the classes are 16 bytes apart, above that there are four to each doubling: no more than a fifth of a
//! large block is wasted.

/// Alignment of every class.
pub const ALIGN: usize = 16;

/// How many classes [`small_class`] knows.
pub const SMALL: usize = LINEAR;

/// The largest size that has a class.
pub const MAX_SIZE: usize = 32 << 10;

/// Up to here the classes are [`ALIGN`] apart.
const LINEAR_END: usize = 1024;
const LINEAR: usize = LINEAR_END / ALIGN;
const PER_DOUBLING: usize = 4;

/// How many classes there are.
pub const COUNT: usize =
    LINEAR + PER_DOUBLING * (MAX_SIZE.trailing_zeros() - LINEAR_END.trailing_zeros()) as usize;

/// The most bytes that a CPU takes from the heap, or gives back, at a time, in one class.
const BATCH_BYTES: usize = 16 << 10;
const MAX_BATCH: usize = 128;
const MIN_BATCH: usize = 2;

/// The class for `size` bytes if that is little, from 1 to 1,024 bytes: for those in a hurry.
#[inline]
#[must_use]
pub const fn small_class(size: usize) -> Option<usize> {
    let last = size.wrapping_sub(1);
    if last < LINEAR_END { Some(last / ALIGN) } else { None }
}

/// The class for `size` bytes, from 1 to [`MAX_SIZE`]. Other sizes get a class that does not exist, or the first.
#[inline]
#[must_use]
pub const fn class(size: usize) -> usize {
    let last = size.wrapping_sub(1);
    if last < LINEAR_END {
        return last / ALIGN;
    }
    let doubling = last.ilog2();
    let part = (last >> (doubling - 2)) % PER_DOUBLING;
    LINEAR + (doubling - LINEAR_END.ilog2()) as usize * PER_DOUBLING + part
}

/// The size of a class's blocks in bytes.
#[must_use]
pub const fn size(class: usize) -> usize {
    if class < LINEAR {
        return (class + 1) * ALIGN;
    }
    let step = class - LINEAR;
    let base = LINEAR_END << (step / PER_DOUBLING);
    base + base / PER_DOUBLING * (step % PER_DOUBLING + 1)
}

/// How many blocks of a class are at most taken from the heap, or given back, at a time.
#[must_use]
pub const fn batch(class: usize) -> usize {
    let fitting = BATCH_BYTES / size(class);
    if fitting > MAX_BATCH {
        MAX_BATCH
    } else if fitting < MIN_BATCH {
        MIN_BATCH
    } else {
        fitting
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, COUNT, MAX_SIZE, batch, class, size};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn the_ends_fit() {
        assert_eq!((class(1), size(0)), (0, 16));
        assert_eq!((class(MAX_SIZE), size(COUNT - 1)), (COUNT - 1, MAX_SIZE));
        assert!(class(0) >= COUNT && class(MAX_SIZE + 1) >= COUNT);
    }

    #[test]
    fn classes_grow() {
        for number in 1..COUNT {
            assert!(size(number) > size(number - 1));
            assert_eq!(class(size(number)), number);
            assert_eq!(class(size(number - 1) + 1), number);
            assert!(batch(number) <= batch(number - 1) && batch(number) >= 2);
        }
    }

    proptest! {
        #[test]
        fn a_block_is_large_enough_and_little_is_wasted(wanted in 1..=MAX_SIZE) {
            let block = size(class(wanted));
            prop_assert!(block >= wanted && block.is_multiple_of(ALIGN));
            prop_assert!(block - wanted < ALIGN.max(wanted / 4 + 1));
            let small = (wanted <= 1024).then(|| class(wanted));
            prop_assert_eq!(super::small_class(wanted), small);
        }
    }
}
