//! Reading, writing and seeking.
//!
//! Each call has a fast path and a slow path. The fast path locks the descriptor. It serves the call from the
//! page that the descriptor has used last, or else from the contents of the file, as far as that need not
//! wait. The slow path (`..._slow`) takes a reference to the object, unlocks the descriptor, and may block.
//!
//! A seek, and the copy of a single byte of the last page, call no other function, so that no registers must
//! be saved. Each path calls the next one in its last expression. So the compiler can emit a jump, and the
//! fast path needs no stack frame.

use hermit_abi::{SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_fs::{Done, Whence};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;

use super::user::{UserBuffer, UserSlice};
use super::{attempt, count, returned};
use crate::descriptors::{self, Handle, LockedDescriptor};
use crate::files::file;
use crate::files::system::Kernel;
use crate::threads::wait::{block_on, complete};

/// Reads from a descriptor. Returns the number of bytes, or a negated error number.
#[inline]
pub(super) fn read(fd: i32, mut buffer: UserBuffer<'_>) -> isize {
    if let Ok([byte]) = buffer.get_mut()
        && let Some(mut descriptor) = LockedDescriptor::try_new(fd)
        && let Some(file) = descriptor.file()
        && file.try_read_byte(byte).is_some()
    {
        return 1;
    }
    read_any(fd, buffer)
}

/// Does [`read`] for any number of bytes.
#[inline(never)]
fn read_any(fd: i32, mut buffer: UserBuffer<'_>) -> isize {
    let mut descriptor = match LockedDescriptor::new(fd) {
        Ok(descriptor) => descriptor,
        Err(error) => return failed(error),
    };
    if let Some(file) = descriptor.file()
        && let Ok(bytes @ [_, ..]) = buffer.get_mut()
        && let Some(done) = file.read(bytes)
    {
        return count(unlocked(descriptor, done));
    }
    read_slow(descriptor, buffer)
}

/// Unlocks a descriptor and returns the result of its call.
#[inline]
fn unlocked<T>(descriptor: LockedDescriptor, done: Done<Kernel, T>) -> T {
    drop(descriptor);
    done.into_value()
}

/// Does [`read`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn read_slow(descriptor: LockedDescriptor, buffer: UserBuffer<'_>) -> isize {
    returned(attempt(|| {
        let handle = descriptor.share()?;
        let mut buffer = ReadBuffer::new(buffer.get()?);
        handle.read(&mut buffer)?;
        Ok(count(buffer.len()))
    }))
}

/// Does [`read`] at an offset.
#[inline]
pub(super) fn read_at(fd: i32, mut buffer: UserBuffer<'_>, offset: i64) -> isize {
    if let Ok(start) = self::offset(offset)
        && let Ok(bytes @ [_, ..]) = buffer.get_mut()
        && let Ok(mut descriptor) = LockedDescriptor::new(fd)
        && let Some(file) = descriptor.file()
        && let Some(done) = file.read_at(start, bytes)
    {
        return count(unlocked(descriptor, done));
    }
    read_at_slow(fd, buffer, offset)
}

/// Does [`read_at`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn read_at_slow(fd: i32, buffer: UserBuffer<'_>, offset: i64) -> isize {
    returned(attempt(|| {
        let object = descriptors::get(fd)?;
        let mut buffer = ReadBuffer::new(buffer.get()?);
        let offset = self::offset(offset)?;
        match file(&*object) {
            Some(file) => complete(file.read_at(offset, &mut buffer))?,
            None => block_on(|context| object.poll_read_at(context, offset, &mut buffer))?,
        }
        Ok(count(buffer.len()))
    }))
}

/// Writes to a descriptor. Returns the number of bytes, or a negated error number.
#[inline]
pub(super) fn write(fd: i32, bytes: UserSlice<'_, u8>) -> isize {
    if bytes.len() == 1
        && let Ok([byte]) = bytes.get()
        && let Some(mut descriptor) = LockedDescriptor::try_new(fd)
        && let Some(file) = descriptor.file()
        && file.try_write_byte(*byte).is_some()
    {
        return 1;
    }
    write_any(fd, bytes)
}

