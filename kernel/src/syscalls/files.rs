//! Files and directories by path.
//!
//! A call by path checks its arguments, converts the flags, and calls the virtual file system. Most calls may
//! wait for the host, and block on a future ([`complete`]). Calls that programs make often, such as `open`,
//! have a fast path that does not wait if the file is in the ramfs or cached. This module also converts
//! results from the file systems' types to the structures of the ABI, so the file systems do not depend on
//! the ABI.

use core::ffi::c_char;

use hermit_abi::{
    AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_DIRECTORY, O_RDONLY, STATX_BASIC_STATS, STATX_BTIME,
    UTIME_NOW, UTIME_OMIT, file_properties, stat, statx, statx_timestamp, timespec,
};
use hermit_fs::{RenameFlags, SetAttr, SetTime, Symlinks, Time};
use hermit_interface::{Errno, MAX_PATH};
use hermit_io::Stat;

use super::export;
use super::user::{UserBuffer, UserOut, UserSlice, UserText};
use crate::descriptors::{self, Handle};
use crate::files::{self, vfs};
use crate::threads::wait::complete;

/// Permission bits of a mode, including the set-ID and sticky bits.
const PERMISSIONS: u32 = 0o7777;

/// Does the same as [`sys_open_path`] out of line, for calls that programs make less often.
#[inline(never)]
fn open(path: &[u8], flags: i32, mode: u32) -> Result<i32, Errno> {
    files::open(path, flags, mode)
}

/// Removes a name, out of line for the same reason.
#[inline(never)]
fn remove_file(path: &[u8]) -> Result<(), Errno> {
    files::remove_file(path)
}

/// Properties as `stat` returns them.
pub(super) fn to_stat(found: &file_properties) -> Result<stat, Errno> {
    let signed = |number: u64| i64::try_from(number).map_err(|_| Errno::EOVERFLOW);
    let time = |tv_sec, nanoseconds: u32| timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
    Ok(stat {
        st_dev: found.dev,
        st_ino: found.ino,
        st_nlink: found.nlink.into(),
        st_mode: found.mode,
        st_uid: found.uid,
        st_gid: found.gid,
        st_size: signed(found.size)?,
        st_blksize: found.blksize.into(),
        st_blocks: signed(found.blocks)?,
        st_atim: time(found.atime, found.atime_nsec),
        st_mtim: time(found.mtime, found.mtime_nsec),
        st_ctim: time(found.ctime, found.ctime_nsec),
        ..stat::default()
    })
}

/// Converts a mode to the 16 bits of the field in [`statx`].
fn mode(mode: u32) -> u16 {
    u16::try_from(mode & u32::from(u16::MAX)).unwrap_or(0)
}

/// Converts the properties of a file to the format of `statx`.
fn to_statx(found: &file_properties) -> statx {
    let time = |tv_sec, tv_nsec| statx_timestamp { tv_sec, tv_nsec, ..statx_timestamp::default() };
    statx {
        stx_mask: STATX_BASIC_STATS | STATX_BTIME,
        stx_blksize: found.blksize,
        stx_nlink: found.nlink,
        stx_uid: found.uid,
        stx_gid: found.gid,
        stx_mode: mode(found.mode),
        stx_ino: found.ino,
        stx_size: found.size,
        stx_blocks: found.blocks,
        stx_atime: time(found.atime, found.atime_nsec),
        stx_btime: time(found.btime, found.btime_nsec),
        stx_ctime: time(found.ctime, found.ctime_nsec),
        stx_mtime: time(found.mtime, found.mtime_nsec),
        stx_dev_major: u32::try_from(found.dev >> 32).unwrap_or(0),
        stx_dev_minor: u32::try_from(found.dev & u64::from(u32::MAX)).unwrap_or(0),
        ..statx::default()
    }
}

/// Converts the properties of an object that is not a file to the format of `statx`.
fn object_to_statx(found: Stat) -> statx {
    statx {
        stx_mask: STATX_BASIC_STATS,
        stx_blksize: found.block_size,
        stx_nlink: 1,
        stx_mode: mode(found.mode),
        stx_size: found.size,
        ..statx::default()
    }
}

/// Converts the properties of an object that is not a file to the format of `get_properties`.
fn object_to_properties(found: Stat) -> file_properties {
    let Stat { mode, size, block_size, .. } = found;
    file_properties {
        mode,
        size,
        nlink: 1,
        blksize: block_size,
        btime_nsec: u32::MAX,
        ..file_properties::default()
    }
}

