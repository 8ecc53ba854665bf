//! The memory lock, and the state under it: page tables, physical memory, free addresses.
//!
//! Memory whose mapping was removed must not be used again before all CPUs have flushed their TLBs. If a CPU
//! waited for the flushes under the lock, all CPUs that want the lock would wait, too. So an operation under
//! the lock returns the memory as a [`PendingFlush`]. After the lock is released, [`complete`] flushes the
//! TLBs, and then frees the memory. If page tables became unused, the flush happens under the lock
//! ([`MemoryState::flush_or_defer`]).
//!
//! A few pages are reserved for the growth of stacks ([`RESERVE`]), because a page fault cannot report an
//! error to the program.

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_interface::boot_info::Parsed;
use hermit_interface::to_usize;
use hermit_memory::ranges::{FreeError, FreeRanges};
use hermit_paging::{Access, FlushScope, MappedPage, MemoryType, PageAttributes, PagingError};
use lock_api::{MappedMutexGuard, MutexGuard};

use super::address_space::AddressSpace;
use super::host_return::{ReturnStep, TakenMemory};
use super::physical::{DeferredFrees, FreshFrames, PhysicalFrames};
use super::{MirroredMapping, OutOfMemory, stack_area};
use crate::sync::{RawSpinLock, SpinLock};
use crate::{ops, stop};

/// Maximum number of ranges of free addresses.
const MAX_PIECES: usize = 256;

/// Memory in bytes that only the growth of stacks may use.
pub const RESERVE: u64 = 128 << 10;

/// Physical addresses of the firmware's tables are below this.
const READABLE_END: u64 = 512 << 30;

/// The state, after [`init`] has made it. It is in a vector, because an empty vector is all zero and takes no
/// space in the image's file. The `None` of an `Option` would not be all zero.
static MEMORY: SpinLock<heapless::Vec<MemoryState, 1>> = SpinLock::new(heapless::Vec::new());

/// Physical memory, page tables and free addresses.
#[derive(Debug)]
pub(super) struct MemoryState {
    table: AddressSpace,
    physical: PhysicalFrames,
    addresses: FreeRanges<MAX_PIECES>,
}

/// Takes over from the loader.
///
/// # Safety
///
/// Page tables and free memory must be as `info` describes them. This must be called only once.
pub(super) unsafe fn init(info: &Parsed<'_>) {
    let table = AddressSpace::at(info.fixed.page_table_root);
    let mut addresses = FreeRanges::new();
    let free = info.fixed.free_addresses;
    // An empty table has room for one range.
    let _: Result<(), FreeError> = addresses.free(AddressRange { start: free.start, end: free.end() });
    let state = MemoryState { table, physical: PhysicalFrames::new(info), addresses };
    // There is room, since this is called once.
    let _: Result<(), MemoryState> = MEMORY.lock().push(state);
}

/// Calls `action` under the memory lock.
pub(super) fn with<R>(action: impl FnOnce(&mut MemoryState) -> R) -> R {
    action(&mut lock())
}

/// Takes the memory lock. It touches the stack first, since a page fault that makes the stack grow takes this
/// lock.
#[inline(never)]
fn lock() -> MappedMutexGuard<'static, RawSpinLock, MemoryState> {
    stack_area::touch(stack_area::STACK_NEEDED);
    MutexGuard::map(MEMORY.lock(), |memory| memory.first_mut().expect("memory is ready before it is used"))
}

/// Returns true if an address is mapped. While this CPU reports a fault, returns false if the lock is held:
/// then a stopped CPU holds it, and never releases it.
pub(super) fn is_mapped(address: u64) -> bool {
    let is_mapped = |memory: &MemoryState| memory.table.translate(&memory.physical, address).is_some();
    if stop::is_stopping_others() {
        return MEMORY.try_lock().is_some_and(|memory| memory.first().is_some_and(is_mapped));
    }
    with(|memory| is_mapped(memory))
}

