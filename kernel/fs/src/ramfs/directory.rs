//! The entries of a directory of a ramfs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};
use hermit_interface::Errno;

use crate::{FileType, Ino};

/// An entry.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    pub(super) name: Box<[u8]>,
    pub(super) ino: Ino,
    pub(super) file_type: FileType,
}

/// A directory. An entry keeps its position while it exists, so readers can go on from any position.
#[derive(Debug)]
pub(super) struct Directory {
    /// The directory that has an entry for this one; of the root, itself.
    pub(super) parent: Ino,
    positions: Vec<Option<DirectoryEntry>>,
    /// Free positions below the length; has room for all.
    free: Vec<usize>,
    /// Positions, by name.
    by_name: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl Directory {
    /// An empty directory.
    pub(super) fn new(parent: Ino) -> Self {
        Self {
            parent,
            positions: Vec::new(),
            free: Vec::new(),
            by_name: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Whether there is no entry.
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Number of entries.
    pub(super) fn len(&self) -> u64 {
        self.by_name.len() as u64
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        let has_name = |position: &usize| self.name_at(*position) == Some(name);
        self.by_name.find(self.hasher.hash_one(name), has_name).copied()
    }

    fn name_at(&self, position: usize) -> Option<&[u8]> {
        self.positions.get(position)?.as_ref().map(|entry| &*entry.name)
    }

    /// The entry with a name.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(super) fn find(&self, name: &[u8]) -> Result<&DirectoryEntry, Errno> {
        let position = self.position(name).ok_or(Errno::ENOENT)?;
        self.positions.get(position).and_then(Option::as_ref).ok_or(Errno::ENOENT)
    }

    /// Makes room for one more entry, so that [`Self::insert`] needs no memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn reserve(&mut self) -> Result<(), Errno> {
        self.positions.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let missing = self.positions.len() + 1 - self.free.len();
        self.free.try_reserve(missing).map_err(|_| Errno::ENOMEM)?;
        let (positions, hasher) = (&self.positions, &self.hasher);
        self.by_name.try_reserve(1, |at| hash_at(positions, hasher, *at)).map_err(|_| Errno::ENOMEM)
    }

    /// Adds an entry, for which there is room, and whose name does not exist.
    pub(super) fn insert(&mut self, entry: DirectoryEntry) {
        let hash = self.hasher.hash_one(&*entry.name);
        let position = self.free.pop().unwrap_or(self.positions.len());
        match self.positions.get_mut(position) {
            Some(place) => *place = Some(entry),
            None => self.positions.push(Some(entry)),
        }
        let (positions, hasher) = (&self.positions, &self.hasher);
        self.by_name.insert_unique(hash, position, |at| hash_at(positions, hasher, *at));
    }

    /// Removes the entry with a name.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(super) fn remove(&mut self, name: &[u8]) -> Result<DirectoryEntry, Errno> {
        let position = self.position(name).ok_or(Errno::ENOENT)?;
        let entry = self.positions.get_mut(position).and_then(Option::take).ok_or(Errno::ENOENT)?;
        if let Ok(found) = self.by_name.find_entry(self.hasher.hash_one(name), |other| *other == position) {
            found.remove();
        }
        self.free.push(position);
        Ok(entry)
    }

    /// Replaces the inode of an entry; returns the one before.
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
        let position = self.position(name).ok_or(Errno::ENOENT)?;
        let entry = self.positions.get_mut(position).and_then(Option::as_mut).ok_or(Errno::ENOENT)?;
        let before = (entry.ino, entry.file_type);
        (entry.ino, entry.file_type) = (ino, file_type);
        Ok(before)
    }

    /// The first entry at a position or behind it, and its position.
    pub(super) fn entry_from(&self, position: usize) -> Option<(usize, &DirectoryEntry)> {
        let mut entries = self.positions.iter().enumerate().skip(position);
        entries.find_map(|(position, entry)| Some((position, entry.as_ref()?)))
    }
}

/// Hash of the name at a position.
fn hash_at(positions: &[Option<DirectoryEntry>], hasher: &DefaultHashBuilder, position: usize) -> u64 {
    let entry = positions.get(position).and_then(Option::as_ref);
    entry.map_or(0, |entry| hasher.hash_one(&*entry.name))
}
