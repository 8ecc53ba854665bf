//! Memory in whole pages for programs (`mmap`).

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_memory::ranges::{FreeError, FreeRanges};
use hermit_paging::PagingError;

pub use hermit_paging::Access;

use super::paging;
use super::{OutOfMemory, reserve_addresses};
use crate::sync::SpinLock;

/// Bytes of addresses for mappings, which are reserved with the first one.
const ADDRESSES: u64 = 4 << 40;

/// Number of pieces that free addresses may be in.
const MAX_PIECES: usize = 512;

static SPACE: SpinLock<Option<MappingSpace>> = SpinLock::new(None);

/// The addresses for mappings, and those of them that are free.
#[derive(Debug)]
struct MappingSpace {
    all: AddressRange,
    free: FreeRanges<MAX_PIECES>,
}

/// Why a mapping cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingError {
    /// A part of it is not mapped, or it does not consist of whole pages.
    NotMapped,
    /// There is no memory for page tables.
    OutOfMemory,
}

impl From<PagingError> for MappingError {
    fn from(error: PagingError) -> Self {
        if error == PagingError::OutOfMemory { Self::OutOfMemory } else { Self::NotMapped }
    }
}

impl MappingSpace {
    fn new() -> Result<Self, OutOfMemory> {
        let start = reserve_addresses(ADDRESSES)?;
        let all = AddressRange { start, end: start + ADDRESSES };
        let mut free = FreeRanges::new();
        // An empty table has room for one range.
        let _: Result<(), FreeError> = free.free(all);
        Ok(Self { all, free })
    }

    fn take(&mut self, size: u64) -> Result<u64, OutOfMemory> {
        let align = if size < LARGE_PAGE_SIZE { PAGE_SIZE } else { LARGE_PAGE_SIZE };
        let aligned = self.free.allocate(size, align);
        aligned.or_else(|| self.free.allocate(size, PAGE_SIZE)).ok_or(OutOfMemory)
    }

    fn give_back(&mut self, start: u64, size: u64) {
        // Addresses in too many pieces are lost; there are enough others.
        let _: Result<(), FreeError> = self.free.free(AddressRange { start, end: start + size });
    }
}

/// Maps fresh memory of `size` bytes, rounded up to whole pages and filled with zero. Returns the address.
///
/// # Errors
///
/// [`OutOfMemory`].
pub fn map(size: u64, access: Access) -> Result<u64, OutOfMemory> {
    let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or(OutOfMemory)?;
    let mut space = SPACE.lock();
    if space.is_none() {
        *space = Some(MappingSpace::new()?);
    }
    let start = space.as_mut().ok_or(OutOfMemory)?.take(size)?;
    drop(space);
    let map = || {
        paging::with(|memory| memory.check_reserve(size))?;
        paging::map_fresh(start, size, access)
    };
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
    // Nothing is mapped at free addresses while the lock is held.
    if let Some(space) = SPACE.lock().as_ref() {
        let free = space.free.as_slice().iter().map(|range| (range.start, range.size()));
        paging::with(|memory| memory.free_empty_tables(free));
    }
}

fn give_back(start: u64, size: u64) {
    if let Some(space) = SPACE.lock().as_mut() {
        space.give_back(start, size);
    }
}

/// The size in whole pages, if the range is inside of the addresses for mappings.
fn checked_size(start: u64, size: u64) -> Result<u64, MappingError> {
    let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or(MappingError::NotMapped)?;
    let end = start.checked_add(size).ok_or(MappingError::NotMapped)?;
    let inside = |space: &MappingSpace| space.all.start <= start && end <= space.all.end;
    if size == 0 || !start.is_multiple_of(PAGE_SIZE) || !SPACE.lock().as_ref().is_some_and(inside) {
        return Err(MappingError::NotMapped);
    }
    Ok(size)
}

/// Changes the access to a range of mappings.
///
/// # Errors
///
/// See [`MappingError`]; then nothing has changed.
pub fn protect(start: u64, size: u64, access: Access) -> Result<(), MappingError> {
    Ok(paging::protect(start, checked_size(start, size)?, access)?)
}

/// Unmaps a range of mappings.
///
/// # Errors
///
/// See [`MappingError`]; then all is mapped as before.
///
/// # Safety
///
/// Nothing may use the memory of the range any more.
pub unsafe fn unmap(start: u64, size: u64) -> Result<(), MappingError> {
    let size = checked_size(start, size)?;
    paging::unmap_pages(start, size)?;
    give_back(start, size);
    Ok(())
}
