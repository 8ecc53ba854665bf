//! Free blocks of the heap that a CPU keeps for itself: one list for each size class.
//!
//! Taking and freeing a block touches no shared data. Only when a list is empty or full, a batch of blocks comes
//! from the heap or goes back to it. A block may be freed on another CPU than the one that allocated it.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32};

use hermit_memory::size_classes;

/// The lists of one CPU. Only that CPU uses them, with interrupts masked.
#[derive(Debug)]
pub(crate) struct FreeBlocks([FreeList; size_classes::COUNT]);

/// Free blocks of one size class, linked through their first words.
#[derive(Debug)]
pub(crate) struct FreeList {
    first: AtomicPtr<u8>,
    /// Number of blocks that fit before a batch goes back to the heap.
    room: AtomicU32,
    /// Number of blocks that the next refill takes from the heap. It doubles each time, so that a program with few
    /// blocks takes little memory.
    batch: AtomicU32,
}

impl FreeBlocks {
    /// Empty lists.
    pub(crate) const fn new() -> Self {
        let mut lists = [const { FreeList::new(0) }; size_classes::COUNT];
        let mut class = 0;
        while class < size_classes::COUNT {
            lists[class] = FreeList::new(class);
            class += 1;
        }
        Self(lists)
    }

    /// The list of a small class. The index wraps around, so that no bounds check is needed.
    #[inline]
    pub(crate) const fn small_list(&self, class: usize) -> &FreeList {
        &self.0[class % size_classes::SMALL]
    }

    /// The list of a class; `None` if there is no such class.
    #[inline]
    pub(crate) fn list(&self, class: usize) -> Option<&FreeList> {
        self.0.get(class)
    }

    /// All lists, with their classes.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (usize, &FreeList)> {
        self.0.iter().enumerate()
    }
}

impl FreeList {
    const fn new(class: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a batch has at most 128 blocks")]
        let room = 2 * size_classes::batch(class) as u32;
        Self { first: AtomicPtr::new(ptr::null_mut()), room: AtomicU32::new(room), batch: AtomicU32::new(1) }
    }

    /// Takes a block.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.load(Relaxed))?;
        // SAFETY: `push`, which alone adds blocks, has written the first word of the block. Free blocks have no
        // other user, and the CPU's interrupts are masked, so nothing has changed it since.
        let next = unsafe { first.cast::<*mut u8>().read() };
        self.first.store(next, Relaxed);
        self.room.store(self.room.load(Relaxed).wrapping_add(1), Relaxed);
        Some(first)
    }

    /// Adds a block; `false` if the list is full now and a batch should go back to the heap.
    ///
    /// # Safety
    ///
    /// The block must be one of the list's size class, and exclusively the caller's, who gives it up.
    #[inline]
    pub(crate) unsafe fn push(&self, block: NonNull<u8>) -> bool {
        // SAFETY: the block is exclusively the caller's (contract). The smallest class has 16 bytes, aligned to 16,
        // so the word fits.
        unsafe { block.cast::<*mut u8>().write(self.first.load(Relaxed)) };
        self.first.store(block.as_ptr(), Relaxed);
        let room = self.room.load(Relaxed).wrapping_sub(1);
        self.room.store(room, Relaxed);
        room != 0
    }

    /// Number of blocks that a refill is to take from the heap.
    pub(crate) fn next_batch(&self, class: usize) -> u32 {
        let batch = self.batch.load(Relaxed);
        let max = u32::try_from(size_classes::batch(class)).unwrap_or(1);
        self.batch.store((batch * 2).min(max), Relaxed);
        batch
    }
}