/// Returns the result of `statx` or `get_properties`. `of_file` converts the properties of a file,
/// `of_object` those of another object.
#[inline(never)]
fn properties<T>(
    (fd, path, flags): (i32, &[u8], i32),
    of_file: fn(&file_properties) -> T,
    of_object: fn(Stat) -> T,
) -> Result<T, Errno> {
    let path = match path {
        [] if flags & AT_EMPTY_PATH != 0 && fd != AT_FDCWD => {
            return match descriptors::handle(fd)? {
                Handle::File(file) => file.file().metadata().map(|found| of_file(&found.properties())),
                Handle::Object(object) => object.stat().map(of_object),
            };
        }
        [] if flags & AT_EMPTY_PATH != 0 => b".",
        [first, ..] if fd != AT_FDCWD && *first != b'/' => return Err(Errno::EOPNOTSUPP),
        path => path,
    };
    let symlinks = if flags & AT_SYMLINK_NOFOLLOW == 0 { Symlinks::Follow } else { Symlinks::Keep };
    files::properties(path, symlinks).map(|found| of_file(&found))
}

/// Converts one of the two times of a call to the change that it stands for.
fn set_time(time: timespec) -> Result<Option<SetTime>, Errno> {
    match time.tv_nsec {
        UTIME_OMIT => Ok(None),
        UTIME_NOW => Ok(Some(SetTime::Now)),
        nanoseconds @ 0..1_000_000_000 => {
            let nanoseconds = nanoseconds.cast_unsigned();
            Ok(Some(SetTime::To(Time { seconds: time.tv_sec, nanoseconds })))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Returns the changes for the two times of a call. If the program passes no times, both become the current
/// time.
pub(super) fn set_times(times: UserSlice<'_, timespec>) -> Result<SetAttr, Errno> {
    let (atime, mtime) = match times.get_if_some()? {
        Some(&[atime, mtime]) => (set_time(atime)?, set_time(mtime)?),
        _ => (Some(SetTime::Now), Some(SetTime::Now)),
    };
    Ok(SetAttr { atime, mtime, ..SetAttr::default() })
}

/// Returns the change of the permission bits to those in `mode`.
pub(super) fn set_permissions(mode: u32) -> SetAttr {
    SetAttr { permissions: Some(mode & PERMISSIONS), ..SetAttr::default() }
}

/// Stores a path and returns its length.
fn store_path(path: &[u8], buffer: UserBuffer<'_>) -> Result<isize, Errno> {
    let buffer = buffer.get()?;
    let destination = buffer.get_mut(..path.len()).ok_or(Errno::ERANGE)?;
    destination.write_copy_of_slice(path);
    isize::try_from(path.len()).map_err(|_| Errno::EOVERFLOW)
}

fn stat_path(path: UserText<'_>, symlinks: Symlinks, out: UserOut<'_, stat>) -> Result<i32, Errno> {
    let found = files::properties(path.get(MAX_PATH)?, symlinks)?;
    out.write(to_stat(&found)?).map(|()| 0)
}

export! {
    fn sys_stat as stat(name: *const c_char, stat: *mut stat) -> i32
    where path: UserText::new(name), out: UserOut::new(stat) {
        stat_path(path, Symlinks::Follow, out)
    }

    fn sys_lstat as lstat(name: *const c_char, stat: *mut stat) -> i32
    where path: UserText::new(name), out: UserOut::new(stat) {
        stat_path(path, Symlinks::Keep, out)
    }

    fn sys_statx as statx(fd: i32, name: *const c_char, flags: i32, mask: u32, out: *mut statx) -> i32
    where path: UserText::new(name), out: UserOut::new(out) {
        let _ = mask;
        let found = properties((fd, path.get(MAX_PATH)?, flags), to_statx, object_to_statx)?;
        out.write(found).map(|()| 0)
    }

    fn sys_get_properties as get_properties(
        fd: i32, path: *const u8, length: usize, flags: i32, out: *mut file_properties
    ) -> i32
    where path: UserSlice::new(path, length), out: UserOut::new(out) {
        let (path, mut out) = (path.get()?, out);
        // The fast path for calls without a descriptor. It stores the properties directly in the program's
        // memory, whether symbolic links are followed or not.
        if fd == AT_FDCWD
            && let Ok(place) = out.get_mut()
            && files::try_properties(path, place).is_some()
        {
            return Ok(0);
        }
        let found = properties((fd, path, flags), file_properties::clone, object_to_properties)?;
        out.write(found).map(|()| 0)
    }

    fn sys_open as open(name: *const c_char, flags: i32, mode: i32) -> i32
    where path: UserText::new(name) {
        open(path.get(MAX_PATH)?, flags, mode.cast_unsigned())
    }

    fn sys_open_path as open_path(path: *const u8, length: usize, flags: i32, mode: i32) -> i32
    where path: UserSlice::new(path, length) {
        files::open(path.get()?, flags, mode.cast_unsigned())
    }

    fn sys_opendir as opendir(name: *const c_char) -> i32
    where path: UserText::new(name) {
        open(path.get(MAX_PATH)?, O_RDONLY | O_DIRECTORY, 0)
    }

    fn sys_mkdir as mkdir(name: *const i8, mode: u32) -> i32
    where path: UserText::new(name) {
        complete(vfs()?.create_directory(path.get(MAX_PATH)?, mode)).map(|()| 0)
    }

    fn sys_rmdir as rmdir(name: *const c_char) -> i32
    where path: UserText::new(name) {
        complete(vfs()?.remove_directory(path.get(MAX_PATH)?)).map(|()| 0)
    }

    fn sys_unlink as unlink(name: *const c_char) -> i32
    where path: UserText::new(name) {
        remove_file(path.get(MAX_PATH)?).map(|()| 0)
    }

    fn sys_unlink_path as unlink_path(path: *const u8, length: usize) -> i32
    where path: UserSlice::new(path, length) {
        files::remove_file(path.get()?).map(|()| 0)
    }

    fn sys_rename as rename(old: *const c_char, new: *const c_char) -> i32
    where from: UserText::new(old), to: UserText::new(new) {
        let (from, to) = (from.get(MAX_PATH)?, to.get(MAX_PATH)?);
        complete(vfs()?.rename(from, to, RenameFlags::empty())).map(|()| 0)
    }

    fn sys_link as link(existing: *const c_char, name: *const c_char) -> i32
    where from: UserText::new(existing), to: UserText::new(name) {
        complete(vfs()?.create_link(from.get(MAX_PATH)?, to.get(MAX_PATH)?)).map(|()| 0)
    }

    fn sys_symlink as symlink(target: *const c_char, name: *const c_char) -> i32
    where to: UserText::new(target), path: UserText::new(name) {
        complete(vfs()?.create_symlink(to.get(MAX_PATH)?, path.get(MAX_PATH)?)).map(|()| 0)
    }

    fn sys_readlink as readlink(name: *const c_char, buffer: *mut u8, size: usize) -> isize
    where path: UserText::new(name), buffer: UserBuffer::buffer(buffer, size) {
        if size == 0 {
            return Err(Errno::EINVAL);
        }
        let target = complete(vfs()?.read_link(path.get(MAX_PATH)?))?;
        let count = target.len().min(size);
        store_path(target.get(..count).unwrap_or_default(), buffer)
    }

    fn sys_chmod as chmod(name: *const c_char, mode: u32) -> i32
    where path: UserText::new(name) {
        let changes = set_permissions(mode);
        complete(vfs()?.set_attributes(path.get(MAX_PATH)?, Symlinks::Follow, &changes)).map(|()| 0)
    }

    fn sys_utimens as utimens(name: *const c_char, times: *const timespec, flags: i32) -> i32
    where path: UserText::new(name), times: UserSlice::pair(times) {
        let symlinks = match flags {
            0 => Symlinks::Follow,
            AT_SYMLINK_NOFOLLOW => Symlinks::Keep,
            _ => return Err(Errno::EINVAL),
        };
        let changes = set_times(times)?;
        // If nothing changes, Linux does not even look for the file.
        if changes == SetAttr::default() {
            return Ok(0);
        }
        complete(vfs()?.set_attributes(path.get(MAX_PATH)?, symlinks, &changes)).map(|()| 0)
    }

    fn sys_chdir as chdir(name: *const c_char) -> i32
    where path: UserText::new(name) {
        complete(vfs()?.change_directory(path.get(MAX_PATH)?)).map(|()| 0)
    }

    fn sys_getcwd as getcwd(buffer: *mut u8, size: usize) -> isize
    where buffer: UserBuffer::buffer(buffer, size) {
        store_path(&complete(vfs()?.current_path())?, buffer)
    }

    fn sys_realpath as realpath(name: *const c_char, buffer: *mut u8, size: usize) -> isize
    where path: UserText::new(name), buffer: UserBuffer::buffer(buffer, size) {
        let found = complete(vfs()?.real_path(path.get(MAX_PATH)?))?;
        // No call with such a long path would succeed. `realpath` of C libraries on Linux fails in the same
        // way.
        if found.len() > MAX_PATH {
            return Err(Errno::ENAMETOOLONG);
        }
        store_path(&found, buffer)
    }
}
