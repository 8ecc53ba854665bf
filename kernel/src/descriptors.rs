//! The program's file descriptors.
//!
//! The descriptor table maps a number to a [`Handle`]: an open file, or another object such as a socket, a
//! pipe or the console. Both implement [`Object`], whose polls never block. This module adds the waiting.
//! Open files are called through a trait of their own, [`FileObject`], so that only programs that open a file
//! contain the code of files.
//!
//! Small reads and writes of files are the hot path. So a descriptor of a file has the position in the file,
//! and the page that it has used last ([`FileDescriptor`]). Most calls need nothing else.

use alloc::sync::Arc;
use core::fmt::{self, Debug, Formatter};
use core::mem;

use hermit_abi::{STDERR_FILENO, STDIN_FILENO, STDOUT_FILENO};
use hermit_fs::{DescriptorFile, DescriptorTarget, FileDescriptor, Metadata, Whence};
use hermit_hal::once::Once;
use hermit_hal::sync::RawSpinLock;
use hermit_interface::Errno;
use hermit_io::{DescriptorTable, LockedSlot, Object, ReadBuffer};

use crate::files::system::{File, Kernel};
use crate::threads::wait::block_on;

/// The object that a descriptor refers to. No variant has the discriminant 0, so 0 can mark an empty slot of
/// the table. Then the static table is all zeros and takes no space in the image.
#[derive(Debug)]
#[repr(usize)]
pub(crate) enum Handle {
    /// An open file.
    File(FileDescriptor<Kernel, dyn FileObject>) = 1,
    /// Another object.
    Object(Arc<dyn Object>) = 2,
}

/// An open file. The system calls that every program contains use open files only through this trait. So only
/// programs that open a file contain the code that implements the trait.
///
/// All methods but those of [`DescriptorFile`] may wait.
pub(crate) trait FileObject: Object + DescriptorFile<Kernel> {
    /// Reads at the position.
    fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno>;

    /// Writes at the position. Returns the number of bytes.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Moves the position and returns the new one.
    fn move_position(&self, offset: i64, whence: Whence) -> Result<u64, Errno>;

    /// Metadata of the file.
    fn metadata(&self) -> Result<Metadata, Errno>;

    /// Reports errors of earlier writes, and drops the reference of a descriptor that is being closed.
    fn close(self: Arc<Self>) -> Result<(), Errno>;

    /// Returns the target of the descriptor's link in `/proc/self/fd`.
    fn describe(&self) -> Result<DescriptorTarget, Errno>;
}

impl Debug for dyn FileObject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("FileObject")
    }
}

impl Handle {
    /// The object, of whichever kind.
    pub(crate) fn object(self) -> Arc<dyn Object> {
        match self {
            Self::File(file) => file.into_parts().0,
            Self::Object(object) => object,
        }
    }

    /// Reads. Waits until the read is done.
    pub(crate) fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        match self {
            Self::File(file) => file.file().read(buffer),
            Self::Object(object) => block_on(|context| object.poll_read(context, buffer)),
        }
    }

    /// Writes. Waits until the write is done, and returns the number of bytes.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::File(file) => file.file().write(bytes),
            Self::Object(object) => write_all(&**object, bytes),
        }
    }
}

/// Writes to an object. If [`Object::writes_all`] is true, continues until all bytes are written. Returns the
/// number of bytes that were written before the object ended or failed.
fn write_all(object: &dyn Object, bytes: &[u8]) -> Result<usize, Errno> {
    let count = block_on(|context| object.poll_write(context, bytes))?;
    Ok(if count < bytes.len() && object.writes_all() { write_rest(object, bytes, count) } else { count })
}

/// Continues a write after its first `count` bytes. Returns the number of bytes that were written before the
/// object ended or failed.
#[cold]
fn write_rest(object: &dyn Object, bytes: &[u8], mut count: usize) -> usize {
    while let Some(rest) = bytes.get(count..).filter(|rest| !rest.is_empty()) {
        match block_on(|context| object.poll_write(context, rest)) {
            Ok(written) => count += written,
            Err(_) => break,
        }
    }
    count
}

/// The descriptor table.
static TABLE: DescriptorTable<RawSpinLock, Handle> = DescriptorTable::new();

/// Function that opens a file for reading and returns its descriptor. It is set when files are mounted. Code
/// that every program contains reads files only through this function, so programs without files do not
/// contain the code of files.
pub(crate) static OPEN_TO_READ: Once<OpenToRead> = Once::new();

/// Opens the file at a path, and returns its descriptor.
pub(crate) type OpenToRead = fn(path: &[u8]) -> Result<i32, Errno>;

/// Opens standard input, output and error.
pub(crate) fn init(console: &Arc<dyn Object>, error: Arc<dyn Object>) {
    const { assert!(STDIN_FILENO == 0 && STDOUT_FILENO == 1 && STDERR_FILENO == 2, "in order of descriptors") };
    for stream in [Arc::clone(console), Arc::clone(console), error] {
        // The table has room for the first descriptors.
        let _: Result<i32, Errno> = open(stream);
    }
}

/// Returns the index of a descriptor in the table; for a negative number, an index after its end.
#[inline]
const fn index(descriptor: i32) -> hermit_io::FileDescriptor {
    descriptor.cast_unsigned() as usize
}

