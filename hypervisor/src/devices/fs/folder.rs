//! Access to the host's files. Every call takes an open descriptor, and at most one path component, which
//! [`beneath`] resolves.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use hermit_options::open::beneath;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fchmod, fdatasync, fstat, fstatfs, linkat, mkdirat,
    open, openat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// Flags with which an inode is opened by its descriptor. FIFOs are not opened, and an inode cannot become a
/// FIFO after it was looked up. `O_NONBLOCK` is still set, because no call here may ever wait for the other
/// end of a FIFO.
const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Flags of open(2) that the guest chooses when it opens a file.
const OF_GUEST: OFlags =
    OFlags::ACCMODE.union(OFlags::APPEND).union(OFlags::DSYNC).union(OFlags::SYNC).union(OFlags::TRUNC);

/// Permission bits that reach the host: all except the set-user-ID and set-group-ID bits.
pub(super) const MODE_BITS: u32 = 0o1777;

/// The mounted folder, and the directory with which the inode of a descriptor is opened.
#[derive(Debug)]
pub(super) struct Folder {
    /// Descriptor of the folder (`O_PATH`).
    pub(super) root: Arc<OwnedFd>,
    /// `/proc/self/fd`. Opening a descriptor's number there opens the inode of the descriptor, even if its
    /// names have changed. Without privileges, this is the only way to open the inode of an `O_PATH`
    /// descriptor.
    descriptors: OwnedFd,
    /// True if the file system may report errors of writes only when a file is closed.
    reports_at_close: bool,
}

/// Returns true if close(2) may write data back and report errors in file systems of this type (statfs(2)):
/// 9p, CIFS, SMB, SMB 2, Ceph, FUSE, kAFS and NFS. File systems on a disk report errors only by fsync(2).
const fn reports_at_close(file_system: u64) -> bool {
    matches!(
        file_system,
        0x0102_1997 | 0xff53_4d42 | 0x517b | 0xfe53_4d42 | 0x00c3_6400 | 0x6573_5546 | 0x6b41_4653 | 0x6969
    )
}

impl Folder {
    /// Creates the access to a folder from its descriptor (`O_PATH`). Call it before the process is confined.
    ///
    /// # Errors
    ///
    /// `/proc` is not mounted.
    pub(super) fn new(root: OwnedFd) -> io::Result<Self> {
        let reports_at_close = u64::try_from(fstatfs(&root)?.f_type).is_ok_and(reports_at_close);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = open("/proc/self/fd", flags, Mode::empty())?;
        Ok(Self { root: Arc::new(root), descriptors, reports_at_close })
    }

    /// Writes back the data that close(2) would write back, and reports errors. Returns `ENOSYS` if close(2)
    /// would never report errors; then the guest stops asking.
    pub(super) fn flush(&self, file: &OwnedFd) -> Result<(), Errno> {
        // Rust's file types ignore the result of close(2), so fdatasync(2) is used instead.
        if self.reports_at_close { fdatasync(file) } else { Err(Errno::NOSYS) }
    }

    /// Finds a name in a directory. Returns an `O_PATH` descriptor of the inode, without following a symbolic
    /// link.
    pub(super) fn lookup(directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
        beneath(directory, name, OFlags::PATH, Mode::empty())
    }

    /// Opens a file or a directory by its descriptor, with the flags that a guest may choose. Refuses
    /// devices, FIFOs and sockets, because opening them has side effects.
    pub(super) fn reopen(&self, inode: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags & (OF_GUEST | OFlags::DIRECTORY);
        match file_type(&fstat(inode)?) {
            FileType::RegularFile => {}
            FileType::Directory if flags.contains(OFlags::DIRECTORY) => {}
            FileType::Directory => return Err(Errno::ISDIR),
            FileType::Symlink => return Err(Errno::LOOP),
            _ => return Err(Errno::ACCESS),
        }
        // The entry in /proc is a magic link, so the open must follow it. The inode behind it is not a
        // symbolic link, as checked above.
        openat(&self.descriptors, number(inode), flags | ALWAYS, Mode::empty())
    }

