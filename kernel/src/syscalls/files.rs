//! Files and directories by name. There is no file system yet: no name exists, and none can be made.

use core::ffi::c_char;

use hermit_abi::{O_CREAT, dirent64, stat};
use hermit_interface::Errno;

use super::{export, unsupported};
use crate::descriptors;

unsupported! {
    ENOENT;
    sys_opendir as opendir(*const c_char) -> i32,
    sys_stat as stat(*const c_char, *mut stat) -> i32,
    sys_lstat as lstat(*const c_char, *mut stat) -> i32,
    sys_unlink as unlink(*const c_char) -> i32,
    sys_rmdir as rmdir(*const c_char) -> i32,
}

export! {
    fn sys_open as open(_name: *const c_char, flags: i32, _mode: i32) -> i32 {
        Err(if flags & O_CREAT == 0 { Errno::ENOENT } else { Errno::EROFS })
    }

    fn sys_mkdir as mkdir(_name: *const i8, _mode: u32) -> i32 {
        Err(Errno::EROFS)
    }

    fn sys_getdents64 as getdents64(fd: i32, _dirp: *mut dirent64, _count: usize) -> i64 {
        descriptors::get(fd)?;
        Err(Errno::ENOTDIR)
    }
}
