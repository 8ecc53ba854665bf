//! The tree of free extents.

use hermit_interface::address::{AddressRange, PAGE_SIZE};

use super::node::{Node, Side};
use super::tree::{Neighbours, Tree, first, next};
use super::{NotAllocated, Words, is_page_aligned};

/// Maximum number of extents that an aligned allocation tries in the order of addresses. After that, it takes
/// an extent that is large enough for any position of an aligned block.
const MAX_TRIES: u32 = 64;

/// All free memory, as a tree of extents that are not adjacent.
///
/// Operations take logarithmic time in the number of extents. Sizes and addresses are in bytes, multiples of
/// [`PAGE_SIZE`].
#[derive(Debug, Default)]
pub struct ExtentAllocator {
    tree: Tree,
    total: u64,
}

impl ExtentAllocator {
    /// Creates an allocator without free memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { tree: Tree::new(), total: 0 }
    }

    /// Total free memory in bytes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Size of the largest free extent in bytes.
    #[must_use]
    pub fn largest(&self, words: &impl Words) -> u64 {
        self.tree.largest(words)
    }

    /// Allocates `size` contiguous bytes, aligned to `align`, a power of two, at the lowest possible address
    /// (first fit).
    ///
    /// With an alignment of more than a page, an extent of sufficient size may contain no aligned block.
    /// After 64 such extents, takes the lowest extent of at least `size + align - PAGE_SIZE` bytes, which
    /// always contains one. Tries all extents only if there is no extent of this size.
    ///
    /// Returns the start; `None` if no extent fits, `size` is 0 or not page-aligned, or `align` is not a
    /// power of two.
    pub fn allocate(&mut self, words: &mut impl Words, size: u64, align: u64) -> Option<u64> {
        if size == 0 || !is_page_aligned(size) || !align.is_power_of_two() {
            return None;
        }
        let align = align.max(PAGE_SIZE);
        let certain = size.saturating_add(align - PAGE_SIZE);
        let (node, start) = self
            .search(words, size, align, MAX_TRIES)
            .or_else(|| fit(self.tree.first(words, certain)?, words, size, align))
            .or_else(|| self.search(words, size, align, u32::MAX))?;
        self.take(words, node, AddressRange { start, end: start + size });
        Some(start)
    }

    /// Allocates the `size` bytes at `start`. Returns false if a part of them is not free, if `size` is 0, or
    /// if `start` or `size` is not page-aligned.
    pub fn allocate_at(&mut self, words: &mut impl Words, start: u64, size: u64) -> bool {
        let Some(end) = start.checked_add(size) else { return false };
        if size == 0 || !is_page_aligned(start) || !is_page_aligned(size) {
            return false;
        }
        let found = self.tree.containing(words, start).filter(|node| end <= node.end(words));
        if let Some(node) = found {
            self.take(words, node, AddressRange { start, end });
        }
        found.is_some()
    }

    /// Allocates at most `size` bytes from the start of the lowest extent.
    pub(crate) fn allocate_up_to(&mut self, words: &mut impl Words, size: u64) -> Option<AddressRange> {
        let node = self.tree.first(words, PAGE_SIZE)?;
        let range = AddressRange { start: node.0, end: node.0 + node.size(words).min(size) };
        self.take(words, node, range);
        Some(range)
    }

    /// Frees a range, and merges it with adjacent extents. Overwrites the first words of the range.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`]; then nothing has changed.
    pub fn free(&mut self, words: &mut impl Words, range: AddressRange) -> Result<(), NotAllocated> {
        if !is_page_aligned(range.start) || !is_page_aligned(range.end) {
            return Err(NotAllocated);
        }
        if range.size() == 0 {
            return Ok(());
        }
        let neighbours = self.tree.neighbours(words, range)?;
        let below = neighbours.below.filter(|node| node.end(words) == range.start);
        let above = neighbours.above.filter(|node| node.0 == range.end);
        match (below, above) {
            (Some(below), Some(above)) => {
                let end = above.end(words);
                self.tree.remove(words, above);
                self.tree.resize(words, below, end - below.0);
            }
            (Some(below), None) => self.tree.resize(words, below, range.end - below.0),
            (None, Some(above)) => {
                let joined = AddressRange { start: range.start, end: above.end(words) };
                self.tree.relocate(words, above, joined);
            }
            (None, None) => self.tree.insert(words, range, neighbours),
        }
        self.total += range.size();
        Ok(())
    }

    /// Searches the first `tries` extents of at least `size` bytes for one with room for `size` aligned
    /// bytes. Returns the extent and the start of these bytes.
    fn search(&self, words: &impl Words, size: u64, align: u64, tries: u32) -> Option<(Node, u64)> {
        let mut node = self.tree.first(words, size)?;
        for _ in 0..tries {
            if let Some(found) = fit(node, words, size, align) {
                return Some(found);
            }
            node = next(node, words, size)?;
        }
        None
    }

    /// Removes a part from an extent.
    fn take(&mut self, words: &mut impl Words, node: Node, part: AddressRange) {
        let end = node.end(words);
        let rest = AddressRange { start: part.end, end };
        match (part.start > node.0, rest.size() > 0) {
            (false, false) => self.tree.remove(words, node),
            (false, true) => self.tree.relocate(words, node, rest),
            (true, false) => self.tree.resize(words, node, part.start - node.0),
            (true, true) => {
                self.tree.resize(words, node, part.start - node.0);
                let above = first(node.child(words, Side::Right), words, PAGE_SIZE);
                self.tree.insert(words, rest, Neighbours { below: Some(node), above });
            }
        }
        self.total -= part.size();
    }

    /// Depth of the tree in nodes.
    #[cfg(test)]
    pub(crate) fn depth(&self, words: &impl Words) -> usize {
        self.tree.depth(words)
    }
}

/// The start of `size` aligned bytes in an extent, if they fit.
fn fit(node: Node, words: &impl Words, size: u64, align: u64) -> Option<(Node, u64)> {
    let start = node.0.checked_next_multiple_of(align)?;
    (start.checked_add(size)? <= node.end(words)).then_some((node, start))
}
