//! Memory from the kernel, in pages and from the heap, with patterns to see whether it is kept.

#![expect(unsafe_code, reason = "memory from the kernel is known by its address alone")]

use std::ptr;

use hermit_abi::ENOMEM;

use super::calls::{self, Answer, answer};

/// The size of a page.
pub(crate) const PAGE: usize = 4096;

pub(crate) fn page_size() {
    assert_eq!(usize::try_from(calls::page_size()), Ok(PAGE));
}

/// Bytes at an address. Each access is checked by the processor: one that is forbidden ends the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) start: usize,
    pub(crate) size: usize,
}

impl Area {
    fn pointer(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.start)
    }

    /// A part of it.
    pub(crate) fn part(self, offset: usize, size: usize) -> Self {
        assert!(offset + size <= self.size, "there is no part of {size} bytes at {offset} in {self:x?}");
        Self { start: self.start + offset, size }
    }

    fn get(self, offset: usize) -> u8 {
        assert!(offset < self.size, "{offset} is not in {self:x?}");
        // SAFETY: it is in the area, of which nobody holds a reference.
        unsafe { self.pointer().wrapping_add(offset).read_volatile() }
    }

    /// Writes a byte.
    pub(crate) fn set(self, offset: usize, value: u8) {
        assert!(offset < self.size, "{offset} is not in {self:x?}");
        // SAFETY: it is in the area, of which nobody holds a reference.
        unsafe { self.pointer().wrapping_add(offset).write_volatile(value) };
    }

    /// Fills it with a pattern, another for every seed.
    pub(crate) fn fill(self, seed: usize) {
        (0..self.size).for_each(|offset| self.set(offset, pattern(seed, offset)));
    }

    /// Fails unless the pattern is there.
    pub(crate) fn check(self, seed: usize) {
        for offset in 0..self.size {
            let (found, expected) = (self.get(offset), pattern(seed, offset));
            assert_eq!(found, expected, "byte {offset} of {self:x?} changed");
        }
    }

    /// Fails unless all is zero.
    pub(crate) fn check_zero(self) {
        let other = (0..self.size).find(|&offset| self.get(offset) != 0);
        assert_eq!(other, None, "a byte of {self:x?} is not zero");
    }

    /// Calls it as a function that returns a number.
    pub(crate) fn call(self) -> u32 {
        // SAFETY: the caller has written a function there, as the C ABI wants it; else the program ends.
        let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(self.pointer()) };
        function()
    }
}

/// The byte at an offset: neighbours differ, and so do the same offsets of pages.
fn pattern(seed: usize, offset: usize) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16) ^ seed.wrapping_mul(0x9d)).to_le_bytes()[0]
}

/// Maps pages.
pub(crate) fn map(size: usize, protection: u32) -> Answer<Area> {
    let mut start = ptr::null_mut();
    // SAFETY: nothing is passed but a place for the result.
    answer(unsafe { hermit_abi::mmap(size, protection, &mut start) })?;
    Ok(Area { start: start.expose_provenance(), size })
}

/// Takes pages away; who uses them then ends the program.
pub(crate) fn unmap(area: Area) -> Answer {
    // SAFETY: areas hold no references; and no program uses memory that it did not map.
    answer(unsafe { hermit_abi::munmap(area.pointer(), area.size) })
}

/// Changes what may be done with pages.
pub(crate) fn protect(area: Area, protection: u32) -> Answer {
    // SAFETY: areas hold no references, and each access is checked by the processor.
    answer(unsafe { hermit_abi::mprotect(area.pointer(), area.size, protection) })
}

/// A block of the heap.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) area: Area,
    align: usize,
}

impl Block {
    fn new(start: *mut u8, size: usize, align: usize) -> Answer<Self> {
        assert!(start.addr().is_multiple_of(align), "{start:?} is not a multiple of {align}");
        let area = Area { start: start.expose_provenance(), size };
        if start.is_null() { Err(ENOMEM) } else { Ok(Self { area, align }) }
    }

    pub(crate) fn allocate(size: usize, align: usize) -> Answer<Self> {
        // SAFETY: all sizes here are positive, and alignments are powers of two.
        Self::new(unsafe { hermit_abi::malloc(size, align) }, size, align)
    }

    pub(crate) fn allocate_zeroed(size: usize, align: usize) -> Answer<Self> {
        // SAFETY: as above.
        Self::new(unsafe { hermit_abi::alloc_zeroed(size, align) }, size, align)
    }

    /// Changes the size; an error leaves all as it is.
    pub(crate) fn resize(&mut self, size: usize) -> Answer<()> {
        let Area { size: old, .. } = self.area;
        // SAFETY: the block was allocated with this size and alignment, and the new size is positive.
        let start = unsafe { hermit_abi::realloc(self.area.pointer(), old, self.align, size) };
        self.area = Self::new(start, size, self.align).map(|block| block.leak())?;
        Ok(())
    }

    fn leak(self) -> Area {
        let area = self.area;
        std::mem::forget(self);
        area
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this size and alignment, and is not used again.
        unsafe { hermit_abi::free(self.area.pointer(), self.area.size, self.align) };
    }
}
