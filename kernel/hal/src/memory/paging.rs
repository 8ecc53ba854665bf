//! Page tables and the memory behind them.

use core::ptr::{with_exposed_provenance_mut, write_bytes};

use hermit_interface::boot_info::{self, Parsed};
use hermit_interface::image::PAGE_SIZE;
use hermit_interface::to_usize;
use hermit_ranges::{Range, Ranges};
use x86_64::registers::control::Cr3;
use x86_64::structures::paging::mapper::MapToError;
use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use super::{OutOfMemory, stack};
use crate::sync::SpinLock;

/// In how many pieces free memory, or free addresses, may be.
const PIECES: usize = 256;

const LARGE_PAGE: u64 = 2 << 20;

/// Data pages: never executable.
const DATA: PageTableFlags =
    PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::NO_EXECUTE);

static MEMORY: SpinLock<Option<Memory>> = SpinLock::new(None);

/// Frames and page tables.
#[derive(Debug)]
pub(super) struct Memory {
    table: OffsetPageTable<'static>,
    frames: Frames,
    addresses: Ranges<PIECES>,
}

/// Free physical memory.
#[derive(Debug)]
struct Frames {
    free: Ranges<PIECES>,
    /// Physical memory above this is not mapped yet.
    mapped: u64,
    /// Frames for the page tables that map more, so that this never fails for want of mapped memory.
    spare: heapless::Vec<u64, 4>,
}

// SAFETY: a frame is given out once, and by the loader's contract a free one is not in use.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let address = self.allocate_mapped(PAGE_SIZE).or_else(|| self.spare.pop())?;
        Some(PhysFrame::containing_address(PhysAddr::new(address)))
    }
}

impl Frames {
    /// Frames below [`Self::mapped`].
    fn allocate_mapped(&mut self, size: u64) -> Option<u64> {
        let address = self.free.allocate(size, PAGE_SIZE)?;
        if address + size <= self.mapped {
            return Some(address);
        }
        // It was free a moment ago, so giving it back cannot fail for want of room.
        let _: Result<(), hermit_ranges::FreeError> =
            self.free.free(Range { start: address, end: address + size });
        None
    }
}

/// Takes over from the loader.
///
/// # Safety
///
/// What `info` says must be true, and this must be called once.
pub(super) unsafe fn init(info: &Parsed<'_>) {
    let fixed = info.fixed;
    let root =
        with_exposed_provenance_mut::<PageTable>(to_usize(fixed.direct_map.start + fixed.page_table_root));
    // SAFETY: the loader's contract; nobody else has a reference to the table.
    let root = unsafe { &mut *root };
    // SAFETY: the loader maps physical memory at the direct map's start, and page tables lie in it.
    let table = unsafe { OffsetPageTable::new(root, VirtAddr::new(fixed.direct_map.start)) };
    let mut free = Ranges::new();
    for region in info.regions {
        // A loader that names a region twice, or too many, loses it.
        let _: Result<(), hermit_ranges::FreeError> =
            free.free(Range { start: region.start, end: region.end() });
    }
    let mut frames = Frames { free, mapped: fixed.direct_map.size, spare: heapless::Vec::new() };
    frames.refill();
    let mut addresses = Ranges::new();
    let boot_info::Range { start, .. } = fixed.free_addresses;
    let _: Result<(), hermit_ranges::FreeError> =
        addresses.free(Range { start, end: fixed.free_addresses.end() });
    *MEMORY.lock() = Some(Memory { table, frames, addresses });
}

/// Calls `action` with the memory.
pub(super) fn with<R>(action: impl FnOnce(&mut Memory) -> R) -> R {
    stack::touch(stack::STACK_NEEDED);
    let mut memory = MEMORY.lock();
    action(memory.as_mut().expect("memory is ready before it is used"))
}

impl Frames {
    fn refill(&mut self) {
        while !self.spare.is_full() {
            let Some(frame) = self.allocate_mapped(PAGE_SIZE) else { break };
            // There is room.
            let _: Result<(), u64> = self.spare.push(frame);
        }
    }
}

