//! The frame allocator: a cache of single pages in front of the tree of extents.

use heapless::Vec;
use hermit_interface::address::{AddressRange, PAGE_SIZE};

use super::{ExtentAllocator, NotAllocated, Words, is_page_aligned};

/// Capacity of the cache in pages.
const CACHE_PAGES: usize = 64;

/// Number of pages that move between cache and tree at a time.
const BATCH: usize = CACHE_PAGES / 2;

/// All free memory: the tree of extents, and a cache of single pages.
///
/// The cache is a stack: the page that was freed last is allocated first, as it may still be in the
/// processor's cache.
#[derive(Debug, Default)]
pub struct FrameAllocator {
    extents: ExtentAllocator,
    cache: Vec<u64, CACHE_PAGES>,
}

impl FrameAllocator {
    /// Creates an allocator without free memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { extents: ExtentAllocator::new(), cache: Vec::new() }
    }

    /// Total free memory in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.extents.total() + self.cache.len() as u64 * PAGE_SIZE
    }

    /// Size of the largest free extent in bytes, without cached pages.
    #[must_use]
    pub fn largest(&self, words: &impl Words) -> u64 {
        self.extents.largest(words)
    }

    /// Allocates a page; returns its address, or `None` if no memory is free.
    #[inline]
    pub fn allocate_frame(&mut self, words: &mut impl Words) -> Option<u64> {
        self.cache.pop().or_else(|| self.refill(words))
    }

    /// Frees a page.
    ///
    /// The page must be allocated: a double free is detected only when the page moves from the cache to the
    /// tree.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`] if the address is not page-aligned, or if an earlier double free is detected. The
    /// second free is then ignored.
    #[inline]
    pub fn free_frame(&mut self, words: &mut impl Words, frame: u64) -> Result<(), NotAllocated> {
        if !is_page_aligned(frame) {
            return Err(NotAllocated);
        }
        match self.cache.push(frame) {
            Ok(()) => Ok(()),
            Err(frame) => self.evict_and_cache(words, frame),
        }
    }

    /// Allocates as [`ExtentAllocator::allocate`] does. If nothing fits, moves the cached pages to the tree
    /// and tries again.
    pub fn allocate(&mut self, words: &mut impl Words, size: u64, align: u64) -> Option<u64> {
        let found = self.extents.allocate(words, size, align);
        if found.is_some() || self.cache.is_empty() {
            return found;
        }
        self.flush_cache(words);
        self.extents.allocate(words, size, align)
    }

    /// Allocates as [`ExtentAllocator::allocate_at`] does. If a part of the range is not free, moves the
    /// cached pages to the tree and tries again.
    pub fn allocate_at(&mut self, words: &mut impl Words, start: u64, size: u64) -> bool {
        if self.extents.allocate_at(words, start, size) {
            return true;
        }
        let wanted = AddressRange { start, end: start.saturating_add(size) };
        if !self.caches_any_of(wanted) {
            return false;
        }
        self.flush_cache(words);
        self.extents.allocate_at(words, start, size)
    }

    /// Frees as [`ExtentAllocator::free`] does.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`]; then nothing has changed.
    pub fn free(&mut self, words: &mut impl Words, range: AddressRange) -> Result<(), NotAllocated> {
        if self.caches_any_of(range) {
            return Err(NotAllocated);
        }
        self.extents.free(words, range)
    }

    fn caches_any_of(&self, range: AddressRange) -> bool {
        self.cache.iter().any(|&frame| range.start <= frame && frame < range.end)
    }

    /// Moves a batch of pages from the tree to the cache. Returns one more page to the caller.
    #[cold]
    fn refill(&mut self, words: &mut impl Words) -> Option<u64> {
        let range = self.extents.allocate_up_to(words, BATCH as u64 * PAGE_SIZE)?;
        let mut frame = range.end;
        loop {
            frame -= PAGE_SIZE;
            // The push succeeds: the cache was empty, and a batch is smaller than its capacity.
            if frame == range.start || self.cache.push(frame).is_err() {
                return Some(frame);
            }
        }
    }

    /// Moves the least recently freed pages from the cache to the tree, and caches another page.
    #[cold]
    fn evict_and_cache(&mut self, words: &mut impl Words, frame: u64) -> Result<(), NotAllocated> {
        let mut result = Ok(());
        for &old in self.cache.iter().take(BATCH) {
            result = result.and(self.extents.free(words, page(old)));
        }
        self.cache.rotate_left(BATCH);
        self.cache.truncate(CACHE_PAGES - BATCH);
        // The push succeeds after the truncation. If it failed, the page would go to the tree.
        match self.cache.push(frame) {
            Ok(()) => result,
            Err(frame) => self.extents.free(words, page(frame)),
        }
    }

    fn flush_cache(&mut self, words: &mut impl Words) {
        while let Some(frame) = self.cache.pop() {
            // A page that was freed twice is in the tree already, and is dropped.
            let _: Result<(), NotAllocated> = self.extents.free(words, page(frame));
        }
    }
}

/// The page at an address.
const fn page(start: u64) -> AddressRange {
    AddressRange { start, end: start.saturating_add(PAGE_SIZE) }
}
