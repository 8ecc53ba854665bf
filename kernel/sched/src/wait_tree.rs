//! Waiting threads of several futex addresses that share a bucket of the hash table: a tree of the addresses,
//! whose nodes are fields of the threads.
//!
//! It is a digital search tree (Coffman, Eve: File structures using hashing functions, 1970): in each step,
//! one bit of the address's hash chooses the child. So the number of steps is at most the number of bits in
//! which hashes of one bucket can differ. This bounds the time under the lock of the bucket for all
//! addresses, without balancing the tree.

use core::sync::atomic::Ordering::Relaxed;

use crate::futex::hash;
use crate::link::Link;
use crate::list::same;
use crate::thread::Thread;

/// Number of leading bits of the hash that are the same for all addresses of a bucket.
const BUCKET_BITS: u32 = 8;

/// The node of an address in a [`WaitTree`]: the thread that has waited longest for the address. Later
/// waiters for the same address follow in a list.
#[derive(Debug)]
pub(crate) struct TreeNode<T: 'static> {
    children: [Link<T>; 2],
    /// The last thread of the list.
    last: Link<T>,
}

impl<T> TreeNode<T> {
    pub(crate) fn new() -> Self {
        Self { children: [const { Link::new(None) }; 2], last: Link::new(None) }
    }
}

/// Waiting threads by address. Threads with the same address are in the order of arrival.
#[derive(Debug)]
pub(crate) struct WaitTree<T: 'static> {
    root: Option<&'static T>,
}

/// A link of the tree: the root, or a child of a node.
enum Place<T: 'static> {
    Root,
    Child(&'static T, usize),
}

impl<T> WaitTree<T> {
    pub(crate) const fn new() -> Self {
        Self { root: None }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

fn child<T: Thread>(node: &'static T, side: usize) -> &'static Link<T> {
    let [left, right] = &node.entity().tree.children;
    if side == 0 { left } else { right }
}

impl<T: Thread> WaitTree<T> {
    fn get(&self, place: &Place<T>) -> Option<&'static T> {
        match *place {
            Place::Root => self.root,
            Place::Child(node, side) => child(node, side).load(),
        }
    }

    fn set(&mut self, place: &Place<T>, node: Option<&'static T>) {
        match *place {
            Place::Root => self.root = node,
            Place::Child(parent, side) => child(parent, side).store(node),
        }
    }

    /// The link to the node of an address, or the empty link at which the node would be inserted.
    fn locate(&self, address: u64) -> Place<T> {
        let mut bits = hash(address) << BUCKET_BITS;
        let mut place = Place::Root;
        while let Some(node) = self.get(&place) {
            #[cfg(test)]
            #[cfg(not(loom))]
            tests::count_step();
            if node.entity().address.load(Relaxed) == address {
                break;
            }
            place = Place::Child(node, usize::from(bits.leading_ones() > 0));
            bits <<= 1;
        }
        place
    }

    /// The thread that has waited longest for an address.
    pub(crate) fn first(&self, address: u64) -> Option<&'static T> {
        self.get(&self.locate(address))
    }

    /// Adds a thread, whose address is set, after those that wait for the same address.
    pub(crate) fn push(&mut self, thread: &'static T) {
        let entity = thread.entity();
        let place = self.locate(entity.address.load(Relaxed));
        entity.waiting.next.store(None);
        let Some(head) = self.get(&place) else {
            child(thread, 0).store(None);
            child(thread, 1).store(None);
            entity.tree.last.store(Some(thread));
            self.set(&place, Some(thread));
            return;
        };
        let last = head.entity().tree.last.load();
        entity.waiting.previous.store(last);
        if let Some(last) = last {
            last.entity().waiting.next.store(Some(thread));
        }
        head.entity().tree.last.store(Some(thread));
    }

    /// Removes a thread, whose address is still set.
    pub(crate) fn remove(&mut self, thread: &'static T) {
        let entity = thread.entity();
        let place = self.locate(entity.address.load(Relaxed));
        let Some(head) = self.get(&place) else { return };
        let next = entity.waiting.next.load();
        if same(head, thread) {
            let successor = next.or_else(|| self.take_leaf(thread));
            if let Some(successor) = successor {
                (0..2).for_each(|side| child(successor, side).store(child(thread, side).load()));
            }
            if let Some(next) = next {
                next.entity().tree.last.store(entity.tree.last.load());
            }
            self.set(&place, successor);
            return;
        }
        let previous = entity.waiting.previous.load();
        if let Some(previous) = previous {
            previous.entity().waiting.next.store(next);
        }
        match next {
            Some(next) => next.entity().waiting.previous.store(previous),
            None => head.entity().tree.last.store(previous),
        }
    }

    /// Removes and returns a leaf below a node; `None` if the node itself is a leaf. The leaf's hash begins
    /// with the bits that lead to the node, so the leaf can replace the node.
    fn take_leaf(&mut self, node: &'static T) -> Option<&'static T> {
        let mut found = None;
        let mut node = node;
        while let Some((side, below)) = (0..2).find_map(|side| Some((side, child(node, side).load()?))) {
            #[cfg(test)]
            #[cfg(not(loom))]
            tests::count_step();
            found = Some((Place::Child(node, side), below));
            node = below;
        }
        let (place, leaf) = found?;
        self.set(&place, None);
        Some(leaf)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests {
    extern crate std;

    use super::WaitTree;
    use crate::testing::{TestThread, threads};
    use core::cell::Cell;
    use core::sync::atomic::Ordering::Relaxed;
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};
    use std::collections::{BTreeMap, VecDeque};
    use std::thread_local;

    thread_local! {
        /// Number of steps from a node to another one.
        pub(crate) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_step() {
        STEPS.set(STEPS.get() + 1);
    }

    proptest! {
        #[test]
        fn wait_tree_agrees_with_a_map_of_deques(steps in vec((0..3_u8, 0..40_usize, 1..20_u64), 0..300)) {
            let all = threads(40);
            let mut tree = WaitTree::<TestThread>::new();
            let mut model: BTreeMap<u64, VecDeque<usize>> = BTreeMap::new();
            for (step, index, address) in steps {
                let address = address * 4;
                let waits_for = all[index].entity.address.load(Relaxed);
                match step {
                    0 if waits_for == 0 => {
                        all[index].entity.address.store(address, Relaxed);
                        tree.push(all[index]);
                        model.entry(address).or_default().push_back(index);
                    }
                    1 if waits_for != 0 => {
                        tree.remove(all[index]);
                        all[index].entity.address.store(0, Relaxed);
                        model.entry(waits_for).or_default().retain(|other| *other != index);
                    }
                    _ => {
                        let first = tree.first(address);
                        prop_assert_eq!(
                            first.map(|thread| thread.number),
                            model.entry(address).or_default().pop_front()
                        );
                        if let Some(first) = first {
                            tree.remove(first);
                            first.entity.address.store(0, Relaxed);
                        }
                    }
                }
                prop_assert_eq!(tree.is_empty(), model.values().all(VecDeque::is_empty));
            }
        }
    }
}
