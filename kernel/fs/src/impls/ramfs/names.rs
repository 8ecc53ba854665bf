//! Names of the inodes of a ramfs: directory entries.
//!
//! Calls that change names hold the lock of all names, so two changes never interleave. This lock is a
//! spinlock and masks interrupts, so nothing that takes long may be done while it is held. Inodes and copies
//! of names are allocated before it is taken. Inodes that have lost their last name are freed after it is
//! released. For this purpose, a removed inode is returned to the caller, either with a reference or locked.

use alloc::sync::Arc;
use core::ops::ControlFlow;

use hermit_interface::Errno;

use super::RamFs;
use super::directory::{DirectoryEntry, EntryName, Removed, Vacancy};
use super::inode::{Body, Inode, NAME_SIZE};
use super::table::LockedSlot;
use crate::interface::contents::Contents;
use crate::interface::file_system::Name;
use crate::interface::types::FOREVER;
use crate::interface::{Attr, DirEntry, Entry, FileType, Ino, System, Time};

/// Maximum number of names of an inode.
const MAX_LINKS: u32 = u32::MAX - 1;

impl<S: System> RamFs<S> {
    pub(super) fn find(&self, entry: Name<'_>) -> Result<Entry<S>, Errno> {
        if entry.name == b".." {
            return self.parent(entry.parent);
        }
        // The directory stays locked. Otherwise the inode could be freed before the reference is taken.
        self.with(entry.parent, |inode| self.refer(inode.directory()?.find(entry.name)?.ino))
    }

    /// Returns the parent of a directory. The parent of the root is the root itself.
    fn parent(&self, ino: Ino) -> Result<Entry<S>, Errno> {
        // The lock order is parent before child, so the child is unlocked before its parent is locked. While
        // the names are locked, the child cannot move in between.
        let _names = self.names.lock();
        let parent = self.with(ino, |inode| Ok(inode.directory()?.parent))?;
        self.refer(parent)
    }

    /// Takes a reference to an inode.
    fn refer(&self, ino: Ino) -> Result<Entry<S>, Errno> {
        self.with(ino, |inode| {
            inode.references += 1;
            Ok(inode.entry(ino))
        })
    }

    #[inline(always)]
    pub(super) fn add_file(&self, entry: Name<'_>, permissions: u32) -> Result<Entry<S>, Errno> {
        let now = S::coarse_now();
        let contents = self.new_contents(&[], now)?;
        let ino = self.add(entry, Body::File(Arc::clone(&contents)), permissions, now)?;
        // The attributes are known without another lock. The entry is constructed where the caller needs it.
        let attr = Attr::of_empty(ino, FileType::Regular.mode() | permissions, 1, now);
        Ok(Entry { attr, validity: FOREVER, contents: Some(contents) })
    }

    /// Creates the contents of a file.
    #[inline]
    pub(super) fn new_contents(&self, base: &'static [u8], now: Time) -> Result<Arc<Contents<S>>, Errno> {
        Contents::new(base, &self.usage, now).ok_or(Errno::ENOMEM)
    }

    pub(super) fn add_directory(&self, entry: Name<'_>, permissions: u32) -> Result<Entry<S>, Errno> {
        let now = S::coarse_now();
        let ino = self.add(entry, Body::directory(entry.parent, now)?, permissions, now)?;
        let attr = Attr::of_empty(ino, FileType::Directory.mode() | permissions, 2, now);
        Ok(Entry::new(attr, FOREVER))
    }

    pub(super) fn add_symlink(&self, entry: Name<'_>, target: &[u8]) -> Result<Entry<S>, Errno> {
        let now = S::coarse_now();
        let ino = self.add(entry, Body::symlink(target, now)?, 0o777, now)?;
        let attr = Attr::of_empty(ino, FileType::Symlink.mode() | 0o777, 1, now);
        Ok(Entry::new(Attr { size: target.len() as u64, ..attr }, FOREVER))
    }

