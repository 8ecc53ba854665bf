//! The tree of extents: a treap, which is a search tree by address and a heap by random priority.
//!
//! Random priorities give the tree the shape that random insertion would give it: its expected depth is 2 ln
//! n nodes, and it is almost certainly less than 5 ln n. Each node is in the free memory of its extent, so
//! the tree needs no other memory. Nodes have parent links, so no function recurses. Each node stores the
//! largest size in its subtree, so a search for an extent that is large enough skips subtrees without one.
//! When the start of an extent changes, its node keeps its priority, and with it its place in the tree.

use hermit_interface::address::AddressRange;

use super::node::{Node, Side, largest};
use super::{NotAllocated, Words};

/// All extents, ordered by address.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    root: Option<Node>,
    /// Number of priorities generated so far.
    priorities: u64,
}

/// The next extents below and above an allocated range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours {
    pub(crate) below: Option<Node>,
    pub(crate) above: Option<Node>,
}

impl Tree {
    pub(crate) const fn new() -> Self {
        Self { root: None, priorities: 0 }
    }

    /// Size of the largest extent.
    pub(crate) fn largest(&self, words: &impl Words) -> u64 {
        largest(self.root, words)
    }

    /// The lowest extent of at least `size` bytes.
    pub(crate) fn first(&self, words: &impl Words, size: u64) -> Option<Node> {
        first(self.root, words, size)
    }

    /// The extent that contains an address.
    pub(crate) fn containing(&self, words: &impl Words, address: u64) -> Option<Node> {
        let mut next = self.root;
        while let Some(node) = next {
            if node.0 <= address && address < node.end(words) {
                return Some(node);
            }
            next = node.child(words, node.side_of(Node(address)));
        }
        None
    }

    /// The neighbours of `range`. No part of the range may be free.
    pub(crate) fn neighbours(
        &self,
        words: &impl Words,
        range: AddressRange,
    ) -> Result<Neighbours, NotAllocated> {
        let mut found = Neighbours { below: None, above: None };
        let mut next = self.root;
        // Each node on the path is nearer to the range than all earlier nodes on the same side.
        while let Some(node) = next {
            if range.end <= node.0 {
                found.above = Some(node);
                next = node.child(words, Side::Left);
            } else if node.end(words) <= range.start {
                found.below = Some(node);
                next = node.child(words, Side::Right);
            } else {
                return Err(NotAllocated);
            }
        }
        Ok(found)
    }

    /// Inserts an extent between its neighbours.
    pub(crate) fn insert(&mut self, words: &mut impl Words, range: AddressRange, neighbours: Neighbours) {
        // One of the two neighbours is a descendant of the other. The descendant has no child on the side of
        // the other neighbour, so the new node goes there.
        let free_below = neighbours.below.filter(|node| node.child(words, Side::Right).is_none());
        let parent = free_below.or(neighbours.above);
        let node = Node(range.start);
        node.set_size(words, range.size());
        node.set_largest(words, range.size());
        node.set_priority(words, self.next_priority());
        for side in Side::BOTH {
            node.set_child(words, side, None);
        }
        node.set_parent(words, parent);
        match parent {
            Some(parent) => parent.set_child(words, parent.side_of(node), Some(node)),
            None => self.root = Some(node),
        }
        while let Some(parent) = node.parent(words)
            && parent.priority(words) < node.priority(words)
        {
            self.rotate_up(words, node, parent);
        }
        refresh_from(words, node.parent(words));
    }

    /// Removes an extent.
    pub(crate) fn remove(&mut self, words: &mut impl Words, node: Node) {
        while let (Some(left), Some(right)) = (node.child(words, Side::Left), node.child(words, Side::Right))
        {
            let higher = if left.priority(words) < right.priority(words) { right } else { left };
            self.rotate_up(words, higher, node);
        }
        let child = node.child(words, Side::Left).or(node.child(words, Side::Right));
        let parent = node.parent(words);
        self.replace(words, node, parent, child);
        refresh_from(words, parent);
    }

