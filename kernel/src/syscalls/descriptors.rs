//! Reading, writing, and what else works on any descriptor.

use core::any::Any;
use core::ffi::c_void;

use hermit_abi::{
    F_DUPFD, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FIONBIO, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, O_NONBLOCK,
    SEEK_CUR, SEEK_END, SEEK_SET, iovec, stat, timespec,
};
use hermit_fs::{FileLock, SetAttr, Whence};
use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer, Stat};

use super::files::{set_permissions, set_times, to_stat};
use super::user::{Call, UserBuffer, UserPtr, UserSlice};
use super::{attempt, export, export_plain, returned};
use crate::descriptors::{self, Handle, LockedDescriptor};
use crate::files::File;
use crate::threads::wait::{block_on, complete};

/// A number of bytes as a call returns it. No slice is longer than `isize::MAX`.
#[inline]
pub(super) const fn count(bytes: usize) -> isize {
    bytes.cast_signed()
}

/// The open file that an object is; `None` if it is none.
pub(super) fn file(object: &dyn Object) -> Option<&File> {
    let object: &dyn Any = object;
    object.downcast_ref()
}

/// The open file that an object is.
///
/// # Errors
///
/// `EINVAL` if it is none.
fn expect_file(object: &dyn Object) -> Result<&File, Errno> {
    file(object).ok_or(Errno::EINVAL)
}

/// Reads from a descriptor; returns the number of bytes, or a negated error number.
#[inline]
fn read(fd: i32, mut buffer: UserBuffer<'_>) -> isize {
    let slot = match LockedDescriptor::new(fd) {
        Ok(slot) => slot,
        Err(error) => return failed(error),
    };
    if let Some(handle) = slot.file()
        && let Ok(bytes @ [_, ..]) = buffer.get_mut()
        && let Some(count) = handle.with_position(|file, position| {
            let count = file.read_now(position, bytes)?;
            Some((count, position + count as u64))
        })
    {
        return self::count(count);
    }
    read_long(slot, buffer)
}

/// [`read`] for what takes longer than a lock may be held.
#[cold]
#[inline(never)]
fn read_long(slot: LockedDescriptor, buffer: UserBuffer<'_>) -> isize {
    returned(attempt(|| {
        let handle = slot.into_handle()?;
        let mut buffer = ReadBuffer::new(buffer.get()?);
        handle.read(&mut buffer)?;
        Ok(count(buffer.len()))
    }))
}

/// [`read`] at an offset.
#[inline]
fn read_at(fd: i32, mut buffer: UserBuffer<'_>, offset: i64) -> isize {
    let slot = match LockedDescriptor::new(fd) {
        Ok(slot) => slot,
        Err(error) => return failed(error),
    };
    if let Some(handle) = slot.file()
        && let Ok(bytes @ [_, ..]) = buffer.get_mut()
        && let Ok(offset) = self::offset(offset)
        && let Some(count) = handle.file().read_now(offset, bytes)
    {
        return self::count(count);
    }
    read_at_long(slot, buffer, offset)
}

/// [`read_at`] for what takes longer than a lock may be held.
#[cold]
#[inline(never)]
fn read_at_long(slot: LockedDescriptor, buffer: UserBuffer<'_>, offset: i64) -> isize {
    returned(attempt(|| {
        let object = slot.into_handle()?.object();
        let mut buffer = ReadBuffer::new(buffer.get()?);
        let offset = self::offset(offset)?;
        match file(&*object) {
            Some(file) => complete(file.read_at(offset, &mut buffer))?,
            None => block_on(|context| object.poll_read_at(context, offset, &mut buffer))?,
        }
        Ok(count(buffer.len()))
    }))
}

