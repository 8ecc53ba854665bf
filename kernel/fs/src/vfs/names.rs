//! Calls that create, remove and rename names.
//!
//! Each call walks to its name, checks what Linux checks above the file system (mount points, trailing
//! slashes, read-only mounts), and makes one request. The changed names are removed from the caches before
//! the request, and the changed attributes after it, also if the request has failed: a server may fail after
//! it has made the change. A rename of a directory also updates the parents that nodes remember.

use alloc::sync::Arc;

use hermit_interface::{Errno, MAX_PATH};

use super::name_cache::NameChange;
use super::node::Node;
use super::walk::{LastLink, Walked};
use super::{UMASK, Vfs};
use crate::interface::file_system::{Capabilities, complete};
use crate::interface::{Entry, RenameFlags, System};

/// Returns true if something is mounted on the last directory of a walk.
fn is_mount_point<S: System>(walked: &Walked<'_, S>) -> bool {
    walked.node.as_ref().is_some_and(|node| !Arc::ptr_eq(&node.mount, &walked.parent.mount))
}

impl<S: System> Vfs<S> {
    /// Walks to the last name of a path. Checks that the name does not exist and that its directory is on a
    /// writable mount.
    async fn walk_to_new<'p>(&self, path: &'p [u8]) -> Result<Walked<'p, S>, Errno> {
        let walked = self.walk(path, LastLink::Keep).await?;
        if walked.node.is_some() {
            return Err(Errno::EEXIST);
        }
        walked.parent.mount.check_writable()?;
        Ok(walked)
    }

    /// Ends the change of a name that a request was to create, and returns the result of the request.
    fn end_creation(
        change: NameChange<'_, S>,
        parent: &Node<S>,
        created: Result<Entry<S>, Errno>,
    ) -> Result<(), Errno> {
        Self::end_change(change, parent, None);
        parent.file_system().forget(created?.attr.ino, 1);
        Ok(())
    }

    /// Creates a directory.
    ///
    /// # Errors
    ///
    /// Those of a walk and of [`FileSystem::mkdir`](crate::FileSystem::mkdir).
    pub async fn create_directory(&self, path: &[u8], permissions: u32) -> Result<(), Errno> {
        let walked = self.walk_to_new(path).await?;
        let (parent, name) = (&walked.parent, walked.name());
        let permissions = permissions & 0o1777 & !UMASK;
        let change = self.names.begin_change(parent, name);
        let created = complete(|call| parent.file_system().mkdir(call, parent.name(name), permissions)).await;
        Self::end_creation(change, parent, created)
    }

    /// Creates a symbolic link at `path`.
    ///
    /// # Errors
    ///
    /// Those of a walk and of [`FileSystem::symlink`](crate::FileSystem::symlink); `ENOENT` for an empty
    /// target.
    pub async fn create_symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Errno> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        if target.len() > MAX_PATH {
            return Err(Errno::ENAMETOOLONG);
        }
        let walked = self.walk_to_new(path).await?;
        if walked.has_slash {
            return Err(Errno::ENOENT);
        }
        let (parent, name) = (&walked.parent, walked.name());
        let change = self.names.begin_change(parent, name);
        let created = complete(|call| parent.file_system().symlink(call, parent.name(name), target)).await;
        Self::end_creation(change, parent, created)
    }

    /// Creates another name of a file (`link`). If `existing` leads to a symbolic link, `path` becomes
    /// another name of the link itself.
    ///
    /// # Errors
    ///
    /// Those of a walk and of [`FileSystem::link`](crate::FileSystem::link); `EXDEV` between two mounts.
    pub async fn create_link(&self, existing: &[u8], path: &[u8]) -> Result<(), Errno> {
        let node = self.walk(existing, LastLink::FollowBeforeSlash).await?.existing()?;
        let walked = self.walk_to_new(path).await?;
        if walked.has_slash {
            return Err(Errno::ENOENT);
        }
        let (parent, name) = (&walked.parent, walked.name());
        if !Arc::ptr_eq(&parent.mount, &node.mount) {
            return Err(Errno::EXDEV);
        }
        if node.is_directory() {
            return Err(Errno::EPERM);
        }
        let change = self.names.begin_change(parent, name);
        let created = complete(|call| parent.file_system().link(call, node.ino, parent.name(name))).await;
        node.mount.forget_attr(node.ino);
        Self::end_creation(change, parent, created)
    }

    /// Removes a name that does not lead to a directory (`unlink`).
    ///
    /// # Errors
    ///
    /// Those of a walk and of [`FileSystem::unlink`](crate::FileSystem::unlink).
    pub async fn remove_file(&self, path: &[u8]) -> Result<(), Errno> {
        let walked = self.walk(path, LastLink::Keep).await?;
        if !walked.has_proper_name() {
            return Err(Errno::EISDIR);
        }
        walked.parent.mount.check_writable()?;
        let is_directory = walked.node.as_ref().ok_or(Errno::ENOENT)?.is_directory();
        match (is_directory, walked.has_slash) {
            (true, _) => return Err(Errno::EISDIR),
            (false, true) => return Err(Errno::ENOTDIR),
            (false, false) => {}
        }
        let (parent, name) = (&walked.parent, walked.name());
        let change = self.names.begin_change(parent, name);
        let result = complete(|call| parent.file_system().unlink(call, parent.name(name))).await;
        Self::end_change(change, parent, walked.node.as_deref());
        result
    }

    /// Removes an empty directory (`rmdir`).
    ///
    /// # Errors
    ///
    /// Those of a walk and of [`FileSystem::rmdir`](crate::FileSystem::rmdir); `EBUSY` for the root, or if
    /// something is mounted on the directory; `EINVAL` or `ENOTEMPTY` if the path ends in `.` or `..`.
    pub async fn remove_directory(&self, path: &[u8]) -> Result<(), Errno> {
        let walked = self.walk(path, LastLink::Keep).await?;
        match walked.name() {
            b"" => return Err(Errno::EBUSY),
            b"." => return Err(Errno::EINVAL),
            b".." => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        // The kernel checks this itself, because virtiofsd of QEMU 7.2 returns EIO for a name that does not
        // exist.
        if walked.node.is_none() {
            return Err(Errno::ENOENT);
        }
        walked.parent.mount.check_writable()?;
        if is_mount_point(&walked) {
            return Err(Errno::EBUSY);
        }
        let (parent, name) = (&walked.parent, walked.name());
        // Another machine may have removed entries of the directory that are still cached here.
        let of_paths = (!parent.mount.has(Capabilities::IMMEDIATE)).then(|| self.paths.begin_change());
        let change = self.names.begin_change(parent, name);
        let result = complete(|call| parent.file_system().rmdir(call, parent.name(name))).await;
        Self::end_change(change, parent, walked.node.as_deref());
        drop(of_paths);
        result
    }

    /// Renames a file or directory. If the new name exists, the rename replaces it.
    ///
    /// # Errors
    ///
    /// Those of a walk and of [`FileSystem::rename`](crate::FileSystem::rename); `EXDEV` between two mounts;
    /// `EBUSY` for mount points, the root, and paths that end in `.` or `..`; `EINVAL` for flags that exclude
    /// each other.
    pub async fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<(), Errno> {
        if flags.contains(RenameFlags::NO_REPLACE | RenameFlags::EXCHANGE) {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (self.walk(from, LastLink::Keep).await?, self.walk(to, LastLink::Keep).await?);
        if !Arc::ptr_eq(&from.parent.mount, &to.parent.mount) {
            return Err(Errno::EXDEV);
        }
        if !from.has_proper_name() {
            return Err(Errno::EBUSY);
        }
        if !to.has_proper_name() {
            return Err(if flags.contains(RenameFlags::NO_REPLACE) { Errno::EEXIST } else { Errno::EBUSY });
        }
        from.parent.mount.check_writable()?;
        check_slashes(&from, &to, flags)?;
        if is_mount_point(&from) || is_mount_point(&to) {
            return Err(Errno::EBUSY);
        }
        let file_system = from.parent.file_system();
        let (old, new) = (from.parent.name(from.name()), to.parent.name(to.name()));
        // Either name may lead to a directory by now, even if the walk has found a file.
        let of_paths = self.paths.begin_change();
        let changes = [&from, &to].map(|end| self.names.begin_change(&end.parent, end.name()));
        let result = complete(|call| file_system.rename(call, old, new, flags)).await;
        if result.is_ok() {
            self.note_rename(&from, &to, flags.contains(RenameFlags::EXCHANGE));
        }
        for (change, end) in changes.into_iter().zip([&from, &to]) {
            Self::end_change(change, &end.parent, end.node.as_deref());
        }
        drop(of_paths);
        result
    }

    /// Updates the remembered parents of the current directory and of the directories above it, after a
    /// directory was renamed.
    fn note_rename(&self, from: &Walked<'_, S>, to: &Walked<'_, S>, is_exchange: bool) {
        if from.parent.is_same(&to.parent) {
            return;
        }
        let exchanged = to.node.as_ref().filter(|_| is_exchange);
        let moves = from.node.iter().map(|node| (node, &to.parent));
        for (node, parent) in moves.chain(exchanged.map(|node| (node, &from.parent))) {
            if node.is_directory() && !node.mount.has(Capabilities::FINDS_PARENTS) {
                self.current_directory().note_move(node, parent);
            }
        }
    }
}

/// Checks that the old name of a rename exists, and for an exchange the new name, too. Also checks that a
/// slash follows a name only if the renamed inode is a directory.
fn check_slashes<S: System>(
    from: &Walked<'_, S>,
    to: &Walked<'_, S>,
    flags: RenameFlags,
) -> Result<(), Errno> {
    let is_exchange = flags.contains(RenameFlags::EXCHANGE);
    let old = from.node.as_ref().ok_or(Errno::ENOENT)?;
    if to.node.is_some() && flags.contains(RenameFlags::NO_REPLACE) {
        return Err(Errno::EEXIST);
    }
    if is_exchange {
        let new = to.node.as_ref().ok_or(Errno::ENOENT)?;
        if to.has_slash && !new.is_directory() {
            return Err(Errno::ENOTDIR);
        }
    }
    let has_slash = from.has_slash || (to.has_slash && !is_exchange);
    if has_slash && !old.is_directory() { Err(Errno::ENOTDIR) } else { Ok(()) }
}