    /// Sets the size of an extent.
    pub(crate) fn resize(&self, words: &mut impl Words, node: Node, size: u64) {
        node.set_size(words, size);
        refresh_from(words, Some(node));
    }

    /// Moves an extent to another start and size, between the same neighbours.
    pub(crate) fn relocate(&mut self, words: &mut impl Words, node: Node, range: AddressRange) {
        let new = Node(range.start);
        new.set_size(words, range.size());
        new.set_largest(words, node.largest(words));
        new.set_priority(words, node.priority(words));
        for side in Side::BOTH {
            let child = node.child(words, side);
            new.set_child(words, side, child);
            if let Some(child) = child {
                child.set_parent(words, Some(new));
            }
        }
        let parent = node.parent(words);
        self.replace(words, node, parent, Some(new));
        refresh_from(words, Some(new));
    }

    /// Rotates a node up: it becomes the parent of its parent.
    fn rotate_up(&mut self, words: &mut impl Words, node: Node, parent: Node) {
        let side = parent.side_of(node);
        let between = node.child(words, side.other());
        parent.set_child(words, side, between);
        if let Some(between) = between {
            between.set_parent(words, Some(parent));
        }
        self.replace(words, parent, parent.parent(words), Some(node));
        node.set_child(words, side.other(), Some(parent));
        parent.set_parent(words, Some(node));
        parent.refresh(words);
        node.refresh(words);
    }

    /// Replaces the child `old` of `parent`, or the root, by `new`.
    fn replace(&mut self, words: &mut impl Words, old: Node, parent: Option<Node>, new: Option<Node>) {
        match parent {
            Some(parent) => parent.set_child(words, parent.side_of(old), new),
            None => self.root = new,
        }
        if let Some(new) = new {
            new.set_parent(words, parent);
        }
    }

    /// Generates a pseudo-random priority: a mixed counter.
    fn next_priority(&mut self) -> u64 {
        self.priorities = self.priorities.wrapping_add(1);
        let mut mixed = self.priorities.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }

    /// Depth of the tree in nodes.
    #[cfg(test)]
    pub(crate) fn depth(&self, words: &impl Words) -> usize {
        fn depth(node: Option<Node>, words: &impl Words) -> usize {
            let below = |node: Node| Side::BOTH.map(|side| depth(node.child(words, side), words));
            node.map_or(0, |node| 1 + below(node).into_iter().max().unwrap_or(0))
        }
        depth(self.root, words)
    }
}

/// The lowest extent of at least `size` bytes in a subtree.
pub(crate) fn first(subtree: Option<Node>, words: &impl Words, size: u64) -> Option<Node> {
    let mut node = subtree.filter(|node| node.largest(words) >= size)?;
    loop {
        let left = node.child(words, Side::Left);
        if largest(left, words) >= size {
            node = left?;
        } else if node.size(words) >= size {
            return Some(node);
        } else {
            node = node.child(words, Side::Right)?;
        }
    }
}

/// The next extent of at least `size` bytes at a higher address than a node.
pub(crate) fn next(mut node: Node, words: &impl Words, size: u64) -> Option<Node> {
    loop {
        if let Some(found) = first(node.child(words, Side::Right), words, size) {
            return Some(found);
        }
        // Ascends to the first ancestor that has this node in its left subtree. This ancestor is next by
        // address.
        loop {
            let child = node;
            node = node.parent(words)?;
            if node.side_of(child) == Side::Left {
                break;
            }
        }
        if node.size(words) >= size {
            return Some(node);
        }
    }
}

/// Updates the largest sizes of subtrees from a node upwards, until one does not change.
fn refresh_from(words: &mut impl Words, start: Option<Node>) {
    let mut next = start;
    while let Some(node) = next
        && node.refresh(words)
    {
        next = node.parent(words);
    }
}
