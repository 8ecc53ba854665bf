//! The entries of a directory of a ramfs.
//!
//! The entries are in a tree that is ordered by the hashes of their names. So the time of a call hardly
//! depends on the number of entries. This matters because the lock of an inode masks interrupts. A node of
//! the tree is either a list of a few entries, or a branch that is indexed by the next four bits of the hash.
//!
//! Readers get the entries in the order of the hashes. So a reader can continue from any position, even if
//! entries were added or removed meanwhile.

mod entry_name;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasher as _, Hasher as _};

use hashbrown::DefaultHashBuilder;
use hermit_interface::{Errno, to_usize};

use crate::interface::contents::Times;
use crate::interface::short_string::is_same;
use crate::interface::{FileType, Ino, Time};

pub(super) use entry_name::EntryName;

/// Number of bits of a key that a branch decodes.
const BITS: u32 = 4;

/// Children of a branch.
const FANOUT: usize = 1 << BITS;

/// Maximum length of a list. A longer list is split, except at the lowest level.
const MAX_LIST: usize = 12;

/// Number of bits of a key. The position after a key must fit into an `i64` in the interface to programs.
const KEY_BITS: u32 = 62;

/// Low bits of a key. They distinguish names with the same hash.
const SEQUENCE: u64 = 0x7f;

/// The least significant bit by which a branch decides.
const LAST_SHIFT: u32 = 10;

/// An entry.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    /// Hash of the name, and a number that distinguishes the entry from other entries with the same hash.
    key: u64,
    pub(super) ino: Ino,
    pub(super) file_type: FileType,
    pub(super) name: EntryName,
}

impl DirectoryEntry {
    /// Position of a reader after this entry.
    pub(super) const fn next(&self) -> u64 {
        self.key + 1
    }

    #[inline(always)]
    fn is(&self, hash: u64, name: &[u8]) -> bool {
        self.key & !SEQUENCE == hash && is_same(&self.name, name)
    }
}

/// The inode and type that a removed entry had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) ino: Ino,
    pub(super) file_type: FileType,
}

/// A place for a new entry. The memory for the entry is already reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vacancy(u64);

/// A directory.
#[derive(Debug)]
pub(super) struct Directory {
    /// The parent directory. The parent of the root is the root itself.
    pub(super) parent: Ino,
    /// True if the directory has a counted reference to its parent, because `..` must lead there even after
    /// the directory was removed.
    pub(super) keeps_parent: bool,
    pub(super) times: Times,
    root: Node,
    len: u64,
    hasher: DefaultHashBuilder,
}

/// A node of the tree. Each branch has at least one entry below it.
#[derive(Debug)]
enum Node {
    List(Vec<DirectoryEntry>),
    /// [`FANOUT`] children.
    Branch(Box<[Self]>),
}

/// Returns the index of a branch's child that leads to a key.
#[inline]
const fn child(key: u64, shift: u32) -> usize {
    to_usize(key >> shift) % FANOUT
}

impl Directory {
    /// An empty directory.
    pub(super) fn new(parent: Ino, now: Time) -> Self {
        let (times, hasher) = (Times::new(now), DefaultHashBuilder::default());
        Self { parent, keeps_parent: false, times, root: Node::empty(), len: 0, hasher }
    }

    /// Returns true if there is no entry.
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of entries.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    fn hash(&self, name: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(name);
        (hasher.finish() >> (u64::BITS - KEY_BITS)) & !SEQUENCE
    }