    /// Creates an inode with a name, and with one reference, which the caller gets. Whatever needs memory is
    /// allocated before the names are locked.
    #[inline]
    pub(super) fn add(
        &self,
        entry: Name<'_>,
        body: Body<S>,
        permissions: u32,
        now: Time,
    ) -> Result<Ino, Errno> {
        let name = EntryName::new(entry.name)?;
        let (file_type, size) = (body.file_type(), NAME_SIZE + body.charged());
        self.usage.charge(size)?;
        let inserted = self.inodes.insert(|| Inode::new(body, permissions));
        let ino = inserted.inspect_err(|_| self.usage.release(size))?;
        let names = self.names.lock();
        let added = self.with(entry.parent, |parent| {
            let directory = parent.existing_directory()?;
            directory.add(name, (ino, file_type))?;
            directory.times.modified(now);
            parent.nlink += u32::from(file_type == FileType::Directory);
            Ok(())
        });
        drop(names);
        match added {
            Ok(()) => Ok(ino),
            Err(error) => Err(self.free_new(ino, error)),
        }
    }

    /// Frees a new inode for which no entry could be added, and returns the error.
    #[cold]
    fn free_new(&self, ino: Ino, error: Errno) -> Errno {
        self.update(ino, |inode| (inode.nlink, inode.references) = (0, 0));
        error
    }

    /// Checks that an entry can be added, and makes room for it. Names are locked.
    pub(super) fn prepare_entry(&self, entry: Name<'_>) -> Result<Vacancy, Errno> {
        self.with(entry.parent, |parent| parent.existing_directory()?.prepare(entry.name))
    }

    /// Adds an entry for which there is room. Names are locked.
    pub(super) fn insert_entry(
        &self,
        parent: Ino,
        (vacancy, name): (Vacancy, EntryName),
        target: (Ino, FileType),
        now: Time,
    ) -> Result<(), Errno> {
        self.with(parent, |parent| insert(parent, vacancy, name, target, now))
    }

    /// Removes an entry. Names are locked.
    pub(super) fn remove_entry(&self, entry: Name<'_>, now: Time) -> Result<Removed, Errno> {
        self.with(entry.parent, |inode| {
            let directory = inode.directory()?;
            let removed = directory.remove(entry.name)?;
            directory.times.modified(now);
            inode.nlink -= u32::from(removed.file_type == FileType::Directory);
            Ok(removed)
        })
    }

    pub(super) fn add_link(&self, ino: Ino, entry: Name<'_>) -> Result<Entry<S>, Errno> {
        self.usage.charge(NAME_SIZE)?;
        self.add_charged_link(ino, entry).inspect_err(|_| self.usage.release(NAME_SIZE))
    }

    fn add_charged_link(&self, ino: Ino, entry: Name<'_>) -> Result<Entry<S>, Errno> {
        let now = S::coarse_now();
        let name = EntryName::new(entry.name)?;
        let _names = self.names.lock();
        let vacancy = self.prepare_entry(entry)?;
        let file_type = self.with(ino, |inode| {
            match (inode.file_type(), inode.nlink) {
                (FileType::Directory, _) => return Err(Errno::EPERM),
                (_, 0) => return Err(Errno::ENOENT),
                (_, MAX_LINKS..) => return Err(Errno::EMLINK),
                _ => {}
            }
            inode.nlink += 1;
            inode.note_changed(now);
            Ok(inode.file_type())
        })?;
        self.insert_entry(entry.parent, (vacancy, name), (ino, file_type), now)?;
        self.refer(ino)
    }

    /// The inode and type of an entry. Names are locked.
    pub(super) fn entry(&self, entry: Name<'_>) -> Result<(Ino, FileType), Errno> {
        self.with(entry.parent, |inode| {
            let found = inode.directory()?.find(entry.name)?;
            Ok((found.ino, found.file_type))
        })
    }

    pub(super) fn remove_file(&self, entry: Name<'_>) -> Result<(), Errno> {
        let now = S::coarse_now();
        let names = self.names.lock();
        let (ino, slot) = self.with(entry.parent, |parent| self.remove_file_from(parent, entry.name, now))?;
        drop(names);
        self.free_if_unused(ino, slot);
        Ok(())
    }

