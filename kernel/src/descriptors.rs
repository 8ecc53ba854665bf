//! The program's file descriptors.
//!
//! The descriptor table maps a number to a [`Handle`]: an open file, or another object such as a socket, a
//! pipe or the console. Both implement [`Object`], whose polls never block; this module adds the waiting.
//! Open files have a trait of their own, [`FileObject`], because only programs that open a file shall contain
//! the code of files.
//!
//! Small reads and writes of files are the hot path. Each of the first [`WINDOW_COUNT`] descriptors therefore
//! has a page window ([`PageWindow`]): one page of the file that the file system lends it, and the position
//! in the file. A system call looks into the window first. A call that needs more takes the
//! [`LockedDescriptor`]: it holds the spinlock of the table's slot and has moved the position from the window
//! back to the open file.
//!
//! After a close the slot keeps the open file if it can be used again, so that the next open of this
//! descriptor need not allocate one.

use alloc::sync::Arc;
use core::fmt::{self, Debug, Formatter};
use core::mem::{self, MaybeUninit};

use hermit_abi::{STDERR_FILENO, STDIN_FILENO, STDOUT_FILENO};
use hermit_fs::{DescriptorTarget, Metadata, PAGE_SIZE, PageWindow, Whence};
use hermit_hal::once::Once;
use hermit_hal::sync::RawSpinLock;
use hermit_interface::Errno;
use hermit_io::{DescriptorTable, FileDescriptor, FileHandle, LockedSlot, Object, Positioned, ReadBuffer};

use crate::files::system::{File, Kernel};
use crate::threads::wait::block_on;

/// Object that a descriptor refers to. No variant has the discriminant 0, which marks an empty slot of the
/// table: so the static table is all zeros and takes no room in the image.
#[derive(Clone, Debug)]
#[repr(usize)]
pub(crate) enum Handle {
    /// An open file.
    File(FileHandle<dyn FileObject>) = 1,
    /// Another object.
    Object(Arc<dyn Object>) = 2,
}

/// Open file. The system calls that every program contains reach open files by this trait alone, so only
/// programs that open a file contain the code behind it.
///
/// The methods that end in `now` are called with a spinlock held. They return `None` if the call would have
/// to wait or take long. The caller then makes it with the other method, without the lock.
pub(crate) trait FileObject: Object + Positioned {
    /// Reads at an offset to the start of `buffer`, which is not empty; returns the number of bytes.
    fn read_now(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<usize>;

    /// Writes all bytes, at least one, at an offset, or at the end of a file opened for appending. Returns
    /// the offset after them.
    fn write_now(&self, offset: u64, bytes: &[u8]) -> Option<u64>;

    /// Lends the page at an offset to the window of the descriptor. The window may do what the file is opened
    /// for. Does nothing if the page cannot be lent.
    fn lend_page(&self, offset: u64, window: &'static PageWindow<Kernel>);

    /// Takes back the page that a window has.
    fn take_back_page(&self);

    /// Reads at the position.
    fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno>;

    /// Writes at the position; returns the number of bytes.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Moves the position and returns it.
    fn move_position(&self, offset: i64, whence: Whence) -> Result<u64, Errno>;

    /// Metadata of the file.
    fn metadata(&self) -> Result<Metadata, Errno>;

    /// Ends the use of this open file at once if the reference is the only one, and there is no error to
    /// report and nothing to free: it is called with a spinlock held. Returns `Ok` with the open file, which
    /// can be used again, or `Err` with the reference.
    fn retire_now(self: Arc<Self>) -> Result<Arc<File>, Arc<File>>;

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
            Self::File(file) => file.into_file(),
            Self::Object(object) => object,
        }
    }

    /// Reads, and waits for it.
    pub(crate) fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        match self {
            Self::File(file) => file.file().read(buffer),
            Self::Object(object) => block_on(|context| object.poll_read(context, buffer)),
        }
    }

    /// Writes, and waits for it; returns the number of bytes.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::File(file) => file.file().write(bytes),
            Self::Object(object) => write_all(&**object, bytes),
        }
    }
}

/// Writes to an object, all bytes if the object promises that. Returns the number of bytes written before the
/// object ends or fails.
fn write_all(object: &dyn Object, bytes: &[u8]) -> Result<usize, Errno> {
    let count = block_on(|context| object.poll_write(context, bytes))?;
    Ok(if count < bytes.len() && object.writes_all() { write_rest(object, bytes, count) } else { count })
}

/// Continues a write after its first `count` bytes. Returns the number of bytes written before the object
/// ends or fails.
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