/// Access that the page of an address allows.
pub(super) fn access(address: u64) -> Access {
    let found = with(|memory| memory.table.translate(&memory.physical, address));
    found.map_or(Access::None, |translation| translation.attributes.access)
}

/// Pages that are no longer in any page table, but may still be in TLBs. [`complete`] frees them after it has
/// flushed the TLBs. Until then, their addresses must not be used again.
#[derive(Debug)]
#[must_use = "the memory is lost, and TLBs may have entries of it"]
struct PendingFlush(DeferredFrees);

/// Flushes the TLBs of all CPUs without the memory lock, then frees the memory that was waiting for the
/// flush.
fn complete(pending: Option<PendingFlush>) {
    let Some(PendingFlush(mut deferred)) = pending else { return };
    ops::mmu().flush_tlb(FlushScope::Pages);
    if !deferred.is_empty() {
        with(|memory| memory.physical.free_list(&mut deferred));
    }
}

/// Changes the access to a range, which must be completely mapped. When this returns, all CPUs have flushed
/// their TLBs.
pub(super) fn protect(address: u64, size: u64, access: Access) -> Result<(), PagingError> {
    let (result, pending) = with(|memory| memory.protect(address, size, access));
    complete(pending);
    result
}

/// Unmaps a range, which must be completely mapped, and frees the memory. If this fails, the range stays
/// mapped.
pub(super) fn unmap_pages(address: u64, size: u64) -> Result<(), PagingError> {
    let pending = with(|memory| memory.unmap_pages(address, size))?;
    complete(pending);
    Ok(())
}

/// Unmaps all mapped pages of ranges, each given by start and size, and frees the memory.
pub(super) fn unmap_and_free(ranges: impl Iterator<Item = (u64, u64)>) {
    let pending = with(|memory| memory.unmap_ranges(ranges));
    complete(pending);
}

/// Maps the pages of a range also at the addresses from `to` on. Skips pages that are not mapped. If this
/// fails, a part of the pages may be mapped at the new addresses.
pub(super) fn map_again(from: u64, to: u64, size: u64) -> Result<(), PagingError> {
    let mut done = 0;
    while done < size {
        // Takes the lock for one large page at a time, so that other CPUs wait less.
        let piece = (size - done).min(LARGE_PAGE_SIZE - (from + done) % LARGE_PAGE_SIZE);
        with(|memory| memory.map_piece_again(from + done, to + done, piece))?;
        done += piece;
    }
    Ok(())
}

/// Removes mappings of a range. Its frames have other mappings, so they are not freed.
pub(super) fn unmap_alias(address: u64, size: u64) {
    let pending = with(|memory| memory.unmap_alias(address, size));
    complete(pending);
}

