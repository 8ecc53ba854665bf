//! Ranges of free memory of any size.

use hermit_interface::address::{AddressRange, PAGE_SIZE};

use super::node::{Node, Side};
use super::tree::{Neighbours, Tree, first, next};
use super::{NotAllocated, Words, is_whole_pages};

/// How many ranges are tried in the order of their addresses before an aligned request takes one that fits wherever it
/// starts.
const TRIES: u32 = 64;

/// All free memory, as a tree of ranges that never touch each other.
///
/// Each call takes a time that grows with the logarithm of the number of ranges. Sizes and addresses are in bytes and
/// multiples of [`PAGE_SIZE`].
#[derive(Debug, Default)]
pub struct ExtentAllocator {
    tree: Tree,
    total: u64,
}

impl ExtentAllocator {
    /// Nothing is free.
    #[must_use]
    pub const fn new() -> Self {
        Self { tree: Tree::new(), total: 0 }
    }

    /// How many bytes are free in all.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes are free in one piece.
    #[must_use]
    pub fn largest(&self, words: &impl Words) -> u64 {
        self.tree.largest(words)
    }

    /// Takes the lowest `size` bytes that are free in one piece and start at a multiple of `align`, a power of two.
    ///
    /// With an alignment of more than a page, memory that is free but not aligned may stand in the way. After 64 such
    /// ranges the lowest one that is large enough for any start is taken; only if there is none, all are tried.
    ///
    /// Returns the start; `None` if nothing fits, `size` is zero or not whole pages, or `align` is no power of two.
    pub fn allocate(&mut self, words: &mut impl Words, size: u64, align: u64) -> Option<u64> {
        if size == 0 || !is_whole_pages(size) || !align.is_power_of_two() {
            return None;
        }
        let align = align.max(PAGE_SIZE);
        let certain = size.saturating_add(align - PAGE_SIZE);
        let (node, start) = self
            .search(words, size, align, TRIES)
            .or_else(|| fit(self.tree.first(words, certain)?, words, size, align))
            .or_else(|| self.search(words, size, align, u32::MAX))?;
        self.take(words, node, AddressRange { start, end: start + size });
        Some(start)
    }

    /// Takes the `size` bytes at `start` if all of them are free; returns whether it did.
    ///
    /// Nothing is taken if `size` is zero, or one of the two is not whole pages.
    pub fn allocate_at(&mut self, words: &mut impl Words, start: u64, size: u64) -> bool {
        let Some(end) = start.checked_add(size) else { return false };
        if size == 0 || !is_whole_pages(start) || !is_whole_pages(size) {
            return false;
        }
        let found = self.tree.containing(words, start).filter(|node| end <= node.end(words));
        if let Some(node) = found {
            self.take(words, node, AddressRange { start, end });
        }
        found.is_some()
    }

    /// Takes the beginning of the lowest free range, at most `size` bytes of it.
    pub(crate) fn allocate_up_to(&mut self, words: &mut impl Words, size: u64) -> Option<AddressRange> {
        let node = self.tree.first(words, PAGE_SIZE)?;
        let range = AddressRange { start: node.0, end: node.0 + node.size(words).min(size) };
        self.take(words, node, range);
        Some(range)
    }

    /// Frees a range, joining it with its neighbours. Its first words are overwritten.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`]; then nothing has changed.
    pub fn free(&mut self, words: &mut impl Words, range: AddressRange) -> Result<(), NotAllocated> {
        if !is_whole_pages(range.start) || !is_whole_pages(range.end) {
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

    /// The lowest range in which `size` bytes fit, among the first few that are large enough; and where in it.
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

    /// Takes a part of a free range.
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

    /// How many nodes are on the longest way from the root of the tree.
    #[cfg(test)]
    pub(crate) fn depth(&self, words: &impl Words) -> usize {
        self.tree.depth(words)
    }
}

/// Where in a free range `size` aligned bytes fit.
fn fit(node: Node, words: &impl Words, size: u64, align: u64) -> Option<(Node, u64)> {
    let start = node.0.checked_next_multiple_of(align)?;
    (start.checked_add(size)? <= node.end(words)).then_some((node, start))
}