impl Memory {
    /// Unmaps what the loader needed for itself, the page at address 0 with it.
    pub(super) fn forget_loader(&mut self) {
        self.table.level_4_table_mut()[0].set_unused();
        let (root, flags) = Cr3::read();
        // SAFETY: the same tables again, to drop what the processor remembers of the unmapped ones; no kernel
        // code runs there.
        unsafe { Cr3::write(root, flags) };
    }

    /// Takes physical memory, mapped; returns the address where it is.
    pub(super) fn allocate(&mut self, size: u64) -> Result<u64, OutOfMemory> {
        let physical = self.frames.free.allocate(size, PAGE_SIZE).ok_or(OutOfMemory)?;
        if let Err(error) = self.map_up_to(physical + size) {
            let range = Range { start: physical, end: physical + size };
            // It was free a moment ago, so giving it back cannot fail for want of room.
            let _: Result<(), hermit_ranges::FreeError> = self.frames.free.free(range);
            return Err(error);
        }
        Ok(self.table.phys_offset().as_u64() + physical)
    }

    /// Extends the direct map.
    fn map_up_to(&mut self, end: u64) -> Result<(), OutOfMemory> {
        while self.frames.mapped < end {
            let frame = PhysFrame::<Size2MiB>::containing_address(PhysAddr::new(self.frames.mapped));
            let page = Page::containing_address(self.table.phys_offset() + self.frames.mapped);
            // SAFETY: the direct map maps each physical address to its own place, which nothing else uses; what is
            // not free is never accessed.
            let mapped = unsafe { self.table.map_to(page, frame, DATA, &mut self.frames) };
            match mapped {
                Ok(flush) => flush.ignore(),
                Err(MapToError::PageAlreadyMapped(_)) => {}
                Err(_) => return Err(OutOfMemory),
            }
            self.frames.mapped += LARGE_PAGE;
            self.frames.refill();
        }
        Ok(())
    }

    /// Takes addresses, with nothing behind them.
    pub(super) fn allocate_addresses(&mut self, size: u64) -> Result<u64, OutOfMemory> {
        self.addresses.allocate(size, PAGE_SIZE).ok_or(OutOfMemory)
    }

    /// Puts a fresh page of data at an address that [`Self::allocate_addresses`] returned.
    pub(super) fn map_fresh(&mut self, address: u64) -> Result<(), OutOfMemory> {
        let fresh = self.allocate(PAGE_SIZE)?;
        let physical = fresh - self.table.phys_offset().as_u64();
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(address));
        // SAFETY: the frame was free and is mapped in the direct map; it is nobody's yet.
        unsafe { write_bytes(with_exposed_provenance_mut::<u8>(to_usize(fresh)), 0, to_usize(PAGE_SIZE)) };
        let frame = PhysFrame::containing_address(PhysAddr::new(physical));
        // SAFETY: the addresses are the caller's and the frame is fresh, so no memory in use changes.
        let mapped = unsafe { self.table.map_to(page, frame, DATA, &mut self.frames) };
        // An entry that was not present is not remembered by the processor.
        mapped.map(|flush| flush.ignore()).map_err(|_| OutOfMemory)
    }

    /// Maps a page of device registers and returns its address.
    pub(super) fn map_device(&mut self, physical: u64) -> Result<u64, OutOfMemory> {
        let address = self.allocate_addresses(PAGE_SIZE)?;
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(address));
        let frame = PhysFrame::containing_address(PhysAddr::new(physical));
        let flags = DATA | PageTableFlags::NO_CACHE | PageTableFlags::WRITE_THROUGH;
        // SAFETY: the address is fresh and the frame is no memory, so no memory in use changes.
        let mapped = unsafe { self.table.map_to(page, frame, flags, &mut self.frames) };
        mapped.map(|flush| flush.ignore()).map_err(|_| OutOfMemory)?;
        Ok(address)
    }

    /// Unmaps the page at an address of the image, for good.
    pub(super) fn unmap(&mut self, address: u64) {
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(address));
        if let Ok((_, flush)) = self.table.unmap(page) {
            flush.flush();
        }
    }
}