/// Writes to a descriptor; returns the number of bytes, or a negated error number.
#[inline]
fn write(fd: i32, bytes: UserSlice<'_, u8>) -> isize {
    let slot = match LockedDescriptor::new(fd) {
        Ok(slot) => slot,
        Err(error) => return failed(error),
    };
    if let Some(handle) = slot.file()
        && let Ok(bytes @ [_, ..]) = bytes.get()
        && let Some(()) = handle.with_position(|file, position| Some(((), file.write_now(position, bytes)?)))
    {
        return count(bytes.len());
    }
    write_long(slot, bytes)
}

/// [`write`] for what takes longer than a lock may be held.
#[cold]
#[inline(never)]
fn write_long(slot: LockedDescriptor, bytes: UserSlice<'_, u8>) -> isize {
    returned(attempt(|| {
        let handle = slot.into_handle()?;
        handle.write(bytes.get()?).map(count)
    }))
}

/// [`write`] at an offset.
#[inline]
fn write_at(fd: i32, bytes: UserSlice<'_, u8>, offset: i64) -> isize {
    let slot = match LockedDescriptor::new(fd) {
        Ok(slot) => slot,
        Err(error) => return failed(error),
    };
    if let Some(handle) = slot.file()
        && let Ok(bytes @ [_, ..]) = bytes.get()
        && let Ok(offset) = self::offset(offset)
        && let Some(_) = handle.file().write_now(offset, bytes)
    {
        return count(bytes.len());
    }
    write_at_long(slot, bytes, offset)
}

/// [`write_at`] for what takes longer than a lock may be held.
#[cold]
#[inline(never)]
fn write_at_long(slot: LockedDescriptor, bytes: UserSlice<'_, u8>, offset: i64) -> isize {
    returned(attempt(|| {
        let object = slot.into_handle()?.object();
        let (bytes, offset) = (bytes.get()?, self::offset(offset)?);
        let written = match file(&*object) {
            Some(file) => complete(file.write_at(offset, bytes)),
            None => block_on(|context| object.poll_write_at(context, offset, bytes)),
        };
        written.map(count)
    }))
}

/// Moves the position of a descriptor and returns it, or a negated error number.
#[inline]
fn seek(fd: i32, offset: isize, whence: i32) -> isize {
    let slot = match LockedDescriptor::new(fd) {
        Ok(slot) => slot,
        Err(error) => return failed(error),
    };
    if let Some(handle) = slot.file()
        && let Some(position) = handle.seek(offset as i64, whence)
        && let Ok(position) = isize::try_from(position)
    {
        return position;
    }
    seek_long(slot, offset as i64, whence)
}

/// [`seek`] for what takes longer than a lock may be held.
#[cold]
#[inline(never)]
fn seek_long(slot: LockedDescriptor, offset: i64, whence: i32) -> isize {
    returned(attempt(|| {
        let position = match slot.into_handle()? {
            Handle::File(handle) => handle.file().move_position(offset, to_whence(whence)?),
            Handle::Object(object) => object.seek(offset, whence),
        };
        isize::try_from(position?).map_err(|_| Errno::EOVERFLOW)
    }))
}

/// What a call with an error returns.
#[cold]
#[inline(never)]
fn failed(error: Errno) -> isize {
    returned(Err(error))
}

/// Makes what was written to an object durable.
fn sync(object: &dyn Object, data_only: bool) -> Result<(), Errno> {
    match file(object) {
        Some(file) => complete(file.sync(data_only)),
        None => object.sync(),
    }
}

/// The offset of a positional read or write.
fn offset(offset: i64) -> Result<u64, Errno> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// Where an offset of `lseek` is counted from.
const fn to_whence(whence: i32) -> Result<Whence, Errno> {
    match whence {
        SEEK_SET => Ok(Whence::Start),
        SEEK_CUR => Ok(Whence::Current),
        SEEK_END => Ok(Whence::End),
        _ => Err(Errno::EINVAL),
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
            Handle::File(file) => to_stat(&file.file().metadata()?)?,
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
        // SAFETY: the ABI requires that `argp` points to what the command takes, which is an `int` for this one
        // (checked).
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
