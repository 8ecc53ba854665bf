//! The pages of a sparse file: a radix tree, as high as its last page needs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use hermit_interface::{Errno, to_usize};

/// Bits of a page number that a level of the tree decodes.
const BITS: u32 = 6;

/// Children of a branch.
const FANOUT: usize = 1 << BITS;

/// A sparse array of pages. Holes take no memory.
#[derive(Debug)]
pub(super) struct SparsePages<P> {
    root: Option<Node<P>>,
    /// Levels of branches above the pages.
    height: u32,
    /// Number of pages.
    count: u64,
}

#[derive(Debug)]
enum Node<P> {
    Page(P),
    /// [`FANOUT`] children.
    Branch(Box<[Option<Self>]>),
}

impl<P> Node<P> {
    /// A branch without children.
    fn branch() -> Result<Self, Errno> {
        let mut children = Vec::new();
        children.try_reserve_exact(FANOUT).map_err(|_| Errno::ENOMEM)?;
        children.resize_with(FANOUT, || None);
        Ok(Self::Branch(children.into_boxed_slice()))
    }

    /// Sets the first child of a branch.
    fn set_first(&mut self, child: Self) {
        if let Self::Branch(children) = self
            && let Some(first) = children.first_mut()
        {
            *first = Some(child);
        }
    }
}

/// The child of a branch that leads to page `index`; `level` 0 is that of the lowest branches.
#[inline]
const fn child(index: u64, level: u32) -> usize {
    to_usize(index >> (level * BITS)) % FANOUT
}

/// Whether a tree of this height has a place for page `index`.
#[inline]
const fn covers(height: u32, index: u64) -> bool {
    let bits = height * BITS;
    bits >= u64::BITS || index >> bits == 0
}

impl<P> SparsePages<P> {
    /// No pages.
    pub(super) const fn new() -> Self {
        Self { root: None, height: 0, count: 0 }
    }

    /// Number of pages, without holes.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The page number `index`; `None` in a hole.
    #[inline]
    pub(super) fn get(&self, index: u64) -> Option<&P> {
        if !covers(self.height, index) {
            return None;
        }
        let mut node = self.root.as_ref()?;
        for level in (0..self.height).rev() {
            let Node::Branch(children) = node else { return None };
            node = children.get(child(index, level))?.as_ref()?;
        }
        match node {
            Node::Page(page) => Some(page),
            Node::Branch(_) => None,
        }
    }

    /// The page number `index`; `None` in a hole.
    #[inline]
    pub(super) fn get_mut(&mut self, index: u64) -> Option<&mut P> {
        if !covers(self.height, index) {
            return None;
        }
        let mut node = self.root.as_mut()?;
        for level in (0..self.height).rev() {
            let Node::Branch(children) = node else { return None };
            node = children.get_mut(child(index, level))?.as_mut()?;
        }
        match node {
            Node::Page(page) => Some(page),
            Node::Branch(_) => None,
        }
    }

    /// The page number `index`, which `allocate` makes if it is a hole.
    ///
    /// # Errors
    ///
    /// The error of `allocate`, or `ENOMEM`.
    pub(super) fn get_or_insert(
        &mut self,
        index: u64,
        allocate: impl FnOnce() -> Result<P, Errno>,
    ) -> Result<&mut P, Errno> {
        self.grow(index)?;
        let mut place = &mut self.root;
        for level in (0..self.height).rev() {
            if place.is_none() {
                *place = Some(Node::branch()?);
            }
            let Some(Node::Branch(children)) = place else { return Err(Errno::EIO) };
            place = children.get_mut(child(index, level)).ok_or(Errno::EIO)?;
        }
        if place.is_none() {
            *place = Some(Node::Page(allocate()?));
            self.count += 1;
        }
        match place {
            Some(Node::Page(page)) => Ok(page),
            _ => Err(Errno::EIO),
        }
    }

    /// Makes the tree high enough for page `index`.
    fn grow(&mut self, index: u64) -> Result<(), Errno> {
        while !covers(self.height, index) {
            if let Some(root) = &mut self.root {
                // Allocated first: without memory the tree stays as it is.
                let branch = Node::branch()?;
                let below = mem::replace(root, branch);
                root.set_first(below);
            }
            self.height += 1;
        }
        Ok(())
    }