    /// Removes an entry from a locked directory. The entry must not be a directory. Returns the inode that
    /// has lost its name, still locked. The caller [frees the inode](Self::free_if_unused) after it has
    /// unlocked the names, since freeing a large file takes long.
    #[inline(always)]
    pub(super) fn remove_file_from(
        &self,
        parent: &mut Inode<S>,
        name: &[u8],
        now: Time,
    ) -> Result<(Ino, LockedSlot<'_, S, Inode<S>>), Errno> {
        let directory = parent.directory()?;
        let ino = directory.remove_file(name)?.ino;
        directory.times.modified(now);
        let mut slot = self.inodes.lock(ino)?;
        let inode = slot.as_mut().ok_or(Errno::ENOENT)?;
        inode.nlink -= 1;
        if inode.nlink > 0 {
            self.usage.release(NAME_SIZE);
        }
        // The time of an inode that is freed next is not visible.
        if !inode.is_unused() {
            inode.note_changed(now);
        }
        Ok((ino, slot))
    }

    pub(super) fn remove_directory(&self, entry: Name<'_>) -> Result<(), Errno> {
        let now = S::coarse_now();
        let names = self.names.lock();
        self.check_empty(self.entry(entry)?.0)?;
        let removed = self.remove_entry(entry, now)?;
        let nameless = self.remove_name(removed.ino, now);
        self.keep_parent(nameless);
        drop(names);
        self.drop_reference(nameless);
        Ok(())
    }

    /// Gives a directory that is being removed a reference to its parent. Names are locked.
    pub(super) fn keep_parent(&self, directory: Ino) {
        let keep = |inode: &mut Inode<S>| {
            let directory = inode.directory()?;
            directory.keeps_parent = true;
            Ok(directory.parent)
        };
        if let Ok(parent) = self.with(directory, keep) {
            self.update(parent, |inode| inode.references += 1);
        }
    }

    pub(super) fn check_empty(&self, directory: Ino) -> Result<(), Errno> {
        self.with(
            directory,
            |inode| {
                if inode.directory()?.is_empty() { Ok(()) } else { Err(Errno::ENOTEMPTY) }
            },
        )
    }

    /// Decreases the number of an inode's names after an entry was removed. A directory has only one name.
    /// Takes a reference to the inode. The caller [drops the reference](Self::drop_reference) after it has
    /// unlocked the names, since freeing a large file takes long.
    pub(super) fn remove_name(&self, ino: Ino, now: Time) -> Ino {
        self.update(ino, |inode| {
            inode.nlink = if inode.directory().is_ok() { 0 } else { inode.nlink - 1 };
            if inode.nlink > 0 {
                self.usage.release(NAME_SIZE);
            }
            inode.references += 1;
            inode.note_changed(now);
        });
        ino
    }

    pub(super) fn drop_reference(&self, ino: Ino) {
        self.update(ino, |inode| inode.references -= 1);
    }

    /// Passes the entries of a directory to `entries`. The directory is locked during each call.
    pub(super) fn read_entries(
        &self,
        ino: Ino,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let mut position = position;
        loop {
            let next = self.with(ino, |inode| {
                Ok(inode.directory()?.entry_from(position).and_then(|entry| pass_on(entry, entries)))
            })?;
            match next {
                Some(next) => position = next,
                None => return Ok(()),
            }
        }
    }
}

/// Adds an entry to a directory.
fn insert<S: System>(
    parent: &mut Inode<S>,
    vacancy: Vacancy,
    name: EntryName,
    target: (Ino, FileType),
    now: Time,
) -> Result<(), Errno> {
    let directory = parent.directory()?;
    directory.insert(vacancy, name, target)?;
    directory.times.modified(now);
    parent.nlink += u32::from(target.1 == FileType::Directory);
    Ok(())
}

/// Passes an entry to `entries`. Returns the position after the entry, or `None` if the reader does not want
/// more entries.
fn pass_on(entry: &DirectoryEntry, entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>) -> Option<u64> {
    let (next, file_type) = (entry.next(), entry.file_type);
    let entry = DirEntry { number: entry.ino.0, file_type, name: &entry.name, next };
    entries(entry).is_continue().then_some(next)
}
