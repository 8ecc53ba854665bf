//! Files and directories by path.
//!
//! This kernel has no file system: only device files exist, `/dev/vda` to `/dev/vdz` and `/dev/hwrng`.

use core::ffi::c_char;

use crate::types::file::stat;

unsafe extern "C" {
    /// Opens the file `name` with the `O_` flags `flags`, and returns a descriptor. A file that is created gets the
    /// permission bits `mode`.
    ///
    /// Fails among others with `-ENOENT` (no such file), `-EEXIST` (the file exists, with
    /// [`O_EXCL`](crate::O_EXCL)), `-EISDIR`, `-ENOTDIR`, `-EACCES`, `-EROFS` and `-EMFILE` (no free descriptor).
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

    /// Stores the properties of the file `name` in `stat`. Fails with `-ENOENT` if it does not exist.
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

    /// Removes the file `name`. Fails with `-ENOENT` if it does not exist and with `-EISDIR` for a directory.
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

    /// Creates the directory `name` with the permission bits of `mode`. Fails with `-EEXIST` if the name exists, with
    /// `-ENOENT` if its parent directory does not, and with `-EROFS`.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte.
    #[link_name = "sys_mkdir"]
    pub fn mkdir(name: *const i8, mode: u32) -> i32;
}
