//! Memory from `mmap` and from the heap, with patterns that detect changes.

#![expect(unsafe_code, reason = "raw memory is accessed by address")]

use std::ptr;

use hermit_abi::ENOMEM;

use super::calls::{self, ErrnoResult, call_result};

/// Size of a page in bytes.
pub(crate) const PAGE: usize = 4096;

pub(crate) fn page_size() {
    assert_eq!(usize::try_from(calls::page_size()), Ok(PAGE));
}

/// A range of memory. Each access is checked by the page tables: a forbidden one ends the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) start: usize,
    pub(crate) size: usize,
}

impl Area {
    fn pointer(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.start)
    }

    /// A part of the area.
    pub(crate) fn part(self, offset: usize, size: usize) -> Self {
        assert!(offset + size <= self.size, "there is no part of {size} bytes at {offset} in {self:x?}");
        Self { start: self.start + offset, size }
    }

    fn get(self, offset: usize) -> u8 {
        assert!(offset < self.size, "{offset} is not in {self:x?}");
        // SAFETY: the offset is inside the area (checked); areas are accessed by volatile accesses only,
        // never by reference.
        unsafe { self.pointer().wrapping_add(offset).read_volatile() }
    }

    /// Writes a byte.
    pub(crate) fn set(self, offset: usize, value: u8) {
        assert!(offset < self.size, "{offset} is not in {self:x?}");
        // SAFETY: the offset is inside the area (checked); areas are accessed by volatile accesses only,
        // never by reference.
        unsafe { self.pointer().wrapping_add(offset).write_volatile(value) };
    }

    /// Fills the area with a pattern that depends on the seed.
    pub(crate) fn fill(self, seed: usize) {
        (0..self.size).for_each(|offset| self.set(offset, pattern(seed, offset)));
    }

    /// Checks the pattern.
    pub(crate) fn check(self, seed: usize) {
        for offset in 0..self.size {
            let (found, expected) = (self.get(offset), pattern(seed, offset));
            assert_eq!(found, expected, "byte {offset} of {self:x?} changed");
        }
    }

    /// Checks that all bytes are zero.
    pub(crate) fn check_zero(self) {
        let other = (0..self.size).find(|&offset| self.get(offset) != 0);
        assert_eq!(other, None, "a byte of {self:x?} is not zero");
    }

    /// Calls the area as a function that returns a number.
    pub(crate) fn call(self) -> u32 {
        // SAFETY: the only caller has written a function of the C ABI there and made the area executable;
        // otherwise the call faults.
        let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(self.pointer()) };
        function()
    }
}

/// The pattern's byte at an offset: neighbours differ, and so do equal offsets of different pages.
fn pattern(seed: usize, offset: usize) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16) ^ seed.wrapping_mul(0x9d)).to_le_bytes()[0]
}

/// Maps pages.
pub(crate) fn map(size: usize, protection: u32) -> ErrnoResult<Area> {
    let mut start = ptr::null_mut();
    // SAFETY: `start` is writable; the call has no other pointer.
    call_result(unsafe { hermit_abi::mmap(size, protection, &mut start) })?;
    Ok(Area { start: start.expose_provenance(), size })
}

/// Unmaps pages; later accesses fault.
pub(crate) fn unmap(area: Area) -> ErrnoResult {
    // SAFETY: no references to areas exist, and the kernel refuses ranges that were not mapped by `mmap`.
    call_result(unsafe { hermit_abi::munmap(area.pointer(), area.size) })
}

/// Changes the protection of pages.
pub(crate) fn protect(area: Area, protection: u32) -> ErrnoResult {
    // SAFETY: no references to areas exist, and a forbidden access faults.
    call_result(unsafe { hermit_abi::mprotect(area.pointer(), area.size, protection) })
}

/// A heap block.
#[derive(Debug)]
pub(crate) struct HeapBlock {
    pub(crate) area: Area,
    align: usize,
}

impl HeapBlock {
    fn new(start: *mut u8, size: usize, align: usize) -> ErrnoResult<Self> {
        assert!(start.addr().is_multiple_of(align), "{start:?} is not a multiple of {align}");
        let area = Area { start: start.expose_provenance(), size };
        if start.is_null() { Err(ENOMEM) } else { Ok(Self { area, align }) }
    }

    pub(crate) fn allocate(size: usize, align: usize) -> ErrnoResult<Self> {
        // SAFETY: all callers pass sizes above 0 and alignments that are powers of two.
        Self::new(unsafe { hermit_abi::malloc(size, align) }, size, align)
    }

    pub(crate) fn allocate_zeroed(size: usize, align: usize) -> ErrnoResult<Self> {
        // SAFETY: all callers pass sizes above 0 and alignments that are powers of two.
        Self::new(unsafe { hermit_abi::alloc_zeroed(size, align) }, size, align)
    }

    /// Resizes the block; an error leaves it unchanged.
    pub(crate) fn resize(&mut self, size: usize) -> ErrnoResult<()> {
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

impl Drop for HeapBlock {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this size and alignment, and is not used again.
        unsafe { hermit_abi::free(self.area.pointer(), self.area.size, self.align) };
    }
}
