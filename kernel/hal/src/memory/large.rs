//! Large blocks of the heap: whole pages from the frame allocator.
//!
//! A block is in the direct map if there are enough contiguous free frames: then nothing has to be mapped.
//! Otherwise it consists of arbitrary frames, which are mapped at addresses for mappings. So all free memory
//! can be used, however fragmented it is, and on both sides of the hole below 4 GiB.
//!
//! A block that cannot grow in place moves to other addresses by remapping its pages: nothing is copied, and
//! no memory for a second block is needed meanwhile. The new part gets frames at once. If there is not enough
//! free memory, each page gets a frame when it is touched ([`lazy`](super::lazy)): a growing vector asks for
//! twice its size, and may never use all of that.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use hermit_interface::address::{LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_interface::to_usize;

use super::fresh::Contents;
use super::{Access, OutOfMemory, fresh, host_return, lazy, mapping, paging};

/// Size of the smallest large block in bytes.
pub(super) const MIN_SIZE: usize = 4 << 20;

const PAGE: usize = to_usize(PAGE_SIZE);

/// Rounds a size up to whole pages.
fn pages(size: usize) -> u64 {
    size.next_multiple_of(PAGE) as u64
}

fn pointer(start: u64) -> Option<NonNull<u8>> {
    NonNull::new(with_exposed_provenance_mut(to_usize(start)))
}

/// Allocates a block.
pub(super) fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    let (size, align) = (pages(layout.size()), layout.align() as u64);
    let contiguous = paging::with(|memory| memory.allocate(size, align));
    contiguous.ok().or_else(|| map(size, align)).and_then(pointer)
}

/// Allocates a block that consists of any frames, and maps them.
fn map(size: u64, align: u64) -> Option<u64> {
    let start = mapping::map_with(size, Access::Write, Contents::Any).ok()?;
    if start.is_multiple_of(align) {
        return Some(start);
    }
    unmap(start, size);
    None
}

/// Unmaps a part of a block that is mapped, and frees its frames.
fn unmap(start: u64, size: u64) {
    lazy::forget(start, size);
    paging::unmap_and_free(core::iter::once((start, size)));
    mapping::give_back(start, size);
}

/// Frees a part of a block.
fn free(start: u64, size: u64) {
    if mapping::contains(start) {
        unmap(start, size);
    } else {
        paging::with(|memory| memory.free(start, size));
    }
}

/// Frees a block.
///
/// # Safety
///
/// It must come from [`allocate`] or [`relocate`] with this size, and not be used again.
pub(super) unsafe fn deallocate(block: *mut u8, size: usize) {
    free(block.addr() as u64, pages(size));
}

/// Changes the size of a block in place. Returns false if the memory or the addresses after the block are not
/// free.
///
/// # Safety
///
/// It must come from [`allocate`] or [`relocate`] with the size `old`; bytes beyond the new size must not be
/// used again.
pub(super) unsafe fn resize(block: *mut u8, old: usize, size: usize) -> bool {
    let start = block.addr() as u64;
    let (old, size) = (pages(old), pages(size));
    if size <= old {
        if size < old {
            free(start + size, old - size);
            host_return::notify();
        }
        return true;
    }
    if mapping::contains(start) {
        extend(start + old, size - old, old)
    } else {
        paging::with(|memory| memory.extend(start + old, size - old))
    }
}

/// Extends a mapped block that ends at `end`. Returns false if the addresses after the block are in use, or
/// if there is no memory.
fn extend(end: u64, size: u64, old: u64) -> bool {
    if !mapping::take_at(end, size) {
        return false;
    }
    let is_extended = populate(end, size, old).is_ok();
    if !is_extended {
        mapping::give_back(end, size);
    }
    is_extended
}

/// Maps memory at the addresses that are added to a block of the size `old`: now, or when they are touched.
fn populate(start: u64, size: u64, old: u64) -> Result<(), OutOfMemory> {
    fresh::map(start, size, Access::Write, Contents::Any).or_else(|error| {
        // Growth beyond twice the old size is not the reserve of a growing vector. The program will touch
        // this memory, which does not exist, so the allocation fails at once.
        let may_be_lazy = size <= old;
        if may_be_lazy { lazy::reserve(start, size) } else { Err(error) }
    })
}

/// Moves a block with its pages to addresses where it can grow to `size`. Returns `None` if that is
/// impossible; then nothing has changed.
///
/// # Safety
///
/// It must come from [`allocate`] or this function with the size `old`, and not be used again unless the
/// result is `None`.
pub(super) unsafe fn relocate(block: *mut u8, old: usize, align: usize, size: usize) -> Option<NonNull<u8>> {
    let from = block.addr() as u64;
    let (old, size) = (pages(old), pages(size));
    if align as u64 > LARGE_PAGE_SIZE || size <= old {
        return None;
    }
    // The new addresses have the same offset in a large page as the old ones, so that large pages stay large.
    let start = mapping::take_like(from, size).ok()?;
    if populate(start + old, size - old, old).is_err() {
        mapping::give_back(start, size);
        return None;
    }
    if paging::map_again(from, start, old).is_err() {
        paging::unmap_alias(start, old);
        mapping::give_back(start, old);
        unmap(start + old, size - old);
        return None;
    }
    if mapping::contains(from) {
        lazy::relocate(from, start, old);
        paging::unmap_alias(from, old);
        mapping::give_back(from, old);
    }
    pointer(start)
}
