//! Fast paths for calls that take a whole path.
//!
//! A general request takes one name, so a path of several names needs several requests, each with its own
//! locks and references. The functions of this module walk the whole path at once, and take a reference only
//! to the last inode. They look into the [path cache](super::path_cache) first. They return `None` where the
//! general walk must decide: at `.`, `..`, symbolic links and mount points, and for all errors.

use alloc::sync::Arc;

use hermit_interface::Errno;

use super::RamFs;
use super::directory::{EntryName, MAX_SHORT, Place, Vacancy};
use super::inode::{Body, Inode, NAME_SIZE};
use super::path_cache::{Cached, PathFrom};
use super::path_names::{PathNames, is_proper, split_last};
use super::table::LockedSlot;
use crate::contents::Contents;
use crate::file_system::{Found, Name};
use crate::{FileType, FoundInode, Ino, System, Time};

/// Maximum number of names in a walk. It limits the time for which a walk masks interrupts: each directory is
/// locked before the previous one is unlocked, so at least one spinlock is always held.
const MAX_NAMES: usize = 32;

/// An inode whose lock is held.
type Locked<'a, S> = LockedSlot<'a, S, Inode<S>>;

/// The last name of a path, and its locked directory.
struct Last<'a, 'p, S: System> {
    directory: Ino,
    slot: Locked<'a, S>,
    name: &'p [u8],
}

impl<S: System> Last<'_, '_, S> {
    /// Returns the inode of the directory.
    fn parent(&mut self) -> Result<&mut Inode<S>, Errno> {
        self.slot.inode.as_mut().ok_or(Errno::ENOENT)
    }

    /// Returns the inode number of the name.
    #[inline]
    fn find(&mut self) -> Result<Ino, Errno> {
        let name = self.name;
        Ok(self.parent()?.directory()?.find(name)?.ino)
    }
}

