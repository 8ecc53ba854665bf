//! Files and directories by path.
//!
//! The root is a file system in memory. At first it is empty except for `/dev` and `/tmp`.
//!
//! Calls with paths fail among others with `-ENOENT`, `-ENOTDIR`, `-ENAMETOOLONG` (a name of more than 255
//! bytes, or a path of more than 4,095), `-ELOOP` (more than 40 symbolic links), `-ENOSPC` and `-ENOMEM`.

use core::ffi::c_char;

use crate::types::file::{file_properties, stat, statx};
use crate::types::time::timespec;

unsafe extern "C" {
    /// Opens the file `name` with the `O_` flags `flags`, and returns a descriptor. A file that is created
    /// gets the permission bits `mode`.
    ///
    /// Fails among others with `-ENOENT` (no such file), `-EEXIST` (the file exists, with
    /// [`O_EXCL`](crate::O_EXCL)), `-EISDIR`, `-ENOTDIR`, `-EACCES`, `-EROFS` and `-EMFILE` (no free
    /// descriptor).
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_open"]
    pub fn open(name: *const c_char, flags: i32, mode: i32) -> i32;

    /// Opens the directory `name` and returns a descriptor.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[deprecated(since = "0.4.0", note = "use `open` with `O_DIRECTORY`")]
    #[link_name = "sys_opendir"]
    pub fn opendir(name: *const c_char) -> i32;

    /// Stores the properties of the file `name` in `stat`. Fails with `-ENOENT` if the file does not exist.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte and `stat` be valid for writing.
    #[link_name = "sys_stat"]
    pub fn stat(name: *const c_char, stat: *mut stat) -> i32;

    /// As [`stat`](stat()), but does not follow a symbolic link.
    ///
    /// # Safety
    ///
    /// As for [`stat`](stat()).
    #[link_name = "sys_lstat"]
    pub fn lstat(name: *const c_char, stat: *mut stat) -> i32;

    /// Stores all properties of a file in `statx`, independently of `mask`. The file is `name`, which is
    /// absolute or begins in the current directory. With an empty name and the flag
    /// [`AT_EMPTY_PATH`](crate::AT_EMPTY_PATH), it is the open file `fd`. With the flag
    /// [`AT_SYMLINK_NOFOLLOW`](crate::AT_SYMLINK_NOFOLLOW), a symbolic link is not followed.
    ///
    /// `fd` is [`AT_FDCWD`](crate::AT_FDCWD) for a name that is not absolute. Names relative to the directory
    /// of a descriptor are not supported (`-EOPNOTSUPP`).
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte and `statx` be valid for writing.
    #[link_name = "sys_statx"]
    pub fn statx(fd: i32, name: *const c_char, flags: i32, mask: u32, statx: *mut statx) -> i32;

    /// Removes the file `name`. Fails with `-ENOENT` if the file does not exist and with `-EISDIR` for a
    /// directory.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_unlink"]
    pub fn unlink(name: *const c_char) -> i32;

    /// Removes the directory `name`. Fails with `-ENOENT`, `-ENOTDIR`, or `-ENOTEMPTY` if it has entries.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_rmdir"]
    pub fn rmdir(name: *const c_char) -> i32;

    /// Creates the directory `name` with the permission bits of `mode`. Fails with `-EEXIST` if the name
    /// exists, with `-ENOENT` if its parent directory does not exist, and with `-EROFS`.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_mkdir"]
    pub fn mkdir(name: *const i8, mode: u32) -> i32;

    /// Renames `old` to `new`, which is replaced if it exists. Fails among others with `-ENOTEMPTY`,
    /// `-EISDIR`, `-EXDEV` (between two file systems) and `-EINVAL` (a directory into itself).
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// Both names must end with a zero byte.
    #[link_name = "sys_rename"]
    pub fn rename(old: *const c_char, new: *const c_char) -> i32;

    /// Creates another name for the file `existing`. Fails with `-EPERM` for a directory, `-EEXIST`,
    /// `-EXDEV`.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// Both names must end with a zero byte.
    #[link_name = "sys_link"]
    pub fn link(existing: *const c_char, name: *const c_char) -> i32;

    /// Creates the symbolic link `name` with a target.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// Both texts must end with a zero byte.
    #[link_name = "sys_symlink"]
    pub fn symlink(target: *const c_char, name: *const c_char) -> i32;

    /// Stores the target of the symbolic link `name`, without a zero byte and truncated to `size` bytes;
    /// returns the number of bytes. Fails with `-EINVAL` if the file is not a symbolic link.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte, and `buffer` be valid for writing `size` bytes.
    #[link_name = "sys_readlink"]
    pub fn readlink(name: *const c_char, buffer: *mut u8, size: usize) -> isize;

    /// Sets the permission bits of the file `name`.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_chmod"]
    pub fn chmod(name: *const c_char, mode: u32) -> i32;

    /// Sets the access time and the modification time of the file `name` to the two times at `times`. If the
    /// nanoseconds of a time are [`UTIME_NOW`](crate::UTIME_NOW), the current time is set; if they are
    /// [`UTIME_OMIT`](crate::UTIME_OMIT), the time stays. If `times` is null, sets both to the current time.
    /// With the flag [`AT_SYMLINK_NOFOLLOW`](crate::AT_SYMLINK_NOFOLLOW), a symbolic link is not followed.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte, and `times` be null or valid for reading two times.
    #[link_name = "sys_utimens"]
    pub fn utimens(name: *const c_char, times: *const timespec, flags: i32) -> i32;

    /// Changes the current directory, in which relative paths begin.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_chdir"]
    pub fn chdir(name: *const c_char) -> i32;

    /// Stores the path of the current directory without a zero byte; returns the number of bytes. Fails with
    /// `-ERANGE` if the path has more than `size` bytes, and with `-ENOENT` if the directory was removed.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `buffer` must be valid for writing `size` bytes.
    #[link_name = "sys_getcwd"]
    pub fn getcwd(buffer: *mut u8, size: usize) -> isize;

    /// Stores the path of the file `name` without symbolic links, `.` and `..`, and without a zero byte;
    /// returns the number of bytes. Fails with `-ERANGE` if the path has more than `size` bytes.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte, and `buffer` be valid for writing `size` bytes.
    #[link_name = "sys_realpath"]
    pub fn realpath(name: *const c_char, buffer: *mut u8, size: usize) -> isize;

    /// As [`open`](open()), with a path of `length` bytes, without a zero byte at its end. Fails with
    /// `-EINVAL` if the path contains a zero byte.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `path` must be valid for reading `length` bytes.
    #[link_name = "sys_open_path"]
    pub fn open_path(path: *const u8, length: usize, flags: i32, mode: i32) -> i32;

    /// As [`unlink`](unlink()), with a path as [`open_path`](open_path()) takes it.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `path` must be valid for reading `length` bytes.
    #[link_name = "sys_unlink_path"]
    pub fn unlink_path(path: *const u8, length: usize) -> i32;

    /// Stores the properties of a file. `fd` and `flags` have the same meaning as for [`statx`](statx()), and
    /// the path is as for [`open_path`](open_path()).
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `path` must be valid for reading `length` bytes, and `properties` for writing.
    #[link_name = "sys_get_properties"]
    pub fn get_properties(
        fd: i32,
        path: *const u8,
        length: usize,
        flags: i32,
        properties: *mut file_properties,
    ) -> i32;
}
