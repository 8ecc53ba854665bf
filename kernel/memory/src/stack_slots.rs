//! Virtual addresses of thread stacks.
//!
//! Stacks are in slots, whose sizes are powers of two. The first page of a slot is never mapped: it is the
//! guard page below the stack. The slots are in one region, which is divided into chunks of equal size. Each
//! chunk has slots of one size, or is a part of a larger slot. A table stores the slot size of each chunk. So
//! the page fault handler, for instance, finds the slot of an address without a lock. If all slots of a chunk
//! are free, the chunk can get slots of another size.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use hermit_interface::address::PAGE_SIZE;

#[cfg(feature = "alloc")]
mod free_slots;
#[cfg(feature = "alloc")]
pub use free_slots::{FreeSlots, NoSlot};

/// Binary logarithm of the smallest slot size in bytes.
const MIN_SHIFT: u32 = 14;
/// Binary logarithm of the largest slot size in bytes.
const MAX_SHIFT: u32 = 36;

/// Number of slot sizes.
pub const SIZES: usize = (MAX_SHIFT - MIN_SHIFT + 1) as usize;

/// Maximum number of chunks of a region.
const MAX_CHUNKS: usize = 1024;

/// A slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSlot {
    /// Index of the slot size.
    pub size: usize,
    /// Offset of the slot in the region, in bytes.
    pub offset: u64,
}

/// Addresses of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBounds {
    /// Start of the guard page.
    pub guard: u64,
    /// Lowest address of the stack.
    pub bottom: u64,
    /// First address above the stack.
    pub top: u64,
}

/// Index of the smallest slot size for a stack of `bytes` bytes and its guard page; `None` if no size is
/// large enough.
#[must_use]
pub fn size_for(bytes: u64) -> Option<usize> {
    let total = bytes.checked_next_multiple_of(PAGE_SIZE)?.checked_add(PAGE_SIZE)?;
    let exponent = total.checked_next_power_of_two()?.trailing_zeros().max(MIN_SHIFT);
    (exponent <= MAX_SHIFT).then_some((exponent - MIN_SHIFT) as usize)
}

/// Returns true if `size` is [`size_for`] a stack of `bytes` bytes.
#[must_use]
pub const fn is_size_for(size: usize, bytes: u64) -> bool {
    bytes <= stack_size(size) && (size == 0 || bytes > stack_size(size - 1))
}

/// Size in bytes of a stack in a slot. `size` is the index of the slot size.
#[must_use]
pub const fn stack_size(size: usize) -> u64 {
    slot_size(size) - PAGE_SIZE
}

/// Size in bytes of a slot.
const fn slot_size(size: usize) -> u64 {
    1 << (MIN_SHIFT as usize + size)
}

/// Use of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    /// Index of the size of its slots.
    size: usize,
    /// Number of its existing slots, which are at the start of the chunk.
    slots: u32,
}

impl Chunk {
    /// Number of bits of an entry that hold the size. The other bits hold the number of slots. An entry is 0
    /// exactly if its chunk is unused, since a chunk in use has a slot.
    const SIZE_BITS: u32 = 8;

    const fn from_entry(entry: u32) -> Self {
        Self { size: (entry % (1 << Self::SIZE_BITS)) as usize, slots: entry >> Self::SIZE_BITS }
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are fewer sizes than 8 bits express")]
    const fn entry(self) -> u32 {
        self.slots << Self::SIZE_BITS | self.size as u32
    }
}

/// The region of stacks: the table of its chunks.
///
/// [`SlotTable::find`] may be called at any time. The callers must ensure that the other methods do not run
/// concurrently.
#[derive(Debug)]
pub struct SlotTable {
    /// Address of the region; 0 before [`SlotTable::init`].
    start: AtomicU64,
    /// Binary logarithm of the size of a chunk in bytes.
    chunk_shift: AtomicU32,
    /// Number of chunks.
    chunks: AtomicU32,
    /// Entry of each chunk ([`Chunk::entry`]).
    entries: [AtomicU32; MAX_CHUNKS],
    /// For each slot size, the chunk in which the last new slot was made.
    last: [AtomicU32; SIZES],
}

impl Default for SlotTable {
    fn default() -> Self {
        Self::new()
    }
}

impl SlotTable {
    /// Alignment of a region in bytes. Slots then share their page tables with as few other addresses as
    /// possible.
    pub const ALIGN: u64 = 2 << 20;

