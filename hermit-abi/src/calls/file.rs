//! Files and directories by name.
//!
//! A `name` that does not begin with a slash is looked up in the working directory.

use core::ffi::c_char;

use crate::types::file::stat;

unsafe extern "C" {
    /// Opens the file `name` as the `O_` bits of `flags` say and returns a descriptor. If that creates the file, the
    /// permission bits are those of `mode`.
    ///
    /// Fails among others with `-ENOENT` (no such file), `-EEXIST` (there is one, and [`O_EXCL`](crate::O_EXCL) was
    /// given), `-EISDIR`, `-ENOTDIR`, `-EACCES`, `-EROFS` and `-EMFILE` (no free descriptor).
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

    /// Tells in `stat` about the file `name`, following symbolic links. Fails with `-ENOENT` if there is none.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte and `stat` be valid for writing.
    #[link_name = "sys_stat"]
    pub fn stat(name: *const c_char, stat: *mut stat) -> i32;

    /// As [`stat`](stat()), but tells about a symbolic link itself.
    ///
    /// # Safety
    ///
    /// As for [`stat`](stat()).
    #[link_name = "sys_lstat"]
    pub fn lstat(name: *const c_char, stat: *mut stat) -> i32;

    /// Removes the file `name`. Fails with `-ENOENT` if there is none and with `-EISDIR` for a directory.
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

    /// Creates the directory `name` with the permission bits of `mode`. Fails with `-EEXIST` if the name is taken and
    /// with `-ENOENT` if the directory to hold it is missing.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_mkdir"]
    pub fn mkdir(name: *const i8, mode: u32) -> i32;
}