/// Opens a descriptor for an object. Drops the object if no descriptor is free.
pub(crate) fn open(object: Arc<dyn Object>) -> Result<i32, Errno> {
    reserve().map(|descriptor| descriptor.open(object))
}

/// Reserves a descriptor for an object that is still to be opened.
#[inline(always)]
pub(crate) fn reserve() -> Result<Reserved, Errno> {
    // The conversion cannot fail: the table has far fewer descriptors than an `i32` can count.
    i32::try_from(TABLE.reserve()?).map(Reserved).map_err(|_| Errno::EMFILE)
}

/// A descriptor that is allocated but not open yet. Dropping it frees the descriptor.
#[derive(Debug)]
pub(crate) struct Reserved(i32);

impl Reserved {
    /// Opens the descriptor for an object.
    pub(crate) fn open(self, object: Arc<dyn Object>) -> i32 {
        self.open_with(|| Handle::Object(object))
    }

    /// Opens the descriptor for a file.
    #[inline]
    pub(crate) fn open_file(self, file: Arc<File>) -> i32 {
        self.open_with(|| Handle::File(FileDescriptor::new(file)))
    }

    fn open_with(self, make: impl FnOnce() -> Handle) -> i32 {
        let number = self.0;
        TABLE.fill_with(index(number), make);
        // The reservation has ended: the descriptor is open.
        mem::forget(self);
        number
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        TABLE.release(index(self.0));
    }
}

/// Returns the object of a descriptor, and a reserved descriptor for a second object that an operation on the
/// first one will return.
pub(crate) fn get_and_reserve(descriptor: i32) -> Result<(Arc<dyn Object>, Reserved), Errno> {
    Ok((get(descriptor)?, reserve()?))
}

/// The object of a descriptor.
pub(crate) fn get(descriptor: i32) -> Result<Arc<dyn Object>, Errno> {
    let locked = LockedDescriptor::new(descriptor)?;
    // Most callers expect a socket. This path clones the object without the code for cloning a file.
    if let Some(Handle::Object(object)) = locked.slot.get() {
        return Ok(Arc::clone(object));
    }
    locked.share().map(Handle::object)
}

/// Returns the handle of a descriptor.
pub(crate) fn handle(descriptor: i32) -> Result<Handle, Errno> {
    LockedDescriptor::new(descriptor)?.share()
}

/// Returns the first open descriptor with at least this number.
pub(crate) fn next_open(from: usize) -> Option<usize> {
    TABLE.next_open(from)
}

/// A locked descriptor: its spinlock is held. No other call can close the descriptor or use its file through
/// it.
#[derive(Debug)]
pub(crate) struct LockedDescriptor {
    slot: LockedSlot<'static, RawSpinLock, Handle>,
}

impl LockedDescriptor {
    /// Locks a descriptor.
    #[inline]
    pub(crate) fn new(descriptor: i32) -> Result<Self, Errno> {
        Ok(Self { slot: TABLE.lock(index(descriptor))? })
    }

    /// Locks a descriptor if that is possible at once and without a call of another function.
    #[inline(always)]
    pub(crate) fn try_new(descriptor: i32) -> Option<Self> {
        Some(Self { slot: TABLE.try_lock(index(descriptor))? })
    }

    /// Returns the open file that the descriptor refers to. Returns `None` if the descriptor is not open or
    /// refers to another object.
    #[inline]
    pub(crate) fn file(&mut self) -> Option<&mut FileDescriptor<Kernel, dyn FileObject>> {
        match self.slot.get_mut() {
            Some(Handle::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Unlocks the descriptor and returns another reference to its object.
    pub(crate) fn share(mut self) -> Result<Handle, Errno> {
        let shared = match self.slot.get_mut() {
            Some(Handle::File(file)) => file.share(),
            Some(Handle::Object(object)) => return Ok(Handle::Object(Arc::clone(object))),
            None => return Err(Errno::EBADF),
        };
        drop(self);
        Ok(Handle::File(shared.into_value()))
    }
}

/// Opens the lowest free descriptor that is at least `min` for the object of `descriptor`.
pub(crate) fn duplicate(descriptor: i32, min: i32) -> Result<i32, Errno> {
    let min = usize::try_from(min).map_err(|_| Errno::EINVAL)?;
    let duplicate = TABLE.open_from(handle(descriptor)?, min)?;
    i32::try_from(duplicate).map_err(|_| Errno::EMFILE)
}

/// Closes a descriptor. If this was the last reference to the object, drops the object. The descriptor is
/// closed even if the call reports an error of an earlier write.
#[inline(always)]
pub(crate) fn close(descriptor: i32) -> Result<(), Errno> {
    match TABLE.take(index(descriptor)).ok_or(Errno::EBADF)? {
        Handle::File(file) => {
            let (file, page) = file.into_parts();
            drop(page);
            file.close()
        }
        Handle::Object(object) => {
            drop(object);
            Ok(())
        }
    }
}

/// Does the same as [`close`], out of line, for calls that programs make less often.
#[inline(never)]
pub(crate) fn close_one(descriptor: i32) -> Result<(), Errno> {
    close(descriptor)
}
