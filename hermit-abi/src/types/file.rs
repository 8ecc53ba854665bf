//! Structures of files, directories and descriptors.
//!
//! They are part of the ABI: programs and the kernel are compiled separately, and must agree on every offset.
//! `stat`, `dirent64`, `iovec` and `pollfd` are those of the published crate. `statx` and `epoll_event` have
//! the layout of Linux on x86-64. `file_properties` is a smaller `statx`, which std uses.

use core::ffi::{c_char, c_void};

use super::assert_layout;
use super::time::timespec;

/// Properties of a file, for [`stat`](crate::stat()), [`lstat`](crate::lstat) and [`fstat`](crate::fstat).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct stat {
    /// Device ID of the file system that holds the file.
    pub st_dev: u64,
    /// Inode number.
    pub st_ino: u64,
    /// Number of hard links.
    pub st_nlink: u64,
    /// File type (one of the `S_IF` numbers under [`S_IFMT`](crate::S_IFMT)) and its permission bits.
    pub st_mode: u32,
    /// User ID of the owner.
    pub st_uid: u32,
    /// Group ID of the owner.
    pub st_gid: u32,
    /// Device ID of a device file.
    pub st_rdev: u64,
    /// Size in bytes; 0 for devices.
    pub st_size: i64,
    /// Preferred size of reads and writes, in bytes.
    pub st_blksize: i64,
    /// Allocated space, in units of 512 bytes.
    pub st_blocks: i64,
    /// Time of the last read, since the Unix epoch.
    pub st_atim: timespec,
    /// Time of the last change of the contents, since the Unix epoch.
    pub st_mtim: timespec,
    /// Time of the last change of contents or properties, since the Unix epoch.
    pub st_ctim: timespec,
}
assert_layout!(
    stat, size 120,
    st_dev @ 0, st_ino @ 8, st_nlink @ 16, st_mode @ 24, st_uid @ 28, st_gid @ 32, st_rdev @ 40,
    st_size @ 48, st_blksize @ 56, st_blocks @ 64, st_atim @ 72, st_mtim @ 88, st_ctim @ 104,
);

/// A time of [`statx`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct statx_timestamp {
    /// Seconds since the Unix epoch, negative before it.
    pub tv_sec: i64,
    /// Nanoseconds of the second.
    pub tv_nsec: u32,
    /// Padding.
    pub __reserved: i32,
}
assert_layout!(statx_timestamp, size 16, tv_sec @ 0, tv_nsec @ 8);

/// Properties of a file, for [`statx`](crate::statx()).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct statx {
    /// Properties that are known, as `STATX_` bits.
    pub stx_mask: u32,
    /// Preferred size of reads and writes, in bytes.
    pub stx_blksize: u32,
    /// Further attributes: none.
    pub stx_attributes: u64,
    /// Number of hard links.
    pub stx_nlink: u32,
    /// User ID of the owner.
    pub stx_uid: u32,
    /// Group ID of the owner.
    pub stx_gid: u32,
    /// File type and permission bits.
    pub stx_mode: u16,
    /// Padding.
    pub __spare0: u16,
    /// Inode number.
    pub stx_ino: u64,
    /// Size in bytes; 0 for devices.
    pub stx_size: u64,
    /// Allocated space, in units of 512 bytes.
    pub stx_blocks: u64,
    /// Bits of `stx_attributes` that this kernel supports: none.
    pub stx_attributes_mask: u64,
    /// Time of the last read.
    pub stx_atime: statx_timestamp,
    /// Time of the creation, if `stx_mask` has [`STATX_BTIME`](crate::STATX_BTIME).
    pub stx_btime: statx_timestamp,
    /// Time of the last change of contents or properties.
    pub stx_ctime: statx_timestamp,
    /// Time of the last change of the contents.
    pub stx_mtime: statx_timestamp,
    /// Major number of a device file.
    pub stx_rdev_major: u32,
    /// Minor number of a device file.
    pub stx_rdev_minor: u32,
    /// Upper half of the device ID of the file system that holds the file.
    pub stx_dev_major: u32,
    /// Lower half of the device ID.
    pub stx_dev_minor: u32,
    /// Padding, which later versions of Linux use.
    pub __spare3: [u64; 14],
}
assert_layout!(
    statx, size 256,
    stx_mask @ 0, stx_blksize @ 4, stx_attributes @ 8, stx_nlink @ 16, stx_uid @ 20, stx_gid @ 24, stx_mode @ 28,
    stx_ino @ 32, stx_size @ 40, stx_blocks @ 48, stx_attributes_mask @ 56, stx_atime @ 64, stx_btime @ 80,
    stx_ctime @ 96, stx_mtime @ 112, stx_rdev_major @ 128, stx_rdev_minor @ 132, stx_dev_major @ 136,
    stx_dev_minor @ 140,
);

