//! Free blocks of the heap that a CPU keeps for itself: one list for each size class.
//!
//! They are the caches that make the heap scale, as magazines in a slab allocator: taking and freeing a block
//! touches no shared data. Only when a list is empty or full, a batch of blocks comes from the heap or goes
//! back to it. A block may be freed on another CPU than the one that allocated it. The list of the calling
//! CPU is accessed by instructions relative to the GS base, with interrupts masked.

use core::mem::offset_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32};

use hermit_memory::size_classes;

use super::CpuLocal;
use crate::arch::local::indexed;

/// The lists of one CPU. Only that CPU uses them, with interrupts masked.
#[derive(Debug)]
pub(crate) struct FreeBlocks([FreeList; size_classes::COUNT]);

/// Free blocks of one size class, linked through their first words.
#[derive(Debug)]
pub(crate) struct FreeList {
    first: AtomicPtr<u8>,
    /// Number of blocks that still fit, until a batch goes back to the heap.
    room: AtomicU32,
    /// Number of blocks that the next refill takes from the heap. It doubles with each refill, so that a
    /// program with few blocks takes little memory.
    batch: AtomicU32,
}

/// Offset of a list in [`FreeBlocks`], in bytes. With it, one instruction accesses a field of a list of the
/// calling CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListOffset(usize);

const _: () = assert!(size_of::<FreeList>() == size_classes::ALIGN, "a scaled class is an offset");

impl ListOffset {
    /// The list of the blocks for a size; `None` if CPUs have no list for it.
    #[inline]
    pub(crate) fn of(size: usize) -> Option<Self> {
        size_classes::scaled_class(size).map(Self)
    }

    /// The size class of the blocks.
    #[inline]
    pub(crate) const fn class(self) -> usize {
        self.0 / size_classes::ALIGN
    }
}

/// Offset of [`FreeList::first`] of the first list in the CPU-local block.
const FIRST: usize = offset_of!(CpuLocal, heap) + offset_of!(FreeList, first);

/// Offset of [`FreeList::room`] of the first list in the CPU-local block.
const ROOM: usize = offset_of!(CpuLocal, heap) + offset_of!(FreeList, room);

/// Takes a block from a list of the calling CPU, as [`FreeList::pop`] does. Interrupts are masked.
#[inline]
pub(crate) fn pop(list: ListOffset) -> Option<NonNull<u8>> {
    // SAFETY: the block of each CPU is a `CpuLocal`. An offset is that of a list in it: `ListOffset::of`
    // alone makes one, of a class below their number, and lists have the size by which it is scaled. The word
    // is the list's first field.
    let first = NonNull::new(unsafe { indexed::load_at::<FIRST>(list.0) })?.cast::<u8>();
    // SAFETY: `push` and `FreeList::push`, which alone add blocks, have written the first word of the block.
    // Free blocks have no other user, and the CPU's interrupts are masked, so nothing has changed it since.
    let next = unsafe { first.cast::<*mut ()>().read() };
    // SAFETY: the word at the offset is the list's first field, as for the load; `next` is null or the list's
    // next block.
    unsafe { indexed::store_at::<FIRST>(list.0, next) };
    // SAFETY: the offset is that of a list in the CPU-local block, and the word its room, which has one more
    // now.
    unsafe { indexed::increment_at::<ROOM>(list.0) };
    Some(first)
}

/// Adds a block to a list of the calling CPU, as [`FreeList::push`] does. Interrupts are masked.
///
/// # Safety
///
/// The contract of [`FreeList::push`].
#[inline]
pub(crate) unsafe fn push(list: ListOffset, block: NonNull<u8>) -> bool {
    // SAFETY: the offset is that of a list in the CPU-local block, as in `pop`; the word is its first field.
    let first = unsafe { indexed::load_at::<FIRST>(list.0) };
    // SAFETY: the block is exclusively the caller's (contract). The smallest class has 16 bytes, aligned to
    // 16, so the word fits.
    unsafe { block.cast::<*mut ()>().write(first) };
    // SAFETY: the word at the offset is the list's first field, as for the load; the block is of the list's
    // class (contract), and its first word is the next one.
    unsafe { indexed::store_at::<FIRST>(list.0, block.as_ptr().cast()) };
    // SAFETY: the offset is that of a list in the CPU-local block, and the word its room, which has one less
    // now.
    let is_full = unsafe { indexed::decrement_at::<ROOM>(list.0) };
    !is_full
}

impl FreeBlocks {
    /// Empty lists, which cannot be used before [`Self::init`].
    pub(crate) const fn new() -> Self {
        Self([const { FreeList::new() }; size_classes::COUNT])
    }

    /// Sets the initial room of each list.
    pub(crate) fn init(&self) {
        self.lists().for_each(|(class, list)| list.init(class));
    }

    /// The list at an offset.
    #[inline]
    pub(crate) fn list(&self, offset: ListOffset) -> Option<&FreeList> {
        self.0.get(offset.class())
    }

    /// All lists, with their classes.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (usize, &FreeList)> {
        self.0.iter().enumerate()
    }
}

