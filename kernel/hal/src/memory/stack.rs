//! Stacks of threads: addresses above a guard page that is never mapped.
//!
//! Each stack has a slot, which is a range of addresses, and grows by page faults: a page gets memory when it
//! is first touched. A fault maps as many bytes as the stack already uses, within limits, so that a large
//! stack needs few faults. A freed stack keeps its memory for the next thread, because unmapping would flush
//! the TLBs of all CPUs. When too many free stacks have memory, all of them are unmapped together.

use core::ptr::with_exposed_provenance;

use hermit_interface::address::{AddressRange, PAGE_SIZE};
use hermit_interface::to_usize;
use hermit_memory::stack_slots::{self, FreeSlots, NoSlot, SlotTable, StackBounds, StackSlot};

use super::stack_area::{SLOTS, find};
use super::{OutOfMemory, fresh, paging};
use crate::arch::stacks;
use crate::sync::SpinLock;

/// Maximum number of bytes by which a stack grows in one page fault.
const MAX_GROWTH: u64 = 64 << 10;

/// Maximum number of free slots that keep their memory. They are unmapped together, because each unmapping
/// flushes the TLBs of all CPUs.
const MAX_DIRTY: usize = 64;

/// Free slots without memory.
static CLEAN: SpinLock<FreeSlots> = SpinLock::new(FreeSlots::new());

/// Free slots that still have the memory of their last threads.
static DIRTY: SpinLock<heapless::Vec<StackSlot, MAX_DIRTY>> = SpinLock::new(heapless::Vec::new());

/// The stack of a thread.
#[derive(Debug)]
pub struct Stack {
    slot: StackSlot,
}

/// Addresses of the stack to which an address belongs. The lowest addresses may have no memory yet.
#[must_use]
pub fn containing(address: u64) -> Option<AddressRange> {
    let bounds = find(address)?;
    Some(AddressRange { start: bounds.bottom, end: bounds.top })
}

/// Reserves `size` bytes of addresses for all stacks.
pub(super) fn init(size: u64) -> Result<(), OutOfMemory> {
    SLOTS.init(paging::with(|memory| memory.allocate_addresses(size, SlotTable::ALIGN))?, size);
    Ok(())
}

impl Stack {
    /// Allocates a stack of at least `size` bytes. At first, only its topmost page has memory.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn new(size: usize) -> Result<Self, OutOfMemory> {
        let size = stack_slots::size_for(size as u64).ok_or(OutOfMemory)?;
        let stack = Self { slot: take(size)? };
        // If this fails, dropping the stack frees the slot.
        fresh::map_first_stack_page(stack.top() - PAGE_SIZE)?;
        Ok(stack)
    }

    /// Returns true if [`Self::new`] would make a stack of the same size for `wanted` bytes.
    pub(crate) const fn fits(&self, wanted: usize) -> bool {
        stack_slots::is_size_for(self.slot.size, wanted as u64)
    }

    /// Size of the stack in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        to_usize(stack_slots::stack_size(self.slot.size))
    }

    /// The address just above the stack.
    #[must_use]
    pub fn top(&self) -> u64 {
        self.bounds().top
    }

    fn bounds(&self) -> StackBounds {
        SLOTS.bounds(self.slot)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let full = DIRTY.lock().push(self.slot).err();
        if let Some(slot) = full {
            reclaim();
            // The list has room now, unless other CPUs have filled it meanwhile. In that case the addresses
            // of the slot are lost, but its memory is freed.
            let lost = DIRTY.lock().push(slot).err();
            lost.into_iter().for_each(|slot| unmap(core::iter::once(slot)));
        }
    }
}

/// Unmaps the stacks in slots.
fn unmap(slots: impl Iterator<Item = StackSlot>) {
    let ranges =
        slots.map(|slot| SLOTS.bounds(slot)).map(|bounds| (bounds.bottom, bounds.top - bounds.bottom));
    paging::unmap_and_free(ranges);
}

/// Held while the memory of free stacks moves to the free frames. A CPU without memory waits for this lock
/// instead of finding nothing to reclaim. It is taken before the locks of free slots and the memory lock.
/// CPUs that wait for this lock respond to TLB flush requests.
static RECLAIMING: SpinLock<()> = SpinLock::new(());

