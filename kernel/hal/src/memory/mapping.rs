//! Memory in whole pages for programs (`mmap`).

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_memory::ranges::{FreeError, RangeList, Ranges};
use hermit_paging::PagingError;

pub use hermit_paging::Access;

use super::fresh::Contents;
use super::{OutOfMemory, fresh, host_return, paging, reserve_addresses};
use crate::once::Once;
use crate::sync::SpinLock;

/// All addresses for mappings.
static ALL: Once<AddressRange> = Once::new();

/// The free addresses for mappings. `None` before the first mapping.
static FREE: SpinLock<Option<Ranges<RangeVec>>> = SpinLock::new(None);

/// A list of ranges that grows.
#[derive(Debug)]
struct RangeVec(Vec<AddressRange>);

impl Deref for RangeVec {
    type Target = [AddressRange];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for RangeVec {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl RangeList for RangeVec {
    fn insert(&mut self, index: usize, range: AddressRange) -> Result<(), FreeError> {
        // The caller holds a spinlock, so this does not wait for memory to be reclaimed.
        self.0.try_reserve(1).map_err(|_| FreeError::TableFull)?;
        self.0.insert(index, range);
        Ok(())
    }

    fn remove(&mut self, index: usize) -> AddressRange {
        self.0.remove(index)
    }
}

/// Reason why a mapping cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingError {
    /// A part of the range is not mapped, or the range is not page-aligned or not inside of the addresses for
    /// mappings.
    NotMapped,
    /// There is no memory for page tables.
    OutOfMemory,
}

impl From<PagingError> for MappingError {
    fn from(error: PagingError) -> Self {
        if error == PagingError::OutOfMemory { Self::OutOfMemory } else { Self::NotMapped }
    }
}

/// Reserves `size` bytes of addresses for mappings.
pub(super) fn init(size: u64) -> Result<(), OutOfMemory> {
    let size = size & !(PAGE_SIZE - 1);
    let start = reserve_addresses(size)?;
    ALL.call_once(|| AddressRange { start, end: start + size });
    Ok(())
}

/// Allocates addresses, aligned for large pages where they fit.
fn take(size: u64) -> Result<u64, OutOfMemory> {
    let mut free = FREE.lock();
    if free.is_none() {
        let mut all = Ranges::with_list(RangeVec(Vec::new()));
        all.free(*ALL.get().ok_or(OutOfMemory)?).map_err(|_| OutOfMemory)?;
        *free = Some(all);
    }
    let free = free.as_mut().ok_or(OutOfMemory)?;
    let align = if size < LARGE_PAGE_SIZE { PAGE_SIZE } else { LARGE_PAGE_SIZE };
    let aligned = free.allocate(size, align);
    aligned.or_else(|| free.allocate(size, PAGE_SIZE)).ok_or(OutOfMemory)
}

/// Allocates addresses that are aligned like `address` for large pages.
pub(super) fn take_like(address: u64, size: u64) -> Result<u64, OutOfMemory> {
    let offset = address % LARGE_PAGE_SIZE;
    let space = size.checked_add(LARGE_PAGE_SIZE).ok_or(OutOfMemory)?;
    let first = take(space)?;
    let start = first.next_multiple_of(LARGE_PAGE_SIZE) + offset;
    // If the large page is not free, the addresses are only aligned to pages.
    let start = if start + size <= first + space { start } else { first };
    give_back(first, start - first);
    give_back(start + size, first + space - start - size);
    Ok(start)
}

/// Allocates `size` bytes of addresses at `start`. Returns false if they are not all free.
pub(super) fn take_at(start: u64, size: u64) -> bool {
    let Some(end) = start.checked_add(size) else { return false };
    let mut free = FREE.lock();
    let Some(free) = free.as_mut() else { return false };
    let is_free = free.as_slice().iter().any(|range| range.start <= start && end <= range.end);
    is_free && free.remove(AddressRange { start, end }).is_ok()
}

/// True if an address is one of those for mappings.
pub(super) fn contains(address: u64) -> bool {
    ALL.get().is_some_and(|all| (all.start..all.end).contains(&address))
}

/// Frees addresses at which no memory is mapped any more.
pub(super) fn give_back(start: u64, size: u64) {
    let give_back = || match FREE.lock().as_mut() {
        Some(free) => free.free(AddressRange { start, end: start + size }),
        None => Ok(()),
    };
    // A free range between two mappings makes the list longer. If there is no memory for the longer list even
    // after a reclaim, the addresses are lost.
    let _: Result<(), FreeError> = give_back().or_else(|_| {
        super::reclaim();
        give_back()
    });
}

/// Maps fresh memory of `size` bytes, rounded up to whole pages and filled with zero. Returns the address.
///
/// # Errors
///
/// [`OutOfMemory`].
pub fn map(size: u64, access: Access) -> Result<u64, OutOfMemory> {
    map_with(size, access, Contents::Zero)
}

/// Maps memory as [`map`] does, with these contents.
pub(super) fn map_with(size: u64, access: Access, contents: Contents) -> Result<u64, OutOfMemory> {
    let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or(OutOfMemory)?;
    let start = take(size)?;
    let map = || fresh::map(start, size, access, contents);
    let mapped = map().or_else(|_| {
        reclaim();
        map()
    });
    if mapped.is_err() {
        give_back(start, size);
    }
    mapped.map(|()| start)
}

/// Frees the page tables that [`unmap`] has left empty.
pub(super) fn reclaim() {
    // While the lock is held, no address leaves the list, so nothing is mapped at free addresses.
    if let Some(free) = FREE.lock().as_ref() {
        let free = free.as_slice().iter().map(|range| (range.start, range.size()));
        paging::with(|memory| memory.free_empty_tables(free));
    }
}

/// Rounds the size up to whole pages, and checks that the range is inside of the addresses for mappings.
fn checked_size(start: u64, size: u64) -> Result<u64, MappingError> {
    let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or(MappingError::NotMapped)?;
    let end = start.checked_add(size).ok_or(MappingError::NotMapped)?;
    let is_inside = ALL.get().is_some_and(|all| all.start <= start && end <= all.end);
    if size == 0 || !start.is_multiple_of(PAGE_SIZE) || !is_inside {
        return Err(MappingError::NotMapped);
    }
    Ok(size)
}

/// Changes the access to a range of mappings.
///
/// # Errors
///
/// See [`MappingError`]. With `NotMapped` nothing has changed. With `OutOfMemory` the access to a part may
/// have changed.
pub fn protect(start: u64, size: u64, access: Access) -> Result<(), MappingError> {
    Ok(paging::protect(start, checked_size(start, size)?, access)?)
}

/// Unmaps a range of mappings.
///
/// # Errors
///
/// See [`MappingError`]. After an error the range stays mapped.
///
/// # Safety
///
/// Nothing may use the memory of the range any more.
pub unsafe fn unmap(start: u64, size: u64) -> Result<(), MappingError> {
    let size = checked_size(start, size)?;
    paging::unmap_pages(start, size)?;
    give_back(start, size);
    host_return::notify();
    Ok(())
}