    /// Returns the entry with a name.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Result<&DirectoryEntry, Errno> {
        let hash = self.hash(name);
        let entries = self.root.list(hash);
        position(entries, hash, name).map(|position| &entries[position]).ok_or(Errno::ENOENT)
    }

    /// Adds an entry with a new name.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`].
    #[inline(always)]
    pub(super) fn add(&mut self, name: EntryName, target: (Ino, FileType)) -> Result<(), Errno> {
        let vacancy = self.prepare(&name)?;
        self.insert(vacancy, name, target)
    }

    /// Makes room for an entry with a new name, so that [`Self::insert`] needs no memory.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name exists, `ENOMEM`; `ENOSPC` if there are 128 names of the same hash.
    #[inline]
    pub(super) fn prepare(&mut self, name: &[u8]) -> Result<Vacancy, Errno> {
        let hash = self.hash(name);
        let entries = self.root.list(hash);
        if position(entries, hash, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let is_free = |key: &u64| entries.iter().all(|entry| entry.key != *key);
        let key = (hash..=hash | SEQUENCE).find(is_free).ok_or(Errno::ENOSPC)?;
        self.root.reserve(key)?;
        Ok(Vacancy(key))
    }

    /// Adds an entry in a place that was [prepared](Self::prepare) for its name. No entry was added or
    /// removed since then.
    ///
    /// # Errors
    ///
    /// That of [`Node::list_mut`].
    pub(super) fn insert(
        &mut self,
        Vacancy(key): Vacancy,
        name: EntryName,
        (ino, file_type): (Ino, FileType),
    ) -> Result<(), Errno> {
        self.root.list_mut(key)?.push(DirectoryEntry { key, ino, file_type, name });
        self.len += 1;
        Ok(())
    }

    /// Removes the entry with a name.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(super) fn remove(&mut self, name: &[u8]) -> Result<Removed, Errno> {
        self.remove_if(name, |_| true)
    }

    #[inline(always)]
    fn remove_if(&mut self, name: &[u8], is_removable: fn(FileType) -> bool) -> Result<Removed, Errno> {
        let key = (self.hash(name), name);
        let removed = match &mut self.root {
            // Most directories are a single list. This avoids a function call for them.
            Node::List(entries) => remove_from(entries, key, is_removable)?,
            root @ Node::Branch(_) => root.remove(key, is_removable, Node::TOP)?,
        };
        self.len -= 1;
        Ok(removed)
    }

    /// Removes an entry as [`Self::remove`], if it is not a directory.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EISDIR`.
    #[inline(always)]
    pub(super) fn remove_file(&mut self, name: &[u8]) -> Result<Removed, Errno> {
        self.remove_if(name, |file_type| file_type != FileType::Directory)
    }

    /// Replaces the inode of an entry. Returns the previous inode.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(super) fn replace(
        &mut self,
        name: &[u8],
        ino: Ino,
        file_type: FileType,
    ) -> Result<(Ino, FileType), Errno> {
        let hash = self.hash(name);
        let mut entries = self.root.list_mut(hash)?.iter_mut();
        let entry = entries.find(|entry| entry.is(hash, name)).ok_or(Errno::ENOENT)?;
        let before = (entry.ino, entry.file_type);
        (entry.ino, entry.file_type) = (ino, file_type);
        Ok(before)
    }

    /// Returns the first entry at or after a reader's position.
    pub(super) fn entry_from(&self, position: u64) -> Option<&DirectoryEntry> {
        if position >> KEY_BITS != 0 {
            return None;
        }
        self.root.entry_from(position, Node::TOP)
    }
}

impl Node {
    /// Shift of the bits by which the uppermost branch decides.
    const TOP: u32 = KEY_BITS - BITS;

    const fn empty() -> Self {
        Self::List(Vec::new())
    }

    const fn is_empty(&self) -> bool {
        matches!(self, Self::List(entries) if entries.is_empty())
    }

    /// The list in which a key belongs.
    #[inline]
    fn list(&self, key: u64) -> &[DirectoryEntry] {
        let (mut node, mut shift) = (self, Self::TOP);
        loop {
            match node {
                Self::List(entries) => return entries,
                Self::Branch(children) => match children.get(child(key, shift)) {
                    Some(next) => (node, shift) = (next, shift - BITS),
                    None => return &[],
                },
            }
        }
    }

    /// The list in which a key belongs.
    ///
    /// # Errors
    ///
    /// `EIO` if a branch does not have all its children. This does not happen.
    #[inline]
    fn list_mut(&mut self, key: u64) -> Result<&mut Vec<DirectoryEntry>, Errno> {
        let (mut node, mut shift) = (self, Self::TOP);
        loop {
            match node {
                Self::List(entries) => return Ok(entries),
                Self::Branch(children) => {
                    node = children.get_mut(child(key, shift)).ok_or(Errno::EIO)?;
                    shift -= BITS;
                }
            }
        }
    }

    /// Makes room for an entry in the list of a key. Splits a list that is too long.
    #[inline]
    fn reserve(&mut self, key: u64) -> Result<(), Errno> {
        match self {
            Self::List(entries) if entries.len() < entries.capacity().min(MAX_LIST) => Ok(()),
            _ => self.reserve_slow(key),
        }
    }

