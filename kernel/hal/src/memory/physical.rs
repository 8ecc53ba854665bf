//! Physical memory: the free frames, and the direct map.
//!
//! Physical address `p` is mapped at the start of the direct map plus `p`. The part that the loader has not
//! mapped is mapped at its first use. Mapping more memory needs frames for page tables, at a moment when all
//! mapped memory may be in use. So a few frames are kept for this.
//!
//! Freed memory may still be resident on the host. If the platform can return memory, the units of freed
//! memory are marked ([`FreedUnits`]), and returned when they have been free for a period.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut, write_bytes};

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_interface::boot_info::Parsed;
use hermit_interface::machine::MAX_RETURNED;
use hermit_interface::to_usize;
use hermit_memory::frames::{FrameAllocator, NotAllocated, Words};
use hermit_memory::freed_units::{FreedUnits, MIN_FREED, UNIT};
use hermit_memory::ranges::FreeRanges;
use hermit_paging::{Access, PagingError, TableMemory};

use super::OutOfMemory;
use super::address_space::AddressSpace;
use super::host_return::{self, ReturnStep, TakenMemory};
use crate::arch::startup::TRAMPOLINE_LIMIT;
use crate::ops::{self, MemoryReturn};

/// Maximum number of pieces of unmapped memory.
const MAX_PIECES: usize = 64;

/// Number of frames that are kept for page tables: as many as are needed to extend the direct map when all
/// mapped memory is in use.
const SPARE_TABLES: usize = 4;

/// Minimum of free memory in bytes for a return of memory to the host. It ensures that enough free memory is
/// left for allocations during the return.
const MIN_AVAILABLE: u64 = 4 * MAX_RETURNED;

/// Marks the end of a [`DeferredFrees`] list. Page 0 is never free, so it is in no list.
const NONE: u64 = 0;

/// The direct map, identified by its first address.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectMap(u64);

impl DirectMap {
    /// Address at which physical memory is mapped.
    pub(super) const fn address(self, physical: u64) -> u64 {
        self.0 + physical
    }

    /// Physical address of an address in the direct map.
    pub(super) const fn physical(self, address: u64) -> u64 {
        address - self.0
    }

    fn read_word(self, physical: u64) -> u64 {
        let word = with_exposed_provenance::<u64>(to_usize(self.address(physical)));
        // SAFETY: called for entries of page tables, for words of free memory and for bitmaps of freed
        // memory. All of these are in the direct map. They are read and written only under the memory lock,
        // by these two functions; no Rust reference to them exists.
        unsafe { word.read_volatile() }
    }

    fn write_word(self, physical: u64, value: u64) {
        let word = with_exposed_provenance_mut::<u64>(to_usize(self.address(physical)));
        // SAFETY: called for entries of page tables, for words of free memory and for bitmaps of freed
        // memory. All of these are in the direct map. They are read and written only under the memory lock,
        // by these two functions; no Rust reference to them exists.
        unsafe { word.write_volatile(value) };
    }

    /// Writes a page that was just allocated.
    pub(super) fn write(self, physical: u64, bytes: &[u8; 4096]) {
        let start = with_exposed_provenance_mut::<[u8; 4096]>(to_usize(self.address(physical)));
        // SAFETY: the page was just allocated, so the direct map has it and nothing else uses it.
        unsafe { start.write(*bytes) };
    }

    /// Copies memory in the direct map that Rust code does not use, such as the firmware's tables.
    pub(super) fn read(self, physical: u64, bytes: &mut [u8]) {
        for (offset, byte) in bytes.iter_mut().enumerate() {
            let from = with_exposed_provenance::<u8>(to_usize(self.address(physical)) + offset);
            // SAFETY: the direct map has the address (checked by the caller, under the memory lock); any bits
            // are a valid byte.
            *byte = unsafe { from.read_volatile() };
        }
    }

    /// Fills memory that was just allocated with zero.
    fn zero(self, physical: u64, size: u64) {
        let start = with_exposed_provenance_mut::<u8>(to_usize(self.address(physical)));
        // SAFETY: the memory was just allocated, so the direct map has it and nothing else uses it.
        unsafe { write_bytes(start, 0, to_usize(size)) };
    }
}

impl Words for DirectMap {
    fn read(&self, address: u64) -> u64 {
        self.read_word(address)
    }

    fn write(&mut self, address: u64, value: u64) {
        self.write_word(address, value);
    }
}

