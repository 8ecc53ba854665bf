//! Check of the heap: blocks of many sizes and alignments keep their contents.

#![expect(unsafe_code, reason = "alignments and resizing are checked below the level of Vec")]

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::slice;

use crate::ActionResult;

/// Maximum size of a block in bytes.
const MAX_SIZE: usize = 1 << 20;
/// Maximum alignment in bytes.
const MAX_ALIGNMENT: usize = 4096;

/// A heap block, and the seed of the pattern that it is filled with.
struct HeapBlock {
    start: NonNull<u8>,
    layout: Layout,
    seed: u8,
}

impl HeapBlock {
    /// Allocates a zeroed block of `size` bytes, checks it, and fills it with the pattern of `seed`.
    fn new(size: usize, alignment: usize, seed: u8) -> Result<Self, String> {
        let layout = Layout::from_size_align(size, alignment).map_err(|error| error.to_string())?;
        assert_ne!(size, 0, "a block has at least one byte");
        // SAFETY: the size is not 0.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(|| format!("no room for {layout:?}"))?;
        let mut block = Self { start, layout, seed };
        if block.bytes().iter().any(|&byte| byte != 0) {
            return Err(format!("a block of {layout:?} is not zero"));
        }
        block.check_alignment()?;
        block.fill();
        Ok(block)
    }

    /// Resizes the block to `size` bytes, checks that the pattern was kept, and fills it again.
    fn resize(&mut self, size: usize) -> Result<(), String> {
        let layout = Layout::from_size_align(size, self.layout.align()).map_err(|error| error.to_string())?;
        assert_ne!(size, 0, "a block has at least one byte");
        // SAFETY: the block was allocated with this layout, and the new size is not 0 and fits the alignment.
        let start = unsafe { alloc::realloc(self.start.as_ptr(), self.layout, size) };
        self.start = NonNull::new(start).ok_or_else(|| format!("no room to resize to {layout:?}"))?;
        let kept = self.layout.size().min(size);
        self.layout = layout;
        self.check_alignment()?;
        self.check(kept)?;
        self.fill();
        Ok(())
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block has this size and was allocated zeroed, so it is initialised; `&mut self` is the
        // only access to it.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    fn fill(&mut self) {
        let seed = self.seed;
        for (byte, value) in self.bytes().iter_mut().zip(pattern(seed)) {
            *byte = value;
        }
    }

    /// Checks the pattern of the first `count` bytes.
    fn check(&mut self, count: usize) -> Result<(), String> {
        let seed = self.seed;
        let layout = self.layout;
        match self.bytes()[..count].iter().zip(pattern(seed)).position(|(&byte, value)| byte != value) {
            Some(offset) => Err(format!("byte {offset} of a block of {layout:?} changed")),
            None => Ok(()),
        }
    }

    fn check_alignment(&self) -> Result<(), String> {
        if self.start.addr().get().is_multiple_of(self.layout.align()) {
            Ok(())
        } else {
            Err(format!("{:?} is not aligned for {:?}", self.start, self.layout))
        }
    }
}

impl Drop for HeapBlock {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout and is not used again.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// An endless sequence of bytes, which depends on the seed.
fn pattern(seed: u8) -> impl Iterator<Item = u8> {
    let mut value = seed;
    std::iter::from_fn(move || {
        value = value.wrapping_mul(5).wrapping_add(seed | 1);
        Some(value)
    })
}

/// Keeps many blocks at once, resizes them, and checks that none overlaps another.
pub(crate) fn memory() -> ActionResult {
    let sizes = (0..=MAX_SIZE.ilog2()).flat_map(|power| [1_usize << power, (1 << power) + 1]);
    let mut blocks = Vec::new();
    for (seed, size) in (0_u8..).zip(sizes) {
        blocks.push(HeapBlock::new(size, 1, seed)?);
    }
    for (seed, power) in (100_u8..).zip(0..=MAX_ALIGNMENT.ilog2()) {
        blocks.push(HeapBlock::new(1, 1 << power, seed)?);
        blocks.push(HeapBlock::new(10_000, 1 << power, seed)?);
    }
    check_all(&mut blocks)?;
    for block in &mut blocks {
        let size = block.layout.size();
        block.resize(size * 3)?;
        block.resize(size.div_ceil(2))?;
    }
    check_all(&mut blocks)?;
    // Every other block is freed, and blocks of other sizes reuse the memory.
    let mut index = 0;
    blocks.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    for seed in 200..=u8::MAX {
        blocks.push(HeapBlock::new(usize::from(seed) * 97, 16, seed)?);
    }
    check_all(&mut blocks)?;
    Ok("ok")
}

fn check_all(blocks: &mut [HeapBlock]) -> Result<(), String> {
    blocks.iter_mut().try_for_each(|block| block.check(block.layout.size()))
}
