//! Name resolution without memory for its result.

use std::mem;

use hermit_abi::EAI_MEMORY;

use super::calls::AddressList;

/// Maximum number of blocks that fill the memory.
const MAX_BLOCKS: usize = 100_000;

/// Sizes of these blocks, as powers of two.
const POWERS: std::ops::RangeInclusive<u32> = 4..=20;

/// Maximum number of results that fill the remaining memory, such as the free blocks of another CPU.
const MAX_RESULTS: usize = 100_000;

pub(crate) fn lookup() {
    let resolve = || AddressList::resolve(c"127.0.0.1");
    assert!(resolve().is_ok(), "an address is not resolved to itself");
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(MAX_BLOCKS);
    for size in POWERS.rev().map(|power| 1 << power) {
        let new = || {
            let mut block = Vec::new();
            block.try_reserve_exact(size).ok().map(|()| block)
        };
        let room = MAX_BLOCKS - blocks.len();
        blocks.extend(std::iter::from_fn(new).take(room));
    }
    assert!(blocks.len() < MAX_BLOCKS, "the memory is not full");
    // Results are not freed, so that the memory runs out.
    let error = (0..MAX_RESULTS).find_map(|_| resolve().map(mem::forget).err());
    drop(blocks);
    assert_eq!(error, Some(EAI_MEMORY));
    assert!(resolve().is_ok(), "memory that was freed is not found again");
}