/// Physical memory.
#[derive(Debug)]
pub(super) struct PhysicalFrames {
    pub(super) direct_map: DirectMap,
    frames: FrameAllocator,
    /// Free memory that is not in the direct map yet.
    unmapped: FreeRanges<MAX_PIECES>,
    /// End of the mapped part of the direct map, as a physical address.
    mapped: u64,
    /// Frames that are kept for page tables.
    spare: heapless::Vec<u64, SPARE_TABLES>,
    /// Unused page tables, which become free when the TLBs have been flushed.
    tables: DeferredFrees,
    /// A page for the trampoline of secondary CPUs.
    trampoline_page: Option<u64>,
    /// Size of the memory that the boot information lists, in bytes.
    size: u64,
    /// End of physical memory.
    end: u64,
    /// Units of freed memory that may still be resident on the host. `None` as long as so little was freed
    /// that the bitmaps are not worth their memory.
    freed: Option<FreedUnits>,
    /// Bytes that were freed while `freed` was `None`.
    unmarked: u64,
    /// True if no memory returns to the host any more.
    has_stopped_returning: bool,
}

/// Physically contiguous frames that are allocated, but not mapped yet outside the direct map.
#[derive(Debug)]
#[must_use = "frames that are not mapped are lost"]
pub(super) struct FreshFrames {
    direct_map: DirectMap,
    pub(super) physical: u64,
    /// Size in bytes.
    pub(super) size: u64,
}

impl FreshFrames {
    /// Fills the frames with zero. This needs no lock: only this value refers to the frames, and the direct
    /// map never shrinks.
    pub(super) fn zero(&mut self) {
        self.direct_map.zero(self.physical, self.size);
    }
}

/// Deferred-free list: memory that becomes free when the TLBs of all CPUs have been flushed. It is linked
/// through the memory itself.
///
/// A CPU that has not flushed its TLB and paging-structure caches yet may still use a page in the list as a
/// page table. So the words that the list writes to the page have bit 0 clear, which is the present bit of an
/// entry.
#[derive(Debug)]
pub(super) struct DeferredFrees {
    direct_map: DirectMap,
    first: u64,
}

impl DeferredFrees {
    /// An empty list.
    pub(super) const fn new(direct_map: DirectMap) -> Self {
        Self { direct_map, first: NONE }
    }

    /// Returns true if the list is empty.
    pub(super) const fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Adds whole pages.
    pub(super) fn add(&mut self, physical: u64, size: u64) {
        self.direct_map.write_word(physical, self.first);
        // The number of pages, doubled so that bit 0 is clear.
        self.direct_map.write_word(physical + 8, size / PAGE_SIZE * 2);
        self.first = physical;
    }
}

impl PhysicalFrames {
    /// The memory that is free according to the boot information.
    pub(super) fn new(info: &Parsed<'_>) -> Self {
        let mapped = info.fixed.direct_map.size;
        let mut space = Self {
            direct_map: DirectMap(info.fixed.direct_map.start),
            frames: FrameAllocator::new(),
            unmapped: FreeRanges::new(),
            mapped,
            spare: heapless::Vec::new(),
            tables: DeferredFrees::new(DirectMap(info.fixed.direct_map.start)),
            trampoline_page: None,
            size: info.regions.iter().map(|region| region.size).fold(0, u64::saturating_add),
            end: info.regions.iter().map(|region| region.end()).fold(0, u64::max),
            freed: None,
            unmarked: 0,
            has_stopped_returning: false,
        };
        for region in info.regions {
            // Page 0 belongs to the firmware, and marks the end of lists.
            let start = region.start.max(PAGE_SIZE);
            space.insert(AddressRange { start, end: region.end().min(mapped) });
            let above = AddressRange { start: start.max(mapped), end: region.end() };
            // Does not use a region that is listed twice, or for which the list has no room.
            let _: Result<(), hermit_memory::ranges::FreeError> = space.unmapped.free(above);
        }
        // Reserves the trampoline's page now. The lowest memory is allocated first, so later there would be
        // no page that is low enough.
        space.trampoline_page = space.reserve_trampoline_page();
        space.refill();
        space
    }

    /// Size of the memory that was free at the start of the machine, in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Addresses of the direct map, as far as it is mapped.
    pub(super) const fn direct_mapping(&self) -> AddressRange {
        AddressRange { start: self.direct_map.address(0), end: self.direct_map.address(self.mapped) }
    }

    /// Addresses of the direct map, whether already mapped or not.
    #[cfg(not(any(feature = "bump", feature = "tlsf")))]
    pub(super) const fn direct_addresses(&self) -> AddressRange {
        AddressRange { start: self.direct_map.address(0), end: self.direct_map.address(self.end) }
    }

