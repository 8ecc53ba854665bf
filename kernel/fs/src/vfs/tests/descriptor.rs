//! A stand-in for a descriptor of the kernel: an open file with the state of a descriptor, and the fast paths
//! of calls.

use core::mem::MaybeUninit;
use std::boxed::Box;
use std::vec::Vec;

use hermit_abi::{O_CREAT, SEEK_SET};
use hermit_io::FileHandle;
use parking_lot::Mutex;

use crate::testing::{TestSystem, run};
use crate::{OpenFile, OpenedPath, PAGE_SIZE, PageWindow, Vfs};

/// An open file with the state of a descriptor: with a window. Its calls come one at a time, as under the
/// lock of a descriptor.
pub(super) struct File {
    handle: FileHandle<OpenFile<TestSystem>>,
    pub(super) window: &'static PageWindow<TestSystem>,
}

/// Windows that no file uses.
static WINDOWS: Mutex<Vec<&'static PageWindow<TestSystem>>> = Mutex::new(Vec::new());

impl File {
    fn new(handle: FileHandle<OpenFile<TestSystem>>) -> Self {
        let unused = WINDOWS.lock().pop();
        Self { handle, window: unused.unwrap_or_else(|| Box::leak(Box::new(PageWindow::new()))) }
    }

    /// Returns the handle. It has the position if it is the only reference to the file.
    fn suspended(&self) -> &FileHandle<OpenFile<TestSystem>> {
        if let Some(position) = self.window.suspend() {
            self.handle.return_position(position);
        }
        &self.handle
    }

    /// Continues after a call at an offset.
    fn resume_at(&self, offset: u64) {
        let Some(position) = self.handle.position() else { return };
        if self.handle.is_repeated(offset / PAGE_SIZE as u64) {
            self.handle.file().lend_page(offset, self.window);
        }
        self.window.resume(position);
    }

    /// The open file, for calls that do not use the position.
    pub(super) fn file(&self) -> &OpenFile<TestSystem> {
        self.handle.file()
    }

    /// A reference, as for calls on the slow path.
    pub(super) fn reference(&self) -> FileHandle<OpenFile<TestSystem>> {
        let handle = self.suspended();
        self.window.blind();
        handle.clone()
    }

    pub(super) fn seek(&self, offset: i64, whence: i32) -> Option<u64> {
        let to = if whence == SEEK_SET { self.window.seek_to(offset) } else { None };
        let sought = to.map(i64::cast_unsigned).or_else(|| self.window.seek(offset, whence));
        sought.or_else(|| {
            let sought = self.suspended().seek(offset, whence)?;
            self.window.resume(sought);
            Some(sought)
        })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.window.end() {
            self.handle.file().take_back_page();
        }
        WINDOWS.lock().push(self.window);
    }
}

pub(super) fn open(vfs: &Vfs<TestSystem>, path: &str, flags: i32) -> File {
    match run(vfs.open(path.as_bytes(), flags | O_CREAT, 0o666)) {
        Ok(OpenedPath::File(file)) => File::new(FileHandle::new(file)),
        other => panic!("{other:?} is no file"),
    }
}

/// `read` on the fast path, as in the kernel: through the window, or else by calling the file system.
pub(super) fn read_now(file: &File, buffer: &mut [MaybeUninit<u8>]) -> Option<usize> {
    let in_window = match buffer {
        [byte] => file.window.read_byte(byte),
        _ => file.window.read(buffer),
    };
    if in_window.is_some() {
        return Some(buffer.len());
    }
    let (position, count) = file.suspended().with_position(|open, position| {
        let count = open.read_at_now(position, buffer)?;
        Some(((position, count), position + count as u64))
    })?;
    file.resume_at(position);
    Some(count)
}

/// `write` on the fast path, in the same way as [`read_now`].
pub(super) fn write_now(file: &File, bytes: &[u8]) -> Option<usize> {
    let in_window = match bytes {
        [byte] => file.window.write_byte(|| Some(*byte)),
        _ => file.window.write(bytes),
    };
    if in_window.is_some() {
        return Some(bytes.len());
    }
    let end = file.suspended().with_position(|open, position| {
        let end = open.write_at_now(position, bytes)?;
        Some((end, end))
    })?;
    file.resume_at(end - bytes.len() as u64);
    Some(bytes.len())
}

/// `pread` on the fast path, in the same way as [`read_now`].
pub(super) fn read_at_now(file: &File, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<usize> {
    if file.window.read_at(offset, buffer).is_some() {
        return Some(buffer.len());
    }
    let count = file.suspended().file().read_at_now(offset, buffer)?;
    file.resume_at(offset);
    Some(count)
}

/// `pwrite` on the fast path, in the same way as [`read_now`].
pub(super) fn write_at_now(file: &File, offset: u64, bytes: &[u8]) -> Option<usize> {
    if file.window.write_at(offset, bytes).is_none() {
        file.suspended().file().write_at_now(offset, bytes)?;
        file.resume_at(offset);
    }
    Some(bytes.len())
}