    /// Does [`Self::reserve`] if the list is full or is below a branch.
    #[inline(never)]
    fn reserve_slow(&mut self, key: u64) -> Result<(), Errno> {
        let (mut node, mut shift) = (self, Self::TOP);
        loop {
            if node.reserve_here(shift)? {
                return Ok(());
            }
            let Self::Branch(children) = node else { return Err(Errno::EIO) };
            node = children.get_mut(child(key, shift)).ok_or(Errno::EIO)?;
            shift -= BITS;
        }
    }

    /// Makes room for an entry in this node if it is a list, or splits the list. Returns true if there is
    /// room.
    fn reserve_here(&mut self, shift: u32) -> Result<bool, Errno> {
        let Self::List(entries) = self else { return Ok(false) };
        let is_short = entries.len() < MAX_LIST || shift < LAST_SHIFT;
        if is_short {
            entries.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        } else {
            *self = Self::Branch(split(entries, shift)?);
        }
        Ok(is_short)
    }

    /// Removes an entry if `is_removable` accepts its type.
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EISDIR` if its type is not accepted.
    fn remove(
        &mut self,
        (hash, name): (u64, &[u8]),
        is_removable: fn(FileType) -> bool,
        shift: u32,
    ) -> Result<Removed, Errno> {
        match self {
            Self::List(entries) => remove_from(entries, (hash, name), is_removable),
            Self::Branch(children) => {
                let child = children.get_mut(child(hash, shift)).ok_or(Errno::ENOENT)?;
                let removed = child.remove((hash, name), is_removable, shift - BITS);
                if child.is_empty() {
                    *child = Self::empty();
                }
                if children.iter().all(Self::is_empty) {
                    *self = Self::empty();
                }
                removed
            }
        }
    }

    /// Returns the entry with the lowest key that is at least `key`.
    fn entry_from(&self, key: u64, shift: u32) -> Option<&DirectoryEntry> {
        match self {
            Self::List(entries) => {
                entries.iter().filter(|entry| entry.key >= key).min_by_key(|entry| entry.key)
            }
            Self::Branch(children) => {
                let (first, shift) = (child(key, shift), shift - BITS);
                let found = children.get(first)?.entry_from(key, shift);
                let rest = || children.iter().skip(first + 1).find(|child| !child.is_empty());
                found.or_else(|| rest()?.entry_from(0, shift))
            }
        }
    }
}

/// Returns the index of the entry with a name.
#[inline(always)]
fn position(entries: &[DirectoryEntry], hash: u64, name: &[u8]) -> Option<usize> {
    // A loop is used instead of `Iterator::position`, which the compiler may not inline.
    let mut position = 0;
    while position < entries.len() {
        if entries[position].is(hash, name) {
            return Some(position);
        }
        position += 1;
    }
    None
}

/// Does [`Node::remove`] for a list.
#[inline(always)]
fn remove_from(
    entries: &mut Vec<DirectoryEntry>,
    (hash, name): (u64, &[u8]),
    is_removable: fn(FileType) -> bool,
) -> Result<Removed, Errno> {
    let position = position(entries, hash, name).ok_or(Errno::ENOENT)?;
    let entry = &entries[position];
    if !is_removable(entry.file_type) {
        return Err(Errno::EISDIR);
    }
    let removed = Removed { ino: entry.ino, file_type: entry.file_type };
    // The entry is removed by hand, because `swap_remove` calls `memmove` and returns a copy.
    let last = entries.len() - 1;
    if position != last {
        entries.swap(position, last);
    }
    drop(entries.pop());
    Ok(removed)
}

/// Moves the entries of a list to a new branch. The list is empty afterwards.
///
/// # Errors
///
/// `ENOMEM`; then the list is as it was.
fn split(entries: &mut Vec<DirectoryEntry>, shift: u32) -> Result<Box<[Node]>, Errno> {
    let mut lists: Vec<Vec<DirectoryEntry>> = Vec::new();
    let mut children: Vec<Node> = Vec::new();
    lists.try_reserve_exact(FANOUT).map_err(|_| Errno::ENOMEM)?;
    children.try_reserve_exact(FANOUT).map_err(|_| Errno::ENOMEM)?;
    for number in 0..FANOUT {
        let count = entries.iter().filter(|entry| child(entry.key, shift) == number).count();
        let mut list = Vec::new();
        list.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        lists.push(list);
    }
    for entry in entries.drain(..) {
        if let Some(list) = lists.get_mut(child(entry.key, shift)) {
            list.push(entry);
        }
    }
    children.extend(lists.into_iter().map(Node::List));
    Ok(children.into_boxed_slice())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
