//! Checks of large blocks: all free memory can be used, whatever pieces it is in. They are written for a
//! machine of 128 MiB.

use crate::ActionResult;

const MIB: usize = 1 << 20;

/// Size of the blocks that fragment the memory.
const PIECE: usize = 5 * MIB;

/// Number of these blocks: 100 MiB.
const PIECES: usize = 20;

/// Size of a page, in bytes.
const PAGE: usize = 4096;

/// Allocates a block of `size` bytes.
fn block(size: usize) -> Result<Vec<u8>, String> {
    let mut block = Vec::new();
    block.try_reserve_exact(size).map_err(|error| format!("{size} bytes: {error}"))?;
    Ok(block)
}

/// Fills a block, and checks its contents, a number in each page.
fn use_block(mut block: Vec<u8>, size: usize, seed: usize) -> Result<(), String> {
    block.resize(size, 0);
    for (number, page) in block.chunks_mut(PAGE).enumerate() {
        page[..8].copy_from_slice(&(number * seed).to_le_bytes());
    }
    check(&block, seed)
}

fn check(block: &[u8], seed: usize) -> Result<(), String> {
    let is_wrong = |(number, page): (usize, &[u8])| page[..8] != (number * seed).to_le_bytes();
    match block.chunks(PAGE).enumerate().position(is_wrong) {
        Some(page) => Err(format!("page {page} has changed")),
        None => Ok(()),
    }
}

/// A block that is larger than each free piece of memory, many times.
pub(crate) fn fragmented() -> ActionResult {
    let mut pieces = (0..PIECES).map(|_| block(PIECE)).collect::<Result<Vec<_>, _>>()?;
    let mut number = 0;
    pieces.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    for seed in 1..=20 {
        use_block(block(45 * MIB)?, 45 * MIB, seed)?;
    }
    Ok("ok")
}

/// Appends pages to a vector until it has `size` bytes.
fn grow(vector: &mut Vec<u8>, size: usize) {
    for number in vector.len() / PAGE..size / PAGE {
        vector.extend_from_slice(&number.to_le_bytes());
        vector.resize((number + 1) * PAGE, 0);
    }
}

/// A vector that grows to more than half of the memory, shrinks and grows again.
pub(crate) fn growing() -> ActionResult {
    let mut vector = Vec::new();
    // What follows is in use, so that no growth is in place.
    grow(&mut vector, 5 * MIB);
    let obstacle = block(PIECE)?;
    for _ in 0..3 {
        grow(&mut vector, 75 * MIB);
        check(&vector, 1)?;
        vector.truncate(20 * MIB);
        vector.shrink_to_fit();
        check(&vector, 1)?;
    }
    drop((vector, obstacle));
    use_block(block(100 * MIB)?, 100 * MIB, 3)?;
    Ok("ok")
}

/// A vector that grows until there is no memory for it.
pub(crate) fn grow_without_end() -> ActionResult {
    let mut vector = Vec::new();
    grow(&mut vector, 1024 * MIB);
    Err("1 GiB fits into the memory".to_owned())
}
