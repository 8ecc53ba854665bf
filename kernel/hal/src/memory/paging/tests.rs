//! The memory lock's contents over memory of the host, on a platform without other CPUs.

use core::alloc::Layout;
use std::alloc::alloc_zeroed;
use std::vec::Vec;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_info::{BootInfo, Parsed, Platform, Region};
use zerocopy::FromZeros;

use hermit_paging::{Access, PagingError};

use super::{MemoryState, PendingFlush};
use crate::memory::address_space::AddressSpace;
use crate::memory::physical::PhysicalFrames;
use crate::testing::{self, flush_count};
use hermit_memory::ranges::FreeRanges;

/// Size of the physical memory in bytes.
const SIZE: u64 = 4 << 20;

/// Physical address of the root of the page tables.
const ROOT: u64 = 2 * PAGE_SIZE;

/// An address at which nothing is mapped.
const ADDRESS: u64 = 200 << 39;

/// Physical memory of which all but the first pages is free, and page tables without mappings.
fn memory() -> MemoryState {
    testing::set_platform();
    let layout = Layout::from_size_align(usize::try_from(SIZE).unwrap(), 2 << 20).unwrap();
    // SAFETY: the size is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    let fixed = BootInfo {
        direct_map: Region { start: start.expose_provenance() as u64, size: SIZE },
        page_table_root: ROOT,
        ..BootInfo::new_zeroed()
    };
    let regions = [Region { start: 4 * PAGE_SIZE, size: SIZE - 4 * PAGE_SIZE }];
    let info =
        Parsed { fixed: &fixed, platform: Platform::Pc, regions: &regions, devices: &[], command_line: &[] };
    MemoryState {
        table: AddressSpace::at(ROOT),
        physical: PhysicalFrames::new(&info),
        addresses: FreeRanges::new(),
    }
}

#[test]
fn partly_mapped_block_is_flushed_before_it_is_freed() {
    let mut memory = memory();
    let pages = 8;
    let last = memory.take_frames(PAGE_SIZE).unwrap();
    memory.map_frames(ADDRESS + (pages - 1) * PAGE_SIZE, last, Access::Write).unwrap();
    let (available, flushes) = (memory.available(), flush_count());
    // All pages but the last one are mapped, which is there already.
    let frames = memory.take_frames(pages * PAGE_SIZE).unwrap();
    assert_eq!(memory.map_frames(ADDRESS, frames, Access::Write), Err(PagingError::AlreadyMapped));
    assert_eq!(memory.available(), available);
    assert_eq!(flush_count(), flushes + 1, "the memory is free, and TLBs may have entries of it");
    let mapped = |page| memory.table.translate(&memory.physical, ADDRESS + page * PAGE_SIZE).is_some();
    assert_eq!((0..pages).filter(|&page| mapped(page)).collect::<Vec<_>>(), [pages - 1]);
}

#[test]
fn page_that_is_mapped_already_is_freed_without_a_flush() {
    let mut memory = memory();
    let map = |memory: &mut MemoryState| {
        let page = memory.take_frames(PAGE_SIZE).unwrap();
        memory.map_frames(ADDRESS, page, Access::Write)
    };
    map(&mut memory).unwrap();
    let (available, flushes) = (memory.available(), flush_count());
    assert_eq!(map(&mut memory), Err(PagingError::AlreadyMapped));
    assert_eq!((memory.available(), flush_count()), (available, flushes));
}

#[test]
fn frames_are_filled_with_zero_without_the_memory_lock() {
    let mut memory = memory();
    let direct_map = memory.physical.direct_map;
    let is_zero = |physical: u64| {
        let mut bytes = [0; 16];
        direct_map.read(physical, &mut bytes);
        bytes == [0; 16]
    };
    let frames = memory.take_frames(PAGE_SIZE).unwrap();
    let physical = frames.physical;
    direct_map.write(physical, &[1; 4096]);
    memory.map_frames(ADDRESS, frames, Access::Write).unwrap();
    assert!(memory.unmap_ranges(core::iter::once((ADDRESS, PAGE_SIZE))).is_none());
    direct_map.write(physical, &[1; 4096]);
    let mut frames = memory.take_frames(PAGE_SIZE).unwrap();
    // The frame that was freed last is allocated first. Allocation, for which the lock is held, does not write to it.
    assert_eq!((frames.physical, is_zero(physical)), (physical, false));
    frames.zero();
    assert!(is_zero(physical));
}

#[test]
fn fragmented_memory_is_taken_in_smaller_pieces() {
    let mut memory = memory();
    // Every second page of the memory is free.
    let pages: Vec<_> = core::iter::from_fn(|| memory.take_frames(PAGE_SIZE).ok()).collect();
    for page in pages.iter().step_by(2) {
        memory.free_physical(page.physical, page.size);
    }
    let frames = memory.take_frames_up_to(64 * PAGE_SIZE).unwrap();
    assert_eq!(frames.size, PAGE_SIZE);
}

#[test]
fn pages_are_freed_after_a_flush_without_the_lock() {
    let mut memory = memory();
    let frames = memory.take_frames(4 * PAGE_SIZE).unwrap();
    memory.map_frames(ADDRESS, frames, Access::Write).unwrap();
    let (available, flushes) = (memory.available(), flush_count());
    // A part of it: the table stays, so other CPUs are not waited for under the lock.
    let pending = memory.unmap_pages(ADDRESS, 3 * PAGE_SIZE).unwrap();
    assert_eq!((memory.available(), flush_count()), (available, flushes), "it is free before the flush");
    let PendingFlush(mut deferred) = pending.unwrap();
    memory.physical.free_list(&mut deferred);
    assert_eq!(memory.available(), available + 3 * PAGE_SIZE);
    assert_eq!(memory.unmap_pages(ADDRESS, 4 * PAGE_SIZE).unwrap_err(), PagingError::NotMapped);
}

#[test]
fn table_that_is_no_longer_used_is_flushed_under_the_lock() {
    let mut memory = memory();
    let before = memory.available();
    let frames = memory.take_frames(PAGE_SIZE).unwrap();
    memory.map_frames(ADDRESS, frames, Access::Write).unwrap();
    let flushes = flush_count();
    assert!(memory.unmap_ranges(core::iter::once((ADDRESS, PAGE_SIZE))).is_none());
    assert_eq!((memory.available(), flush_count()), (before, flushes + 1));
}

#[test]
fn empty_tables_are_freed_by_reclaim() {
    let mut memory = memory();
    let before = memory.available();
    let frames = memory.take_frames(PAGE_SIZE).unwrap();
    memory.map_frames(ADDRESS, frames, Access::Write).unwrap();
    let PendingFlush(mut deferred) = memory.unmap_pages(ADDRESS, PAGE_SIZE).unwrap().unwrap();
    memory.physical.free_list(&mut deferred);
    assert!(memory.available() < before, "no table is left");
    memory.free_empty_tables(core::iter::once((ADDRESS, 1 << 30)));
    assert_eq!(memory.available(), before);
}
