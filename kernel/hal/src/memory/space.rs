//! Physical memory: which of it is free, and where it can be reached.
//!
//! All of it has one place in the direct map. What the loader has not mapped there is mapped when it is first used.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut, write_bytes};

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_interface::boot_info::Parsed;
use hermit_interface::to_usize;
use hermit_memory::frames::{FrameAllocator, NotAllocated, Words};
use hermit_memory::ranges::FreeRanges;
use hermit_paging::{Access, PagingError, TableMemory};

use super::OutOfMemory;
use super::address_space::AddressSpace;

/// In how many pieces the memory may be that the loader did not map.
const PIECES: usize = 64;

/// Tables that are at hand when all mapped memory is used up: as many as mapping more can need.
const SPARE: usize = 4;

/// The first 64-bit word of a page that is on its way to being free: the next such page. No bit of it makes a processor
/// that still takes the page for a page table find something there.
const NONE: u64 = 0;

/// The place of physical memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectMap(u64);

impl DirectMap {
    /// The address of physical memory.
    pub(super) const fn address(self, physical: u64) -> u64 {
        self.0 + physical
    }

    /// The physical memory at an address of the direct map.
    pub(super) const fn physical(self, address: u64) -> u64 {
        address - self.0
    }

    fn read_word(self, physical: u64) -> u64 {
        let word = with_exposed_provenance::<u64>(to_usize(self.address(physical)));
        // SAFETY: called for page tables, which are mapped and changed under the memory lock alone, and for free memory,
        // which is mapped and nobody's.
        unsafe { word.read_volatile() }
    }

    fn write_word(self, physical: u64, value: u64) {
        let word = with_exposed_provenance_mut::<u64>(to_usize(self.address(physical)));
        // SAFETY: as in `read_word`.
        unsafe { word.write_volatile(value) };
    }

    /// Writes a page that was just allocated.
    pub(super) fn write(self, physical: u64, bytes: &[u8; 4096]) {
        let start = with_exposed_provenance_mut::<[u8; 4096]>(to_usize(self.address(physical)));
        // SAFETY: the page is mapped and nobody's.
        unsafe { start.write(*bytes) };
    }

    /// Copies memory that is mapped and that Rust code does not use: tables of the firmware.
    pub(super) fn read(self, physical: u64, bytes: &mut [u8]) {
        for (offset, byte) in bytes.iter_mut().enumerate() {
            let from = with_exposed_provenance::<u8>(to_usize(self.address(physical)) + offset);
            // SAFETY: the address is mapped; whatever is there, it is bytes.
            *byte = unsafe { from.read_volatile() };
        }
    }

    /// Fills memory with zero.
    fn zero(self, physical: u64, size: u64) {
        let start = with_exposed_provenance_mut::<u8>(to_usize(self.address(physical)));
        // SAFETY: called for memory that was just allocated, which is mapped and nobody's.
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

/// Free physical memory.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) direct_map: DirectMap,
    frames: FrameAllocator,
    /// Free, but not mapped yet.
    unmapped: FreeRanges<PIECES>,
    /// Physical memory above this is not mapped yet.
    mapped: u64,
    spare: heapless::Vec<u64, SPARE>,
    /// Page tables that are no longer used.
    tables: Leaving,
    /// A page below 1 MiB, where other processors can start.
    low_page: Option<u64>,
}

/// Memory that will be free once no processor remembers it: a list through the memory itself.
#[derive(Debug)]
pub(super) struct Leaving {
    direct_map: DirectMap,
    first: u64,
}

impl Leaving {
    /// None.
    pub(super) const fn new(direct_map: DirectMap) -> Self {
        Self { direct_map, first: NONE }
    }

    /// Adds whole pages.
    pub(super) fn add(&mut self, physical: u64, size: u64) {
        self.direct_map.write_word(physical, self.first);
        // Not the number itself, whose bits a processor might take for those of an entry that is present.
        self.direct_map.write_word(physical + 8, size / PAGE_SIZE * 2);
        self.first = physical;
    }
}

impl Space {
    /// What the loader says is free.
    pub(super) fn new(info: &Parsed<'_>) -> Self {
        let mapped = info.fixed.direct_map.size;
        let mut space = Self {
            direct_map: DirectMap(info.fixed.direct_map.start),
            frames: FrameAllocator::new(),
            unmapped: FreeRanges::new(),
            mapped,
            spare: heapless::Vec::new(),
            tables: Leaving::new(DirectMap(info.fixed.direct_map.start)),
            low_page: None,
        };
        for region in info.regions {
            // Page 0 is the firmware's in any case, and the end of every list.
            let start = region.start.max(PAGE_SIZE);
            space.release(AddressRange { start, end: region.end().min(mapped) });
            let above = AddressRange { start: start.max(mapped), end: region.end() };
            // A loader that names a region twice, or too many, loses it.
            let _: Result<(), hermit_memory::ranges::FreeError> = space.unmapped.free(above);
        }
        // The lowest memory is used first, so it would soon be gone.
        space.low_page = space.reserve_low_page();
        space.refill();
        space
    }