    /// Free memory in bytes.
    pub(super) fn available(&self) -> u64 {
        self.frames.total() + self.unmapped.total()
    }

    /// Frees memory. No TLB may have an entry for it, except for its mapping in the direct map.
    pub(super) fn release(&mut self, range: AddressRange) {
        self.insert(range);
        self.mark_freed(range);
    }

    /// True if memory that is freed may return to the host.
    fn may_return(&self) -> bool {
        !self.has_stopped_returning && ops::mmu().memory_return() != MemoryReturn::Never
    }

    /// Marks memory as freed, if the platform can return it to the host.
    fn mark_freed(&mut self, range: AddressRange) {
        if range.start >= range.end || !self.may_return() {
            return;
        }
        if self.freed.is_none() {
            self.unmarked += range.size();
            if self.unmarked >= MIN_FREED {
                self.freed = self.bitmaps();
            }
        }
        if let Some(freed) = &mut self.freed {
            freed.mark(&mut self.direct_map, range);
            if freed.is_due() {
                host_return::set_due();
            }
        }
    }

    /// Allocates the bitmaps of freed memory.
    fn bitmaps(&mut self) -> Option<FreedUnits> {
        let start = self.frames.allocate(&mut self.direct_map, FreedUnits::size(self.end), PAGE_SIZE)?;
        Some(FreedUnits::new(&mut self.direct_map, start, self.end))
    }

    /// Allocates one piece of memory, at `from` or above, that was freed a period ago, to return it to the
    /// host. Returns `None` if there is no such memory, or if so little memory is free that programs may need
    /// all of it.
    pub(super) fn take_returnable(&mut self, from: u64) -> Option<ReturnStep> {
        if self.available() < MIN_AVAILABLE {
            return None;
        }
        let first = self.freed.as_ref()?.next(&self.direct_map, from)?;
        let mut end = first;
        // Skips units that are partly in use. They are marked again when the rest of them is freed.
        while end - first < MAX_RETURNED
            && self.freed.as_ref()?.next(&self.direct_map, end) == Some(end)
            && self.frames.allocate_at(&mut self.direct_map, end, UNIT)
        {
            end += UNIT;
        }
        let taken = (first < end).then(|| TakenMemory::new(AddressRange { start: first, end }));
        Some(ReturnStep { taken, next: end.max(first + UNIT) })
    }

    /// Ends the return of memory to the host permanently, and frees the bitmaps.
    pub(super) fn stop_returning(&mut self) {
        self.has_stopped_returning = true;
        if let Some(freed) = self.freed.take() {
            self.insert(freed.memory());
        }
    }

    /// Begins a period of [`Self::take_returnable`]. Returns false if nothing was freed in the previous
    /// period.
    pub(super) fn age_freed(&mut self) -> bool {
        self.freed.as_mut().is_some_and(|freed| freed.age(&mut self.direct_map))
    }

    /// Frees memory that is not resident on the host.
    pub(super) fn insert(&mut self, range: AddressRange) {
        if range.start < range.end {
            // A double free leaves the memory free: the bug must not affect the memory's next user.
            let freed: Result<(), NotAllocated> = self.frames.free(&mut self.direct_map, range);
            debug_assert!(freed.is_ok(), "freed twice");
        }
    }

    /// Refills the frames that are kept for page tables.
    fn refill(&mut self) {
        while !self.spare.is_full() {
            let Some(frame) = self.frames.allocate_frame(&mut self.direct_map) else { break };
            // Does not fail: the loop has checked that there is room.
            let _: Result<(), u64> = self.spare.push(frame);
        }
    }

    /// Allocates memory in the direct map. Returns the physical address.
    pub(super) fn take(
        &mut self,
        table: &mut AddressSpace,
        size: u64,
        align: u64,
    ) -> Result<u64, OutOfMemory> {
        loop {
            if let Some(start) = self.frames.allocate(&mut self.direct_map, size, align) {
                return Ok(start);
            }
            self.map_more(table, size.max(align))?;
        }
    }

    /// Allocates memory at this physical address. Returns false if it is not free, or not in the direct map.
    pub(super) fn take_at(&mut self, start: u64, size: u64) -> bool {
        self.frames.allocate_at(&mut self.direct_map, start, size)
    }

    /// Allocates a frame with arbitrary contents.
    fn take_frame(&mut self, table: &mut AddressSpace) -> Result<u64, OutOfMemory> {
        match self.frames.allocate_frame(&mut self.direct_map) {
            Some(frame) => Ok(frame),
            None => self.take(table, PAGE_SIZE, PAGE_SIZE),
        }
    }

