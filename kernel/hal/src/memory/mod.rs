//! Memory: frames, addresses, the heap, stacks, thread-local storage.
//!
//! Physical memory is handed out in ranges of frames. What the loader has not mapped yet of it is mapped when it
//! is first used, so nothing here costs more on a machine with more memory.

mod address_space;
mod cache;
mod heap;
mod large;
pub mod mapping;
mod paging;
pub(crate) mod shootdown;
mod space;
pub mod stack;
mod thread_locals;

use alloc::vec::Vec;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use hermit_firmware::PhysicalMemory;
use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_info::{Image, Parsed, Tls};
use hermit_interface::to_usize;
use hermit_paging::Access;
use spin::Once;

pub(crate) use cache::Caches;
pub use heap::{allocate, allocate_zeroed, deallocate, heap_lock_count, reallocate, set_reclaim};
pub use stack::Stack;
pub use thread_locals::ThreadLocals;

use crate::arch::stacks;
use paging::Memory;

static TLS: Once<Tls> = Once::new();
static IMAGE: Once<Image> = Once::new();

/// There is not enough memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Takes over the page tables and the free memory.
pub(crate) fn init(info: &Parsed<'_>) {
    TLS.call_once(|| info.fixed.tls);
    IMAGE.call_once(|| info.fixed.image);
    MEMORY_ENDS.call_once(|| memory_ends(info));
    // SAFETY: the loader's contract (`hermit_interface::boot_info`) says what is mapped where and what is free,
    // and this runs once.
    unsafe { paging::init(info) };
    paging::with(|memory| {
        memory.forget_loader();
        stacks::of_first().for_each(|stack| memory.unmap(stack.guard));
    });
    if stack::init().is_err() {
        crate::exit::without_platform();
    }
}

/// Gives back what is kept for later: memory of stacks that nobody uses, and this CPU's free blocks of the heap.
pub fn reclaim() {
    stack::take_memory();
    heap::drain_cache();
}

/// How many bytes of memory nobody has.
#[must_use]
pub fn available() -> u64 {
    paging::with(|memory| memory.available())
}

/// Puts a value into memory for ever; `None` if there is none.
pub fn leak<T>(value: T) -> Option<&'static T> {
    let mut place = Vec::new();
    place.try_reserve_exact(1).ok()?;
    place.push(value);
    place.leak().first()
}

/// Takes addresses for good.
pub(crate) fn reserve_addresses(size: u64) -> Result<u64, OutOfMemory> {
    paging::with(|memory| memory.allocate_addresses(size, PAGE_SIZE))
}

/// Puts memory behind addresses of a stack of the kernel, all of which must be there from the start.
pub(crate) fn map_kernel_stack(address: u64, size: u64) -> Result<(), OutOfMemory> {
    paging::with(|memory| memory.map_region(address, size, Access::Write))
}

/// Where other CPUs start: a page below 1 MiB that holds `code`, which is executable at its physical address.
pub(crate) struct StartPage {
    /// Its physical address.
    pub(crate) physical: u64,
    /// The physical address of the page tables' root.
    pub(crate) root: u64,
}

/// Makes a [`StartPage`] with what `code` returns for its address; `None` if there is no such page.
pub(crate) fn start_page(code: impl FnOnce(&StartPage) -> [u8; 4096]) -> Option<StartPage> {
    paging::with(|memory| memory.make_start_page(code))
}

/// Reads physical memory that the direct map has; for tables of the firmware.
#[derive(Debug)]
pub(crate) struct Physical;

impl PhysicalMemory for Physical {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        paging::with(|memory| memory.read_physical(address, bytes))
    }
}

/// Maps a page of device registers, for good.
pub(crate) fn map_device_page(physical: u64) -> Result<NonNull<u32>, OutOfMemory> {
    let address = paging::with(|memory: &mut Memory| memory.map_device(physical, PAGE_SIZE))?;
    NonNull::new(with_exposed_provenance_mut(to_usize(address))).ok_or(OutOfMemory)
}

