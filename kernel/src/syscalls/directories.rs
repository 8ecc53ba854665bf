//! Entries of directories.

use core::mem::{MaybeUninit, offset_of};
use core::ops::ControlFlow;

use hermit_abi::dirent64;
use hermit_fs::{DirEntry, Whence};
use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer};

use super::{count, export};
use crate::descriptors;
use crate::files::file;
use crate::files::system::File;
use crate::files::system::mounted;
use crate::threads::wait::complete;

/// Size in bytes up to which a buffer gets either all entries of a directory or none. The published std makes
/// only one call, and expects `EINVAL` if the buffer is too small. It tries buffers up to this size.
const MAX_BUFFER_FOR_ALL: usize = 1 << 20;

/// Alignment of entries in bytes.
const ALIGNMENT: usize = align_of::<dirent64>();

/// Maximum size of an entry in bytes.
const MAX_ENTRY: usize = size_of::<dirent64>().next_multiple_of(ALIGNMENT);

/// Appends an entry if the buffer has room for the whole entry.
fn append(buffer: &mut ReadBuffer<'_>, entry: &DirEntry<'_>) -> ControlFlow<()> {
    const NAME: usize = offset_of!(dirent64, d_name);
    let size = (NAME + entry.name.len() + 1).next_multiple_of(ALIGNMENT);
    let mut bytes = [0; MAX_ENTRY];
    let mut put = |offset: usize, value: &[u8]| {
        if let Some(place) = bytes.get_mut(offset..offset + value.len()) {
            place.copy_from_slice(value);
        }
    };
    put(offset_of!(dirent64, d_ino), &entry.number.to_ne_bytes());
    put(offset_of!(dirent64, d_off), &entry.next.to_ne_bytes());
    put(offset_of!(dirent64, d_reclen), &u16::try_from(size).unwrap_or(0).to_ne_bytes());
    put(offset_of!(dirent64, d_type), &[entry.file_type.dirent_type()]);
    put(NAME, entry.name);
    match bytes.get(..size) {
        Some(bytes) if size <= buffer.room() => {
            buffer.append(bytes);
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Break(()),
    }
}

/// Returns the open file or directory of an object.
///
/// # Errors
///
/// `ENOTDIR` if the object is neither a file nor a directory.
fn directory(object: &dyn Object) -> Result<&File, Errno> {
    file(object).ok_or(Errno::ENOTDIR)
}

/// Stores entries, starting at the position. Returns the number of bytes, and true if these were all entries.
fn read_entries(file: &File, buffer: &mut [MaybeUninit<u8>]) -> Result<(usize, bool), Errno> {
    let mut buffer = ReadBuffer::new(buffer);
    let mut is_complete = true;
    complete(mounted()?.read_directory(file, |entry| {
        let result = append(&mut buffer, &entry);
        is_complete = result.is_continue();
        result
    }))?;
    if buffer.is_empty() && !is_complete {
        return Err(Errno::EINVAL);
    }
    Ok((buffer.len(), is_complete))
}

export! {
    fn sys_getdents64 as getdents64(fd: i32, dirp: *mut dirent64, count: usize) -> i64
    where buffer: UserBuffer::entries(dirp, count) {
        let buffer = buffer.get()?;
        let object = descriptors::get(fd)?;
        let file = directory(&*object)?;
        let is_for_all = buffer.len() <= MAX_BUFFER_FOR_ALL && complete(file.seek(0, Whence::Current))? == 0;
        let (bytes, is_complete) = read_entries(file, buffer)?;
        if is_for_all && !is_complete {
            complete(file.seek(0, Whence::Start))?;
            return Err(Errno::EINVAL);
        }
        Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    fn sys_getdents as getdents(fd: i32, buf: *mut u8, len: usize) -> isize
    where buffer: UserBuffer::buffer(buf, len) {
        let buffer = buffer.get()?;
        let (bytes, _) = read_entries(directory(&*descriptors::get(fd)?)?, buffer)?;
        Ok(count(bytes))
    }
}
