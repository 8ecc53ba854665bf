//! Free blocks that a CPU keeps for itself, a list for each size class.
//!
//! Taking and giving back a block touches nothing that is shared. Only when a list is empty, or too long, blocks come
//! from the heap or go back to it, many at a time. It does not matter on which CPU a block was taken.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32};

use hermit_memory::size_classes;

/// The lists of one CPU. Only that CPU uses them, with interrupts masked.
#[derive(Debug)]
pub(crate) struct Caches([List; size_classes::COUNT]);

/// Free blocks of one class; the first word of each says where the next one is.
#[derive(Debug)]
pub(super) struct List {
    first: AtomicPtr<u8>,
    /// How many more blocks it takes before some are given back.
    room: AtomicU32,
    /// How many blocks are taken from the heap next time: more and more, so that little is taken for few.
    batch: AtomicU32,
}

impl Caches {
    /// No blocks.
    pub(crate) const fn new() -> Self {
        let mut lists = [const { List::new(0) }; size_classes::COUNT];
        let mut class = 0;
        while class < size_classes::COUNT {
            lists[class] = List::new(class);
            class += 1;
        }
        Self(lists)
    }

    /// The list of a small class; others count as small ones.
    #[inline]
    pub(super) const fn small_list(&self, class: usize) -> &List {
        &self.0[class % size_classes::SMALL]
    }

    /// The list of a class.
    #[inline]
    pub(super) fn list(&self, class: usize) -> Option<&List> {
        self.0.get(class)
    }

    /// All lists, with their classes.
    pub(super) fn lists(&self) -> impl Iterator<Item = (usize, &List)> {
        self.0.iter().enumerate()
    }
}

impl List {
    const fn new(class: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a batch has at most 128 blocks")]
        let room = 2 * size_classes::batch(class) as u32;
        Self { first: AtomicPtr::new(ptr::null_mut()), room: AtomicU32::new(room), batch: AtomicU32::new(1) }
    }

    /// Takes a block.
    #[inline]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.load(Relaxed))?;
        // SAFETY: a block in the list is at least a word, aligned, and the list's alone; `push` wrote the word.
        let next = unsafe { first.cast::<*mut u8>().read() };
        self.first.store(next, Relaxed);
        self.room.store(self.room.load(Relaxed).wrapping_add(1), Relaxed);
        Some(first)
    }

    /// Adds a block; `false` if it is time to give some back.
    ///
    /// # Safety
    ///
    /// The block must be one of the list's class, and nobody else's.
    #[inline]
    pub(super) unsafe fn push(&self, block: NonNull<u8>) -> bool {
        // SAFETY: the caller's promise; blocks of every class have room for the word and are aligned for it.
        unsafe { block.cast::<*mut u8>().write(self.first.load(Relaxed)) };
        self.first.store(block.as_ptr(), Relaxed);
        let room = self.room.load(Relaxed).wrapping_sub(1);
        self.room.store(room, Relaxed);
        room != 0
    }

    /// How many blocks to take from the heap.
    pub(super) fn next_batch(&self, class: usize) -> u32 {
        let batch = self.batch.load(Relaxed);
        let most = u32::try_from(size_classes::batch(class)).unwrap_or(1);
        self.batch.store((batch * 2).min(most), Relaxed);
        batch
    }
}