/// Frees the memory of all free stacks.
pub(super) fn reclaim() {
    let _reclaiming = RECLAIMING.lock();
    let dirty = core::mem::take(&mut *DIRTY.lock());
    if dirty.is_empty() {
        return;
    }
    unmap(dirty.iter().copied());
    let mut clean = CLEAN.lock();
    dirty.into_iter().for_each(|slot| clean.free(&SLOTS, slot));
}

/// Takes a free slot of a size. The slot has memory only if its last thread has left some.
fn take(size: usize) -> Result<StackSlot, OutOfMemory> {
    if let Some(slot) = take_dirty(size) {
        return Ok(slot);
    }
    let slot = CLEAN.lock().take(&SLOTS, size);
    let slot = slot.or_else(|NoSlot| {
        // Addresses of free slots of other sizes can be used, too, once these slots have no memory.
        reclaim();
        let mut clean = CLEAN.lock();
        clean.remove_unused(&SLOTS);
        clean.take(&SLOTS, size)
    });
    // Another CPU may have freed a slot meanwhile.
    slot.or_else(|NoSlot| take_dirty(size).ok_or(OutOfMemory))
}

/// Takes a slot of a size with the memory of its last thread.
fn take_dirty(size: usize) -> Option<StackSlot> {
    let mut dirty = DIRTY.lock();
    let index = dirty.iter().rposition(|slot| slot.size == size)?;
    Some(dirty.swap_remove(index))
}

/// Returns true if an address belongs to a stack or to its guard page.
pub(crate) fn contains(address: u64) -> bool {
    find(address).is_some()
}

/// Returns true if an address is in the guard page of a stack.
pub(crate) fn is_guard(address: u64) -> bool {
    find(address).map_or_else(|| stacks::is_guard(address), |bounds| address < bounds.bottom)
}

/// Maps memory at an address of a stack. Called by the page fault handler.
///
/// # Errors
///
/// [`OutOfMemory`] if there is no memory, or if the address belongs to no stack.
pub(crate) fn extend(address: u64) -> Result<(), OutOfMemory> {
    match find(address) {
        Some(bounds) if address >= bounds.bottom => {
            let page = address & !(PAGE_SIZE - 1);
            let size = growth(bounds, page);
            let block = fresh::map_block(page + PAGE_SIZE - size, size);
            // If there is no memory for all of them, or if a part is already mapped, maps only the page of
            // the fault.
            block.or_else(|_| fresh::map_stack_page(page))
        }
        _ => Err(OutOfMemory),
    }
}

/// Number of bytes that a page fault in `page` maps, from the end of this page downwards: as many bytes as
/// the stack uses above the page, within limits. So each fault doubles the mapped size, until each fault maps
/// [`MAX_GROWTH`].
fn growth(bounds: StackBounds, page: u64) -> u64 {
    let used = bounds.top.saturating_sub(page + PAGE_SIZE).clamp(PAGE_SIZE, MAX_GROWTH);
    let room = page + PAGE_SIZE - bounds.bottom;
    (1 << used.ilog2()).min(room)
}

/// Size of a frame record in bytes: two words.
const RECORD_SIZE: u64 = 16;

/// Reads a frame record: the caller's frame pointer, and the return address. Returns `None` if the record is
/// neither in the mapped part of a thread's stack nor in a stack of the kernel.
pub(crate) fn read_frame(frame: u64) -> Option<(u64, u64)> {
    if !frame.is_multiple_of(8) {
        return None;
    }
    let mapped = match find(frame) {
        // Checks both ends of the record: pages of a stack may be unmapped even if lower pages are mapped.
        Some(bounds) => {
            let is_inside = frame >= bounds.bottom && frame + RECORD_SIZE <= bounds.top;
            is_inside && paging::is_mapped(frame) && paging::is_mapped(frame + RECORD_SIZE - 1)
        }
        None => stacks::contains(frame) && stacks::contains(frame + RECORD_SIZE - 1),
    };
    if !mapped {
        return None;
    }
    let record = with_exposed_provenance::<[u64; 2]>(to_usize(frame));
    // SAFETY: the record lies in a stack, and its first and last byte are mapped (checked), so all of it is:
    // it is shorter than a page. It is aligned to eight bytes (checked), as its words must be, and any bits
    // are integers.
    let [next, return_address] = unsafe { record.read_volatile() };
    Some((next, return_address))
}
