//! Memory: frames, address space, the heap, stacks, thread-local storage.
//!
//! All memory is allocated by page frames (`physical`) under one lock, the memory lock (`paging`). The heap
//! uses frames through the direct map, which maps all physical memory at fixed addresses. Stacks and mappings
//! of programs have reserved addresses of their own, at which frames are mapped. The part of the direct map
//! that the loader has not mapped is mapped at its first use, so nothing here costs more on a machine with
//! more memory.

mod address_space;
mod device_space;
mod fresh;
mod heap;
mod host_return;
mod large;
pub(crate) mod lazy;
pub mod mapping;
mod paging;
mod permanent;
mod physical;
pub mod stack;
mod stack_area;
mod thread_locals;

use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

use hermit_firmware::PhysicalMemory;
use hermit_interface::address::{AddressRange, PAGE_SIZE};
use hermit_interface::boot_info::{ImagePlacement, Parsed, Tls};
use hermit_interface::to_usize;

pub(crate) use heap::join as join_heap;
pub use heap::{
    allocate, allocate_zeroed, deallocate, drain_if_requested, has_free_block, heap_available,
    heap_lock_count, reallocate, set_reclaim,
};
pub use host_return::{Reported, TakenMemory, is_return_due, return_freed, set_return_hook};
pub use stack::Stack;
pub use thread_locals::ThreadLocals;

pub use crate::fallible::OutOfMemory;
pub use hermit_paging::Access;
pub use paging::RESERVE;
pub use permanent::{leak, leak_slice};

use crate::arch::{copy, stacks};
use crate::once::Once;
use crate::ops;
use device_space::DeviceSpace;
use fresh::Contents;
use paging::MemoryState;

static TLS: Once<Tls> = Once::new();
static IMAGE: Once<ImagePlacement> = Once::new();

/// Part of the kernel's own addresses that is for stacks, as numerator and denominator.
const STACKS_PART: (u64, u64) = (2, 3);

/// Divisor that gives the part of the kernel's own addresses for mappings of programs. The rest is for stacks
/// of other CPUs, mirrored mappings and device registers.
const MAPPINGS_DIVISOR: u64 = 6;

/// Takes over the page tables and the free memory.
pub(crate) fn init(info: &Parsed<'_>) -> Result<(), OutOfMemory> {
    TLS.call_once(|| info.fixed.tls);
    IMAGE.call_once(|| info.fixed.image);
    DEVICE_SPACE.call_once(|| DeviceSpace::of(info));
    // SAFETY: the loader's contract (`hermit_interface::boot_info`) says where memory is mapped and which
    // memory is free, and this runs once.
    unsafe { paging::init(info) };
    paging::with(|memory| {
        memory.unmap_loader();
        stacks::of_first().for_each(|stack| memory.unmap(stack.guard));
    });
    let size = info.fixed.free_addresses.size;
    stack::init(size / STACKS_PART.1 * STACKS_PART.0)?;
    mapping::init(size / MAPPINGS_DIVISOR)?;
    ops::mmu().init_mappings()
}

/// Frees memory that is kept for reuse: memory of free stacks, empty page tables, the rest of the region for
/// permanent values, and the free blocks of all CPUs' lists. Waits for the other CPUs' lists unless
/// interrupts are masked.
pub fn reclaim() {
    stack::reclaim();
    mapping::reclaim();
    permanent::reclaim();
    heap::drain_all();
}

/// Physical memory that was free when the kernel started, in bytes.
#[must_use]
pub fn size() -> u64 {
    paging::with(|memory| memory.size())
}

/// Free physical memory in bytes.
#[must_use]
pub fn available() -> u64 {
    paging::with(|memory| memory.available())
}

/// Addresses at which physical memory is mapped, as far as it was ever used. The heap is within them.
#[must_use]
pub fn direct_mapping() -> AddressRange {
    paging::with(|memory| memory.direct_mapping())
}

/// Reserves addresses without memory, permanently. Returns the first address.
pub(crate) fn reserve_addresses(size: u64) -> Result<u64, OutOfMemory> {
    paging::with(|memory| memory.allocate_addresses(size, PAGE_SIZE))
}

/// Maps memory at reserved addresses for a kernel stack, which does not grow by page faults.
pub(crate) fn map_kernel_stack(address: u64, size: u64) -> Result<(), OutOfMemory> {
    fresh::map(address, size, Access::Write, Contents::Zero)
}

/// Allocates the trampoline of secondary CPUs: a page below
/// [`TRAMPOLINE_LIMIT`](crate::arch::startup::TRAMPOLINE_LIMIT) that is executable at its physical address.
/// `code` makes its contents, given this address and that of the root of the page tables. Returns the
/// physical address, or `None` if there is no such page.
pub(crate) fn trampoline_page(code: impl FnOnce(u64, u64) -> Option<[u8; 4096]>) -> Option<u64> {
    paging::with(|memory| memory.map_trampoline(code))
}

/// Reader of physical memory through the direct map, for the firmware's tables.
#[derive(Debug)]
pub(crate) struct PhysicalReader;

impl PhysicalMemory for PhysicalReader {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        paging::with(|memory| memory.read_physical(address, bytes))
    }
}

