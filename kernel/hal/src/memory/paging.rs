//! Page tables, and the addresses that are free.

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_interface::boot_info::Parsed;
use hermit_interface::to_usize;
use hermit_memory::ranges::{FreeError, FreeRanges};
use hermit_paging::{Access, MappedPage, MemoryType, PageAttributes, PagingError};

use super::address_space::AddressSpace;
use super::space::{Leaving, Space};
use super::{OutOfMemory, StartPage, Twice, stack};
use crate::platform;
use crate::sync::SpinLock;

/// In how many pieces free addresses may be.
const PIECES: usize = 256;

/// So much memory is left to stacks that exist, so that they can grow: nothing else gets it.
const RESERVE: u64 = 128 << 10;

/// Tables of the firmware lie below this physical address.
const READABLE: u64 = 512 << 30;

static MEMORY: SpinLock<Option<Memory>> = SpinLock::new(None);

/// Memory and page tables.
#[derive(Debug)]
pub(super) struct Memory {
    table: AddressSpace,
    space: Space,
    addresses: FreeRanges<PIECES>,
}

/// Takes over from the loader.
///
/// # Safety
///
/// What `info` says must be true, and this must be called once.
pub(super) unsafe fn init(info: &Parsed<'_>) {
    let table = AddressSpace::at(info.fixed.page_table_root);
    let mut addresses = FreeRanges::new();
    let free = info.fixed.free_addresses;
    // An empty table has room for one range.
    let _: Result<(), FreeError> = addresses.free(AddressRange { start: free.start, end: free.end() });
    *MEMORY.lock() = Some(Memory { table, space: Space::new(info), addresses });
}

/// Calls `action` with the memory.
pub(super) fn with<R>(action: impl FnOnce(&mut Memory) -> R) -> R {
    stack::touch(stack::STACK_NEEDED);
    let mut memory = MEMORY.lock();
    action(memory.as_mut().expect("memory is ready before it is used"))
}

/// Whether an address leads to memory. For reports, when other CPUs have been stopped that may hold the lock.
pub(super) fn is_mapped(address: u64) -> bool {
    let Some(memory) = MEMORY.try_lock() else { return false };
    memory.as_ref().is_some_and(|memory| memory.table.translate(&memory.space, address).is_some())
}

impl Memory {
    /// How much memory is free.
    pub(super) fn available(&self) -> u64 {
        self.space.available()
    }

    /// Unmaps what the loader needed for itself, the page at address 0 with it.
    pub(super) fn forget_loader(&mut self) {
        // The first entry of the root: 512 GiB. The tables lie in memory that is free already.
        let root = self.table.root();
        hermit_paging::TableMemory::write(&mut self.space, root, 0);
        platform::current().forget_mappings();
    }

    /// Takes physical memory, mapped; returns the address where it is.
    pub(super) fn allocate(&mut self, size: u64, align: u64) -> Result<u64, OutOfMemory> {
        self.check_reserve(size)?;
        let physical = self.space.take(&mut self.table, size, align.max(PAGE_SIZE))?;
        Ok(self.space.direct_map.address(physical))
    }

    /// Takes the memory behind what [`Self::allocate`] returned as well, if it is free.
    pub(super) fn extend(&mut self, end: u64, size: u64) -> bool {
        self.check_reserve(size).is_ok() && self.space.take_at(self.space.direct_map.physical(end), size)
    }

    /// Frees what [`Self::allocate`] returned, or whole pages of it. It stays mapped.
    pub(super) fn free(&mut self, address: u64, size: u64) {
        let start = self.space.direct_map.physical(address);
        self.space.release(AddressRange { start, end: start + size });
    }

    /// Takes a page of memory, all zero; returns its physical address.
    pub(super) fn take_page(&mut self) -> Result<u64, OutOfMemory> {
        self.space.take_page(&mut self.table)
    }

    /// Frees physical memory.
    pub(super) fn free_physical(&mut self, start: u64, size: u64) {
        self.space.release(AddressRange { start, end: start + size });
    }

