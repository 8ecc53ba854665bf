//! Calls with a path of several names, without a pause between them.

use hermit_interface::MAX_NAME;

use super::RamFs;
use super::inode::{Body, File, Inode};
use crate::file_system::Name;
use crate::{Attr, FileType, FoundInode, Ino, System};

/// Maximum number of names that are looked up without a pause, in which interrupts are masked.
const MAX_NAMES: usize = 32;

/// Position of the last name of a path, if a directory may have an entry of this name.
fn last_name(path: &[u8]) -> Option<usize> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = path.get(start..)?;
    let is_proper = (1..=MAX_NAME).contains(&name.len()) && !matches!(name, b"." | b"..");
    is_proper.then_some(start)
}

impl<S: System> RamFs<S> {
    /// Calls `action` with the inode that a path leads to, whose lock is held, and its generation. Each directory stays locked
    /// until what is found in it is locked: otherwise the inode could be freed meanwhile.
    #[inline]
    fn with_path<T>(
        &self,
        start: Ino,
        path: &[u8],
        stops: u64,
        action: impl FnOnce(Ino, u64, &mut Inode<S>) -> T,
    ) -> Option<T> {
        let mut ino = start;
        let mut slot = self.inodes.lock(start).ok()?;
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        for (number, name) in names.enumerate() {
            if number == MAX_NAMES || matches!(name, b"." | b"..") {
                return None;
            }
            ino = slot.inode.as_mut()?.directory().ok()?.find(name).ok()?.ino;
            if stops >> (ino.0 % 64) & 1 != 0 {
                return None;
            }
            slot = self.inodes.lock(ino).ok()?;
        }
        let generation = slot.generation;
        let inode = slot.inode.as_mut()?;
        (inode.file_type() != FileType::Symlink).then(|| action(ino, generation, inode))
    }

    pub(super) fn find_path(&self, start: Ino, path: &[u8], stops: u64) -> Option<FoundInode> {
        self.with_path(start, path, stops, |ino, generation, inode| {
            inode.references += 1;
            FoundInode { ino, generation, file_type: inode.file_type() }
        })
    }

    pub(super) fn attr_of_path(&self, start: Ino, path: &[u8], stops: u64) -> Option<Attr> {
        self.with_path(start, path, stops, |ino, _, inode| inode.attr(ino))
    }

    /// Creates a file; `None` if a call with each of the names is to tell.
    pub(super) fn add_file_at(
        &self,
        start: Ino,
        path: &[u8],
        stops: u64,
        permissions: u32,
    ) -> Option<FoundInode> {
        let (directories, name) = path.split_at_checked(last_name(path)?)?;
        let parent = self.with_path(start, directories, stops, |parent, _, inode| {
            inode.references += 1;
            parent
        })?;
        let added = self.add_inode(Name { parent, name }, Body::File(File::new(&[])), permissions);
        self.drop_reference(parent);
        added.ok()
    }

    /// Removes a name of what is no directory; `None` if a call with each of the names is to tell.
    pub(super) fn remove_file_at(&self, start: Ino, path: &[u8], stops: u64) -> Option<()> {
        let (directories, name) = path.split_at_checked(last_name(path)?)?;
        let now = S::now();
        let names = self.names.lock();
        let parent = self.with_path(start, directories, stops, |parent, _, _| parent)?;
        let nameless = self.remove_file_locked(Name { parent, name }, now).ok()?;
        drop(names);
        self.drop_reference(nameless);
        Some(())
    }
}
