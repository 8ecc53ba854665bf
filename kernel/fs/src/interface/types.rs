//! Types that describe inodes to file systems and to their callers.
//!
//! Two numbers name an inode. Requests use its [`Ino`]: the file system chooses this number, and it is valid
//! only while the caller has a reference to the inode. Programs see [`Attr::number`] as `st_ino`. The
//! validity times in [`Entry`], [`Attr`] and [`Lookup`] say how long the caller may cache a reply, as in
//! FUSE.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_abi::{
    DT_BLK, DT_CHR, DT_DIR, DT_FIFO, DT_LNK, DT_REG, DT_SOCK, S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK,
    S_IFMT, S_IFREG, S_IFSOCK,
};
use hermit_interface::Errno;

use crate::interface::system::BLOCK_SIZE;
use crate::interface::{Contents, System};

/// Number by which requests name an inode. It is unique within its file system as long as the caller has a
/// reference to the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory of each file system.
    pub const ROOT: Self = Self(1);
}

/// Type of a file. Its size is 8 bytes, so structs that contain it and other fields of 8 bytes have no
/// padding and are copied a word at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

impl FileType {
    /// Returns the file type in a mode, and [`Self::Regular`] for a mode without a type.
    #[must_use]
    pub const fn of_mode(mode: u32) -> Self {
        match mode & S_IFMT {
            S_IFDIR => Self::Directory,
            S_IFLNK => Self::Symlink,
            S_IFCHR => Self::CharDevice,
            S_IFBLK => Self::BlockDevice,
            S_IFIFO => Self::Fifo,
            S_IFSOCK => Self::Socket,
            _ => Self::Regular,
        }
    }

    /// The `S_IF` number of the type.
    #[must_use]
    pub const fn mode(self) -> u32 {
        match self {
            Self::Regular => S_IFREG,
            Self::Directory => S_IFDIR,
            Self::Symlink => S_IFLNK,
            Self::CharDevice => S_IFCHR,
            Self::BlockDevice => S_IFBLK,
            Self::Fifo => S_IFIFO,
            Self::Socket => S_IFSOCK,
        }
    }

    /// The `DT_` number of the type.
    #[must_use]
    pub const fn dirent_type(self) -> u8 {
        match self {
            Self::Regular => DT_REG,
            Self::Directory => DT_DIR,
            Self::Symlink => DT_LNK,
            Self::CharDevice => DT_CHR,
            Self::BlockDevice => DT_BLK,
            Self::Fifo => DT_FIFO,
            Self::Socket => DT_SOCK,
        }
    }
}

/// A point in time, since the Unix epoch. It has no padding, since each [`Attr`] has four of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(4))]
pub struct Time {
    /// Seconds, negative before the epoch.
    pub seconds: i64,
    /// Nanoseconds of the second, below 10^9.
    pub nanoseconds: u32,
}

/// Attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Number by which requests name the inode.
    pub ino: Ino,
    /// Number that programs see (`st_ino`). A file on a server has the server's number.
    pub number: u64,
    /// File type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID of the owner.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Preferred size of reads and writes in bytes.
    pub block_size: u32,
    /// Time of the last read.
    pub atime: Time,
    /// Time of the last change of the contents.
    pub mtime: Time,
    /// Time of the last change of contents or attributes.
    pub ctime: Time,
    /// Time of the creation.
    pub btime: Time,
    /// How long the attributes may be cached, in nanoseconds. 0: not at all.
    pub validity: u64,
}

impl Attr {
    /// Attributes of an inode without contents, owned by root. All its times are `time`.
    #[must_use]
    pub const fn of_empty(ino: Ino, mode: u32, nlink: u32, time: Time) -> Self {
        Self {
            ino,
            number: ino.0,
            mode,
            nlink,
            uid: 0,
            gid: 0,
            size: 0,
            blocks: 0,
            block_size: BLOCK_SIZE,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            validity: 0,
        }
    }

