//! A node of the tree, in the first words of the range it stands for.

use super::Words;

/// Where its parts lie; together less than a cache line.
const SIZE: u64 = 0;
const LARGEST: u64 = 8;
const PRIORITY: u64 = 16;
const PARENT: u64 = 24;
const LEFT: u64 = 32;
const RIGHT: u64 = 40;

/// One of the two children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Everything below the node.
    Left,
    /// Everything above it.
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

/// A free range, known by the address at which it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) u64);

impl Node {
    /// How many bytes are free here.
    pub(crate) fn size(self, words: &impl Words) -> u64 {
        words.read(self.0 + SIZE)
    }

    pub(crate) fn set_size(self, words: &mut impl Words, size: u64) {
        words.write(self.0 + SIZE, size);
    }

    /// The address after the range.
    pub(crate) fn end(self, words: &impl Words) -> u64 {
        self.0 + self.size(words)
    }

    /// The largest size in the subtree.
    pub(crate) fn largest(self, words: &impl Words) -> u64 {
        words.read(self.0 + LARGEST)
    }

    pub(crate) fn set_largest(self, words: &mut impl Words, size: u64) {
        words.write(self.0 + LARGEST, size);
    }

    /// No child has a higher one than its parent.
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

    /// On which side of this node another one belongs.
    pub(crate) const fn side_of(self, other: Self) -> Side {
        if other.0 < self.0 { Side::Left } else { Side::Right }
    }

    /// Corrects the largest size after something below has changed; returns whether that made a difference.
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

/// The largest size in a subtree, zero if there is none.
pub(crate) fn largest(subtree: Option<Node>, words: &impl Words) -> u64 {
    subtree.map_or(0, |node| node.largest(words))
}

/// Zero is "none"; one more than the address, which is even, is never zero.
fn to_link(node: Option<Node>) -> u64 {
    node.map_or(0, |node| node.0 | 1)
}

fn from_link(link: u64) -> Option<Node> {
    (link != 0).then_some(Node(link & !1))
}