/// Maps device registers permanently. Returns `None` if there may be memory at these physical addresses.
///
/// # Errors
///
/// There is no memory for the page tables.
pub(crate) fn map_registers(physical: u64, size: u64) -> Result<Option<NonNull<u8>>, OutOfMemory> {
    let end = physical.checked_add(size).filter(|&end| end <= MAX_PHYSICAL && size > 0);
    let is_device = |end| DEVICE_SPACE.get().is_some_and(|space| space.contains(physical, end));
    let Some(end) = end.filter(|&end| is_device(end)) else { return Ok(None) };
    let first = physical & !(PAGE_SIZE - 1);
    let pages = end.next_multiple_of(PAGE_SIZE) - first;
    let address = paging::with(|memory| memory.map_device(first, pages))? + (physical - first);
    Ok(NonNull::new(with_exposed_provenance_mut(to_usize(address))))
}

/// Allocates physically contiguous pages; returns their address and their physical address.
pub(crate) fn allocate_pages(size: u64) -> Result<(u64, u64), OutOfMemory> {
    paging::with(|memory| {
        let address = memory.allocate(size, PAGE_SIZE)?;
        Ok((address, memory.physical(address)))
    })
}

/// Frees pages of [`allocate_pages`].
pub(crate) fn free_pages(address: u64, size: u64) {
    paging::with(|memory| memory.free(address, size));
}

/// Physically contiguous pages that are mapped twice in a row.
#[derive(Debug)]
pub(crate) struct MirroredMapping {
    /// Address of the first mapping. The second one follows it directly.
    pub(crate) address: u64,
    /// Physical address.
    pub(crate) physical: u64,
    /// Size of one mapping in bytes.
    pub(crate) size: u64,
}

/// Allocates physically contiguous pages with arbitrary contents, and maps them twice in a row.
pub(crate) fn map_mirrored(size: u64) -> Result<MirroredMapping, OutOfMemory> {
    paging::with(|memory| memory.map_mirrored(size))
}

/// Unmaps and frees a mapping of [`map_mirrored`].
///
/// # Safety
///
/// Nothing may use the memory any more.
pub(crate) unsafe fn unmap_mirrored(mapping: &MirroredMapping) {
    paging::with(|memory| memory.unmap_mirrored(mapping));
}

/// End of the physical addresses that page tables can express.
const MAX_PHYSICAL: u64 = 1 << 52;

static DEVICE_SPACE: Once<DeviceSpace> = Once::new();

/// A page to which the hypervisor writes. Its bytes are only ever copied; no reference to them exists.
#[derive(Debug)]
pub(crate) struct HostPage(u64);

impl HostPage {
    /// Allocates a page, filled with zero.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        paging::with(MemoryState::take_page).map(Self)
    }

    /// Physical address of the page.
    pub(crate) fn physical(&self) -> u64 {
        self.0
    }

    /// Copies bytes at an offset.
    pub(crate) fn read<const SIZE: usize>(&self, offset: usize) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        PhysicalReader.read(self.0 + offset as u64, &mut bytes);
        bytes
    }
}

impl Drop for HostPage {
    fn drop(&mut self) {
        paging::with(|memory| memory.free_physical(self.0, PAGE_SIZE));
    }
}

/// Copies at most a page of the image's bytes, beginning at `address`. Returns false if not all of them are
/// in mapped parts of the image.
#[inline(never)]
pub fn read_image(address: u64, bytes: &mut [u8]) -> bool {
    let (image, size) = (image(), bytes.len() as u64);
    let Some(offset) = address.checked_sub(image.start) else { return false };
    let is_inside = offset < image.size && (1..=PAGE_SIZE.min(image.size - offset)).contains(&size);
    if !is_inside || !paging::is_mapped(address) || !paging::is_mapped(address + size - 1) {
        return false;
    }
    let from = with_exposed_provenance(to_usize(address));
    // SAFETY: the first and the last byte are mapped (checked), and the others are in the same one or two
    // pages; the image stays mapped as long as the machine runs. The destination is an exclusively borrowed
    // slice of this length.
    unsafe { copy::copy(from, bytes.as_mut_ptr(), bytes.len()) };
    true
}

/// A part of the image whose pages have the same access, or [`Access::None`] where nothing is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePart {
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Access that the pages allow.
    pub access: Access,
}

/// The part of the image that begins at an address; `None` beyond the end of the image.
#[must_use]
pub fn image_part(start: u64) -> Option<ImagePart> {
    let image = image();
    if !(image.start..image.start + image.size).contains(&start) {
        return None;
    }
    let pages = (start..image.start + image.size).step_by(to_usize(PAGE_SIZE));
    let mut accesses = pages.map(|page| (page, paging::access(page)));
    let (_, access) = accesses.next()?;
    let end = accesses.find(|(_, other)| *other != access).map_or(image.start + image.size, |(page, _)| page);
    Some(ImagePart { start, end, access })
}

/// Addresses of the image.
#[must_use]
pub fn image() -> ImagePlacement {
    IMAGE.get().copied().unwrap_or_default()
}