    /// Type of the file.
    #[must_use]
    pub const fn file_type(&self) -> FileType {
        FileType::of_mode(self.mode)
    }
}

/// A new value of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The current time.
    Now,
    /// A given time.
    To(Time),
}

/// Changes of attributes. An attribute that is `None` does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub permissions: Option<u32>,
    /// Size in bytes. If the file becomes shorter, the bytes after the new end are lost. If it becomes
    /// longer, the new bytes are zeros.
    pub size: Option<u64>,
    /// Time of the last read.
    pub atime: Option<SetTime>,
    /// Time of the last change of the contents.
    pub mtime: Option<SetTime>,
    /// File handle (the `fh` of FUSE) through which the size changes (`ftruncate`), if any. With a handle,
    /// the permission bits of the file are not checked.
    pub handle: Option<u64>,
}

/// An inode that a file system has found or created by name. The caller has a reference to the inode until it
/// calls [`forget`](crate::FileSystem::forget).
#[derive(Clone, Debug)]
pub struct Entry<S: System> {
    /// Attributes of the inode.
    pub attr: Attr,
    /// How long this name may be cached, in nanoseconds. 0: not at all. [`FOREVER`]: until a request of the
    /// caller changes the name.
    pub validity: u64,
    /// The contents of a regular file in memory. The caller reads and writes them without requests, and
    /// neither [opens](crate::FileSystem::open) nor [releases](crate::FileSystem::release) such a file.
    pub contents: Option<Arc<Contents<S>>>,
}

impl<S: System> Entry<S> {
    /// Creates the entry of an inode without contents in memory.
    #[must_use]
    pub const fn new(attr: Attr, validity: u64) -> Self {
        Self { attr, validity, contents: None }
    }
}

/// Validity of a name that only requests of the caller change.
pub const FOREVER: u64 = u64::MAX;

/// Result of a lookup.
#[derive(Clone, Debug)]
pub enum Lookup<S: System> {
    /// The name has an inode.
    Found(Entry<S>),
    /// There is no such name.
    Absent {
        /// How long the absence may be cached, in nanoseconds, as [`Entry::validity`].
        validity: u64,
    },
}

impl<S: System> Lookup<S> {
    /// Returns the inode of the name.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the name is absent.
    pub fn found(self) -> Result<Entry<S>, Errno> {
        match self {
            Self::Found(entry) => Ok(entry),
            Self::Absent { .. } => Err(Errno::ENOENT),
        }
    }
}

/// An entry in a directory listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Number of the inode as in [`Attr::number`].
    pub number: u64,
    /// Type of the file.
    pub file_type: FileType,
    /// Name. It contains no slash and no zero byte.
    pub name: &'a [u8],
    /// Position of the next entry, where a later read of the directory continues.
    pub next: u64,
}

/// The file or object that a descriptor refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorTarget {
    /// The path of a file that has one.
    Path(Vec<u8>),
    /// An object that has no path or several paths: its type, and a number that is unique for the type.
    Numbered(&'static str, u64),
}

/// A mounted file system in `/proc/mounts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// Type of the file system.
    pub type_name: &'static str,
    /// Path of the directory.
    pub path: Vec<u8>,
    /// True if the file system is mounted read-only.
    pub is_read_only: bool,
}

/// Usage of a file system, in blocks of `block_size` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of free blocks.
    pub free_blocks: u64,
    /// Number of inodes in use.
    pub inodes: u64,
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::FileType;

    #[test]
    fn file_type_converts_to_mode_and_dirent_type() {
        use FileType::{BlockDevice, CharDevice, Directory, Fifo, Regular, Socket, Symlink};
        for file_type in [Regular, Directory, Symlink, CharDevice, BlockDevice, Fifo, Socket] {
            assert_eq!(FileType::of_mode(file_type.mode() | 0o7777), file_type);
            // On Linux, a `DT_` number has the bits of the `S_IF` number, shifted by 12.
            assert_eq!(u32::from(file_type.dirent_type()), file_type.mode() >> 12);
        }
    }
}
