//! System calls that work on any descriptor: `fcntl`, `ioctl`, `dup` and others.

use core::ffi::c_void;

use hermit_abi::{
    F_DUPFD, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FIONBIO, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, O_NONBLOCK,
    iovec, stat, timespec,
};
use hermit_fs::{FileLock, SetAttr};
use hermit_interface::Errno;
use hermit_io::{Object, Stat};

use super::files::{set_permissions, set_times, to_stat};
use super::transfer::{read, read_at, seek, write, write_at};
use super::user::{Call, UserPtr};
use super::{count, export, export_plain};
use crate::descriptors::{self, Handle};
use crate::files::file;
use crate::files::system::File;
use crate::threads::wait::complete;

/// Returns the open file that an object is.
///
/// # Errors
///
/// `EINVAL` if it is not an open file.
fn expect_file(object: &dyn Object) -> Result<&File, Errno> {
    file(object).ok_or(Errno::EINVAL)
}

/// Makes the written data of an object durable.
fn sync(object: &dyn Object, data_only: bool) -> Result<(), Errno> {
    match file(object) {
        Some(file) => complete(file.sync(data_only)),
        None => object.sync(),
    }
}

/// An object's properties as the ABI has them.
fn to_abi(found: Stat) -> Result<stat, Errno> {
    Ok(stat {
        st_mode: found.mode,
        st_nlink: 1,
        st_size: i64::try_from(found.size).map_err(|_| Errno::EOVERFLOW)?,
        st_blksize: found.block_size.into(),
        ..stat::default()
    })
}

export_plain! {
    fn sys_read as read(fd: i32, buf: *mut u8, len: usize) -> isize
    where buffer: UserBuffer::buffer(buf, len) {
        read(fd, buffer)
    }

    fn sys_write as write(fd: i32, buf: *const u8, len: usize) -> isize
    where bytes: UserSlice::new(buf, len) {
        write(fd, bytes)
    }

    fn sys_pread as pread(fd: i32, buf: *mut u8, len: usize, offset: i64) -> isize
    where buffer: UserBuffer::buffer(buf, len) {
        read_at(fd, buffer, offset)
    }

    fn sys_pwrite as pwrite(fd: i32, buf: *const u8, len: usize, offset: i64) -> isize
    where bytes: UserSlice::new(buf, len) {
        write_at(fd, bytes, offset)
    }

    fn sys_lseek as lseek(fd: i32, offset: isize, whence: i32) -> isize {
        seek(fd, offset, whence)
    }
}

export! {
    fn sys_readv as readv(fd: i32, iov: *const iovec, iovcnt: usize) -> isize
    where vectors: UserVectorsMut::new(iov, iovcnt) {
        let handle = descriptors::handle(fd)?;
        vectors.read(|buffer| handle.read(buffer)).map(count)
    }

    fn sys_writev as writev(fd: i32, iov: *const iovec, iovcnt: usize) -> isize
    where vectors: UserVectors::new(iov, iovcnt) {
        let handle = descriptors::handle(fd)?;
        vectors.write(|bytes| handle.write(bytes)).map(count)
    }

    fn sys_close as close(fd: i32) -> i32 {
        descriptors::close(fd).map(|()| 0)
    }

    fn sys_dup as dup(fd: i32) -> i32 {
        descriptors::duplicate(fd, 0)
    }

    fn sys_fstat as fstat(fd: i32, stat: *mut stat) -> i32
    where out: UserOut::new(stat) {
        let found = match descriptors::handle(fd)? {
            Handle::File(file) => to_stat(&file.file().metadata()?.properties())?,
            Handle::Object(object) => to_abi(object.stat()?)?,
        };
        out.write(found).map(|()| 0)
    }

    fn sys_fsync as fsync(fd: i32) -> i32 {
        sync(&*descriptors::get(fd)?, false).map(|()| 0)
    }

    fn sys_fdatasync as fdatasync(fd: i32) -> i32 {
        sync(&*descriptors::get(fd)?, true).map(|()| 0)
    }

    fn sys_flock as flock(fd: i32, operation: i32) -> i32 {
        let lock = match operation & !LOCK_NB {
            LOCK_SH => Some(FileLock::Shared),
            LOCK_EX => Some(FileLock::Exclusive),
            LOCK_UN => None,
            _ => return Err(Errno::EINVAL),
        };
        let object = descriptors::get(fd)?;
        let file = file(&*object).ok_or(Errno::EOPNOTSUPP)?;
        match lock {
            Some(lock) => complete(file.lock(lock, operation & LOCK_NB != 0))?,
            None => file.unlock(),
        }
        Ok(0)
    }

    fn sys_ftruncate as ftruncate(fd: i32, size: i64) -> i32 {
        let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
        complete(expect_file(&*descriptors::get(fd)?)?.set_size(size)).map(|()| 0)
    }

    fn sys_fchmod as fchmod(fd: i32, mode: u32) -> i32 {
        complete(expect_file(&*descriptors::get(fd)?)?.set_attributes(&set_permissions(mode))).map(|()| 0)
    }

    fn sys_futimens as futimens(fd: i32, times: *const timespec) -> i32
    where times: UserSlice::pair(times) {
        let changes = set_times(times)?;
        if changes == SetAttr::default() {
            return Ok(0);
        }
        complete(expect_file(&*descriptors::get(fd)?)?.set_attributes(&changes)).map(|()| 0)
    }

    fn sys_ioctl as ioctl(fd: i32, cmd: i32, argp: *mut c_void) -> i32 {
        let object = descriptors::get(fd)?;
        if cmd != FIONBIO {
            return Err(Errno::ENOTTY);
        }
        let call = Call;
        // SAFETY: the ABI requires that `argp` points to what the command takes, which is an `int` for this
        // one (checked).
        let argument = unsafe { UserPtr::<i32>::new(&call, argp.cast_const().cast()) };
        object.set_nonblocking(argument.read()? != 0).map(|()| 0)
    }

    fn sys_fcntl as fcntl(fd: i32, cmd: i32, arg: i32) -> i32 {
        match cmd {
            F_DUPFD => descriptors::duplicate(fd, arg),
            F_GETFL => {
                let object = descriptors::get(fd)?;
                let nonblocking = if object.is_nonblocking() { O_NONBLOCK } else { 0 };
                Ok(object.status_flags() | nonblocking)
            }
            // FD_CLOEXEC has no meaning: there is no other program to execute.
            F_GETFD | F_SETFD => descriptors::get(fd).map(|_| 0),
            F_SETFL => descriptors::get(fd)?.set_status_flags(arg).map(|()| 0),
            _ => Err(Errno::EINVAL),
        }
    }
}
