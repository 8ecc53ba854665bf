//! Reading, writing and seeking.
//!
//! Each call has three paths, and tries the fastest one first. The first path uses the page window of the
//! descriptor. It reads or writes a single byte without calling another function, so no registers must be
//! saved. The second path (`..._now`) locks the descriptor, and asks the file system to serve the call while
//! the spinlock is held. The third path (`..._long`) does everything else: it takes a reference to the
//! object, unlocks the descriptor, and may block.
//!
//! Each path calls the next one in its last expression. So the compiler can emit a jump, and the fast path
//! needs no stack frame.

use hermit_abi::{SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_fs::{PAGE_SIZE, Whence};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;

use super::user::{UserBuffer, UserSlice};
use super::{attempt, count, returned};
use crate::descriptors::{self, Handle, LockedDescriptor, window};
use crate::files::file;
use crate::threads::wait::{block_on, complete};

/// Reads from a descriptor. Returns the number of bytes, or a negated error number.
#[inline]
pub(super) fn read(fd: i32, mut buffer: UserBuffer<'_>) -> isize {
    if let Some(window) = window(fd)
        && let Ok([byte]) = buffer.get_mut()
        && window.read_byte(byte).is_some()
    {
        return 1;
    }
    read_now(fd, buffer)
}

/// Does [`read`] for any number of bytes.
#[inline(never)]
fn read_now(fd: i32, mut buffer: UserBuffer<'_>) -> isize {
    if let Some(window) = window(fd)
        && let Ok(bytes @ [_, ..]) = buffer.get_mut()
        && bytes.len() < PAGE_SIZE
        && window.read(bytes).is_some()
    {
        return count(bytes.len());
    }
    let descriptor = match LockedDescriptor::new(fd) {
        Ok(descriptor) => descriptor,
        Err(error) => return failed(error),
    };
    let Some(handle) = descriptor.file() else { return read_long(descriptor, buffer) };
    let Ok(bytes @ [_, ..]) = buffer.get_mut() else { return read_long(descriptor, buffer) };
    let done = handle.with_position(|file, position| {
        let count = file.read_now(position, bytes)?;
        Some(((position, count), position + count as u64))
    });
    let Some((position, done)) = done else { return read_long(descriptor, buffer) };
    if done < PAGE_SIZE {
        descriptor.resume_at(position);
    } else {
        descriptor.resume();
    }
    count(done)
}

/// Does [`read`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn read_long(descriptor: LockedDescriptor, buffer: UserBuffer<'_>) -> isize {
    returned(attempt(|| {
        let handle = descriptor.into_handle()?;
        let mut buffer = ReadBuffer::new(buffer.get()?);
        handle.read(&mut buffer)?;
        Ok(count(buffer.len()))
    }))
}

/// Does [`read`] at an offset.
#[inline]
pub(super) fn read_at(fd: i32, mut buffer: UserBuffer<'_>, offset: i64) -> isize {
    let Ok(start) = self::offset(offset) else { return read_at_long(fd, buffer, offset) };
    let Ok(bytes @ [_, ..]) = buffer.get_mut() else { return read_at_long(fd, buffer, offset) };
    if window(fd).is_some_and(|window| window.read_at(start, bytes).is_some()) {
        return count(bytes.len());
    }
    if let Ok(descriptor) = LockedDescriptor::new(fd)
        && let Some(handle) = descriptor.file()
        && let Some(done) = handle.file().read_now(start, bytes)
    {
        descriptor.resume_at(start);
        return count(done);
    }
    read_at_long(fd, buffer, offset)
}

/// Does [`read_at`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn read_at_long(fd: i32, buffer: UserBuffer<'_>, offset: i64) -> isize {
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
        && let Some(window) = window(fd)
        && window.write_byte(|| bytes.get().ok()?.first().copied()).is_some()
    {
        return 1;
    }
    write_now(fd, bytes)
}

/// Does [`write`] for any number of bytes.
#[inline(never)]
fn write_now(fd: i32, bytes: UserSlice<'_, u8>) -> isize {
    if let Some(window) = window(fd)
        && let Ok(start @ [_, ..]) = bytes.get()
        && start.len() < PAGE_SIZE
        && window.write(start).is_some()
    {
        return count(start.len());
    }
    let descriptor = match LockedDescriptor::new(fd) {
        Ok(descriptor) => descriptor,
        Err(error) => return failed(error),
    };
    let Some(handle) = descriptor.file() else { return write_long(descriptor, bytes) };
    let Ok(start @ [_, ..]) = bytes.get() else { return write_long(descriptor, bytes) };
    let done = handle.with_position(|file, position| {
        let end = file.write_now(position, start)?;
        Some((end, end))
    });
    let Some(end) = done else { return write_long(descriptor, bytes) };
    let size = start.len();
    if size < PAGE_SIZE {
        descriptor.resume_at(end - size as u64);
    } else {
        descriptor.resume();
    }
    count(start.len())
}

/// Does [`write`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn write_long(descriptor: LockedDescriptor, bytes: UserSlice<'_, u8>) -> isize {
    returned(attempt(|| {
        let handle = descriptor.into_handle()?;
        handle.write(bytes.get()?).map(count)
    }))
}

/// Does [`write`] at an offset.
#[inline]
pub(super) fn write_at(fd: i32, bytes: UserSlice<'_, u8>, offset: i64) -> isize {
    let Ok(position) = self::offset(offset) else { return write_at_long(fd, bytes, offset) };
    let Ok(start @ [_, ..]) = bytes.get() else { return write_at_long(fd, bytes, offset) };
    if window(fd).is_some_and(|window| window.write_at(position, start).is_some()) {
        return count(start.len());
    }
    if let Ok(descriptor) = LockedDescriptor::new(fd)
        && let Some(handle) = descriptor.file()
        && handle.file().write_now(position, start).is_some()
    {
        descriptor.resume_at(position);
        return count(start.len());
    }
    write_at_long(fd, bytes, offset)
}

/// Does [`write_at`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn write_at_long(fd: i32, bytes: UserSlice<'_, u8>, offset: i64) -> isize {
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
        && let Some(window) = window(fd)
        && window.seek_to(offset as i64).is_some()
    {
        return offset;
    }
    seek_now(fd, offset as i64, whence)
}

/// Does [`seek`] relative to the position, or in a file whose position may not be in the window.
#[inline(never)]
fn seek_now(fd: i32, offset: i64, whence: i32) -> isize {
    if let Some(window) = window(fd)
        && let Some(position) = window.seek(offset, whence)
        && let Ok(position) = isize::try_from(position)
    {
        return position;
    }
    let descriptor = match LockedDescriptor::new(fd) {
        Ok(descriptor) => descriptor,
        Err(error) => return failed(error),
    };
    let position = descriptor.file().and_then(|handle| handle.seek(offset, whence));
    match position.map(isize::try_from) {
        Some(Ok(position)) => {
            descriptor.resume();
            position
        }
        _ => seek_long(descriptor, offset, whence),
    }
}

/// Does [`seek`] if it may have to wait, or may take longer than a spinlock may be held.
#[cold]
#[inline(never)]
fn seek_long(descriptor: LockedDescriptor, offset: i64, whence: i32) -> isize {
    returned(attempt(|| {
        let position = match descriptor.into_handle()? {
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