    /// Returns an `O_PATH` descriptor of the inode of an open file.
    pub(super) fn inode_of(&self, file: &OwnedFd) -> Result<OwnedFd, Errno> {
        openat(&self.descriptors, number(file), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }

    /// Creates and opens a file. Fails if the name exists.
    pub(super) fn create(
        directory: &OwnedFd,
        name: &[u8],
        flags: OFlags,
        mode: u32,
    ) -> Result<OwnedFd, Errno> {
        let flags = (flags & OF_GUEST) - OFlags::TRUNC;
        beneath(directory, name, flags | OFlags::CREATE | OFlags::EXCL, permissions(mode))
    }

    /// Makes a directory.
    pub(super) fn make_directory(directory: &OwnedFd, name: &[u8], mode: u32) -> Result<(), Errno> {
        mkdirat(directory, name, permissions(mode))
    }

    /// Makes a symbolic link. uhyve never follows it.
    pub(super) fn make_symlink(directory: &OwnedFd, name: &[u8], target: &[u8]) -> Result<(), Errno> {
        symlinkat(target, directory, name)
    }

    /// Gives an inode a further name.
    pub(super) fn link(&self, inode: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        linkat(&self.descriptors, number(inode), directory, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Removes the name of a directory (with `AtFlags::REMOVEDIR`), or of anything else.
    pub(super) fn remove(directory: &OwnedFd, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
        Self::require_unmounted(directory, name)?;
        unlinkat(directory, name, flags)
    }

    /// Renames a name, or exchanges two. Supports the flags `RENAME_NOREPLACE` and `RENAME_EXCHANGE`.
    pub(super) fn rename(from: (&OwnedFd, &[u8]), to: (&OwnedFd, &[u8]), flags: u32) -> Result<(), Errno> {
        let flags = RenameFlags::from_bits(flags)
            .filter(|flags| (RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(*flags));
        Self::require_unmounted(from.0, from.1)?;
        Self::require_unmounted(to.0, to.1)?;
        renameat_with(from.0, from.1, to.0, to.1, flags.ok_or(Errno::INVAL)?)
    }

    /// Returns an error if the host has mounted a file system on this name. This check is needed in a jail,
    /// whose mount namespace does not have the host's mounts: unlinkat(2) and renameat2(2) refuse only mount
    /// points of the caller's own namespace, and would unmount those of other namespaces
    /// (mount_namespaces(7)).
    fn require_unmounted(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        match Self::lookup(directory, name) {
            Err(Errno::XDEV) => Err(Errno::BUSY),
            _ => Ok(()),
        }
    }

    /// Opens a file or a directory to change its permissions or times.
    ///
    /// Landlock restricts open(2), but not chmod(2) or utimensat(2) with a path. So the seccomp filter
    /// permits changes of permissions and times only through a descriptor that was opened before.
    pub(super) fn open_to_change(&self, inode: &OwnedFd) -> Result<OwnedFd, Errno> {
        match file_type(&fstat(inode)?) {
            FileType::Directory => self.reopen(inode, OFlags::RDONLY | OFlags::DIRECTORY),
            FileType::RegularFile => match self.reopen(inode, OFlags::RDONLY) {
                Err(Errno::ACCESS) => self.reopen(inode, OFlags::WRONLY),
                result => result,
            },
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// Sets the permission bits of an open file or directory, without set-id bits.
    pub(super) fn set_mode(file: &OwnedFd, mode: u32) -> Result<(), Errno> {
        fchmod(file, permissions(mode))
    }

    /// Checks access rights like access(2).
    pub(super) fn check_access(&self, inode: &OwnedFd, mask: u32) -> Result<(), Errno> {
        let access = rustix::fs::Access::from_bits(mask).ok_or(Errno::INVAL)?;
        rustix::fs::accessat(&self.descriptors, number(inode), access, AtFlags::empty())
    }

    /// Returns true if the folder itself has been removed.
    pub(super) fn is_gone(&self) -> bool {
        fstat(&*self.root).map_or(true, |status| status.st_nlink == 0)
    }
}

/// Returns the type of an inode.
pub(super) fn file_type(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & MODE_BITS)
}

/// Returns the name of a descriptor in `/proc/self/fd`.
fn number(descriptor: &OwnedFd) -> String {
    descriptor.as_raw_fd().to_string()
}

#[cfg(test)]
mod tests {
    use super::reports_at_close;

    #[test]
    fn only_remote_file_systems_report_at_close() {
        let [nfs, fuse, tmpfs, ext4, xfs] = [0x6969, 0x6573_5546, 0x0102_1994, 0xef53, 0x5846_5342];
        assert!([nfs, fuse].into_iter().all(reports_at_close));
        assert!(![tmpfs, ext4, xfs].into_iter().any(reports_at_close));
    }
}