/// Descriptor table. An empty slot may keep the open file of the last descriptor in it for the next one.
static TABLE: DescriptorTable<RawSpinLock, Handle, Arc<File>> = DescriptorTable::new();

/// Page windows of the first descriptors.
static WINDOWS: [PageWindow<Kernel>; WINDOW_COUNT] = [const { PageWindow::new() }; WINDOW_COUNT];

/// Opens a file for reading, and returns its descriptor. Set when files are mounted. Code that every program
/// contains reads files by this function, so programs without files do not contain the code of files.
pub(crate) static OPEN_TO_READ: Once<OpenToRead> = Once::new();

/// Opens the file at a path, and returns its descriptor.
pub(crate) type OpenToRead = fn(path: &[u8]) -> Result<i32, Errno>;

/// Number of descriptors that have a window.
const WINDOW_COUNT: usize = 64;

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
const fn index(descriptor: i32) -> FileDescriptor {
    descriptor.cast_unsigned() as usize
}

/// Opens a descriptor for an object. Drops the object if no descriptor is free.
pub(crate) fn open(object: Arc<dyn Object>) -> Result<i32, Errno> {
    reserve().map(|descriptor| descriptor.open(object))
}

/// Reserves a descriptor for an object that is still to be opened.
#[inline(always)]
pub(crate) fn reserve() -> Result<Reserved, Errno> {
    // The table has far fewer.
    i32::try_from(TABLE.reserve()?).map(Reserved).map_err(|_| Errno::EMFILE)
}

/// A descriptor that is allocated and not open yet; dropping it frees the descriptor.
#[derive(Debug)]
pub(crate) struct Reserved(i32);

impl Reserved {
    /// Opens the descriptor for an object.
    pub(crate) fn open(self, object: Arc<dyn Object>) -> i32 {
        self.open_with(|| Handle::Object(object))
    }

    /// Opens the descriptor for a file.
    pub(crate) fn open_file(self, file: Arc<File>) -> i32 {
        self.fill_file(file);
        self.opened()
    }

    /// Stores the reference of the descriptor to a file. [`Self::opened`] follows.
    #[inline]
    pub(crate) fn fill_file(&self, file: Arc<File>) {
        TABLE.fill_with(index(self.0), || file_handle(file));
    }

    /// Does the same as [`Self::fill_file`] with the open file that the slot has kept, if there is one and
    /// `open` returns true for it. `open` is called with a spinlock held. Returns true if the descriptor is
    /// filled.
    #[inline(always)]
    pub(crate) fn open_again(&self, open: impl FnOnce(&mut Arc<File>) -> bool) -> bool {
        TABLE.fill_from_kept(index(self.0), open, file_handle)
    }

    /// Ends the reservation of a descriptor that has been opened; returns its number.
    #[inline]
    pub(crate) fn opened(self) -> i32 {
        let number = self.0;
        mem::forget(self);
        number
    }

    fn open_with(self, make: impl FnOnce() -> Handle) -> i32 {
        TABLE.fill_with(index(self.0), make);
        self.opened()
    }
}

/// Makes the handle of a file.
#[inline]
fn file_handle(file: Arc<File>) -> Handle {
    Handle::File(FileHandle::new(file))
}

impl Drop for Reserved {
    fn drop(&mut self) {
        TABLE.release(index(self.0));
    }
}

/// The object of a descriptor, and a reserved descriptor for the object that an operation on it returns.
pub(crate) fn get_and_reserve(descriptor: i32) -> Result<(Arc<dyn Object>, Reserved), Errno> {
    Ok((get(descriptor)?, reserve()?))
}

/// The object of a descriptor.
pub(crate) fn get(descriptor: i32) -> Result<Arc<dyn Object>, Errno> {
    let locked = LockedDescriptor::new(descriptor)?;
    // Most callers have a socket: it is cloned without the file's part of a handle.
    if let Some(Handle::Object(object)) = locked.slot.get() {
        return Ok(Arc::clone(object));
    }
    locked.into_handle().map(Handle::object)
}

/// Returns the handle of a descriptor.
pub(crate) fn handle(descriptor: i32) -> Result<Handle, Errno> {
    LockedDescriptor::new(descriptor)?.into_handle()
}

/// Returns the first open descriptor with at least this number.
pub(crate) fn next_open(from: usize) -> Option<usize> {
    TABLE.next_open(from)
}

/// Returns the window of a descriptor; `None` if it is not one of the first [`WINDOW_COUNT`].
#[inline]
pub(crate) fn window(descriptor: i32) -> Option<&'static PageWindow<Kernel>> {
    WINDOWS.get(index(descriptor))
}

