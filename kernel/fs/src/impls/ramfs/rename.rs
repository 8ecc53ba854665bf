//! Renames of the entries of a ramfs.

use hermit_interface::Errno;

use super::RamFs;
use super::directory::EntryName;
use crate::interface::file_system::{Name, RenameFlags};
use crate::interface::{FileType, Ino, System, Time};

impl<S: System> RamFs<S> {
    pub(super) fn rename_entry(&self, from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Result<(), Errno> {
        let now = S::coarse_now();
        let name = EntryName::new(to.name)?;
        let names = self.names.lock();
        let replaced = self.rename_locked(from, (to, name), flags, now);
        drop(names);
        replaced?.into_iter().for_each(|ino| self.drop_reference(ino));
        Ok(())
    }

    /// Renames an entry. If the rename replaces an inode, returns the replaced inode, with a reference as
    /// from [`Self::remove_name`]. The caller holds the lock of the names.
    fn rename_locked(
        &self,
        from: Name<'_>,
        (to, name): (Name<'_>, EntryName),
        flags: RenameFlags,
        now: Time,
    ) -> Result<Option<Ino>, Errno> {
        let (ino, file_type) = self.entry(from)?;
        self.with(to.parent, |inode| inode.existing_directory().map(drop))?;
        // A directory must not become a part of itself.
        if file_type == FileType::Directory && self.is_within(to.parent, ino)? {
            return Err(Errno::EINVAL);
        }
        let existing = match self.entry(to) {
            Err(Errno::ENOENT) => None,
            existing => Some(existing?),
        };
        if flags.contains(RenameFlags::EXCHANGE) {
            return self.exchange(from, to, now).map(|()| None);
        }
        // The directory to be replaced contains `from`, directly or indirectly, so it is not empty.
        if let Some((other, FileType::Directory)) = existing
            && other != ino
            && self.is_within(from.parent, other)?
        {
            return Err(Errno::ENOTEMPTY);
        }
        match existing {
            Some(_) if flags.contains(RenameFlags::NO_REPLACE) => Err(Errno::EEXIST),
            // Both names lead to the same inode. POSIX requires that rename does nothing.
            Some((other, _)) if other == ino => Ok(None),
            Some(existing) => self.replace(from, (ino, file_type), to, existing, now).map(Some),
            None => self.move_entry(from, (to, name), now).map(|()| None),
        }
    }

    /// Returns true if `directory` is `ancestor` or is below it. `ancestor` is not the root. The caller holds
    /// the lock of the names.
    ///
    /// It walks from parent to parent, up to the parent of `ancestor` or to the root. If both names of a
    /// rename are in the same directory, no step is needed.
    fn is_within(&self, directory: Ino, ancestor: Ino) -> Result<bool, Errno> {
        let parent = |ino| self.with(ino, |inode| Ok(inode.directory()?.parent));
        let (above, mut current) = (parent(ancestor)?, directory);
        while current != ancestor {
            if current == above || current == Ino::ROOT {
                return Ok(false);
            }
            current = parent(current)?;
        }
        Ok(true)
    }

    /// Moves an entry to a new name.
    fn move_entry(&self, from: Name<'_>, (to, name): (Name<'_>, EntryName), now: Time) -> Result<(), Errno> {
        let vacancy = self.prepare_entry(to)?;
        let (ino, file_type) = self.entry(from)?;
        // The new entry is added first, so that the inode always has a name.
        self.insert_entry(to.parent, (vacancy, name), (ino, file_type), now)?;
        self.set_parent(ino, to.parent, now);
        self.remove_entry(from, now).map(drop)
    }

    /// Moves an entry to an existing name. Returns the inode that had the name, with a reference as from
    /// [`Self::remove_name`].
    fn replace(
        &self,
        from: Name<'_>,
        (ino, file_type): (Ino, FileType),
        to: Name<'_>,
        (existing, existing_type): (Ino, FileType),
        now: Time,
    ) -> Result<Ino, Errno> {
        match (file_type, existing_type) {
            (FileType::Directory, FileType::Directory) => self.check_empty(existing)?,
            (FileType::Directory, _) => return Err(Errno::ENOTDIR),
            (_, FileType::Directory) => return Err(Errno::EISDIR),
            _ => {}
        }
        // The inode gets the new name first and loses the old name afterwards, as in `move_entry`, so it
        // always has a name. If both inodes are directories, the number of subdirectories of the new parent
        // does not change.
        self.with(to.parent, |inode| {
            let directory = inode.directory()?;
            directory.times.modified(now);
            directory.replace(to.name, ino, file_type)
        })?;
        self.set_parent(ino, to.parent, now);
        self.remove_entry(from, now)?;
        let nameless = self.remove_name(existing, now);
        self.keep_parent(nameless);
        Ok(nameless)
    }

    /// Exchanges the inodes of two entries.
    fn exchange(&self, from: Name<'_>, to: Name<'_>, now: Time) -> Result<(), Errno> {
        let (first, second) = (self.entry(from)?, self.entry(to)?);
        if second.1 == FileType::Directory && self.is_within(from.parent, second.0)? {
            return Err(Errno::EINVAL);
        }
        self.put(from, first, second, now)?;
        self.put(to, second, first, now)
    }

    /// Stores another inode in an entry.
    fn put(
        &self,
        entry: Name<'_>,
        before: (Ino, FileType),
        after: (Ino, FileType),
        now: Time,
    ) -> Result<(), Errno> {
        self.with(entry.parent, |inode| {
            inode.nlink += u32::from(after.1 == FileType::Directory);
            inode.nlink -= u32::from(before.1 == FileType::Directory);
            let directory = inode.directory()?;
            directory.times.modified(now);
            directory.replace(entry.name, after.0, after.1)
        })?;
        self.set_parent(after.0, entry.parent, now);
        Ok(())
    }

    /// Records that an inode has moved.
    fn set_parent(&self, ino: Ino, parent: Ino, now: Time) {
        self.update(ino, |inode| {
            inode.note_changed(now);
            if let Ok(directory) = inode.directory() {
                directory.parent = parent;
            }
        });
    }
}
