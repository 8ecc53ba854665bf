//! What is told about files, directories and open descriptors.

use core::ffi::{c_char, c_void};

use super::assert_layout;
use super::time::timespec;

/// What [`stat`](crate::stat()) and its relatives tell about a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct stat {
    /// The file system that holds the file.
    pub st_dev: u64,
    /// The file's number within that file system.
    pub st_ino: u64,
    /// How many names the file has.
    pub st_nlink: u64,
    /// The kind of file (one of the `S_IF` numbers under [`S_IFMT`](crate::S_IFMT)) and its permission bits.
    pub st_mode: u32,
    /// The owning user.
    pub st_uid: u32,
    /// The owning group.
    pub st_gid: u32,
    /// For a device file, which device it stands for.
    pub st_rdev: u64,
    /// The length in bytes.
    pub st_size: i64,
    /// The size in bytes of reads and writes that suit the file best.
    pub st_blksize: i64,
    /// The space taken, in units of 512 bytes.
    pub st_blocks: i64,
    /// When the contents were last read, since the Unix epoch.
    pub st_atim: timespec,
    /// When the contents were last changed, since the Unix epoch.
    pub st_mtim: timespec,
    /// When the contents or what is told here last changed, since the Unix epoch.
    pub st_ctim: timespec,
}
assert_layout!(
    stat, size 120,
    st_dev @ 0, st_ino @ 8, st_nlink @ 16, st_mode @ 24, st_uid @ 28, st_gid @ 32, st_rdev @ 40,
    st_size @ 48, st_blksize @ 56, st_blocks @ 64, st_atim @ 72, st_mtim @ 88, st_ctim @ 104,
);

/// One entry of a directory as [`getdents64`](crate::getdents64) writes it.
///
/// Entries in a buffer are only [`d_reclen`](Self::d_reclen) bytes long, so most are shorter than this type: read
/// their fields one by one and never form a reference to the whole.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dirent64 {
    /// The file's number.
    pub d_ino: u64,
    /// Where the next entry stands in the directory, a value for [`lseek`](crate::lseek).
    pub d_off: i64,
    /// The length in bytes of this entry, so the distance to the next one in the buffer.
    pub d_reclen: u16,
    /// The kind of file, one of the `DT_` numbers.
    pub d_type: u8,
    /// The name, ended by a zero byte.
    pub d_name: [c_char; 256],
}
assert_layout!(dirent64, size 280, d_ino @ 0, d_off @ 8, d_reclen @ 16, d_type @ 18, d_name @ 19);

/// One buffer among those of a [`readv`](crate::readv) or [`writev`](crate::writev).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct iovec {
    /// Where the buffer begins.
    pub iov_base: *mut c_void,
    /// Its length in bytes.
    pub iov_len: usize,
}
assert_layout!(iovec, size 16, iov_base @ 0, iov_len @ 8);

/// One descriptor to wait for with [`poll`](crate::poll).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pollfd {
    /// The descriptor; the entry is passed over if it is negative.
    pub fd: i32,
    /// The events asked for, `POLL` bits.
    pub events: i16,
    /// The events that hold, filled in by the kernel: of those asked for, or an error, hang-up or bad descriptor.
    pub revents: i16,
}
assert_layout!(pollfd, size 8, fd @ 0, events @ 4, revents @ 6);