/// Locked descriptor: its spinlock is held and its window is suspended. No other call can close it or use its
/// file.
#[derive(Debug)]
pub(crate) struct LockedDescriptor {
    slot: LockedSlot<'static, RawSpinLock, Handle, Arc<File>>,
    window: Option<&'static PageWindow<Kernel>>,
}

impl LockedDescriptor {
    /// Locks a descriptor.
    #[inline]
    pub(crate) fn new(descriptor: i32) -> Result<Self, Errno> {
        let locked = Self { slot: TABLE.lock(index(descriptor))?, window: window(descriptor) };
        if let Some(handle) = locked.file()
            && let Some(position) = locked.window.and_then(PageWindow::suspend)
        {
            handle.return_position(position);
        }
        Ok(locked)
    }

    /// The open file that the descriptor refers to; `None` if it is not open or refers to another object.
    #[inline]
    pub(crate) fn file(&self) -> Option<&FileHandle<dyn FileObject>> {
        match self.slot.get() {
            Some(Handle::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Unlocks the descriptor. If the handle has the file's position, the window gets it back.
    #[inline]
    pub(crate) fn resume(self) {
        if let (Some(window), Some(handle)) = (self.window, self.file())
            && let Some(position) = handle.position()
        {
            window.resume(position);
        }
    }

    /// Does the same as [`Self::resume`] after a call at an offset of the file. The second such call in a row
    /// within one page makes the file system lend that page to the window.
    pub(crate) fn resume_at(self, offset: u64) {
        if let (Some(window), Some(handle)) = (self.window, self.file())
            && let Some(position) = handle.position()
        {
            if handle.is_repeated(offset / PAGE_SIZE as u64) {
                handle.file().lend_page(offset, window);
            }
            window.resume(position);
        }
    }

    /// Unlocks the descriptor and returns another reference to its object.
    pub(crate) fn into_handle(self) -> Result<Handle, Errno> {
        // The second reference may move the position, too, so it must not stay in the window.
        if let Some(window) = self.window {
            window.blind();
        }
        self.slot.get().cloned().ok_or(Errno::EBADF)
    }
}

/// Opens the lowest free descriptor that is at least `min` for the object of `descriptor`.
pub(crate) fn duplicate(descriptor: i32, min: i32) -> Result<i32, Errno> {
    let min = usize::try_from(min).map_err(|_| Errno::EINVAL)?;
    let duplicate = TABLE.open_from(handle(descriptor)?, min)?;
    i32::try_from(duplicate).map_err(|_| Errno::EMFILE)
}

/// Work that a close leaves to be done without the lock of the descriptor.
enum Closing {
    Nothing,
    File(Arc<dyn FileObject>),
    Object(Arc<dyn Object>),
}

/// Closes a descriptor. The last reference drops the object, after the lock is released. The descriptor is
/// closed even if an error of an earlier write is reported.
#[inline(always)]
pub(crate) fn close(descriptor: i32) -> Result<(), Errno> {
    // Called with the slot's spinlock held. It only decides which work is left for the time after the unlock.
    let split = |handle, kept: Option<&mut Option<Arc<File>>>| match handle {
        Handle::File(handle) => {
            let file = handle.into_file();
            if window(descriptor).is_some_and(PageWindow::end) {
                file.take_back_page();
            }
            let Some(kept) = kept else { return Closing::File(file) };
            match file.retire_now() {
                Ok(file) => {
                    *kept = Some(file);
                    Closing::Nothing
                }
                Err(file) => Closing::File(file),
            }
        }
        Handle::Object(object) => Closing::Object(object),
    };
    let closing = TABLE.take_and_keep(index(descriptor), split);
    if matches!(closing, Some(Closing::Nothing)) {
        // Nothing is dropped, so the fast path ends without a call.
        mem::forget(closing);
        return Ok(());
    }
    finish_close(closing)
}

/// Does the same as [`close`], out of line, for calls that programs make less often.
#[inline(never)]
pub(crate) fn close_one(descriptor: i32) -> Result<(), Errno> {
    close(descriptor)
}

/// Does the part of [`close`] that is left after the descriptor is unlocked.
#[inline(never)]
fn finish_close(closing: Option<Closing>) -> Result<(), Errno> {
    match closing {
        Some(Closing::Nothing) => Ok(()),
        Some(Closing::File(file)) => file.close(),
        Some(Closing::Object(object)) => {
            drop(object);
            Ok(())
        }
        None => Err(Errno::EBADF),
    }
}
