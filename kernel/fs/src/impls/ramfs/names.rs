//! Names of the inodes of a ramfs: directory entries.
//!
//! Calls that change names hold the lock of all names, so two changes never interleave. This lock is a
//! spinlock and masks interrupts, so nothing that takes long may be done while it is held. Inodes and copies
//! of names are allocated before it is taken. Inodes that have lost their last name are freed after it is
//! released. For this purpose, a removed inode is returned to the caller, either with a reference or locked.

use alloc::sync::Arc;
use core::ops::ControlFlow;

use hermit_base::try_alloc::try_to_vec;
use hermit_interface::Errno;

use super::RamFs;
use super::directory::{Directory, DirectoryEntry, EntryName, Removed, Vacancy};
use super::inode::{Body, Inode, NAME_SIZE};
use super::table::LockedSlot;
use crate::interface::contents::{Contents, Times};
use crate::interface::file_system::Name;
use crate::interface::{DirEntry, Entry, FileType, Ino, System, Time};

/// Maximum number of names of an inode.
const MAX_LINKS: u32 = u32::MAX - 1;

/// A new inode, and the name and time for its entry.
#[derive(Debug)]
struct NewInode {
    ino: Ino,
    file_type: FileType,
    name: EntryName,
    now: Time,
}

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
        let contents = self.new_contents(&[], S::coarse_now())?;
        self.add(entry, |_| Body::File(contents), permissions)
    }

    /// Creates the contents of a file.
    pub(super) fn new_contents(&self, base: &'static [u8], now: Time) -> Result<Arc<Contents<S>>, Errno> {
        Contents::new(base, &self.usage, now).ok_or(Errno::ENOMEM)
    }

    pub(super) fn add_directory(&self, entry: Name<'_>, permissions: u32) -> Result<Entry<S>, Errno> {
        let body = |now| Body::Directory(Directory::new(entry.parent), Times::new(now));
        self.add(entry, body, permissions)
    }

    pub(super) fn add_symlink(&self, entry: Name<'_>, target: &[u8]) -> Result<Entry<S>, Errno> {
        let target = try_to_vec(target)?.into_boxed_slice();
        self.add(entry, |now| Body::Symlink(target, Times::new(now)), 0o777)
    }

    /// Creates an inode with a name.
    #[inline(always)]
    pub(super) fn add(
        &self,
        entry: Name<'_>,
        body: impl FnOnce(Time) -> Body<S>,
        permissions: u32,
    ) -> Result<Entry<S>, Errno> {
        let new = self.new_inode(entry.name, body, permissions)?;
        let ino = new.ino;
        let names = self.names.lock();
        let added = self.insert_new(entry, new);
        drop(names);
        // If the entry could not be added, the inode is freed.
        added.inspect_err(|_| self.update(ino, |inode| (inode.nlink, inode.references) = (0, 0)))?;
        self.with(ino, |inode| Ok(inode.entry(ino)))
    }

    /// Creates an inode and a copy of its name. This may allocate memory, so the names are not locked.
    #[inline]
    fn new_inode(
        &self,
        name: &[u8],
        body: impl FnOnce(Time) -> Body<S>,
        permissions: u32,
    ) -> Result<NewInode, Errno> {
        let now = S::coarse_now();
        let name = EntryName::new(name)?;
        let body = body(now);
        let (file_type, size) = (body.file_type(), NAME_SIZE + body.charged());
        self.usage.charge(size)?;
        let inserted = self.inodes.insert(|| Inode::new(body, permissions));
        let ino = inserted.inspect_err(|_| self.usage.release(size))?;
        Ok(NewInode { ino, file_type, name, now })
    }

    /// Adds an entry for a new inode. Names are locked.
    fn insert_new(&self, entry: Name<'_>, new: NewInode) -> Result<(), Errno> {
        let NewInode { ino, file_type, name, now } = new;
        self.with(entry.parent, |parent| {
            let vacancy = parent.existing_directory()?.prepare(entry.name)?;
            insert(parent, vacancy, name, (ino, file_type), now)
        })
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
            let removed = inode.directory()?.remove(entry.name)?;
            inode.nlink -= u32::from(removed.file_type == FileType::Directory);
            inode.note_modified(now);
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
        let ino = parent.directory()?.remove_file(name)?.ino;
        parent.note_modified(now);
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
    parent.directory()?.insert(vacancy, name, target)?;
    parent.nlink += u32::from(target.1 == FileType::Directory);
    parent.note_modified(now);
    Ok(())
}

/// Passes an entry to `entries`. Returns the position after the entry, or `None` if the reader does not want
/// more entries.
fn pass_on(entry: &DirectoryEntry, entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>) -> Option<u64> {
    let (next, file_type) = (entry.next(), entry.file_type);
    let entry = DirEntry { number: entry.ino.0, file_type, name: &entry.name, next };
    entries(entry).is_continue().then_some(next)
}
