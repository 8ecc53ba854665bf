//! Size classes of the heap: a request is rounded up to a class, and a free block satisfies any request of its class.
//!
//! Up to 1 KiB the classes are 16 bytes apart; above that there are four per power of two, so that at most a fifth of
//! a large block is internal fragmentation.

/// Alignment of the blocks of every class in bytes.
pub const ALIGN: usize = 16;

/// Number of classes of [`small_class`].
pub const SMALL: usize = LINEAR;

/// Maximum size of a class in bytes.
pub const MAX_SIZE: usize = 32 << 10;

/// Largest class of the linear part, whose classes are [`ALIGN`] apart.
const LINEAR_END: usize = 1024;
/// Number of classes of the linear part.
const LINEAR: usize = LINEAR_END / ALIGN;
/// Number of classes per power of two above the linear part.
const PER_DOUBLING: usize = 4;

/// Number of classes.
pub const COUNT: usize =
    LINEAR + PER_DOUBLING * (MAX_SIZE.trailing_zeros() - LINEAR_END.trailing_zeros()) as usize;

/// Maximum number of bytes that a CPU's free list exchanges with the shared heap at a time.
const BATCH_BYTES: usize = 16 << 10;
const MAX_BATCH: usize = 128;
const MIN_BATCH: usize = 2;

/// The class of a size from 1 to 1,024 bytes, for the fast path; `None` for other sizes.
#[inline]
#[must_use]
pub const fn small_class(size: usize) -> Option<usize> {
    let last = size.wrapping_sub(1);
    if last < LINEAR_END { Some(last / ALIGN) } else { None }
}

/// The class of a size from 1 to [`MAX_SIZE`] bytes. For other sizes the result is not below [`COUNT`].
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

/// Size of the blocks of a class in bytes.
#[must_use]
pub const fn size(class: usize) -> usize {
    if class < LINEAR {
        return (class + 1) * ALIGN;
    }
    let step = class - LINEAR;
    let base = LINEAR_END << (step / PER_DOUBLING);
    base + base / PER_DOUBLING * (step % PER_DOUBLING + 1)
}

/// Maximum number of blocks of a class that a CPU's free list exchanges with the shared heap at a time.
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
    fn smallest_and_largest_size_have_a_class() {
        assert_eq!((class(1), size(0)), (0, 16));
        assert_eq!((class(MAX_SIZE), size(COUNT - 1)), (COUNT - 1, MAX_SIZE));
        assert!(class(0) >= COUNT && class(MAX_SIZE + 1) >= COUNT);
    }

    #[test]
    fn sizes_increase_with_the_class() {
        for number in 1..COUNT {
            assert!(size(number) > size(number - 1));
            assert_eq!(class(size(number)), number);
            assert_eq!(class(size(number - 1) + 1), number);
            assert!(batch(number) <= batch(number - 1) && batch(number) >= 2);
        }
    }

    proptest! {
        #[test]
        fn block_is_large_enough_with_bounded_waste(wanted in 1..=MAX_SIZE) {
            let block = size(class(wanted));
            prop_assert!(block >= wanted && block.is_multiple_of(ALIGN));
            prop_assert!(block - wanted < ALIGN.max(wanted / 4 + 1));
            let small = (wanted <= 1024).then(|| class(wanted));
            prop_assert_eq!(super::small_class(wanted), small);
        }
    }
}