/// Properties of a file, for [`get_properties`](crate::get_properties()): the properties of [`statx`] that
/// files have, without padding.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct file_properties {
    /// Inode number.
    pub ino: u64,
    /// Device ID of the file system that holds the file.
    pub dev: u64,
    /// Size in bytes; 0 for devices.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Time of the last read, in seconds since the Unix epoch.
    pub atime: i64,
    /// Time of the last change of the contents.
    pub mtime: i64,
    /// Time of the last change of contents or properties.
    pub ctime: i64,
    /// Time of the creation.
    pub btime: i64,
    /// Nanoseconds of `atime`.
    pub atime_nsec: u32,
    /// Nanoseconds of `mtime`.
    pub mtime_nsec: u32,
    /// Nanoseconds of `ctime`.
    pub ctime_nsec: u32,
    /// Nanoseconds of `btime`; `u32::MAX` if the time of the creation is unknown.
    pub btime_nsec: u32,
    /// File type and permission bits.
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID of the owner.
    pub gid: u32,
    /// Preferred size of reads and writes, in bytes.
    pub blksize: u32,
    /// Padding.
    pub __reserved: u32,
}
assert_layout!(file_properties, size 104, ino @ 0, atime @ 32, atime_nsec @ 64, mode @ 80, blksize @ 96);

/// A directory entry as [`getdents64`](crate::getdents64) writes it.
///
/// An entry in a buffer is [`d_reclen`](Self::d_reclen) bytes long, which is usually less than the size of
/// this type: read its fields one by one, and never form a reference to the whole.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dirent64 {
    /// Inode number.
    pub d_ino: u64,
    /// Position of the next entry in the directory, for [`lseek`](crate::lseek).
    pub d_off: i64,
    /// Length of this entry in bytes: the distance to the next one in the buffer.
    pub d_reclen: u16,
    /// File type, one of the `DT_` numbers.
    pub d_type: u8,
    /// Name, which ends with a zero byte.
    pub d_name: [c_char; 256],
}
assert_layout!(dirent64, size 280, d_ino @ 0, d_off @ 8, d_reclen @ 16, d_type @ 18, d_name @ 19);

/// A buffer of a [`readv`](crate::readv) or [`writev`](crate::writev).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct iovec {
    /// Start of the buffer.
    pub iov_base: *mut c_void,
    /// Length of the buffer in bytes.
    pub iov_len: usize,
}
assert_layout!(iovec, size 16, iov_base @ 0, iov_len @ 8);

/// A descriptor to [`poll`](crate::poll).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pollfd {
    /// The descriptor; the entry is ignored if it is negative.
    pub fd: i32,
    /// Requested events, `POLL` bits.
    pub events: i16,
    /// Events that occurred, set by the kernel: requested ones, and `POLLERR`, `POLLHUP` and `POLLNVAL`.
    pub revents: i16,
}
assert_layout!(pollfd, size 8, fd @ 0, events @ 4, revents @ 6);

/// An event of a watched descriptor ([`epoll_wait`](crate::epoll_wait)), or the events for which it is
/// watched ([`epoll_ctl`](crate::epoll_ctl)). Packed, as in Linux on x86-64.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, Default)]
pub struct epoll_event {
    /// `EPOLL` bits.
    pub events: u32,
    /// The program's data.
    pub u64: u64,
}
assert_layout!(epoll_event, size 12, events @ 0, u64 @ 4);
