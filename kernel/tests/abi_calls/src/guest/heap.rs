//! The heap, called as std's allocator calls it, and large allocations.

use hermit_abi::ENOMEM;

use super::memory::HeapBlock;

/// Maximum size of the blocks in bytes.
const MAX_SIZE: usize = 64 << 10;

/// Maximum alignment in bytes.
const MAX_ALIGNMENT: usize = 4096;

/// Number of blocks held at a time.
const HELD: usize = 64;

/// An allocation that must succeed on a machine of 2 GiB, in bytes.
const LARGE: usize = 850 << 20;

/// An allocation that must fail on such a machine, in bytes.
const TOO_LARGE: usize = 16 << 30;

pub(crate) fn heap() {
    sizes_and_alignments();
    growth();
    refusals();
    large_allocations();
}

/// Blocks of all sizes and alignments keep their contents while neighbours are allocated, resized and freed.
fn sizes_and_alignments() {
    let sizes =
        (1..=64).chain((65..4096).step_by(61)).chain((4095..=MAX_SIZE).step_by(1951)).chain([MAX_SIZE]);
    let mut held: Vec<(usize, HeapBlock)> = Vec::new();
    for (index, size) in sizes.enumerate() {
        for power in 0..=MAX_ALIGNMENT.ilog2() {
            let seed = index + usize::try_from(power).expect("it is small");
            held.push((seed, new(size, 1 << power, seed)));
        }
        if held.len() > HELD {
            change(&mut held);
        }
    }
    held.iter().for_each(|(seed, block)| block.area.check(*seed));
}

fn new(size: usize, align: usize, seed: usize) -> HeapBlock {
    let block = if seed.is_multiple_of(3) {
        let block = HeapBlock::allocate_zeroed(size, align).expect("no memory");
        block.area.check_zero();
        block
    } else {
        HeapBlock::allocate(size, align).expect("no memory")
    };
    block.area.fill(seed);
    block
}

/// Frees every other block and resizes the others.
fn change(held: &mut Vec<(usize, HeapBlock)>) {
    let mut index = 0;
    held.retain_mut(|(seed, block)| {
        index += 1;
        block.area.check(*seed);
        let old = block.area.size;
        let size = [old * 2, old.div_ceil(2), old + 1][index % 3].min(2 * MAX_SIZE);
        block.resize(size).expect("no memory");
        block.area.part(0, old.min(size)).check(*seed);
        block.area.fill(*seed);
        index % 2 == 0
    });
}

/// A large block grows and shrinks.
fn growth() {
    let mut block = new(3 << 20, 16, 1);
    let up = [3, 4, 5, 7, 10, 15, 22, 33, 40];
    let down = [39, 20, 4, 1];
    for megabytes in up.into_iter().chain(down) {
        let (old, size) = (block.area.size, megabytes << 20);
        block.resize(size).expect("no memory");
        block.area.part(0, old.min(size)).check(1);
        if size > old {
            block.area.fill(1);
        }
    }
    block.resize(1).expect("no memory");
    block.area.check(1);
}

fn refusals() {
    let mut block = new(5000, 8, 9);
    for size in [TOO_LARGE, 1 << 46, isize::MAX.cast_unsigned() - 4095] {
        assert_eq!(HeapBlock::allocate(size, 8).err(), Some(ENOMEM));
        assert_eq!(HeapBlock::allocate_zeroed(size, 4096).err(), Some(ENOMEM));
        assert_eq!(block.resize(size), Err(ENOMEM));
    }
    block.area.check(9);
}

fn large_allocations() {
    assert!(Vec::<u8>::new().try_reserve_exact(TOO_LARGE).is_err(), "{TOO_LARGE} bytes were granted");
    for seed in 0..3 {
        let mut bytes = Vec::<u8>::new();
        bytes.try_reserve_exact(LARGE).expect("850 MiB were refused");
        for byte in bytes.spare_capacity_mut().iter_mut().step_by(1 << 20) {
            byte.write(seed);
        }
    }
}

/// With the feature `bump`, the last block is allocated again when it is freed, and grows in place. No other
/// block's memory is used again.
pub(crate) fn last_block() {
    // From then on there is that much memory after the last block.
    drop(new(1 << 20, 16, 0));
    let first = new(100, 8, 1);
    let start = first.area.start;
    drop(first);
    let mut last = new(200, 16, 2);
    assert_eq!(last.area.start, start, "the last block was not freed");
    last.resize(500_000).expect("no memory");
    assert_eq!(last.area.start, start, "the last block moved");
    last.area.part(0, 200).check(2);
    last.resize(200).expect("no memory");
    let other = new(300, 64, 3);
    drop(last);
    let next = new(200, 16, 4);
    assert_ne!(next.area.start, start, "a block was used again");
    assert!(next.area.start > other.area.start, "blocks are not one behind the other");
    other.area.check(3);
}
