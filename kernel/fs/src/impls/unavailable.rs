//! A file system that takes the place of one that could not be mounted.

use core::ops::ControlFlow;
use core::task::Poll;

use hermit_interface::Errno;

use crate::interface::file_system::{Call, Name, OpenInode, Opened, ReadTarget, Reply};
use crate::interface::{Attr, DirEntry, FileSystem, Ino, Lookup, StatFs, System};

/// A file system whose requests all fail with this error. The kernel mounts it in place of a file system that
/// could not be mounted. Otherwise programs would use the directory at the mount point by mistake.
#[derive(Clone, Copy, Debug)]
pub struct Unavailable(pub Errno);

impl<S: System> FileSystem<S> for Unavailable {
    fn type_name(&self) -> &'static str {
        "virtiofs"
    }

    fn lookup(&self, _: &mut Call<'_, '_>, _: Name<'_>) -> Reply<Lookup<S>> {
        Poll::Ready(Err(self.0))
    }

    fn forget(&self, _ino: Ino, _references: u64) {}

    fn getattr(&self, _: &mut Call<'_, '_>, _: Ino) -> Reply<Attr> {
        Poll::Ready(Err(self.0))
    }

    fn open(&self, _: &mut Call<'_, '_>, _: Ino, _: i32) -> Reply<Opened> {
        Poll::Ready(Err(self.0))
    }

    fn read(&self, _: &mut Call<'_, '_>, _: OpenInode, _: u64, _: &mut dyn ReadTarget) -> Reply<usize> {
        Poll::Ready(Err(self.0))
    }

    fn readdir(
        &self,
        _: &mut Call<'_, '_>,
        _: OpenInode,
        _: u64,
        _: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()> {
        Poll::Ready(Err(self.0))
    }

    fn statfs(&self, _: &mut Call<'_, '_>) -> Reply<StatFs> {
        Poll::Ready(Err(self.0))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use alloc::sync::Arc;

    use hermit_abi::{O_CREAT, O_WRONLY};
    use hermit_interface::Errno;

    use super::Unavailable;
    use crate::testing::{run, vfs};
    use crate::vfs::Symlinks;

    #[test]
    fn calls_below_an_unavailable_mount_fail_with_its_error() {
        let (_, vfs) = vfs(1 << 20);
        run(vfs.create_directory(b"/a", 0o755)).unwrap();
        run(vfs.mount(Arc::new(Unavailable(Errno::ENODEV)), b"/a", false)).unwrap();
        assert_eq!(run(vfs.metadata(b"/a", Symlinks::Follow)).map(drop), Err(Errno::ENODEV));
        assert_eq!(run(vfs.open(b"/a/b", O_CREAT | O_WRONLY, 0o644)).map(drop), Err(Errno::ENODEV));
        assert_eq!(run(vfs.create_directory(b"/a/b", 0o755)), Err(Errno::ENODEV));
        assert!(vfs.try_remove_file(b"/a/b").is_none());
        assert_eq!(run(vfs.remove_file(b"/a/b")), Err(Errno::ENODEV));
        assert_eq!(run(vfs.open(b"/a", 0, 0)).map(drop), Err(Errno::ENODEV));
    }
}
