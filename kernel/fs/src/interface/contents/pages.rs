//! The pages of a sparse file, in a radix tree.
//!
//! As in Linux's `XArray`, each level decodes six bits of the page number, and the tree is only as high as
//! its last page needs. So a small file has one page and no branch, and a hole takes no memory.
//! [`SparsePages::missing`] returns the memory that the tree needs for a page before it is allocated, so that
//! the caller can charge it against the limit of the file system. Large numbers of pages are removed in parts
//! ([`SparsePages::take_from`]), since they must be freed without the lock of the file.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use hermit_interface::{Errno, to_usize};

use crate::interface::PAGE_SIZE;

/// Size of a page in bytes, in the type of file sizes.
pub(crate) const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// Number of bits of a page number that a level of the tree decodes.
const BITS: u32 = 6;

/// Children of a branch.
const FANOUT: usize = 1 << BITS;

/// A sparse array of pages. Holes take no memory.
#[derive(Debug)]
pub(super) struct SparsePages<P> {
    root: Option<Node<P>>,
    /// Levels of branches above the pages.
    height: u32,
    /// Pages, and the branches above them.
    count: Count,
}

/// The children of a branch.
type Children<P> = Box<[Option<Node<P>>; FANOUT]>;

/// Numbers of pages and of branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) pages: u64,
    pub(super) branches: u64,
}

impl Count {
    /// Size of these pages and branches in bytes.
    pub(super) const fn size(self) -> u64 {
        self.pages * PAGE_BYTES + self.branches * BRANCH_BYTES
    }
}

/// Size of a branch in bytes. Its pages are boxes.
const BRANCH_BYTES: u64 = size_of::<[Option<Node<Box<u8>>>; FANOUT]>() as u64;

#[derive(Debug)]
enum Node<P> {
    Page(P),
    Branch(Children<P>),
}

impl<P> Node<P> {
    /// A branch without children.
    fn branch() -> Result<Self, Errno> {
        let mut children = Vec::new();
        children.try_reserve_exact(FANOUT).map_err(|_| Errno::ENOMEM)?;
        children.resize_with(FANOUT, || None);
        children.into_boxed_slice().try_into().map(Self::Branch).map_err(|_| Errno::ENOMEM)
    }

    /// Sets the first child of a branch.
    fn set_first(&mut self, child: Self) {
        if let Self::Branch(children) = self {
            children[0] = Some(child);
        }
    }
}

/// Returns the index of a branch's child that leads to page `index`. The lowest branches are at `level` 0.
#[inline]
const fn child(index: u64, level: u32) -> usize {
    to_usize(index >> (level * BITS)) % FANOUT
}

/// Returns true if a tree of the given height has a place for page `index`.
#[inline]
const fn covers(height: u32, index: u64) -> bool {
    let bits = height * BITS;
    bits >= u64::BITS || index >> bits == 0
}

/// Returns the place of page `index` in a tree that is high enough. Allocates and counts missing branches.
fn place<'a, P>(
    root: &'a mut Option<Node<P>>,
    height: u32,
    branches: &mut u64,
    index: u64,
) -> Result<&'a mut Option<Node<P>>, Errno> {
    let mut place = root;
    for level in (0..height).rev() {
        if place.is_none() {
            *place = Some(Node::branch()?);
            *branches += 1;
        }
        let Some(Node::Branch(children)) = place else { return Err(Errno::EIO) };
        place = &mut children[child(index, level)];
    }
    Ok(place)
}

impl<P> SparsePages<P> {
    /// Creates an empty array.
    pub(super) const fn new() -> Self {
        Self { root: None, height: 0, count: Count { pages: 0, branches: 0 } }
    }

    /// Number of pages, without holes, and number of branches.
    pub(super) const fn count(&self) -> Count {
        self.count
    }

    /// Numbers of pages and branches that page `index` needs in addition to the existing ones. Both are 0 if
    /// the page exists.
    #[inline]
    pub(super) fn missing(&mut self, index: u64) -> Count {
        if self.get(index).is_some() {
            return Count::default();
        }
        Count { pages: 1, branches: self.missing_branches(index) }
    }

    /// Number of branches that page `index`, which does not exist, needs in addition to the existing ones.
    fn missing_branches(&mut self, index: u64) -> u64 {
        let needed = (0..).find(|height| covers(*height, index)).unwrap_or(0);
        let Some(mut node) = self.root.as_ref() else { return self.height.max(needed).into() };
        if needed > self.height {
            // The sum of the new branches above the root, and the branches on the way down from the uppermost
            // new branch.
            return (needed - self.height + needed - 1).into();
        }
        for level in (0..self.height).rev() {
            let Node::Branch(children) = node else { return 0 };
            match &children[child(index, level)] {
                Some(next) => node = next,
                None => return level.into(),
            }
        }
        0
    }

