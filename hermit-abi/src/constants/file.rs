//! Descriptors, flags of `open`, file types.

use core::ffi::c_int;

/// Descriptor of standard input.
pub const STDIN_FILENO: c_int = 0;
/// Descriptor of standard output.
pub const STDOUT_FILENO: c_int = 1;
/// Descriptor of standard error.
pub const STDERR_FILENO: c_int = 2;

/// Open for reading only.
pub const O_RDONLY: i32 = 0o0;
/// Open for writing only.
pub const O_WRONLY: i32 = 0o1;
/// Open for reading and writing.
pub const O_RDWR: i32 = 0o2;
/// Create the file if it does not exist.
pub const O_CREAT: i32 = 0o100;
/// With [`O_CREAT`]: fail if the file exists.
pub const O_EXCL: i32 = 0o200;
/// Truncate the file to length 0.
pub const O_TRUNC: i32 = 0o1000;
/// Write at the end of the file.
pub const O_APPEND: i32 = 0o2000;
/// Fail with [`EAGAIN`](crate::EAGAIN) rather than wait.
pub const O_NONBLOCK: i32 = 0o4000;
/// Close on exec. It has no effect: there is no exec.
pub const O_CLOEXEC: i32 = 0o2000000;
/// Fail if the file is not a directory.
pub const O_DIRECTORY: i32 = 0o200000;

/// Fail with [`ELOOP`](crate::ELOOP) if the last name of the path is a symbolic link.
pub const O_NOFOLLOW: i32 = 0o400000;

/// [`utimens`](crate::utimens): as `tv_nsec`, sets the current time.
pub const UTIME_NOW: i32 = 0x3fff_ffff;
/// [`utimens`](crate::utimens): as `tv_nsec`, leaves the time unchanged.
pub const UTIME_OMIT: i32 = 0x3fff_fffe;
/// [`utimens`](crate::utimens): change a symbolic link itself.
pub const AT_SYMLINK_NOFOLLOW: i32 = 0x100;
/// [`statx`](crate::statx()): with an empty name, the open file itself.
pub const AT_EMPTY_PATH: i32 = 0x1000;
/// [`statx`](crate::statx()): a relative name begins in the current directory.
pub const AT_FDCWD: i32 = -100;
/// [`statx`](crate::statx()): all properties except the time of the creation are known.
pub const STATX_BASIC_STATS: u32 = 0x7ff;
/// [`statx`](crate::statx()): the time of the creation is known.
pub const STATX_BTIME: u32 = 0x800;

/// [`flock`](crate::flock): a shared lock.
pub const LOCK_SH: i32 = 1;
/// [`flock`](crate::flock): an exclusive lock.
pub const LOCK_EX: i32 = 2;
/// [`flock`](crate::flock): fail rather than wait.
pub const LOCK_NB: i32 = 4;
/// [`flock`](crate::flock): remove the lock.
pub const LOCK_UN: i32 = 8;

/// Maximum size of an atomic write to a pipe, in bytes.
pub const PIPE_BUF: usize = 4096;

/// [`fcntl`](crate::fcntl): duplicate the descriptor, to the lowest free one that is at least the argument.
pub const F_DUPFD: i32 = 0;
/// [`fcntl`](crate::fcntl): get the descriptor flags.
pub const F_GETFD: i32 = 1;
/// [`fcntl`](crate::fcntl): set the descriptor flags.
pub const F_SETFD: i32 = 2;
/// [`fcntl`](crate::fcntl): get the `O_` flags of the open file.
pub const F_GETFL: i32 = 3;
/// [`fcntl`](crate::fcntl): set the `O_` flags that can be changed: [`O_NONBLOCK`], and [`O_APPEND`] for a
/// file.
pub const F_SETFL: i32 = 4;
/// Descriptor flag: close on exec. It has no effect: there is no exec.
pub const FD_CLOEXEC: i32 = 1;

/// [`ioctl`](crate::ioctl): make a descriptor blocking (if the `i32` pointed to is 0) or non-blocking.
pub const FIONBIO: i32 = 0x8008_667e_u32.cast_signed();

/// Maximum number of buffers of a [`readv`](crate::readv) or [`writev`](crate::writev).
pub const IOV_MAX: usize = 1024;

/// [`lseek`](crate::lseek): the offset is relative to the start.
pub const SEEK_SET: i32 = 0;
/// [`lseek`](crate::lseek): the offset is relative to the current position.
pub const SEEK_CUR: i32 = 1;
/// [`lseek`](crate::lseek): the offset is relative to the end.
pub const SEEK_END: i32 = 2;

/// A directory entry of unknown type.
pub const DT_UNKNOWN: u8 = 0;
/// A directory entry that is a named pipe.
pub const DT_FIFO: u8 = 1;
/// A directory entry that is a character device.
pub const DT_CHR: u8 = 2;
/// A directory entry that is a directory.
pub const DT_DIR: u8 = 4;
/// A directory entry that is a block device.
pub const DT_BLK: u8 = 6;
/// A directory entry that is a regular file.
pub const DT_REG: u8 = 8;
/// A directory entry that is a symbolic link.
pub const DT_LNK: u8 = 10;
/// A directory entry that is a Unix socket.
pub const DT_SOCK: u8 = 12;
/// A directory entry that is a whiteout.
pub const DT_WHT: u8 = 14;

/// The file is a named pipe.
pub const S_IFIFO: u32 = 0o1_0000;
/// The file is a character device.
pub const S_IFCHR: u32 = 0o2_0000;
/// The file is a directory.
pub const S_IFDIR: u32 = 0o4_0000;
/// The file is a block device.
pub const S_IFBLK: u32 = 0o6_0000;
/// The file is a regular file.
pub const S_IFREG: u32 = 0o10_0000;
/// The file is a symbolic link.
pub const S_IFLNK: u32 = 0o12_0000;
/// The file is a Unix socket.
pub const S_IFSOCK: u32 = 0o14_0000;
/// Mask of the file type in a mode.
pub const S_IFMT: u32 = 0o17_0000;
