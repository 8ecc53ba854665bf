//! The memory lock's contents over memory of the host, on a platform without other CPUs.

use core::alloc::Layout;
use std::alloc::alloc_zeroed;
use std::vec::Vec;

use hermit_interface::address::{AddressRange, PAGE_SIZE};
use hermit_interface::boot_info::{BootInfo, Parsed, Platform, Region};
use hermit_interface::machine::MAX_RETURNED;
use zerocopy::FromZeros;

use hermit_paging::{Access, PagingError};

use super::{MemoryState, PendingFlush};
use crate::memory::address_space::AddressSpace;
use crate::memory::host_return::{Reported, ReturnStep, TakenMemory, finish_return, return_taken};
use crate::memory::physical::PhysicalFrames;
use crate::ops::MemoryReturn;
use crate::testing::{self, flush_count};
use hermit_memory::freed_units::FreedUnits;
use hermit_memory::ranges::FreeRanges;
use hermit_virtio::balloon::FreeMemory;

/// Size of the physical memory in bytes.
const SIZE: u64 = 16 << 20;

/// Physical address of the root of the page tables.
const ROOT: u64 = 2 * PAGE_SIZE;

/// An address at which nothing is mapped.
const ADDRESS: u64 = 200 << 39;

/// Physical memory that is free except for the first pages, and page tables without mappings.
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
    // Maps all pages except the last one, at whose address a page is mapped already.
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
    // The frame that was freed last is allocated first. The allocation holds the lock, so it does not fill
    // the frame with zero.
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
    // Unmaps a part of the mapping. The page table stays, so this does not wait for other CPUs under the
    // lock.
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

/// Memory that would be returned in a period.
fn take_returnable(memory: &mut MemoryState) -> Vec<TakenMemory> {
    let (mut from, mut all) = (0, Vec::new());
    while let Some(ReturnStep { taken, next }) = memory.take_returnable(from) {
        all.extend(taken);
        from = next;
    }
    all
}

/// Ranges of memory that would be returned in a period. This frees them again.
fn returnable(memory: &mut MemoryState) -> Vec<AddressRange> {
    let all = take_returnable(memory);
    let free = |taken: TakenMemory| {
        let start = taken.address();
        let range = AddressRange { start, end: start + u64::from(taken.size()) };
        memory.free_returned(taken);
        range
    };
    all.into_iter().map(free).collect()
}

#[test]
fn memory_that_stays_free_for_a_period_is_returned_once() {
    testing::set_memory_return(MemoryReturn::ByCall);
    let mut memory = memory();
    let start = memory.allocate(3 << 20, 1 << 20).unwrap();
    let physical = memory.physical(start);
    memory.free(start, 3 << 20);
    assert_eq!(returnable(&mut memory), []);
    assert!(memory.age_freed());
    // Units that are in use again, even in part, are not returned; their neighbours are.
    let used = memory.allocate(PAGE_SIZE, PAGE_SIZE).unwrap();
    let used_again = memory.allocate(1 << 20, 1 << 20).unwrap();
    let available = memory.available();
    let returned = returnable(&mut memory);
    let overlaps =
        |start: u64, size: u64| returned.iter().any(|range| range.start < start + size && start < range.end);
    let [used_physical, used_again_physical] = [used, used_again].map(|address| memory.physical(address));
    assert!(!overlaps(used_physical, PAGE_SIZE) && !overlaps(used_again_physical, 1 << 20));
    let is_inside = |range: &AddressRange| physical <= range.start && range.end <= physical + (3 << 20);
    assert!(returned.iter().all(is_inside) && returned.iter().all(|range| range.size() <= MAX_RETURNED));
    assert_eq!(returned.iter().map(|range| range.size()).sum::<u64>(), 2 << 20);
    assert_eq!(memory.available(), available);
    assert!(!memory.age_freed());
    assert_eq!(returnable(&mut memory), []);
    // Memory that is freed during a period is kept for the next one.
    memory.free(used_again, 1 << 20);
    assert!(memory.age_freed());
    memory.free(used, PAGE_SIZE);
    assert_eq!(returnable(&mut memory).iter().map(|range| range.size()).sum::<u64>(), 1 << 20);
}

