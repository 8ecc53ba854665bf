//! Size classes of the heap: a request is rounded up to a class, and a free block satisfies any request of
//! its class.
//!
//! Up to 1 KiB the classes are 16 bytes apart. Above that, there are four classes per power of two, so that
//! internal fragmentation is at most a fifth of a large block.

/// Alignment of the blocks of every class in bytes.
pub const ALIGN: usize = 16;

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
/// Bounds of the number of blocks that a free list exchanges at a time.
const MIN_BATCH: usize = if cfg!(feature = "single-blocks") { 1 } else { 2 };
const MAX_BATCH: usize = if cfg!(feature = "single-blocks") { 1 } else { 128 };

/// Granularity in bytes of the classes above the linear part: the smallest distance between two of them.
const STEP: usize = LINEAR_END / PER_DOUBLING;

/// The classes above the linear part, indexed by the last byte of a size in units of [`STEP`].
static STEPS: [u8; MAX_SIZE / STEP] = {
    let mut steps = [0; MAX_SIZE / STEP];
    let mut step = LINEAR_END / STEP;
    while step < steps.len() {
        let doubling = step.ilog2();
        let part = (step >> (doubling - PER_DOUBLING.ilog2())) % PER_DOUBLING;
        let class = LINEAR + (doubling - (LINEAR_END / STEP).ilog2()) as usize * PER_DOUBLING + part;
        assert!(class < COUNT, "a class has a number below their count");
        steps[step] = class.to_le_bytes()[0];
        step += 1;
    }
    steps
};
const _: () = assert!(COUNT <= u8::MAX as usize, "a class fits in a byte");

/// The class of a size from 1 to [`MAX_SIZE`] bytes; `None` for other sizes.
#[inline]
#[must_use]
pub fn class(size: usize) -> Option<usize> {
    scaled_class(size).map(|scaled| scaled / ALIGN)
}

/// The class of a size, times [`ALIGN`]. For small sizes, the computation needs no shift.
#[inline]
#[must_use]
pub fn scaled_class(size: usize) -> Option<usize> {
    let last = size.wrapping_sub(1);
    if last < LINEAR_END {
        return Some(last / ALIGN * ALIGN);
    }
    STEPS.get(last / STEP).map(|&class| usize::from(class) * ALIGN)
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
    use proptest::{prop_assert, proptest};

    #[test]
    fn smallest_and_largest_size_have_a_class() {
        assert_eq!((class(1), size(0)), (Some(0), 16));
        assert_eq!((class(MAX_SIZE), size(COUNT - 1)), (Some(COUNT - 1), MAX_SIZE));
        assert_eq!([0, MAX_SIZE + 1, usize::MAX].map(class), [None; 3]);
    }

    #[test]
    fn sizes_increase_with_the_class() {
        for number in 1..COUNT {
            assert!(size(number) > size(number - 1));
            assert_eq!(class(size(number)), Some(number));
            assert_eq!(class(size(number - 1) + 1), Some(number));
            assert!(batch(number) <= batch(number - 1) && batch(number) >= 2);
        }
    }

    proptest! {
        #[test]
        fn block_is_large_enough_with_bounded_waste(wanted in 1..=MAX_SIZE) {
            let block = class(wanted).map_or(0, size);
            prop_assert!(block >= wanted && block.is_multiple_of(ALIGN));
            prop_assert!(block - wanted < ALIGN.max(wanted / 4 + 1));
        }
    }
}
