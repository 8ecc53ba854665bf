//! Reading, writing and seeking: the short path of open files, and what goes the long way.
//!
//! A byte of a file's window is read and written without any call, so that no register need be saved. The rest is called last:
//! first what is done with the descriptor locked, then what takes longer than a lock may be held.

use hermit_abi::{SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_fs::{PAGE_SIZE, Whence};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;

use super::user::{UserBuffer, UserSlice};
use super::{attempt, count, returned};
use crate::descriptors::{Handle, LockedDescriptor};
use crate::files::file;
use crate::threads::wait::{block_on, complete};

/// Reads from a descriptor; returns the number of bytes, or a negated error number.
#[inline]
pub(super) fn read(fd: i32, mut buffer: UserBuffer<'_>) -> isize {
    let Some(slot) = LockedDescriptor::try_first(fd) else { return read_any(fd, buffer) };
    if let Some(handle) = slot.file()
        && let Ok([byte]) = buffer.get_mut()
        && let Some(()) = handle.read_window(|window, position| {
            window.read_byte(position, byte)?;
            Some(position + 1)
        })
    {
        return 1;
    }
    read_now(slot, buffer)
}

/// [`read`] from any descriptor.
#[cold]
#[inline(never)]
fn read_any(fd: i32, buffer: UserBuffer<'_>) -> isize {
    LockedDescriptor::new(fd).map_or_else(failed, |slot| read_now(slot, buffer))
}

/// [`read`] of any number of bytes.
#[inline(never)]
fn read_now(slot: LockedDescriptor, mut buffer: UserBuffer<'_>) -> isize {
    let Some(handle) = slot.file() else { return read_long(slot, buffer) };
    let Ok(bytes @ [_, ..]) = buffer.get_mut() else { return read_long(slot, buffer) };
    let size = bytes.len();
    let in_window = handle.read_window(|window, position| {
        window.read(position, bytes)?;
        Some(position + size as u64)
    });
    if in_window.is_some() {
        return count(size);
    }
    let done = handle.with_position(|file, position| {
        let count = file.read_now(position, bytes)?;
        Some((count, position + count as u64))
    });
    let Some(done) = done else { return read_long(slot, buffer) };
    if done < PAGE_SIZE {
        slot.use_window();
    }
    count(done)
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
pub(super) fn read_at(fd: i32, mut buffer: UserBuffer<'_>, offset: i64) -> isize {
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
pub(super) fn write(fd: i32, bytes: UserSlice<'_, u8>) -> isize {
    let Some(slot) = LockedDescriptor::try_first(fd) else { return write_any(fd, bytes) };
    if let Some(handle) = slot.file()
        && let Ok([byte]) = bytes.get()
        && let Some(()) = handle.write_window(|window, position| {
            window.write_byte(position, *byte)?;
            Some(position + 1)
        })
    {
        return 1;
    }
    write_now(slot, bytes)
}

/// [`write`] to any descriptor.
#[cold]
#[inline(never)]
fn write_any(fd: i32, bytes: UserSlice<'_, u8>) -> isize {
    LockedDescriptor::new(fd).map_or_else(failed, |slot| write_now(slot, bytes))
}

/// [`write`] of any number of bytes.
#[inline(never)]
fn write_now(slot: LockedDescriptor, bytes: UserSlice<'_, u8>) -> isize {
    let Some(handle) = slot.file() else { return write_long(slot, bytes) };
    let Ok(start @ [_, ..]) = bytes.get() else { return write_long(slot, bytes) };
    let in_window = handle.write_window(|window, position| {
        window.write(position, start)?;
        Some(position + start.len() as u64)
    });
    if in_window.is_some() {
        return count(start.len());
    }
    let done = handle.with_position(|file, position| Some(((), file.write_now(position, start)?)));
    if done.is_none() {
        return write_long(slot, bytes);
    }
    if start.len() < PAGE_SIZE {
        slot.use_window();
    }
    count(start.len())
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
pub(super) fn write_at(fd: i32, bytes: UserSlice<'_, u8>, offset: i64) -> isize {
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
pub(super) fn seek(fd: i32, offset: isize, whence: i32) -> isize {
    let Some(slot) = LockedDescriptor::try_first(fd) else { return seek_any(fd, offset, whence) };
    if let Some(handle) = slot.file()
        && let Some(position) = handle.seek_here(offset as i64, whence)
        && let Ok(position) = isize::try_from(position)
    {
        return position;
    }
    seek_now(slot, offset, whence)
}

/// [`seek`] in any descriptor.
#[cold]
#[inline(never)]
fn seek_any(fd: i32, offset: isize, whence: i32) -> isize {
    LockedDescriptor::new(fd).map_or_else(failed, |slot| seek_now(slot, offset, whence))
}

/// [`seek`] in a file whose position may be elsewhere.
#[cold]
#[inline(never)]
fn seek_now(slot: LockedDescriptor, offset: isize, whence: i32) -> isize {
    let position = slot.file().and_then(|handle| handle.seek(offset as i64, whence));
    match position.map(isize::try_from) {
        Some(Ok(position)) => position,
        _ => seek_long(slot, offset as i64, whence),
    }
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