/// Does [`write`] for any number of bytes.
#[inline(never)]
fn write_any(fd: i32, bytes: UserSlice<'_, u8>) -> isize {
    let mut descriptor = match LockedDescriptor::new(fd) {
        Ok(descriptor) => descriptor,
        Err(error) => return failed(error),
    };
    if let Some(file) = descriptor.file()
        && let Ok(bytes @ [_, ..]) = bytes.get()
        && let Some(done) = file.write(bytes)
    {
        unlocked(descriptor, done);
        return count(bytes.len());
    }
    write_slow(descriptor, bytes)
}

/// Does [`write`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn write_slow(descriptor: LockedDescriptor, bytes: UserSlice<'_, u8>) -> isize {
    returned(attempt(|| {
        let handle = descriptor.share()?;
        handle.write(bytes.get()?).map(count)
    }))
}

/// Does [`write`] at an offset.
#[inline]
pub(super) fn write_at(fd: i32, bytes: UserSlice<'_, u8>, offset: i64) -> isize {
    if let Ok(position) = self::offset(offset)
        && let Ok(bytes @ [_, ..]) = bytes.get()
        && let Ok(mut descriptor) = LockedDescriptor::new(fd)
        && let Some(file) = descriptor.file()
        && let Some(done) = file.write_at(position, bytes)
    {
        unlocked(descriptor, done);
        return count(bytes.len());
    }
    write_at_slow(fd, bytes, offset)
}

/// Does [`write_at`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn write_at_slow(fd: i32, bytes: UserSlice<'_, u8>, offset: i64) -> isize {
    returned(attempt(|| {
        let object = descriptors::get(fd)?;
        let (bytes, offset) = (bytes.get()?, self::offset(offset)?);
        let written = match file(&*object) {
            Some(file) => complete(file.write_at(offset, bytes)),
            None => block_on(|context| object.poll_write_at(context, offset, bytes)),
        };
        written.map(count)
    }))
}

/// Moves the position of a descriptor. Returns the new position, or a negated error number.
#[inline]
pub(super) fn seek(fd: i32, offset: isize, whence: i32) -> isize {
    if whence == SEEK_SET
        && let Some(mut descriptor) = LockedDescriptor::try_new(fd)
        && let Some(file) = descriptor.file()
        && file.try_seek_to(offset as i64).is_some()
    {
        return offset;
    }
    seek_any(fd, offset, whence)
}

/// Does [`seek`] relative to any position.
#[inline(never)]
fn seek_any(fd: i32, offset: isize, whence: i32) -> isize {
    let mut descriptor = match LockedDescriptor::new(fd) {
        Ok(descriptor) => descriptor,
        Err(error) => return failed(error),
    };
    if let Some(file) = descriptor.file()
        && let Some(position) = file.seek(offset as i64, whence)
        && let Ok(position) = isize::try_from(position)
    {
        return position;
    }
    seek_slow(descriptor, offset as i64, whence)
}

/// Does [`seek`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn seek_slow(descriptor: LockedDescriptor, offset: i64, whence: i32) -> isize {
    returned(attempt(|| {
        let position = match descriptor.share()? {
            Handle::File(handle) => handle.file().move_position(offset, to_whence(whence)?),
            Handle::Object(object) => object.seek(offset, whence),
        };
        isize::try_from(position?).map_err(|_| Errno::EOVERFLOW)
    }))
}

/// Returns the value that a system call returns for an error.
#[cold]
#[inline(never)]
fn failed(error: Errno) -> isize {
    returned(Err(error))
}

/// Converts the offset of a positional read or write.
fn offset(offset: i64) -> Result<u64, Errno> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// Converts the `whence` argument of `lseek`.
const fn to_whence(whence: i32) -> Result<Whence, Errno> {
    match whence {
        SEEK_SET => Ok(Whence::Start),
        SEEK_CUR => Ok(Whence::Current),
        SEEK_END => Ok(Whence::End),
        _ => Err(Errno::EINVAL),
    }
}