impl MemoryState {
    /// Physical memory that was free when the kernel started, in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.physical.size()
    }

    /// Addresses of the direct map, as far as they are mapped.
    pub(super) const fn direct_mapping(&self) -> AddressRange {
        self.physical.direct_mapping()
    }

    /// See [`PhysicalFrames::direct_addresses`].
    #[cfg(not(any(feature = "bump", feature = "tlsf")))]
    pub(super) const fn direct_addresses(&self) -> AddressRange {
        self.physical.direct_addresses()
    }

    /// Free physical memory in bytes.
    pub(super) fn available(&self) -> u64 {
        self.physical.available()
    }

    /// Unmaps the loader's identity map, and with it the page at address 0.
    pub(super) fn unmap_loader(&mut self) {
        // The first entry of the root maps 512 GiB. The tables below it are in memory that is already free.
        let root = self.table.root();
        hermit_paging::TableMemory::write(&mut self.physical, root, 0);
        ops::mmu().flush_tlb(FlushScope::Tables);
    }

    /// Allocates physical memory in the direct map. Returns its address in the direct map.
    pub(super) fn allocate(&mut self, size: u64, align: u64) -> Result<u64, OutOfMemory> {
        self.check_reserve(size)?;
        let physical = self.physical.take(&mut self.table, size, align.max(PAGE_SIZE))?;
        Ok(self.physical.direct_map.address(physical))
    }

    /// Extends memory of [`Self::allocate`] that ends at `end` by the `size` bytes after it. Returns false if
    /// these bytes are not free.
    pub(super) fn extend(&mut self, end: u64, size: u64) -> bool {
        self.check_reserve(size).is_ok()
            && self.physical.take_at(self.physical.direct_map.physical(end), size)
    }

    /// Frees memory of [`Self::allocate`], or whole pages of it. It stays mapped in the direct map.
    pub(super) fn free(&mut self, address: u64, size: u64) {
        let start = self.physical.direct_map.physical(address);
        self.physical.release(AddressRange { start, end: start + size });
    }

    /// See [`PhysicalFrames::take_returnable`].
    pub(super) fn take_returnable(&mut self, from: u64) -> Option<ReturnStep> {
        self.physical.take_returnable(from)
    }

    /// Frees memory that was returned to the host.
    pub(super) fn free_returned(&mut self, taken: TakenMemory) {
        self.physical.insert(taken.into_range());
    }

    /// See [`PhysicalFrames::stop_returning`].
    pub(super) fn stop_returning(&mut self) {
        self.physical.stop_returning();
    }

    /// See [`PhysicalFrames::age_freed`].
    pub(super) fn age_freed(&mut self) -> bool {
        self.physical.age_freed()
    }

    /// Allocates a page filled with zero; returns its physical address.
    pub(super) fn take_page(&mut self) -> Result<u64, OutOfMemory> {
        self.physical.take_page(&mut self.table)
    }

    /// Frees physical memory by its physical address.
    pub(super) fn free_physical(&mut self, start: u64, size: u64) {
        self.physical.release(AddressRange { start, end: start + size });
    }

    /// Reserves addresses without memory.
    pub(super) fn allocate_addresses(&mut self, size: u64, align: u64) -> Result<u64, OutOfMemory> {
        self.addresses.allocate(size, align).ok_or(OutOfMemory)
    }

    /// Checks that `size` bytes can be allocated without using [`RESERVE`].
    pub(super) fn check_reserve(&self, size: u64) -> Result<(), OutOfMemory> {
        let left = self.physical.available().checked_sub(size);
        let is_enough = left.is_some_and(|left| left >= RESERVE) && ops::mmu().can_map_more();
        is_enough.then_some(()).ok_or(OutOfMemory)
    }

    /// Allocates physically contiguous frames to be mapped. May use the reserve.
    pub(super) fn take_frames(&mut self, size: u64) -> Result<FreshFrames, OutOfMemory> {
        self.physical.take_frames(&mut self.table, size)
    }

    /// Allocates physically contiguous frames to be mapped: `size` bytes, or fewer if there are not so many
    /// contiguous bytes.
    pub(super) fn take_frames_up_to(&mut self, size: u64) -> Result<FreshFrames, OutOfMemory> {
        let mut size = size;
        loop {
            match self.take_frames(size) {
                Err(_) if size > PAGE_SIZE => size = (size / 2).next_multiple_of(PAGE_SIZE),
                result => return result,
            }
        }
    }

    /// Maps frames at addresses where nothing is mapped. If that fails, frees them.
    pub(super) fn map_frames(
        &mut self,
        address: u64,
        frames: FreshFrames,
        access: Access,
    ) -> Result<(), PagingError> {
        let FreshFrames { physical, size, .. } = frames;
        let mapped = self.table.map(&mut self.physical, address, physical, size, access);
        if mapped.is_err() && size == PAGE_SIZE {
            // No other CPU has cached the mapping: for a single page, an error means that the mapping was
            // never made.
            self.free_physical(physical, size);
        } else if mapped.is_err() {
            // A part may have been mapped for a moment, and another CPU may have cached it.
            let mut deferred = DeferredFrees::new(self.physical.direct_map);
            deferred.add(physical, size);
            self.flush(deferred);
        }
        mapped
    }

    /// [`map_again`] for a range inside of a large page.
    fn map_piece_again(&mut self, from: u64, to: u64, size: u64) -> Result<(), PagingError> {
        let mut done = 0;
        while done < size {
            let address = from + done;
            let found = self.table.translate(&self.physical, address);
            let page_size = found.map_or(PAGE_SIZE, |found| found.page_size);
            let piece = (size - done).min(page_size - address % page_size);
            if let Some(found) = found {
                self.table.map(&mut self.physical, to + done, found.physical, piece, Access::Write)?;
            }
            done += piece;
        }
        Ok(())
    }

    /// Removes mappings. Their frames stay allocated.
    fn unmap_alias(&mut self, address: u64, size: u64) -> Option<PendingFlush> {
        // This cannot fail: the range was mapped as a whole, so no large page has to be split.
        let _: Result<(), PagingError> = self.table.unmap(&mut self.physical, address, size, &mut |_| ());
        self.flush_or_defer(DeferredFrees::new(self.physical.direct_map))
    }

    /// Allocates physically contiguous memory with arbitrary contents, and maps it twice in a row.
    pub(super) fn map_mirrored(&mut self, size: u64) -> Result<MirroredMapping, OutOfMemory> {
        self.check_reserve(size)?;
        let both = size.checked_mul(2).ok_or(OutOfMemory)?;
        let physical = self.physical.take(&mut self.table, size, PAGE_SIZE)?;
        let Ok(address) = self.allocate_addresses(both, PAGE_SIZE) else {
            self.free_physical(physical, size);
            return Err(OutOfMemory);
        };
        let mapping = MirroredMapping { address, physical, size };
        for copy in [address, address + size] {
            if self.table.map(&mut self.physical, copy, physical, size, Access::Write).is_err() {
                self.unmap_mirrored(&mapping);
                return Err(OutOfMemory);
            }
        }
        Ok(mapping)
    }

    /// Removes both mappings, which may be incomplete, and frees the memory.
    pub(super) fn unmap_mirrored(&mut self, &MirroredMapping { address, physical, size }: &MirroredMapping) {
        let both = AddressRange { start: address, end: address + 2 * size };
        // This fails only if the platform has no memory for the hole in its mappings. Then the memory stays
        // allocated.
        if self.table.unmap(&mut self.physical, address, both.size(), &mut |_| ()).is_err() {
            return;
        }
        let mut deferred = DeferredFrees::new(self.physical.direct_map);
        deferred.add(physical, size);
        self.flush(deferred);
        // If the free addresses are already in too many ranges, these addresses are lost. There are enough
        // others.
        let _: Result<(), FreeError> = self.addresses.free(both);
    }

    /// Changes the access to a range, which must be completely mapped.
    fn protect(
        &mut self,
        address: u64,
        size: u64,
        access: Access,
    ) -> (Result<(), PagingError>, Option<PendingFlush>) {
        let result = self.table.protect(&mut self.physical, address, size, access);
        (result, self.flush_or_defer(DeferredFrees::new(self.physical.direct_map)))
    }

    /// Unmaps a range, which must be completely mapped. Page tables stay, unless they are completely in the
    /// range.
    fn unmap_pages(&mut self, address: u64, size: u64) -> Result<Option<PendingFlush>, PagingError> {
        let mut deferred = DeferredFrees::new(self.physical.direct_map);
        self.table.unmap_pages(&mut self.physical, address, size, &mut |page: MappedPage| {
            deferred.add(page.physical, page.size);
        })?;
        Ok(self.flush_or_defer(deferred))
    }

    /// Unmaps all mapped pages of ranges, each given by start and size. Frees page tables that become empty.
    fn unmap_ranges(&mut self, ranges: impl Iterator<Item = (u64, u64)>) -> Option<PendingFlush> {
        let mut deferred = DeferredFrees::new(self.physical.direct_map);
        for (address, size) in ranges {
            // This fails only if there is no memory to split a large page. Then all of the range stays mapped
            // and allocated.
            let _: Result<(), PagingError> =
                self.table.unmap(&mut self.physical, address, size, &mut |page: MappedPage| {
                    deferred.add(page.physical, page.size);
                });
        }
        self.flush_or_defer(deferred)
    }

    /// Frees the empty page tables of ranges, each given by start and size. Nothing is mapped in the ranges.
    pub(super) fn free_empty_tables(&mut self, ranges: impl Iterator<Item = (u64, u64)>) {
        for (address, size) in ranges {
            // Nothing is mapped, so no page has to be split.
            let _: Result<(), PagingError> = self.table.free_empty_tables(&mut self.physical, address, size);
        }
        if self.physical.has_unused_tables() {
            self.flush(DeferredFrees::new(self.physical.direct_map));
        }
    }

    /// Flushes the TLBs of all CPUs, then frees the page tables and the memory that were waiting for the
    /// flush.
    fn flush(&mut self, mut deferred: DeferredFrees) {
        ops::mmu().flush_tlb(FlushScope::Tables);
        self.physical.free_deferred(&mut deferred);
    }

    /// Flushes as [`Self::flush`] does, or returns the list, so that [`complete`] flushes after the lock is
    /// released. In the second case no CPU waits for others under the lock.
    ///
    /// If page tables became unused, the flush must happen under the lock. Otherwise another thread could map
    /// memory next to the range through a new table before the flush. A CPU that still caches the old table
    /// would not find this memory.
    fn flush_or_defer(&mut self, deferred: DeferredFrees) -> Option<PendingFlush> {
        if self.physical.has_unused_tables() || !ops::mmu().has_other_tlbs() {
            self.flush(deferred);
            return None;
        }
        Some(PendingFlush(deferred))
    }

    /// Maps pages of device registers and returns their address.
    pub(super) fn map_device(&mut self, physical: u64, size: u64) -> Result<u64, OutOfMemory> {
        let address = self.allocate_addresses(size, PAGE_SIZE)?;
        let attributes = PageAttributes { access: Access::Write, memory_type: MemoryType::Uncacheable };
        self.table.map(&mut self.physical, address, physical, size, attributes).map_err(|_| OutOfMemory)?;
        Ok(address)
    }

    /// Physical address of memory of [`Self::allocate`].
    pub(super) fn physical(&self, address: u64) -> u64 {
        self.physical.direct_map.physical(address)
    }

    /// Unmaps a page of the image at boot. Its page tables stay, since they also map other pages.
    pub(super) fn unmap(&mut self, address: u64) {
        // This cannot fail: if the page is part of a large one, there is memory for the table that splits it.
        let _: Result<(), PagingError> =
            self.table.unmap_pages(&mut self.physical, address, PAGE_SIZE, &mut |_| ());
        self.flush(DeferredFrees::new(self.physical.direct_map));
    }

    /// Maps the trampoline of secondary CPUs at its physical address. Returns this address.
    pub(super) fn map_trampoline(
        &mut self,
        code: impl FnOnce(u64, u64) -> Option<[u8; 4096]>,
    ) -> Option<u64> {
        let physical = self.physical.take_trampoline_page()?;
        self.physical.direct_map.write(physical, &code(physical, self.table.root())?);
        let mapped = self.table.map(&mut self.physical, physical, physical, PAGE_SIZE, Access::Execute);
        mapped.is_ok().then_some(physical)
    }

    /// Copies from physical memory. Adds the memory to the direct map if it is not mapped yet, and returns
    /// false if that is impossible.
    pub(super) fn read_physical(&mut self, physical: u64, bytes: &mut [u8]) -> bool {
        let Some(end) = physical.checked_add(bytes.len() as u64).filter(|&end| end <= READABLE_END) else {
            return false;
        };
        let first = physical / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE;
        for page in (first..end).step_by(to_usize(LARGE_PAGE_SIZE)) {
            let address = self.physical.direct_map.address(page);
            match self.table.map(&mut self.physical, address, page, LARGE_PAGE_SIZE, Access::Write) {
                Ok(()) | Err(PagingError::AlreadyMapped) => {}
                Err(_) => return false,
            }
        }
        self.physical.direct_map.read(physical, bytes);
        true
    }
}

#[cfg(test)]
mod tests;
