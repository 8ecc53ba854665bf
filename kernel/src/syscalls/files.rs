//! Files and directories by name. There is no file system yet.

use core::ffi::c_char;

use hermit_abi::{dirent64, stat};
use hermit_interface::Errno;

use super::{export, unsupported};
use crate::descriptors;

unsupported! {
    ENOSYS;
    sys_open as open(*const c_char, i32, i32) -> i32,
    sys_opendir as opendir(*const c_char) -> i32,
    sys_stat as stat(*const c_char, *mut stat) -> i32,
    sys_lstat as lstat(*const c_char, *mut stat) -> i32,
    sys_unlink as unlink(*const c_char) -> i32,
    sys_rmdir as rmdir(*const c_char) -> i32,
    sys_mkdir as mkdir(*const i8, u32) -> i32,
}

export! {
    fn sys_getdents64 as getdents64(fd: i32, _dirp: *mut dirent64, _count: usize) -> i64 {
        descriptors::get(fd)?;
        Err(Errno::ENOTDIR)
    }
}