    /// Allocates a page filled with zero.
    pub(super) fn take_page(&mut self, table: &mut AddressSpace) -> Result<u64, OutOfMemory> {
        let page = self.take_frame(table)?;
        self.direct_map.zero(page, PAGE_SIZE);
        Ok(page)
    }

    /// Allocates physically contiguous frames with arbitrary contents. If `size` is that of a large page,
    /// they are aligned as one.
    pub(super) fn take_frames(
        &mut self,
        table: &mut AddressSpace,
        size: u64,
    ) -> Result<FreshFrames, OutOfMemory> {
        let physical = if size == PAGE_SIZE {
            self.take_frame(table)?
        } else {
            let align = if size == LARGE_PAGE_SIZE { LARGE_PAGE_SIZE } else { PAGE_SIZE };
            self.take(table, size, align)?
        };
        Ok(FreshFrames { direct_map: self.direct_map, physical, size })
    }

    /// Takes the page that is reserved for the trampoline.
    pub(super) fn take_trampoline_page(&mut self) -> Option<u64> {
        self.trampoline_page.take()
    }

    fn reserve_trampoline_page(&mut self) -> Option<u64> {
        let page = self.frames.allocate(&mut self.direct_map, PAGE_SIZE, PAGE_SIZE)?;
        if page < TRAMPOLINE_LIMIT {
            return Some(page);
        }
        self.insert(AddressRange { start: page, end: page + PAGE_SIZE });
        None
    }

    /// Extends the direct map by about `size` bytes of free memory.
    fn map_more(&mut self, table: &mut AddressSpace, size: u64) -> Result<(), OutOfMemory> {
        let first = *self.unmapped.as_slice().first().ok_or(OutOfMemory)?;
        let end = first.start.saturating_add(size).next_multiple_of(LARGE_PAGE_SIZE).min(first.end);
        let from = self.mapped.max(first.start / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE);
        let to = end.next_multiple_of(LARGE_PAGE_SIZE);
        while self.mapped.max(from) < to {
            let at = self.mapped.max(from);
            let address = self.direct_map.address(at);
            match table.map(self, address, at, LARGE_PAGE_SIZE, Access::Write) {
                // A part may be mapped already, by the loader or by a read of the firmware's tables.
                Ok(()) | Err(PagingError::AlreadyMapped) => self.mapped = at + LARGE_PAGE_SIZE,
                Err(_) => return Err(OutOfMemory),
            }
        }
        let range = AddressRange { start: first.start, end };
        self.unmapped.remove(range).map_err(|_| OutOfMemory)?;
        self.insert(range);
        self.refill();
        Ok(())
    }

    /// Frees the unused page tables and the memory in another list. The caller has flushed the TLBs of all
    /// CPUs.
    pub(super) fn free_deferred(&mut self, other: &mut DeferredFrees) {
        let mut tables = core::mem::replace(&mut self.tables, DeferredFrees::new(self.direct_map));
        for list in [&mut tables, other] {
            self.free_list(list);
        }
    }

    /// Returns true if page tables wait for a flush.
    pub(super) const fn has_unused_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Frees the memory in a list. The caller has flushed the TLBs of all CPUs.
    pub(super) fn free_list(&mut self, list: &mut DeferredFrees) {
        while !list.is_empty() {
            let start = list.first;
            list.first = self.direct_map.read_word(start);
            let size = self.direct_map.read_word(start + 8) / 2 * PAGE_SIZE;
            if size == PAGE_SIZE {
                // A double free leaves the memory free, as in `insert`.
                let _: Result<(), NotAllocated> = self.frames.free_frame(&mut self.direct_map, start);
                self.mark_freed(AddressRange { start, end: start + size });
            } else {
                self.release(AddressRange { start, end: start + size });
            }
        }
    }
}

impl TableMemory for PhysicalFrames {
    fn read(&self, slot: u64) -> u64 {
        self.direct_map.read_word(slot)
    }

    fn write(&mut self, slot: u64, entry: u64) {
        self.direct_map.write_word(slot, entry);
    }

    fn allocate(&mut self) -> Option<u64> {
        let page = self.frames.allocate_frame(&mut self.direct_map).or_else(|| self.spare.pop())?;
        self.direct_map.zero(page, PAGE_SIZE);
        Some(page)
    }

    fn free(&mut self, table: u64) {
        self.tables.add(table, PAGE_SIZE);
    }
}