impl<S: System> RamFs<S> {
    /// Locks the inode of an entry, unless something may be mounted on it.
    #[inline]
    fn enter(&self, ino: Ino, stops: u64) -> Option<Locked<'_, S>> {
        if stops >> (ino.0 % 64) & 1 != 0 {
            return None;
        }
        self.inodes.lock(ino).ok()
    }

    /// Walks to the last name of a path. Each directory stays locked until the inode of the next name is
    /// locked. Otherwise that inode could be freed in between. Directories have no entries `.` and `..`, so
    /// the walk fails at these names.
    fn walk_to_last<'p>(&self, from: PathFrom<'p>) -> Option<Last<'_, 'p, S>> {
        let mut names = PathNames::new(from.path);
        let name = names.next()?;
        let mut last = Last { directory: from.start, slot: self.inodes.lock(from.start).ok()?, name };
        for _ in 0..MAX_NAMES {
            let Some(next) = names.next() else { return Some(last) };
            let ino = last.find().ok()?;
            last.slot = self.enter(ino, from.stops)?;
            (last.directory, last.name) = (ino, next);
        }
        None
    }

    /// Locks the directory of the last name of a path. Looks for the directory in the cache first.
    #[inline(always)]
    fn lock_last<'p>(&self, from: PathFrom<'p>) -> Option<Last<'_, 'p, S>> {
        let Some((path, name)) = split_last(from.path) else { return self.walk_to_last(from) };
        let directory = PathFrom { path, ..from };
        match self.lock_cached(directory) {
            Some((directory, slot)) => Some(Last { directory, slot, name }),
            None => self.lock_last_and_keep(from, directory),
        }
    }

    /// Does [`Self::lock_last`] without the cache, and adds the directory to the cache.
    #[inline(never)]
    fn lock_last_and_keep<'p>(&self, from: PathFrom<'p>, directory: PathFrom<'p>) -> Option<Last<'_, 'p, S>> {
        // Read before the walk: if directories change during the walk, the entry is not stored.
        let changes = self.paths.changes();
        let last = self.walk_to_last(from)?;
        // The walk has not checked the type of the last inode. It may be a symbolic link.
        if last.slot.inode.as_ref()?.file_type() == FileType::Directory {
            let lost_names = last.slot.lost_names;
            self.paths.insert(directory, Cached { ino: last.directory, lost_names, changes });
        }
        Some(last)
    }

    /// Locks the inode of a path if the cache has the path. Checks that the entry is valid while the inode is
    /// locked: see [`PathCache`].
    ///
    /// [`PathCache`]: super::path_cache::PathCache
    #[inline(always)]
    fn lock_cached(&self, from: PathFrom<'_>) -> Option<(Ino, Locked<'_, S>)> {
        let cached = self.paths.find(from)?;
        let slot = self.inodes.lock(cached.ino).ok()?;
        let is_valid = slot.lost_names == cached.lost_names && self.paths.changes() == cached.changes;
        is_valid.then_some((cached.ino, slot))
    }

    /// Locks the inode of a path, unless it is a symbolic link.
    #[inline(always)]
    pub(super) fn lock_path(&self, from: PathFrom<'_>) -> Option<(Ino, Locked<'_, S>)> {
        self.lock_cached(from).or_else(|| self.lock_and_keep(from))
    }

    /// Does [`Self::lock_path`] without the cache, and adds the path to the cache.
    #[inline(never)]
    fn lock_and_keep(&self, from: PathFrom<'_>) -> Option<(Ino, Locked<'_, S>)> {
        // Read before the walk: if directories change during the walk, the entry is not stored.
        let changes = self.paths.changes();
        let mut last = self.lock_last(from)?;
        let (ino, slot) = self.lock_entry(last.find().ok()?, from.stops)?;
        let lost_names = slot.lost_names;
        drop(last);
        self.paths.insert(from, Cached { ino, lost_names, changes });
        Some((ino, slot))
    }

    /// Locks the inode of an entry, unless it is a symbolic link.
    #[inline]
    fn lock_entry(&self, ino: Ino, stops: u64) -> Option<(Ino, Locked<'_, S>)> {
        let slot = self.enter(ino, stops)?;
        (slot.inode.as_ref()?.file_type() != FileType::Symlink).then_some((ino, slot))
    }

    pub(super) fn find_path(&self, from: PathFrom<'_>) -> Option<Found<S>> {
        refer(self.lock_path(from)?)
    }

    /// Finds the inode of a path, or creates a file at the path. The returned `bool` is true if it has
    /// created the file. Returns `None` if the caller must look up the names one by one.
    pub(super) fn find_or_add_file(&self, from: PathFrom<'_>, permissions: u32) -> Option<(Found<S>, bool)> {
        let now = S::coarse_now();
        // The names are locked before the directory: the lock order is names, directory, inode.
        let names = self.names.lock();
        let mut last = self.lock_last(from)?;
        let name = last.name;
        let parent = last.parent().ok()?;
        let vacancy = match parent.directory().ok()?.find_or_prepare(name).ok()? {
            Place::Taken(ino) => return refer(self.lock_entry(ino, from.stops)?).map(|found| (found, false)),
            Place::Vacant(vacancy) => vacancy,
        };
        // In these cases, the general request returns the error.
        if !is_proper(name) || parent.nlink == 0 || from.path.ends_with(b"/") {
            return None;
        }
        // An existing file needs no memory, so the contents of a new one are allocated only here. The lock is
        // held for a little longer then.
        let contents = self.new_contents(&[], now).ok()?;
        if name.len() <= MAX_SHORT
            && let Some(inode) = self.try_add_file(parent, (vacancy, name), &contents, permissions, now)
        {
            return Some((Found { inode, contents: Some(contents) }, true));
        }
        // The general request may allocate memory, and locks the names itself.
        drop(names);
        self.add_file_slow(last, contents, permissions).map(|found| (found, true))
    }

    /// Creates a file in a locked directory. The caller has made room for the entry, and holds the lock of
    /// the names. Returns `None` if the creation needs more memory.
    #[inline(always)]
    fn try_add_file(
        &self,
        parent: &mut Inode<S>,
        (vacancy, name): (Vacancy, &[u8]),
        contents: &Arc<Contents<S>>,
        permissions: u32,
        now: Time,
    ) -> Option<FoundInode> {
        let name = EntryName::new(name).ok()?;
        self.usage.charge(NAME_SIZE).ok()?;
        let make = || Inode::new(Body::File(Arc::clone(contents)), permissions);
        let Some((ino, generation)) = self.inodes.try_insert(make) else {
            self.usage.release(NAME_SIZE);
            return None;
        };
        // The insertion cannot fail, since there is room for the entry.
        parent.directory().ok()?.insert(vacancy, name, (ino, FileType::Regular)).ok()?;
        parent.note_modified(now);
        Some(FoundInode { ino, generation, file_type: FileType::Regular })
    }

    /// Creates a file by the general request, which may allocate memory.
    #[cold]
    fn add_file_slow(
        &self,
        mut last: Last<'_, '_, S>,
        contents: Arc<Contents<S>>,
        permissions: u32,
    ) -> Option<Found<S>> {
        // The reference keeps the directory from being freed while it is not locked.
        last.parent().ok()?.references += 1;
        let (parent, name) = (last.directory, last.name);
        drop(last);
        let file = Arc::clone(&contents);
        let added = self.add_inode(Name { parent, name }, |_| Body::File(file), permissions);
        self.drop_reference(parent);
        Some(Found { inode: added.ok()?, contents: Some(contents) })
    }

    /// Removes a name that does not lead to a directory. If `only` is given, removes the name only if it
    /// leads to this inode. Returns `None` if the caller must look up the names one by one.
    pub(super) fn remove_file_at(&self, from: PathFrom<'_>, only: Option<FoundInode>) -> Option<()> {
        let now = S::coarse_now();
        let names = self.names.lock();
        let mut last = self.lock_last(from)?;
        if let Some(only) = only {
            let ino = last.find().ok()?;
            if ino != only.ino || self.inodes.lock(ino).ok()?.generation != only.generation {
                return None;
            }
        }
        let name = last.name;
        let (ino, slot) = self.remove_file_from(last.parent().ok()?, name, now).ok()?;
        drop(last);
        drop(names);
        self.free_if_unused(ino, slot);
        Some(())
    }
}