impl FreeList {
    const fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()), room: AtomicU32::new(0), batch: AtomicU32::new(0) }
    }

    fn init(&self, class: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "a batch has at most 128 blocks")]
        let room = 2 * size_classes::batch(class) as u32;
        self.room.store(room, Relaxed);
        self.batch.store(1, Relaxed);
    }

    /// Returns true if there is no block.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.load(Relaxed).is_null()
    }

    /// Takes a block.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.load(Relaxed))?;
        // SAFETY: `push`, which alone adds blocks, has written the first word of the block. Free blocks have
        // no other user, and the CPU's interrupts are masked, so nothing has changed it since.
        let next = unsafe { first.cast::<*mut u8>().read() };
        self.first.store(next, Relaxed);
        self.room.store(self.room.load(Relaxed).wrapping_add(1), Relaxed);
        Some(first)
    }

    /// Adds a block. Returns false if the list is full now: the caller should then return a batch to the
    /// heap.
    ///
    /// # Safety
    ///
    /// The block must be one of the list's size class, and exclusively the caller's, who gives it up.
    #[inline]
    pub(crate) unsafe fn push(&self, block: NonNull<u8>) -> bool {
        // SAFETY: the block is exclusively the caller's (contract). The smallest class has 16 bytes, aligned
        // to 16, so the word fits.
        unsafe { block.cast::<*mut u8>().write(self.first.load(Relaxed)) };
        self.first.store(block.as_ptr(), Relaxed);
        let room = self.room.load(Relaxed).wrapping_sub(1);
        self.room.store(room, Relaxed);
        room != 0
    }

    /// Adds `count` blocks that `take` allocates. Adds fewer if `take` has no more, or if the list would
    /// become full. Returns true if it has added all of them. The list need not be empty: the thread may have
    /// moved to this CPU after it had found the list of another one empty.
    ///
    /// # Safety
    ///
    /// The blocks that `take` returns must be of the list's size class, and exclusively the caller's, who
    /// gives them up.
    pub(crate) unsafe fn refill(&self, count: u32, mut take: impl FnMut() -> Option<NonNull<u8>>) -> bool {
        for _ in 0..count {
            if self.room.load(Relaxed) <= 1 {
                return false;
            }
            let Some(block) = take() else { return false };
            // SAFETY: `take` has returned the block, which so is of this class and given up (contract).
            let _has_room: bool = unsafe { self.push(block) };
        }
        true
    }

    /// Number of blocks that a refill takes from the heap, including the block for the caller itself.
    pub(crate) fn next_batch(&self, class: usize) -> u32 {
        let batch = self.batch.load(Relaxed);
        let max = u32::try_from(size_classes::batch(class)).unwrap_or(1);
        self.batch.store((batch * 2).min(max), Relaxed);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::FreeList;
    use core::ptr::NonNull;
    use hermit_memory::size_classes;
    use std::boxed::Box;

    /// Class of the tests: blocks of 16 bytes. A list has room for 256 of them.
    const CLASS: usize = 0;
    const LIMIT: usize = 2 * size_classes::batch(CLASS);

    fn list() -> FreeList {
        let list = FreeList::new();
        list.init(CLASS);
        list
    }

    fn block() -> NonNull<u8> {
        NonNull::from(Box::leak(Box::new([0_u64; 2]))).cast()
    }

    #[expect(unsafe_code, reason = "the list is unsafe to use")]
    fn push(list: &FreeList) -> bool {
        // SAFETY: the block is new and of the size of the class.
        unsafe { list.push(block()) }
    }

    #[expect(unsafe_code, reason = "the list is unsafe to use")]
    fn refill(list: &FreeList) -> bool {
        let count = list.next_batch(CLASS) - 1;
        // SAFETY: the blocks are new and of the size of the class.
        unsafe { list.refill(count, || Some(block())) }
    }

    #[test]
    #[expect(unsafe_code, reason = "the list is unsafe to use")]
    fn refill_takes_its_count_or_what_there_is() {
        let list = list();
        let mut left = 20;
        let mut take = || {
            left -= 1;
            (left >= 0).then(block)
        };
        // SAFETY: the blocks are new and of the size of the class.
        let all = [16, 16].map(|count| unsafe { list.refill(count, &mut take) });
        assert_eq!(all, [true, false]);
        assert_eq!(core::iter::from_fn(|| list.pop()).count(), 20);
    }

    #[test]
    fn refills_of_an_empty_list_grow_to_a_batch() {
        let list = list();
        let added = || {
            assert!(refill(&list));
            core::iter::from_fn(|| list.pop()).count() + 1
        };
        let sizes: [usize; 9] = core::array::from_fn(|_| added());
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 128]);
    }

    #[test]
    fn refill_of_a_list_with_blocks_keeps_its_limit() {
        let list = list();
        assert!((0..8).all(|_| refill(&list)));
        // With the 127 blocks of the last refill, there are 247.
        assert_eq!(core::iter::from_fn(|| list.pop()).count(), 247);
        (0..130).for_each(|_| assert!(push(&list)));
        assert!(!refill(&list));
        assert!(!refill(&list));
        // The list accepts exactly one more block, which makes it full.
        assert!(!push(&list));
        assert_eq!(core::iter::from_fn(|| list.pop()).count(), LIMIT);
    }
}
