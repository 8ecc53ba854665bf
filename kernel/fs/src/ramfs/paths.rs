//! Calls with a path of several names, without a pause between them.

use hermit_interface::Errno;

use super::RamFs;
use super::inode::{Body, File, Inode};
use super::path_names::{PathNames, is_proper};
use super::table::LockedSlot;
use crate::file_system::Name;
use crate::{Attr, FileType, FoundInode, Ino, System};

/// Maximum number of names that are looked up without a pause, in which interrupts are masked.
const MAX_NAMES: usize = 32;

/// An inode whose lock is held.
type Locked<'a, S> = LockedSlot<'a, S, Inode<S>>;

/// The last name of a path.
struct Last<'a, 'p, S: System> {
    directory: Ino,
    slot: Locked<'a, S>,
    name: &'p [u8],
}

impl<S: System> Last<'_, '_, S> {
    /// The inode of the directory.
    fn parent(&mut self) -> Result<&mut Inode<S>, Errno> {
        self.slot.inode.as_mut().ok_or(Errno::ENOENT)
    }

    /// The inode that has the name.
    #[inline]
    fn find(&mut self) -> Result<Ino, Errno> {
        let name = self.name;
        Ok(self.parent()?.directory()?.find(name)?.ino)
    }
}

impl<S: System> RamFs<S> {
    /// Locks what an entry leads to, unless something may be mounted on it.
    #[inline]
    fn enter(&self, ino: Ino, stops: u64) -> Option<Locked<'_, S>> {
        if stops >> (ino.0 % 64) & 1 != 0 {
            return None;
        }
        self.inodes.lock(ino).ok()
    }

    /// Walks to the last name of a path. Each directory stays locked until what is found in it is locked: otherwise the inode
    /// could be freed meanwhile. No entry has the name `.` or `..`, so the walk ends there.
    fn walk_to_last<'p>(&self, start: Ino, path: &'p [u8], stops: u64) -> Option<Last<'_, 'p, S>> {
        let mut names = PathNames::new(path);
        let name = names.next()?;
        let mut last = Last { directory: start, slot: self.inodes.lock(start).ok()?, name };
        for _ in 0..MAX_NAMES {
            let Some(next) = names.next() else { return Some(last) };
            let ino = last.find().ok()?;
            last.slot = self.enter(ino, stops)?;
            (last.directory, last.name) = (ino, next);
        }
        None
    }

    /// Calls `action` with an inode that an entry leads to, unless it is a symbolic link, whose lock is held, and its generation.
    #[inline]
    fn with_entry<T>(
        &self,
        ino: Ino,
        stops: u64,
        action: impl FnOnce(Ino, u64, &mut Inode<S>) -> T,
    ) -> Option<T> {
        let mut slot = self.enter(ino, stops)?;
        let generation = slot.generation;
        let inode = slot.inode.as_mut()?;
        (inode.file_type() != FileType::Symlink).then(|| action(ino, generation, inode))
    }

    /// Refers to what an entry leads to.
    fn refer_to_entry(&self, ino: Ino, stops: u64) -> Option<FoundInode> {
        self.with_entry(ino, stops, |ino, generation, inode| {
            inode.references += 1;
            FoundInode { ino, generation, file_type: inode.file_type() }
        })
    }

    pub(super) fn find_path(&self, start: Ino, path: &[u8], stops: u64) -> Option<FoundInode> {
        let mut last = self.walk_to_last(start, path, stops)?;
        self.refer_to_entry(last.find().ok()?, stops)
    }

    pub(super) fn attr_of_path(&self, start: Ino, path: &[u8], stops: u64) -> Option<Attr> {
        let mut last = self.walk_to_last(start, path, stops)?;
        self.with_entry(last.find().ok()?, stops, |ino, _, inode| inode.attr(ino))
    }

    /// Finds what a path leads to, or creates a file there, and says whether it has; `None` if a call with each of the names
    /// is to tell.
    pub(super) fn find_or_add_file(
        &self,
        start: Ino,
        path: &[u8],
        stops: u64,
        permissions: u32,
    ) -> Option<(FoundInode, bool)> {
        let mut last = self.walk_to_last(start, path, stops)?;
        match last.find() {
            Ok(ino) => return self.refer_to_entry(ino, stops).map(|found| (found, false)),
            Err(Errno::ENOENT) => {}
            // Behind what is no directory there is no file, and none can be made.
            Err(_) => return None,
        }
        let (parent, name) = (last.directory, last.name);
        if !is_proper(name) || path.ends_with(b"/") {
            return None;
        }
        // The directory must not be freed while it is not locked.
        last.parent().ok()?.references += 1;
        drop(last);
        let added = self.add_inode(Name { parent, name }, || Body::File(File::new(&[])), permissions);
        self.drop_reference(parent);
        added.ok().map(|found| (found, true))
    }

    /// Removes a name of what is no directory, or with `only` of this inode alone; `None` if a call with each of the names is
    /// to tell.
    pub(super) fn remove_file_at(
        &self,
        start: Ino,
        path: &[u8],
        stops: u64,
        only: Option<FoundInode>,
    ) -> Option<()> {
        let now = S::now();
        let names = self.names.lock();
        let mut last = self.walk_to_last(start, path, stops)?;
        if let Some(only) = only {
            let ino = last.find().ok()?;
            if ino != only.ino || self.inodes.lock(ino).ok()?.generation != only.generation {
                return None;
            }
        }
        let name = last.name;
        let parent = last.parent().ok()?;
        let removed = parent.directory().ok()?.remove_file(name).ok()?;
        parent.times.modified(now);
        drop(last);
        let nameless = self.remove_name(removed.ino, now);
        drop(names);
        self.drop_reference(nameless);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::vfs;
    use crate::{FileSystem as _, Ino};

    #[test]
    fn path_through_a_file_makes_no_inode() {
        let (ramfs, _) = vfs(1 << 20);
        let create = |path: &[u8]| ramfs.create_path(Ino::ROOT, path, 0, 0o644);
        create(b"/file").unwrap();
        // Each inode of a place in the table has a generation of its own.
        let next_generation = || {
            let (found, _) = create(b"/other").unwrap();
            ramfs.unlink_path(Ino::ROOT, b"/other", 0, Some(found)).unwrap();
            ramfs.forget(found.ino, 1);
            (found.ino, found.generation)
        };
        let (ino, first) = next_generation();
        let (_, second) = next_generation();
        assert_eq!(create(b"/file/new"), None);
        assert_eq!(next_generation(), (ino, second + (second - first)));
    }

    #[test]
    fn unlink_path_of_an_inode_spares_another_one_of_the_same_number() {
        let (ramfs, _) = vfs(1 << 20);
        let create = || ramfs.create_path(Ino::ROOT, b"/file", 0, 0o644).unwrap();
        let unlink = |only| ramfs.unlink_path(Ino::ROOT, b"/file", 0, only);
        let (first, is_new) = create();
        assert!(is_new);
        assert_eq!(create(), (first, false));
        ramfs.forget(first.ino, 2);
        assert_eq!(unlink(None), Some(()));
        let (second, _) = create();
        assert_eq!(second.ino, first.ino);
        assert_eq!(unlink(Some(first)), None);
        assert_eq!(unlink(Some(second)), Some(()));
        assert_eq!(unlink(None), None);
    }
}