    /// How much is free in all.
    pub(super) fn available(&self) -> u64 {
        self.frames.total() + self.unmapped.total()
    }

    /// Frees memory that no processor remembers.
    pub(super) fn release(&mut self, range: AddressRange) {
        if range.start < range.end {
            // What is freed twice stays free; who does it has a bug that the next user of the memory must not suffer from.
            let freed: Result<(), NotAllocated> = self.frames.free(&mut self.direct_map, range);
            debug_assert!(freed.is_ok(), "freed twice");
        }
    }

    fn refill(&mut self) {
        while !self.spare.is_full() {
            let Some(frame) = self.frames.allocate_frame(&mut self.direct_map) else { break };
            // There is room.
            let _: Result<(), u64> = self.spare.push(frame);
        }
    }

    /// Takes memory, mapped in the direct map; returns its physical address.
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

    /// Takes memory at this place, if it is free and mapped.
    pub(super) fn take_at(&mut self, start: u64, size: u64) -> bool {
        self.frames.allocate_at(&mut self.direct_map, start, size)
    }

    /// Takes a page of memory, all zero.
    pub(super) fn take_page(&mut self, table: &mut AddressSpace) -> Result<u64, OutOfMemory> {
        let page = match self.frames.allocate_frame(&mut self.direct_map) {
            Some(page) => page,
            None => self.take(table, PAGE_SIZE, PAGE_SIZE)?,
        };
        self.direct_map.zero(page, PAGE_SIZE);
        Ok(page)
    }

    /// Takes memory in one piece, all zero.
    pub(super) fn take_block(&mut self, table: &mut AddressSpace, size: u64) -> Result<u64, OutOfMemory> {
        let start = self.take(table, size, PAGE_SIZE)?;
        self.direct_map.zero(start, size);
        Ok(start)
    }

    /// Takes a large page, all zero, if there is one without mapping more.
    pub(super) fn take_large_page(&mut self) -> Option<u64> {
        let page = self.frames.allocate(&mut self.direct_map, LARGE_PAGE_SIZE, LARGE_PAGE_SIZE)?;
        self.direct_map.zero(page, LARGE_PAGE_SIZE);
        Some(page)
    }

    /// Takes the page below 1 MiB where processors can start.
    pub(super) fn take_low_page(&mut self) -> Option<u64> {
        self.low_page.take()
    }

    fn reserve_low_page(&mut self) -> Option<u64> {
        let page = self.frames.allocate(&mut self.direct_map, PAGE_SIZE, PAGE_SIZE)?;
        if page < 1 << 20 {
            return Some(page);
        }
        self.release(AddressRange { start: page, end: page + PAGE_SIZE });
        None
    }

    /// Extends the direct map by memory that is free, about as much as is needed.
    fn map_more(&mut self, table: &mut AddressSpace, size: u64) -> Result<(), OutOfMemory> {
        let first = *self.unmapped.as_slice().first().ok_or(OutOfMemory)?;
        let end = first.start.saturating_add(size).next_multiple_of(LARGE_PAGE_SIZE).min(first.end);
        let from = self.mapped.max(first.start / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE);
        let to = end.next_multiple_of(LARGE_PAGE_SIZE);
        while self.mapped.max(from) < to {
            let at = self.mapped.max(from);
            let address = self.direct_map.address(at);
            match table.map(self, address, at, LARGE_PAGE_SIZE, Access::Write) {
                // The loader may have mapped single pages further up.
                Ok(()) | Err(PagingError::AlreadyMapped) => self.mapped = at + LARGE_PAGE_SIZE,
                Err(_) => return Err(OutOfMemory),
            }
        }
        let range = AddressRange { start: first.start, end };
        self.unmapped.remove(range).map_err(|_| OutOfMemory)?;
        self.release(range);
        self.refill();
        Ok(())
    }

    /// No processor remembers anything: frees page tables that are no longer used, and what else has been unmapped.
    pub(super) fn free_leaving(&mut self, other: &mut Leaving) {
        let mut tables = core::mem::replace(&mut self.tables, Leaving::new(self.direct_map));
        for list in [&mut tables, other] {
            self.free_list(list);
        }
    }

    fn free_list(&mut self, list: &mut Leaving) {
        while list.first != NONE {
            let start = list.first;
            list.first = self.direct_map.read_word(start);
            let size = self.direct_map.read_word(start + 8) / 2 * PAGE_SIZE;
            if size == PAGE_SIZE {
                // As in `release`.
                let _: Result<(), NotAllocated> = self.frames.free_frame(&mut self.direct_map, start);
            } else {
                self.release(AddressRange { start, end: start + size });
            }
        }
    }
}

impl TableMemory for Space {
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
