//! A stand-in for a descriptor of the kernel: an open file with the state of a descriptor, under its lock.

use core::mem::MaybeUninit;
use core::ops::Deref;

use hermit_abi::O_CREAT;
use parking_lot::Mutex;

use crate::testing::{TestSystem, run};
use crate::vfs::{Done, FileDescriptor, OpenFile, OpenedPath, Vfs};

/// A descriptor of an open file. Each method does what a call of the kernel does on its fast path.
pub(super) struct File(Mutex<FileDescriptor<TestSystem, OpenFile<TestSystem>>>);

/// Another reference to the open file of a descriptor, as for calls on the slow path.
pub(super) struct Reference(FileDescriptor<TestSystem, OpenFile<TestSystem>>);

impl Deref for Reference {
    type Target = OpenFile<TestSystem>;

    fn deref(&self) -> &OpenFile<TestSystem> {
        self.0.file()
    }
}

impl File {
    /// Returns another reference to the open file.
    pub(super) fn file(&self) -> Reference {
        Reference(self.0.lock().share().into_value())
    }

    pub(super) fn seek(&self, offset: i64, whence: i32) -> Option<u64> {
        self.0.lock().seek(offset, whence)
    }

    /// Reads a byte of the page that was used last.
    pub(super) fn read_byte(&self) -> Option<()> {
        self.0.lock().try_read_byte(&mut MaybeUninit::uninit())
    }

    /// Writes a byte to the page that was used last.
    pub(super) fn write_byte(&self, byte: u8) -> Option<()> {
        self.0.lock().try_write_byte(byte)
    }

    pub(super) fn read(&self, buffer: &mut [MaybeUninit<u8>]) -> Option<usize> {
        self.0.lock().read(buffer).map(Done::into_value)
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<usize> {
        self.0.lock().read_at(offset, buffer).map(Done::into_value)
    }

    /// Writes all bytes. Returns their number.
    pub(super) fn write(&self, bytes: &[u8]) -> Option<usize> {
        self.0.lock().write(bytes).map(Done::into_value).map(|()| bytes.len())
    }

    /// Writes all bytes at an offset. Returns their number.
    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> Option<usize> {
        self.0.lock().write_at(offset, bytes).map(Done::into_value).map(|()| bytes.len())
    }
}

pub(super) fn open(vfs: &Vfs<TestSystem>, path: &str, flags: i32) -> File {
    match run(vfs.open(path.as_bytes(), flags | O_CREAT, 0o666)) {
        Ok(OpenedPath::File(file)) => File(Mutex::new(FileDescriptor::new(file))),
        other => panic!("{other:?} is no file"),
    }
}
