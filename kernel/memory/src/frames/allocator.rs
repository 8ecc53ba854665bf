//! Single pages in front of the ranges.

use heapless::Vec;
use hermit_interface::address::{AddressRange, PAGE_SIZE};

use super::{ExtentAllocator, NotAllocated, Words, is_whole_pages};

/// How many pages are kept at hand.
const KEPT: usize = 64;

/// How many pages go from or to the tree at once.
const BATCH: usize = KEPT / 2;

/// All free memory, some single pages of it at hand.
///
/// The page that was freed last is given out first: it may still be in the processor's cache.
#[derive(Debug, Default)]
pub struct FrameAllocator {
    extents: ExtentAllocator,
    kept: Vec<u64, KEPT>,
}

impl FrameAllocator {
    /// Nothing is free.
    #[must_use]
    pub const fn new() -> Self {
        Self { extents: ExtentAllocator::new(), kept: Vec::new() }
    }

    /// How many bytes are free in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.extents.total() + self.kept.len() as u64 * PAGE_SIZE
    }

    /// How many bytes are free in one piece, apart from the pages at hand.
    #[must_use]
    pub fn largest(&self, words: &impl Words) -> u64 {
        self.extents.largest(words)
    }

    /// Takes a page; returns its address, or `None` if no memory is free.
    #[inline]
    pub fn allocate_frame(&mut self, words: &mut impl Words) -> Option<u64> {
        self.kept.pop().or_else(|| self.refill(words))
    }

    /// Frees a page.
    ///
    /// The caller makes sure that it is not free: a page that is freed twice is found out only when it reaches the tree.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`] if the address is not that of a page, or if a page turns out to have been freed twice before;
    /// that one is forgotten.
    #[inline]
    pub fn free_frame(&mut self, words: &mut impl Words, frame: u64) -> Result<(), NotAllocated> {
        if !is_whole_pages(frame) {
            return Err(NotAllocated);
        }
        match self.kept.push(frame) {
            Ok(()) => Ok(()),
            Err(frame) => self.make_room_for(words, frame),
        }
    }

    /// As [`ExtentAllocator::allocate`]. If nothing fits, the pages at hand go into the tree first.
    pub fn allocate(&mut self, words: &mut impl Words, size: u64, align: u64) -> Option<u64> {
        let found = self.extents.allocate(words, size, align);
        if found.is_some() || self.kept.is_empty() {
            return found;
        }
        self.give_back_all(words);
        self.extents.allocate(words, size, align)
    }

    /// As [`ExtentAllocator::allocate_at`]. If not all of it is free, the pages at hand go into the tree first.
    pub fn allocate_at(&mut self, words: &mut impl Words, start: u64, size: u64) -> bool {
        if self.extents.allocate_at(words, start, size) {
            return true;
        }
        let wanted = AddressRange { start, end: start.saturating_add(size) };
        if !self.keeps_any_of(wanted) {
            return false;
        }
        self.give_back_all(words);
        self.extents.allocate_at(words, start, size)
    }

    /// As [`ExtentAllocator::free`].
    ///
    /// # Errors
    ///
    /// [`NotAllocated`]; then nothing has changed.
    pub fn free(&mut self, words: &mut impl Words, range: AddressRange) -> Result<(), NotAllocated> {
        if self.keeps_any_of(range) {
            return Err(NotAllocated);
        }
        self.extents.free(words, range)
    }

    fn keeps_any_of(&self, range: AddressRange) -> bool {
        self.kept.iter().any(|&frame| range.start <= frame && frame < range.end)
    }

    /// Takes pages from the tree; all but the first, which it returns, are then at hand.
    #[cold]
    fn refill(&mut self, words: &mut impl Words) -> Option<u64> {
        let range = self.extents.allocate_up_to(words, BATCH as u64 * PAGE_SIZE)?;
        let mut frame = range.end;
        loop {
            frame -= PAGE_SIZE;
            // There is room: nothing was at hand, and a batch is smaller than that.
            if frame == range.start || self.kept.push(frame).is_err() {
                return Some(frame);
            }
        }
    }

    /// Gives the pages that were freed longest ago back to the tree and keeps another one.
    #[cold]
    fn make_room_for(&mut self, words: &mut impl Words, frame: u64) -> Result<(), NotAllocated> {
        let mut result = Ok(());
        for &old in self.kept.iter().take(BATCH) {
            result = result.and(self.extents.free(words, page(old)));
        }
        self.kept.rotate_left(BATCH);
        self.kept.truncate(KEPT - BATCH);
        // There is room now; if there were none, the tree would have it.
        match self.kept.push(frame) {
            Ok(()) => result,
            Err(frame) => self.extents.free(words, page(frame)),
        }
    }

    fn give_back_all(&mut self, words: &mut impl Words) {
        while let Some(frame) = self.kept.pop() {
            // One that was freed twice is in the tree already and must not be given out twice.
            let _: Result<(), NotAllocated> = self.extents.free(words, page(frame));
        }
    }
}

/// The page at an address.
const fn page(start: u64) -> AddressRange {
    AddressRange { start, end: start.saturating_add(PAGE_SIZE) }
}