    /// Returns page `index`, or `None` in a hole.
    #[inline]
    pub(super) fn get(&self, index: u64) -> Option<&P> {
        if !covers(self.height, index) {
            return None;
        }
        let mut node = self.root.as_ref()?;
        for level in (0..self.height).rev() {
            let Node::Branch(children) = node else { return None };
            node = children[child(index, level)].as_ref()?;
        }
        match node {
            Node::Page(page) => Some(page),
            Node::Branch(_) => None,
        }
    }

    /// Returns page `index`. In a hole, first creates the page with `allocate`.
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
        let place = place(&mut self.root, self.height, &mut self.count.branches, index)?;
        if place.is_none() {
            *place = Some(Node::Page(allocate()?));
            self.count.pages += 1;
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
                // The branch is allocated before the root is changed, so that the tree stays valid if there
                // is no memory.
                let branch = Node::branch()?;
                let below = mem::replace(root, branch);
                root.set_first(below);
                self.count.branches += 1;
            }
            self.height += 1;
        }
        Ok(())
    }

    /// Takes out a part of the pages whose number is at least `first`. Returns `None` if no such pages are
    /// left. A part may be large, so the caller drops it, and calls [`Self::subtract`], when it holds no
    /// lock.
    pub(super) fn take_from(&mut self, first: u64) -> Option<RemovedPages<P>> {
        if first == 0 {
            self.height = 0;
            return self.root.take().map(RemovedPages);
        }
        if !covers(self.height, first) {
            return None;
        }
        let mut node = self.root.as_mut()?;
        // A child on the path to page `first` also has pages before `first`, unless `first` is the first page
        // below the child.
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
            node = children[on_path].as_mut()?;
        }
        None
    }

    /// Subtracts the numbers of removed pages and branches.
    pub(super) const fn subtract(&mut self, count: Count) {
        self.count.pages -= count.pages;
        self.count.branches -= count.branches;
    }
}

/// Pages that were taken out of a file.
#[derive(Debug)]
pub(super) struct RemovedPages<P>(Node<P>);

impl<P> RemovedPages<P> {
    /// Number of pages and branches.
    pub(super) fn count(&self) -> Count {
        fn add<P>(node: &Node<P>, count: &mut Count) {
            match node {
                Node::Page(_) => count.pages += 1,
                Node::Branch(children) => {
                    count.branches += 1;
                    // The recursion has at most 11 levels.
                    children.iter().flatten().for_each(|node| add(node, count));
                }
            }
        }
        let mut count = Count::default();
        add(&self.0, &mut count);
        count
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {

    use super::{Count, RemovedPages, SparsePages};
    use hermit_interface::Errno;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn insert(pages: &mut SparsePages<u64>, index: u64) {
        let (before, missing) = (pages.count().branches, pages.missing_branches(index));
        let is_new = pages.get(index).is_none();
        assert_eq!(pages.get_or_insert(index, || Ok(index)).map(|page| *page), Ok(index));
        assert!(!is_new || pages.count().branches == before + missing);
        let root = pages.root.take();
        let counted = root.map(RemovedPages);
        assert_eq!(counted.as_ref().map(RemovedPages::count), Some(pages.count()));
        pages.root = counted.map(|removed| removed.0);
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
        assert_eq!((pages.height, pages.count().pages), (11, 7));
        assert_eq!((pages.get(64), pages.get(65), pages.get(u64::MAX)), (Some(&64), None, Some(&u64::MAX)));
        truncate(&mut pages, 0);
        assert_eq!((pages.height, pages.count(), pages.get(0)), (0, Count::default(), None));
    }

    #[test]
    fn failed_allocation_leaves_a_hole() {
        let mut pages: SparsePages<u64> = SparsePages::new();
        assert_eq!(pages.get_or_insert(70, || Err(Errno::ENOSPC)), Err(Errno::ENOSPC));
        assert_eq!((pages.get(70), pages.count().pages), (None, 0));
        insert(&mut pages, 70);
    }

    proptest! {
        #[test]
        fn pages_behave_like_a_map(steps in prop::collection::vec((0_u32..3, 0_u32..20, any::<u64>()), 1..if cfg!(miri) { 20 } else { 60 })) {
            let mut pages = SparsePages::new();
            let mut model = BTreeMap::new();
            for (step, bits, random) in steps {
                let index = random & ((1 << bits) - 1);
                match step {
                    0 | 1 => {
                        insert(&mut pages, index);
                        model.insert(index, index);
                    }
                    _ => {
                        truncate(&mut pages, index);
                        model.split_off(&index);
                    }
                }
                prop_assert_eq!(pages.count().pages, model.len() as u64);
                let found: Vec<u64> = model.keys().copied().filter(|key| pages.get(*key) == Some(key)).collect();
                prop_assert_eq!(found.len(), model.len());
                prop_assert_eq!(pages.get(index).copied(), model.get(&index).copied());
            }
        }
    }
}