/// While memory is being returned, it is missing for other uses.
#[test]
fn nothing_is_returned_while_little_is_free() {
    testing::set_memory_return(MemoryReturn::ByCall);
    let mut memory = memory();
    let start = memory.allocate(3 << 20, 1 << 20).unwrap();
    memory.free(start, 3 << 20);
    assert!(memory.age_freed());
    let pages = (memory.available() - 4 * MAX_RETURNED) / PAGE_SIZE + 1;
    let used: Vec<_> = (0..pages).map(|_| memory.allocate(PAGE_SIZE, PAGE_SIZE).unwrap()).collect();
    assert_eq!(returnable(&mut memory), []);
    used.into_iter().for_each(|page| memory.free(page, PAGE_SIZE));
}

#[test]
fn nothing_is_returned_unless_the_host_takes_it() {
    let mut memory = memory();
    let start = memory.allocate(3 << 20, 1 << 20).unwrap();
    let available = memory.available();
    memory.free(start, 3 << 20);
    assert_eq!(memory.available(), available + (3 << 20), "there are no bitmaps");
    assert!(!memory.age_freed());
    assert_eq!(returnable(&mut memory), []);
}

/// Memory with 3 MiB that were freed a period ago, on a platform without a call to return it.
fn memory_with_freed() -> MemoryState {
    testing::set_memory_return(MemoryReturn::ByDevice);
    let mut memory = memory();
    let start = memory.allocate(3 << 20, 1 << 20).unwrap();
    memory.free(start, 3 << 20);
    assert!(memory.age_freed());
    memory
}

/// Checks that frees mark nothing any more, and that the bitmaps are free.
fn assert_returns_nothing(memory: &mut MemoryState) {
    let available = memory.available();
    let start = memory.allocate(3 << 20, 1 << 20).unwrap();
    memory.free(start, 3 << 20);
    assert_eq!(memory.available(), available, "there are bitmaps again");
    assert!(!memory.age_freed());
    assert_eq!(returnable(memory), []);
}

#[test]
fn bitmaps_are_freed_when_no_memory_returns_any_more() {
    let mut memory = memory_with_freed();
    let available = memory.available();
    memory.stop_returning();
    assert_eq!(memory.available(), available + FreedUnits::size(SIZE));
    assert_returns_nothing(&mut memory);
    memory.stop_returning();
    assert_returns_nothing(&mut memory);
}

#[test]
fn memory_that_a_device_has_discarded_is_free_again() {
    let mut memory = memory_with_freed();
    let available = memory.available();
    for taken in take_returnable(&mut memory) {
        assert!(memory.available() < available);
        let reported = return_taken(taken, Reported::Discarded);
        assert!(finish_return(&mut memory, reported));
    }
    assert_eq!(memory.available(), available);
}

#[test]
fn memory_that_a_device_gives_back_is_free_and_nothing_returns_any_more() {
    let mut memory = memory_with_freed();
    let available = memory.available();
    let taken = memory.take_returnable(0).unwrap().taken.unwrap();
    // The same answer as without a device.
    let reported = return_taken(taken, |taken| Reported::Refused(Some(taken)));
    assert!(!finish_return(&mut memory, reported));
    assert_eq!(memory.available(), available + FreedUnits::size(SIZE));
    assert_returns_nothing(&mut memory);
}

#[test]
fn memory_that_a_device_keeps_is_lost_and_nothing_returns_any_more() {
    let mut memory = memory_with_freed();
    let available = memory.available();
    let taken = memory.take_returnable(0).unwrap().taken.unwrap();
    let (start, size) = (taken.address(), u64::from(taken.size()));
    let reported = return_taken(taken, |_| Reported::Refused(None));
    assert!(!finish_return(&mut memory, reported));
    assert_eq!(memory.available(), available - size + FreedUnits::size(SIZE));
    assert!(!memory.physical.take_at(start, size), "it is free");
    assert_returns_nothing(&mut memory);
}

#[test]
fn memory_returns_without_a_device_where_the_platform_has_a_call() {
    let mut memory = memory_with_freed();
    testing::set_memory_return(MemoryReturn::ByCall);
    let taken = memory.take_returnable(0).unwrap().taken.unwrap();
    let reported = return_taken(taken, |_| panic!("there is no device"));
    assert!(finish_return(&mut memory, reported));
}
