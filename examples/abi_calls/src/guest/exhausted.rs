//! Calls that start a part of the kernel for the first time while there is no memory, and while there is more and more of it:
//! they fail with an error, and succeed in the end.

use std::fs::File;
use std::io;

use hermit_abi::ENOMEM;

use super::memory::HeapBlock;

/// Maximum number of blocks that exhaust the memory.
const MAX_BLOCKS: usize = 1 << 16;

/// Sizes of the blocks in bytes, the largest first.
const SIZES: [usize; 13] =
    [64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10, 2 << 10, 1 << 10, 512, 256, 128, 64, 32, 16];

/// The file system.
pub(crate) fn exhausted() {
    fails_until_there_is_memory("a file", || File::create("/file").map(drop));
}

/// The first disk.
pub(crate) fn exhausted_disk() {
    fails_until_there_is_memory("a disk", || File::open("/dev/vda").map(drop));
}

fn fails_until_there_is_memory(name: &str, action: impl Fn() -> io::Result<()>) {
    let mut blocks = exhaust();
    let mut failures = 0;
    while let Err(error) = action() {
        assert_eq!(error.raw_os_error(), Some(ENOMEM), "{name}, after {failures} failures: {error}");
        failures += 1;
        assert!(blocks.pop().is_some(), "{name} fails with all memory free");
    }
    drop(blocks);
    println!("{name} failed {failures} times");
    assert!(failures > 0, "{name} took no memory");
}

/// Allocates blocks until there is no memory, small ones last.
fn exhaust() -> Vec<HeapBlock> {
    let mut blocks = Vec::with_capacity(MAX_BLOCKS);
    for size in SIZES {
        while blocks.len() < MAX_BLOCKS {
            let Ok(block) = HeapBlock::allocate(size, 16) else { break };
            blocks.push(block);
        }
    }
    assert!(blocks.len() < MAX_BLOCKS, "the machine has too much memory for this check");
    blocks
}
