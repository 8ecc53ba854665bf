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

/// Descriptor of an inode.
#[derive(Clone, Debug)]
struct Inode {
    descriptor: Arc<OwnedFd>,
    /// True if the inode is open. Otherwise the descriptor only refers to it (`O_PATH`).
    is_open: bool,
}

/// An inode, and the number of references that the guest has to it.
#[derive(Debug)]
struct Node {
    inode: Inode,
    identity: Identity,
    references: u64,
}

/// Inodes by node number, by which the guest refers to them. An inode has only one node number, even if it
/// has several names: it is recognised by its device and inode number on the host. Its descriptor keeps the
/// inode in use, so the host does not reuse this inode number meanwhile.
#[derive(Debug)]
pub(super) struct Nodes {
    root: Inode,
    slots: Slots<Node>,
    numbers: HashMap<Identity, u64>,
}

impl Nodes {
    /// Creates a table with the root, and room for `max` other inodes.
    pub(super) fn new(root: Arc<OwnedFd>, max: usize) -> Self {
        let root = Inode { descriptor: root, is_open: false };
        Self { root, slots: Slots::new(max), numbers: HashMap::new() }
    }

    /// Returns the descriptor of a node. It may be an `O_PATH` descriptor.
    ///
    /// # Errors
    ///
    /// `ESTALE`: the guest has no reference to the node.
    pub(super) fn get(&self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.inode(number).map(|inode| Arc::clone(&inode.descriptor)).ok_or(Errno::STALE)
    }

    /// Returns the descriptor of a node that is [kept open](Self::keep_open).
    pub(super) fn opened(&self, number: u64) -> Option<Arc<OwnedFd>> {
        self.inode(number).filter(|inode| inode.is_open).map(|inode| Arc::clone(&inode.descriptor))
    }

    /// Replaces the `O_PATH` descriptor of a node by a descriptor of the open file, until the guest drops its
    /// last reference. The new descriptor can do everything that the old one can.
    pub(super) fn keep_open(&mut self, number: u64, descriptor: Arc<OwnedFd>) {
        let inode = if number == ROOT_NODE {
            Some(&mut self.root)
        } else {
            self.slots.get_mut(number).map(|node| &mut node.inode)
        };
        if let Some(inode) = inode {
            *inode = Inode { descriptor, is_open: true };
        }
    }

    fn inode(&self, number: u64) -> Option<&Inode> {
        if number == ROOT_NODE {
            return Some(&self.root);
        }
        self.slots.get(number).map(|node| &node.inode)
    }

    /// Returns true if there is no room for another inode.
    pub(super) fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// Adds a reference to an inode, and returns its node number. `status` has the attributes of the inode.
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
        let inode = Inode { descriptor: Arc::new(inode), is_open: false };
        let node = Node { inode, identity, references: 1 };
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
