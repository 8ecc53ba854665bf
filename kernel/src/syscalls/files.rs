//! Files and directories by path. There is no file system yet: only device files exist, and none can be created.

use core::ffi::c_char;

use hermit_abi::{O_CREAT, O_RDONLY, dirent64, stat};
use hermit_interface::Errno;

use super::descriptors::to_abi;
use super::user::{UserOut, UserText};
use super::{export, unsupported};
use crate::{descriptors, devices};

/// Maximum length of a path in bytes, as on Linux, whose `PATH_MAX` of 4,096 counts the zero byte.
const MAX_PATH_LEN: usize = 4095;

unsupported! {
    ENOENT;
    sys_opendir as opendir(*const c_char) -> i32,
    sys_unlink as unlink(*const c_char) -> i32,
    sys_rmdir as rmdir(*const c_char) -> i32,
}

/// Stores the properties of the file at a path: those of its object once it is open.
fn stat_path(path: UserText<'_>, out: UserOut<'_, stat>) -> Result<i32, Errno> {
    let object = devices::open(path.get(MAX_PATH_LEN)?, O_RDONLY)?;
    out.write(to_abi(object.stat()?)?).map(|()| 0)
}

export! {
    fn sys_stat as stat(name: *const c_char, stat: *mut stat) -> i32
    where path: UserText::new(name), out: UserOut::new(stat) {
        stat_path(path, out)
    }

    /// There are no symbolic links.
    fn sys_lstat as lstat(name: *const c_char, stat: *mut stat) -> i32
    where path: UserText::new(name), out: UserOut::new(stat) {
        stat_path(path, out)
    }

    fn sys_open as open(name: *const c_char, flags: i32, _mode: i32) -> i32
    where path: UserText::new(name) {
        match devices::open(path.get(MAX_PATH_LEN)?, flags).and_then(descriptors::open) {
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
