//! Files and directories by name. There is no file system yet: only devices have names, and none can be made.

use core::ffi::c_char;

use hermit_abi::{O_CREAT, dirent64, stat};
use hermit_interface::Errno;

use super::{export, unsupported, user};
use crate::{descriptors, devices};

/// Longest name, as on Linux.
const PATH_MAX: usize = 4096;

unsupported! {
    ENOENT;
    sys_opendir as opendir(*const c_char) -> i32,
    sys_stat as stat(*const c_char, *mut stat) -> i32,
    sys_lstat as lstat(*const c_char, *mut stat) -> i32,
    sys_unlink as unlink(*const c_char) -> i32,
    sys_rmdir as rmdir(*const c_char) -> i32,
}

export! {
    fn sys_open as open(name: *const c_char, flags: i32, _mode: i32) -> i32 {
        // SAFETY: the program passes a string.
        let name = unsafe { user::text(name, PATH_MAX) }?;
        match devices::open(name, flags).and_then(descriptors::open) {
            Err(Errno::ENOENT) if flags & O_CREAT != 0 => Err(Errno::EROFS),
            result => result,
        }
    }

    fn sys_mkdir as mkdir(_name: *const i8, _mode: u32) -> i32 {
        Err(Errno::EROFS)
    }

    fn sys_getdents64 as getdents64(fd: i32, _dirp: *mut dirent64, _count: usize) -> i64 {
        descriptors::get(fd)?;
        Err(Errno::ENOTDIR)
    }
}
