//! The inodes that the guest refers to.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hermit_fuse::ROOT_NODE;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::super::slots::Slots;

/// Device and number of an inode.
type Identity = (u64, u64);

/// An inode with the number of references that the guest has to it.
#[derive(Debug)]
struct Node {
    inode: Arc<OwnedFd>,
    identity: Identity,
    references: u64,
}

/// Inodes by the numbers that the guest has for them. An inode has one number, however many names it has: its descriptor
/// keeps it, so that its number on the host is not used again meanwhile.
#[derive(Debug)]
pub(super) struct Nodes {
    root: Arc<OwnedFd>,
    slots: Slots<Node>,
    numbers: HashMap<Identity, u64>,
}

impl Nodes {
    /// Table with the root, and room for `max` other inodes.
    pub(super) fn new(root: Arc<OwnedFd>, max: usize) -> Self {
        Self { root, slots: Slots::new(max), numbers: HashMap::new() }
    }

    /// Descriptor (`O_PATH`) of a node.
    ///
    /// # Errors
    ///
    /// `ESTALE`: the guest has no reference to it.
    pub(super) fn get(&self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        if number == ROOT_NODE {
            return Ok(Arc::clone(&self.root));
        }
        self.slots.get(number).map(|node| Arc::clone(&node.inode)).ok_or(Errno::STALE)
    }

    /// Whether there is no room for a further inode.
    pub(super) fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// Adds a reference to an inode, of which `status` are the attributes, and returns its number.
    ///
    /// # Errors
    ///
    /// `ENFILE`: the table is full.
    pub(super) fn refer(&mut self, inode: OwnedFd, status: &Stat) -> Result<u64, Errno> {
        let identity = (status.st_dev, status.st_ino);
        if let Some(&number) = self.numbers.get(&identity) {
            if let Some(node) = self.slots.get_mut(number) {
                node.references = node.references.saturating_add(1);
            }
            return Ok(number);
        }
        let node = Node { inode: Arc::new(inode), identity, references: 1 };
        let number = self.slots.insert(node).ok_or(Errno::NFILE)?;
        self.numbers.insert(identity, number);
        Ok(number)
    }

    /// Drops references. The inode is closed with the last one.
    pub(super) fn forget(&mut self, number: u64, count: u64) {
        let Some(node) = self.slots.get_mut(number) else { return };
        node.references = node.references.saturating_sub(count);
        if node.references == 0 {
            self.numbers.remove(&node.identity);
            self.slots.remove(number);
        }
    }
}
