//! The program's file descriptors.

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

/// What a descriptor refers to. No discriminant is 0: that is of an empty slot, so the table takes no room in
/// the image.
#[derive(Clone, Debug)]
#[repr(usize)]
pub(crate) enum Handle {
    /// An open file.
    File(FileHandle<dyn FileObject>) = 1,
    /// Another object.
    Object(Arc<dyn Object>) = 2,
}

/// An open file. Only programs that open one have its code: the calls that every program has reach it by this
/// trait.
///
/// The methods that end in `now` are called with a spinlock held. They return `None` if the call would have
/// to wait or take long; then it is made by the other method, without the lock.
pub(crate) trait FileObject: Object + Positioned {
    /// Reads at an offset to the start of `buffer`, which is not empty; returns the number of bytes.
    fn read_now(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<usize>;

    /// Writes all bytes, at least one, at an offset or at the end of a file opened for that; returns the
    /// offset behind them.
    fn write_now(&self, offset: u64, bytes: &[u8]) -> Option<u64>;

    /// Lends the page of an offset to the window of the descriptor, for what the file is opened for, if that
    /// can be.
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

    /// Ends the opening at once if the reference is the only one and nothing is to be reported or freed: it
    /// is called with a spinlock held. Returns the open file, to be used again, or the reference.
    fn retire_now(self: Arc<Self>) -> Result<Arc<File>, Arc<File>>;

    /// Reports errors of what was written, and drops the reference of a descriptor that is closed.
    fn close(self: Arc<Self>) -> Result<(), Errno>;

    /// What `/proc/self/fd` says of the file.
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

/// Writes to an object, all bytes if the object promises that; returns the number of bytes until it ends or
/// fails.
fn write_all(object: &dyn Object, bytes: &[u8]) -> Result<usize, Errno> {
    let count = block_on(|context| object.poll_write(context, bytes))?;
    Ok(if count < bytes.len() && object.writes_all() { write_rest(object, bytes, count) } else { count })
}

/// Goes on with a write of which `count` bytes are written; returns the number of bytes until it ends or
/// fails.
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

/// The table. A descriptor keeps the open file that it had, for the next one.
static TABLE: DescriptorTable<RawSpinLock, Handle, Arc<File>> = DescriptorTable::new();

/// The windows of the first descriptors.
static WINDOWS: [PageWindow<Kernel>; WINDOW_COUNT] = [const { PageWindow::new() }; WINDOW_COUNT];

/// Opens a file to read it, and returns its descriptor; set once files are mounted. So code of every program
/// can read files that the program may have, without the code of files in programs that have none.
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

/// The index of a descriptor in the table; behind its end for a negative number.
#[inline]
const fn index(descriptor: i32) -> FileDescriptor {
    descriptor.cast_unsigned() as usize
}

/// Opens a descriptor for an object. If there is none, the object is dropped.
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

    /// [`Self::fill_file`] with the open file that the descriptor has kept, if it has one for which `open`
    /// returns true. It is called with a spinlock held. Returns whether it has.
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

/// What a descriptor of a file refers to.
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

/// What a descriptor refers to.
pub(crate) fn handle(descriptor: i32) -> Result<Handle, Errno> {
    LockedDescriptor::new(descriptor)?.into_handle()
}

/// The first open descriptor from a number on.
pub(crate) fn next_open(from: usize) -> Option<usize> {
    TABLE.next_open(from)
}

/// The window of a descriptor; `None` if that is none of the first ones.
#[inline]
pub(crate) fn window(descriptor: i32) -> Option<&'static PageWindow<Kernel>> {
    WINDOWS.get(index(descriptor))
}

/// A descriptor that cannot be closed, and whose file no other call uses: its spinlock is held, and its
/// window is suspended.
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

    /// Unlocks the descriptor, and gives its window the position of the file, if the descriptor has that.
    #[inline]
    pub(crate) fn resume(self) {
        if let (Some(window), Some(handle)) = (self.window, self.file())
            && let Some(position) = handle.position()
        {
            window.resume(position);
        }
    }

    /// [`Self::resume`] after a call at an offset of the file: the second one in a row in a page has that
    /// page lent.
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

    /// Another reference to what the descriptor refers to.
    pub(crate) fn into_handle(self) -> Result<Handle, Errno> {
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

/// What is left to do of a close without the lock of the descriptor.
enum Closing {
    Nothing,
    File(Arc<dyn FileObject>),
    Object(Arc<dyn Object>),
}

/// Closes a descriptor. The last reference drops the object: not under a lock. With an error of what was
/// written to a file, the descriptor is closed, too.
#[inline(always)]
pub(crate) fn close(descriptor: i32) -> Result<(), Errno> {
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
        // It drops nothing, and so needs no call.
        mem::forget(closing);
        return Ok(());
    }
    finish_close(closing)
}

/// [`close`] for calls that programs make less often.
#[inline(never)]
pub(crate) fn close_one(descriptor: i32) -> Result<(), Errno> {
    close(descriptor)
}

/// [`close`] behind the lock of the descriptor, if there is something left to do.
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