/// Takes a reference to a locked inode.
#[inline]
fn refer<S: System>((ino, mut slot): (Ino, Locked<'_, S>)) -> Option<Found<S>> {
    let generation = slot.generation;
    let inode = slot.inode.as_mut()?;
    inode.references += 1;
    let contents = inode.contents();
    Some(Found { inode: FoundInode { ino, generation, file_type: inode.file_type() }, contents })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use crate::testing::{TestSystem, run, vfs};
    use crate::{FileSystem as _, FoundInode, Ino, RamFs, RenameFlags, Vfs};
    use std::format;
    use std::thread;

    /// Finds the inode of a path with a fast path, and drops the reference. Does so twice and compares the
    /// results: the first call may walk, the second call finds the path in the cache.
    fn find(ramfs: &RamFs<TestSystem>, path: &str) -> Option<FoundInode> {
        let find = || {
            let found = ramfs.lookup_path(Ino::ROOT, path.as_bytes(), 0)?.inode;
            ramfs.forget(found.ino, 1);
            Some(found)
        };
        let found = find();
        assert_eq!(find(), found);
        found
    }

    fn create(ramfs: &RamFs<TestSystem>, path: &str) -> FoundInode {
        let (found, is_new) = ramfs.create_path(Ino::ROOT, path.as_bytes(), 0, 0o644).unwrap();
        assert!(is_new);
        ramfs.forget(found.inode.ino, 1);
        found.inode
    }

    #[test]
    fn cached_path_leads_where_its_names_do_after_each_kind_of_change() {
        let (ramfs, vfs) = vfs(1 << 20);
        let rename =
            |from: &str, to: &str, flags| run(vfs.rename(from.as_bytes(), to.as_bytes(), flags)).unwrap();
        for path in ["/a", "/b", "/a/sub"] {
            run(vfs.create_directory(path.as_bytes(), 0o755)).unwrap();
        }
        assert_eq!(find(&ramfs, "/a/x"), None);
        let first = create(&ramfs, "/a/x");
        assert_eq!(find(&ramfs, "/a/x"), Some(first));
        // Then another inode gets the same number.
        ramfs.unlink_path(Ino::ROOT, b"/a/x", 0, None).unwrap();
        assert_eq!(find(&ramfs, "/a/x"), None);
        let second = create(&ramfs, "/a/x");
        assert_eq!((second.ino, find(&ramfs, "/a/x")), (first.ino, Some(second)));
        // One of two names is removed.
        run(vfs.create_link(b"/a/x", b"/a/y")).unwrap();
        assert_eq!((find(&ramfs, "/a/x"), find(&ramfs, "/a/y")), (Some(second), Some(second)));
        run(vfs.remove_file(b"/a/x")).unwrap();
        assert_eq!((find(&ramfs, "/a/x"), find(&ramfs, "/a/y")), (None, Some(second)));
        // Names are moved, replaced and exchanged.
        rename("/a/y", "/a/x", RenameFlags::empty());
        assert_eq!((find(&ramfs, "/a/x"), find(&ramfs, "/a/y")), (Some(second), None));
        let third = create(&ramfs, "/a/y");
        assert_eq!(find(&ramfs, "/a/y"), Some(third));
        rename("/a/y", "/a/x", RenameFlags::EXCHANGE);
        assert_eq!((find(&ramfs, "/a/x"), find(&ramfs, "/a/y")), (Some(third), Some(second)));
        rename("/a/y", "/a/x", RenameFlags::empty());
        assert_eq!((find(&ramfs, "/a/x"), find(&ramfs, "/a/y")), (Some(second), None));
        // Directories are moved and removed.
        rename("/a", "/b", RenameFlags::EXCHANGE);
        assert_eq!((find(&ramfs, "/a/x"), find(&ramfs, "/b/x")), (None, Some(second)));
        assert!(find(&ramfs, "/b/sub").is_some());
        run(vfs.remove_directory(b"/b/sub")).unwrap();
        assert_eq!(find(&ramfs, "/b/sub"), None);
        run(vfs.remove_file(b"/b/x")).unwrap();
        run(vfs.create_symlink(b"/a", b"/b/x")).unwrap();
        // Symbolic links are neither followed nor cached, whether they are at the end of a path or before it.
        assert_eq!((find(&ramfs, "/b/x/sub"), find(&ramfs, "/b/x")), (None, None));
    }

    #[test]
    fn cached_path_does_not_lead_through_inodes_to_stop_at() {
        let (ramfs, vfs) = vfs(1 << 20);
        run(vfs.create_directory(b"/a", 0o755)).unwrap();
        create(&ramfs, "/a/x");
        let directory = find(&ramfs, "/a").unwrap();
        assert!(find(&ramfs, "/a/x").is_some());
        for path in [&b"/a/x"[..], b"/a", b"/a/y"] {
            assert!(ramfs.lookup_path(Ino::ROOT, path, 1 << (directory.ino.0 % 64)).is_none());
        }
        assert!(ramfs.create_path(Ino::ROOT, b"/a/y", 1 << (directory.ino.0 % 64), 0o644).is_none());
    }

    #[test]
    fn cached_path_is_relative_to_its_start() {
        let (ramfs, vfs) = vfs(1 << 20);
        for path in ["/a", "/a/b", "/b"] {
            run(vfs.create_directory(path.as_bytes(), 0o755)).unwrap();
        }
        let (inner, outer) = (create(&ramfs, "/a/b/x"), create(&ramfs, "/b/x"));
        let start = find(&ramfs, "/a").unwrap().ino;
        for _ in 0..2 {
            for (start, expected) in [(start, inner), (Ino::ROOT, outer)] {
                let found = ramfs.lookup_path(start, b"b/x", 0).unwrap().inode;
                ramfs.forget(found.ino, 1);
                assert_eq!(found, expected);
            }
        }
    }

    /// Creates, finds, moves and removes a file that only this thread uses. Its inode number may be one that
    /// a file of another thread had before.
    fn change(ramfs: &RamFs<TestSystem>, vfs: &Vfs<TestSystem>, thread: u32, call: u32) {
        // The threads use more names than the cache has entries.
        let path = format!("/a/{thread}-{}", call % 40);
        let found = create(ramfs, &path);
        assert_eq!(find(ramfs, &path), Some(found));
        if call.is_multiple_of(16) {
            let moved = format!("/c/{thread}");
            run(vfs.rename(path.as_bytes(), moved.as_bytes(), RenameFlags::empty())).unwrap();
            assert_eq!((find(ramfs, &path), find(ramfs, &moved)), (None, Some(found)));
            run(vfs.remove_file(moved.as_bytes())).unwrap();
        } else {
            ramfs.unlink_path(Ino::ROOT, path.as_bytes(), 0, Some(found)).unwrap();
        }
        assert_eq!(find(ramfs, &path), None);
    }

    #[test]
    fn own_changes_are_seen_at_once_beside_those_of_other_threads() {
        const CALLS: u32 = if cfg!(miri) { 10 } else { 3_000 };
        let (ramfs, vfs) = vfs(1 << 20);
        for path in ["/a", "/c"] {
            run(vfs.create_directory(path.as_bytes(), 0o755)).unwrap();
        }
        let changes = |thread| (0..CALLS).for_each(|call| change(&ramfs, &vfs, thread, call));
        thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || changes(thread));
            }
        });
    }

    #[test]
    fn path_through_a_file_makes_no_inode() {
        let (ramfs, _) = vfs(1 << 20);
        let create = |path: &[u8]| Some(ramfs.create_path(Ino::ROOT, path, 0, 0o644)?.0.inode);
        create(b"/file").unwrap();
        // Each inode that gets this slot of the table has another generation.
        let next_generation = || {
            let found = create(b"/other").unwrap();
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
        let create = || {
            let (found, is_new) = ramfs.create_path(Ino::ROOT, b"/file", 0, 0o644).unwrap();
            (found.inode, is_new)
        };
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