/// Maps the registers of a device, for good; there must be no memory at their addresses.
pub(crate) fn map_registers(physical: u64, size: u64) -> Result<NonNull<u8>, OutOfMemory> {
    let end = physical.checked_add(size).filter(|&end| end <= MAX_PHYSICAL && size > 0).ok_or(OutOfMemory)?;
    if !is_device(physical, end) {
        return Err(OutOfMemory);
    }
    let first = physical & !(PAGE_SIZE - 1);
    let pages = end.next_multiple_of(PAGE_SIZE) - first;
    let address = paging::with(|memory| memory.map_device(first, pages))? + (physical - first);
    NonNull::new(with_exposed_provenance_mut(to_usize(address))).ok_or(OutOfMemory)
}

/// Takes whole pages in one piece, mapped; returns their address and the physical one.
pub(crate) fn allocate_pages(size: u64) -> Result<(u64, u64), OutOfMemory> {
    paging::with(|memory| {
        let address = memory.allocate(size, PAGE_SIZE)?;
        Ok((address, memory.physical(address)))
    })
}

/// Frees what [`allocate_pages`] returned.
pub(crate) fn free_pages(address: u64, size: u64) {
    paging::with(|memory| memory.free(address, size));
}

/// Pages in one piece that are mapped twice in a row.
#[derive(Debug)]
pub(crate) struct Twice {
    /// Where the first copy is; the second one is right behind it.
    pub(crate) address: u64,
    /// Where the memory is.
    pub(crate) physical: u64,
    /// Bytes of one copy.
    pub(crate) size: u64,
}

/// Takes whole pages in one piece, whatever is in them, and maps them twice.
pub(crate) fn map_twice(size: u64) -> Result<Twice, OutOfMemory> {
    paging::with(|memory| memory.map_twice(size))
}

/// Unmaps and frees what [`map_twice`] returned.
///
/// # Safety
///
/// Nothing may use the memory any more.
pub(crate) unsafe fn unmap_twice(pages: &Twice) {
    paging::with(|memory| memory.unmap_twice(pages));
}

/// Processors have no more physical addresses.
const MAX_PHYSICAL: u64 = 1 << 52;

/// Where a PC's devices are below the memory that does not fit there.
const DEVICES_END: u64 = 4 << 30;

/// Where memory ends below [`DEVICES_END`], and where it ends at all.
static MEMORY_ENDS: Once<(u64, u64)> = Once::new();

fn memory_ends(info: &Parsed<'_>) -> (u64, u64) {
    let end =
        |limit| info.regions.iter().filter(|region| region.start < limit).map(|region| region.end()).max();
    (end(DEVICES_END).unwrap_or_default(), end(u64::MAX).unwrap_or_default())
}

/// Whether addresses are above all memory, or in the hole below 4 GiB.
fn is_device(start: u64, end: u64) -> bool {
    let Some(&(low, all)) = MEMORY_ENDS.get() else { return false };
    start >= all.max(DEVICES_END) || start >= low && end <= DEVICES_END
}

/// A page to which the host writes; only ever copied.
#[derive(Debug)]
pub(crate) struct HostPage(u64);

impl HostPage {
    /// A page, all zero.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        paging::with(Memory::take_page).map(Self)
    }

    /// Where it is in physical memory.
    pub(crate) fn physical(&self) -> u64 {
        self.0
    }

    /// Copies bytes from an offset on.
    pub(crate) fn read<const SIZE: usize>(&self, offset: usize) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        Physical.read(self.0 + offset as u64, &mut bytes);
        bytes
    }
}

impl Drop for HostPage {
    fn drop(&mut self) {
        paging::with(|memory| memory.free_physical(self.0, PAGE_SIZE));
    }
}

/// Where the image is.
#[must_use]
pub fn image() -> Image {
    IMAGE.get().copied().unwrap_or_default()
}

const _: () = assert!(stacks::STACK_TOP.is_multiple_of(4096), "a stack consists of whole pages");
