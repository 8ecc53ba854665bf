//! A node of the tree, which lies in the first words of its extent.

use super::Words;

/// Offsets of the fields. All fields are in one cache line.
const SIZE: u64 = 0;
const LARGEST: u64 = 8;
const PRIORITY: u64 = 16;
const PARENT: u64 = 24;
const LEFT: u64 = 32;
const RIGHT: u64 = 40;

/// Side of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Lower addresses.
    Left,
    /// Higher addresses.
    Right,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Left, Self::Right];

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    const fn offset(self) -> u64 {
        match self {
            Self::Left => LEFT,
            Self::Right => RIGHT,
        }
    }
}

/// A free extent, identified by its start address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) u64);

impl Node {
    /// Size of the extent in bytes.
    pub(crate) fn size(self, words: &impl Words) -> u64 {
        words.read(self.0 + SIZE)
    }

    pub(crate) fn set_size(self, words: &mut impl Words, size: u64) {
        words.write(self.0 + SIZE, size);
    }

    /// First address after the extent.
    pub(crate) fn end(self, words: &impl Words) -> u64 {
        self.0 + self.size(words)
    }

    /// Largest size of an extent in the subtree.
    pub(crate) fn largest(self, words: &impl Words) -> u64 {
        words.read(self.0 + LARGEST)
    }

    pub(crate) fn set_largest(self, words: &mut impl Words, size: u64) {
        words.write(self.0 + LARGEST, size);
    }

    /// Heap priority: not higher than that of the parent.
    pub(crate) fn priority(self, words: &impl Words) -> u64 {
        words.read(self.0 + PRIORITY)
    }

    pub(crate) fn set_priority(self, words: &mut impl Words, priority: u64) {
        words.write(self.0 + PRIORITY, priority);
    }

    pub(crate) fn parent(self, words: &impl Words) -> Option<Self> {
        from_link(words.read(self.0 + PARENT))
    }

    pub(crate) fn set_parent(self, words: &mut impl Words, parent: Option<Self>) {
        words.write(self.0 + PARENT, to_link(parent));
    }

    pub(crate) fn child(self, words: &impl Words, side: Side) -> Option<Self> {
        from_link(words.read(self.0 + side.offset()))
    }

    pub(crate) fn set_child(self, words: &mut impl Words, side: Side, child: Option<Self>) {
        words.write(self.0 + side.offset(), to_link(child));
    }

    /// The side of this node on which another node belongs.
    pub(crate) const fn side_of(self, other: Self) -> Side {
        if other.0 < self.0 { Side::Left } else { Side::Right }
    }

    /// Updates the largest size of the subtree after a change below. Returns true if it has changed.
    pub(crate) fn refresh(self, words: &mut impl Words) -> bool {
        let below = |side| largest(self.child(words, side), words);
        let new = self.size(words).max(below(Side::Left)).max(below(Side::Right));
        let is_changed = self.largest(words) != new;
        if is_changed {
            self.set_largest(words, new);
        }
        is_changed
    }
}

/// Largest size in a subtree; 0 if it is empty.
pub(crate) fn largest(subtree: Option<Node>, words: &impl Words) -> u64 {
    subtree.map_or(0, |node| node.largest(words))
}

/// Encodes a link: 0 for none, else the address, which is even, with bit 0 set.
fn to_link(node: Option<Node>) -> u64 {
    node.map_or(0, |node| node.0 | 1)
}

fn from_link(link: u64) -> Option<Node> {
    (link != 0).then_some(Node(link & !1))
}