    /// Takes out a part of the pages from number `first` on; `None` if there is none. The caller drops it, and subtracts its
    /// size by [`Self::subtract`], when no lock is held: it may be large.
    pub(super) fn take_from(&mut self, first: u64) -> Option<RemovedPages<P>> {
        if first == 0 {
            self.height = 0;
            return self.root.take().map(RemovedPages);
        }
        if !covers(self.height, first) {
            return None;
        }
        let mut node = self.root.as_mut()?;
        // Whether the path so far leads to `first` itself, so that what is left of it stays.
        for level in (0..self.height).rev() {
            let Node::Branch(children) = node else { return None };
            let on_path = child(first, level);
            let is_aligned = level == 0 || first.trailing_zeros() >= level * BITS;
            let behind = on_path + usize::from(!is_aligned);
            let removed = children.iter_mut().skip(behind).find_map(Option::take);
            if let Some(removed) = removed {
                return Some(RemovedPages(removed));
            }
            if is_aligned {
                return None;
            }
            node = children.get_mut(on_path)?.as_mut()?;
        }
        None
    }

    /// Subtracts a number of pages that were taken out.
    pub(super) const fn subtract(&mut self, count: u64) {
        self.count -= count;
    }
}

/// Pages that were taken out of a file.
#[derive(Debug)]
pub(super) struct RemovedPages<P>(Node<P>);

impl<P> RemovedPages<P> {
    /// Number of pages.
    pub(super) fn count(&self) -> u64 {
        fn count<P>(node: &Node<P>) -> u64 {
            match node {
                Node::Page(_) => 1,
                // At most 11 levels.
                Node::Branch(children) => children.iter().flatten().map(count).sum(),
            }
        }
        count(&self.0)
    }
}

#[cfg(test)]
mod tests {

    use super::SparsePages;
    use hermit_interface::Errno;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn insert(pages: &mut SparsePages<u64>, index: u64) {
        assert_eq!(pages.get_or_insert(index, || Ok(index)).map(|page| *page), Ok(index));
    }

    fn truncate(pages: &mut SparsePages<u64>, first: u64) {
        while let Some(removed) = pages.take_from(first) {
            pages.subtract(removed.count());
        }
    }

    #[test]
    fn tree_grows_with_its_last_page() {
        let mut pages = SparsePages::new();
        assert_eq!(pages.get(0), None);
        for index in [0, 63, 64, 4095, 4096, 1 << 40, u64::MAX] {
            insert(&mut pages, index);
        }
        assert_eq!((pages.height, pages.count()), (11, 7));
        assert_eq!((pages.get(64), pages.get(65), pages.get(u64::MAX)), (Some(&64), None, Some(&u64::MAX)));
        truncate(&mut pages, 0);
        assert_eq!((pages.height, pages.count(), pages.get(0)), (0, 0, None));
    }

    #[test]
    fn failed_allocation_leaves_a_hole() {
        let mut pages: SparsePages<u64> = SparsePages::new();
        assert_eq!(pages.get_or_insert(70, || Err(Errno::ENOSPC)), Err(Errno::ENOSPC));
        assert_eq!((pages.get(70), pages.count()), (None, 0));
        insert(&mut pages, 70);
    }

    proptest! {
        #[test]
        fn pages_behave_like_a_map(steps in prop::collection::vec((any::<bool>(), 0_u32..20, any::<u64>()), 1..60)) {
            let mut pages = SparsePages::new();
            let mut model = BTreeMap::new();
            for (is_insert, bits, random) in steps {
                let index = random & ((1 << bits) - 1);
                if is_insert {
                    insert(&mut pages, index);
                    model.insert(index, index);
                } else {
                    truncate(&mut pages, index);
                    model.split_off(&index);
                }
                prop_assert_eq!(pages.count(), model.len() as u64);
                let found: Vec<u64> = model.keys().copied().filter(|key| pages.get(*key) == Some(key)).collect();
                prop_assert_eq!(found.len(), model.len());
                prop_assert_eq!(pages.get(index).copied(), model.get(&index).copied());
            }
        }
    }
}