    /// Takes addresses, with nothing behind them.
    pub(super) fn allocate_addresses(&mut self, size: u64, align: u64) -> Result<u64, OutOfMemory> {
        self.addresses.allocate(size, align).ok_or(OutOfMemory)
    }

    /// Whether so much can be taken and enough is left.
    pub(super) fn check_reserve(&self, size: u64) -> Result<(), OutOfMemory> {
        let left = self.space.available().checked_sub(size);
        let is_enough = left.is_some_and(|left| left >= RESERVE) && platform::current().can_map_more();
        is_enough.then_some(()).ok_or(OutOfMemory)
    }

    /// Puts a fresh page of data at an address that [`Self::allocate_addresses`] returned. One that is there already
    /// stays.
    pub(super) fn map_fresh(&mut self, address: u64) -> Result<(), OutOfMemory> {
        let page = self.space.take_page(&mut self.table)?;
        match self.table.map(&mut self.space, address, page, PAGE_SIZE, Access::Write) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.space.release(AddressRange { start: page, end: page + PAGE_SIZE });
                // Two CPUs may have needed it at the same time.
                if error == PagingError::AlreadyMapped { Ok(()) } else { Err(OutOfMemory) }
            }
        }
    }

    /// Puts fresh memory, in one piece, at addresses where nothing is.
    pub(super) fn map_fresh_block(&mut self, address: u64, size: u64) -> Result<(), OutOfMemory> {
        self.check_reserve(size)?;
        let physical = self.space.take_block(&mut self.table, size)?;
        let mapped = self.table.map(&mut self.space, address, physical, size, Access::Write);
        mapped.map_err(|_| {
            self.free_physical(physical, size);
            OutOfMemory
        })
    }

    /// Maps memory in one piece, whatever is in it, at two places, one right behind the other.
    pub(super) fn map_twice(&mut self, size: u64) -> Result<Twice, OutOfMemory> {
        self.check_reserve(size)?;
        let both = size.checked_mul(2).ok_or(OutOfMemory)?;
        let physical = self.space.take(&mut self.table, size, PAGE_SIZE)?;
        let Ok(address) = self.allocate_addresses(both, PAGE_SIZE) else {
            self.free_physical(physical, size);
            return Err(OutOfMemory);
        };
        let pages = Twice { address, physical, size };
        for copy in [address, address + size] {
            if self.table.map(&mut self.space, copy, physical, size, Access::Write).is_err() {
                self.unmap_twice(&pages);
                return Err(OutOfMemory);
            }
        }
        Ok(pages)
    }

    /// Unmaps both copies, or what there is of them, and frees the memory.
    pub(super) fn unmap_twice(&mut self, &Twice { address, physical, size }: &Twice) {
        let both = AddressRange { start: address, end: address + 2 * size };
        // Fails only if the platform has no memory to note a hole: then all stays, as if it were still in use.
        if self.table.unmap(&mut self.space, address, both.size(), &mut |_| ()).is_err() {
            return;
        }
        let mut leaving = Leaving::new(self.space.direct_map);
        leaving.add(physical, size);
        self.flush(leaving);
        // If they are in too many pieces, they are lost: there are more.
        let _: Result<(), FreeError> = self.addresses.free(both);
    }

    /// Puts fresh memory at addresses that [`Self::allocate_addresses`] returned, in large pages where they fit.
    pub(super) fn map_region(&mut self, address: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        self.check_reserve(size)?;
        let mut done = 0;
        while done < size {
            match self.map_next(address + done, size - done, access) {
                Ok(page_size) => done += page_size,
                Err(error) => {
                    self.unmap_and_free(core::iter::once((address, done)));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Puts a fresh page at an address, a large one if that fits; returns its size.
    fn map_next(&mut self, address: u64, size: u64, access: Access) -> Result<u64, OutOfMemory> {
        let large = address.is_multiple_of(LARGE_PAGE_SIZE) && size >= LARGE_PAGE_SIZE;
        let (page, page_size) = match large.then(|| self.space.take_large_page()).flatten() {
            Some(page) => (page, LARGE_PAGE_SIZE),
            None => (self.space.take_page(&mut self.table)?, PAGE_SIZE),
        };
        if self.table.map(&mut self.space, address, page, page_size, access).is_err() {
            self.space.release(AddressRange { start: page, end: page + page_size });
            return Err(OutOfMemory);
        }
        Ok(page_size)
    }

    /// Changes what may be done with all of a range.
    pub(super) fn protect(&mut self, address: u64, size: u64, access: Access) -> Result<(), PagingError> {
        let result = self.table.protect(&mut self.space, address, size, access);
        self.flush(Leaving::new(self.space.direct_map));
        result
    }

    /// Unmaps what is mapped of ranges, given by start and size, and frees the memory.
    pub(super) fn unmap_and_free(&mut self, ranges: impl Iterator<Item = (u64, u64)>) {
        let mut leaving = Leaving::new(self.space.direct_map);
        for (address, size) in ranges {
            // Fails only if a large page must be split, for want of memory: then all stays.
            let _: Result<(), PagingError> =
                self.table.unmap(&mut self.space, address, size, &mut |page: MappedPage| {
                    leaving.add(page.physical, page.size);
                });
        }
        self.flush(leaving);
    }

    /// Makes all processors forget what was unmapped, and frees it.
    fn flush(&mut self, mut leaving: Leaving) {
        platform::current().forget_mappings();
        self.space.free_leaving(&mut leaving);
    }

    /// Maps pages of device registers and returns their address.
    pub(super) fn map_device(&mut self, physical: u64, size: u64) -> Result<u64, OutOfMemory> {
        let address = self.allocate_addresses(size, PAGE_SIZE)?;
        let attributes = PageAttributes { access: Access::Write, memory_type: MemoryType::Uncacheable };
        self.table.map(&mut self.space, address, physical, size, attributes).map_err(|_| OutOfMemory)?;
        Ok(address)
    }

    /// The physical address behind what [`Self::allocate`] returned.
    pub(super) fn physical(&self, address: u64) -> u64 {
        self.space.direct_map.physical(address)
    }

    /// Unmaps the page at an address of the image, for good.
    pub(super) fn unmap(&mut self, address: u64) {
        // The page is small, so nothing need be split.
        let _: Result<(), PagingError> = self.table.unmap(&mut self.space, address, PAGE_SIZE, &mut |_| ());
        self.flush(Leaving::new(self.space.direct_map));
    }

    /// Makes the page on which other processors start.
    pub(super) fn make_start_page(
        &mut self,
        code: impl FnOnce(&StartPage) -> [u8; 4096],
    ) -> Option<StartPage> {
        let page = StartPage { physical: self.space.take_low_page()?, root: self.table.root() };
        self.space.direct_map.write(page.physical, &code(&page));
        let mapped =
            self.table.map(&mut self.space, page.physical, page.physical, PAGE_SIZE, Access::Execute);
        mapped.is_ok().then_some(page)
    }

    /// Copies from physical memory, which is mapped at its place if it is not yet; `false` if there is no such memory.
    pub(super) fn read_physical(&mut self, physical: u64, bytes: &mut [u8]) -> bool {
        let Some(end) = physical.checked_add(bytes.len() as u64).filter(|&end| end <= READABLE) else {
            return false;
        };
        let first = physical / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE;
        for page in (first..end).step_by(to_usize(LARGE_PAGE_SIZE)) {
            let address = self.space.direct_map.address(page);
            match self.table.map(&mut self.space, address, page, LARGE_PAGE_SIZE, Access::Write) {
                Ok(()) | Err(PagingError::AlreadyMapped) => {}
                Err(_) => return false,
            }
        }
        self.space.direct_map.read(physical, bytes);
        true
    }
}