    /// A table without a region.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            start: AtomicU64::new(0),
            chunk_shift: AtomicU32::new(0),
            chunks: AtomicU32::new(0),
            entries: [const { AtomicU32::new(0) }; MAX_CHUNKS],
            last: [const { AtomicU32::new(0) }; SIZES],
        }
    }

    /// Sets the region. It has no slots yet. The start is a multiple of [`Self::ALIGN`].
    pub fn init(&self, start: u64, size: u64) {
        let shift = size.div_ceil(MAX_CHUNKS as u64).next_power_of_two().trailing_zeros().max(MIN_SHIFT);
        self.chunk_shift.store(shift, Relaxed);
        // At most `MAX_CHUNKS`.
        self.chunks.store(u32::try_from(size >> shift).unwrap_or_default(), Relaxed);
        self.start.store(start, Relaxed);
    }

    /// The slot to which an address belongs, its guard page included.
    #[must_use]
    #[inline]
    pub fn find(&self, address: u64) -> Option<StackBounds> {
        let start = self.start.load(Relaxed);
        let offset = address.checked_sub(start).filter(|_| start != 0)?;
        let shift = self.chunk_shift.load(Relaxed);
        let entry = self.entries.get(usize::try_from(offset >> shift).ok()?)?.load(Relaxed);
        let chunk = Chunk::from_entry(entry);
        let slot_shift = MIN_SHIFT as usize + chunk.size;
        // 0 if the slot is larger than a chunk.
        let index = (offset & ((1 << shift) - 1)) >> slot_shift;
        let slot = StackSlot { size: chunk.size, offset: offset >> slot_shift << slot_shift };
        (index < u64::from(chunk.slots)).then(|| slot.bounds(start))
    }

    /// The addresses of a slot.
    #[must_use]
    pub fn bounds(&self, slot: StackSlot) -> StackBounds {
        slot.bounds(self.start.load(Relaxed))
    }

    /// Makes a new slot; `None` if there are no addresses for it.
    pub fn create(&self, size: usize) -> Option<StackSlot> {
        let shift = self.chunk_shift.load(Relaxed);
        let slots = (1_u64 << shift) / slot_size(size);
        if slots <= 1 {
            let chunks = usize::try_from(slot_size(size) >> shift).ok()?;
            return self.create_large(size, chunks);
        }
        let (number, slots) = match self.last_chunk(size) {
            Some((last, chunk)) if u64::from(chunk.slots) < slots => (last, chunk.slots),
            _ => (self.find_unused(1)?, 0),
        };
        self.entries[number].store(Chunk { size, slots: slots + 1 }.entry(), Relaxed);
        self.last[size].store(u32::try_from(number).ok()?, Relaxed);
        let offset = ((number as u64) << shift) + u64::from(slots) * slot_size(size);
        Some(StackSlot { size, offset })
    }

    /// Makes a slot that consists of whole chunks.
    fn create_large(&self, size: usize, chunks: usize) -> Option<StackSlot> {
        let first = self.find_unused(chunks)?;
        for entry in &self.entries[first..first + chunks] {
            entry.store(Chunk { size, slots: 1 }.entry(), Relaxed);
        }
        Some(StackSlot { size, offset: (first as u64) << self.chunk_shift.load(Relaxed) })
    }

    /// Index of the first of `count` unused chunks. It is a multiple of `count`.
    fn find_unused(&self, count: usize) -> Option<usize> {
        let entries = self.entries.get(..self.chunks.load(Relaxed) as usize)?;
        let is_unused = |group: &[AtomicU32]| group.iter().all(|entry| entry.load(Relaxed) == 0);
        entries.chunks_exact(count).position(is_unused).map(|group| group * count)
    }

    fn chunk(&self, number: usize) -> Option<Chunk> {
        self.entries.get(number).map(|entry| Chunk::from_entry(entry.load(Relaxed)))
    }

    /// Number and state of the chunk in which the last new slot of a size was made, if the chunk still has
    /// slots of this size.
    fn last_chunk(&self, size: usize) -> Option<(usize, Chunk)> {
        let last = self.last[size].load(Relaxed) as usize;
        let chunk = self.chunk(last).filter(|chunk| chunk.size == size && chunk.slots != 0)?;
        Some((last, chunk))
    }
}

impl StackSlot {
    /// The addresses of the slot, if the region starts at `start`.
    #[must_use]
    const fn bounds(self, start: u64) -> StackBounds {
        let guard = start + self.offset;
        StackBounds { guard, bottom: guard + PAGE_SIZE, top: guard + slot_size(self.size) }
    }
}

#[cfg(test)]
mod tests;
