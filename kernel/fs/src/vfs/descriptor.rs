//! The state of a descriptor that refers to an open file: the position, as long as the descriptor is the only
//! reference to the open file, and the page that the descriptor has used last.
//!
//! The caller holds the lock of the descriptor. So the calls of this module never wait. They return `None` if
//! they cannot serve a call. Then the caller makes a second reference with [`FileDescriptor::share`], unlocks
//! the descriptor, and uses the open file.

use alloc::sync::Arc;
use core::mem::{self, MaybeUninit};

use hermit_io::{FileHandle, Positioned};

use crate::interface::{DirectPage, System, Transfer};

/// Open file of a descriptor.
pub trait DescriptorFile<S: System>: Positioned {
    /// Reads at an offset to the start of `buffer`, which is not empty, if that need not wait.
    fn try_read(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<Transfer<S>>;

    /// Writes all of `bytes`, which is not empty, if that need not wait: at an offset, or at the end of a
    /// file that is open for appending.
    fn try_write(&self, offset: u64, bytes: &[u8]) -> Option<Transfer<S>>;
}

/// A descriptor's reference to an open file.
#[derive(Debug)]
pub struct FileDescriptor<S: System, F: ?Sized> {
    handle: FileHandle<F>,
    /// The page that was used last, as a cache: most short reads and writes use the same page again.
    page: DirectPage<S>,
}

/// A result, and the page that a descriptor has used before. The caller drops it after it has unlocked the
/// descriptor, since that may free the page.
#[derive(Debug)]
#[must_use = "the page is dropped after the descriptor is unlocked"]
pub struct Done<S: System, T> {
    /// The result.
    pub value: T,
    replaced: DirectPage<S>,
}

impl<S: System, T> Done<S, T> {
    const fn new(value: T) -> Self {
        Self { value, replaced: DirectPage::None }
    }

    /// Returns the result, and drops the page.
    #[inline]
    pub fn into_value(self) -> T {
        drop(self.replaced);
        self.value
    }
}

impl<S: System, F: DescriptorFile<S> + ?Sized> FileDescriptor<S, F> {
    /// Creates the first reference to a newly opened file.
    #[must_use]
    pub fn new(file: Arc<F>) -> Self {
        Self { handle: FileHandle::new(file), page: DirectPage::None }
    }

    /// The open file.
    #[inline]
    #[must_use]
    pub fn file(&self) -> &F {
        self.handle.file()
    }

    /// Takes the descriptor apart, when it is closed. Both parts are dropped after it is unlocked.
    #[inline]
    #[must_use]
    pub fn into_parts(self) -> (Arc<F>, DirectPage<S>) {
        (self.handle.into_file(), self.page)
    }

    /// Makes a second reference to the open file. From now on, both use the position of the open file.
    pub fn share(&mut self) -> Done<S, Self> {
        let shared = Self { handle: self.handle.share(), page: DirectPage::None };
        Done { value: shared, replaced: mem::replace(&mut self.page, DirectPage::None) }
    }

    /// Moves the position and returns the new one. Returns `None` if the seek needs more than the old
    /// position, or if it fails.
    #[inline]
    pub fn seek(&mut self, offset: i64, whence: i32) -> Option<u64> {
        self.handle.seek(offset, whence)
    }

    /// Moves the position to an offset, if the descriptor has the position and the offset is not negative.
    /// Calls no other function.
    #[inline(always)]
    pub fn try_seek_to(&mut self, offset: i64) -> Option<()> {
        self.handle.try_seek_to(offset)
    }

    /// Reads the byte at the position from the page that was used last, and advances the position. Calls no
    /// other function.
    #[inline(always)]
    pub fn try_read_byte(&mut self, byte: &mut MaybeUninit<u8>) -> Option<()> {
        let page = &self.page;
        self.handle.try_advance(|position| page.try_read_byte(position, byte))
    }

    /// Writes a byte at the position to the page that was used last, and advances the position. Calls no
    /// other function.
    #[inline(always)]
    pub fn try_write_byte(&mut self, byte: u8) -> Option<()> {
        let page = &self.page;
        self.handle.try_advance(|position| page.try_write_byte(position, byte))
    }

    /// Reads at the position and advances it. Returns the number of bytes.
    #[inline]
    pub fn read(&mut self, buffer: &mut [MaybeUninit<u8>]) -> Option<Done<S, usize>> {
        let page = &mut self.page;
        self.handle.with_position(|file, position| {
            let done = read_at(file, page, position, buffer)?;
            let end = position + done.value as u64;
            Some((done, end))
        })
    }

    /// Reads at an offset. Returns the number of bytes.
    #[inline]
    pub fn read_at(&mut self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<Done<S, usize>> {
        read_at(self.handle.file(), &mut self.page, offset, buffer)
    }

    /// Writes all bytes at the position and moves the position to their end.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Option<Done<S, ()>> {
        let page = &mut self.page;
        self.handle.with_position(|file, position| {
            let Done { value: end, replaced } = write_at(file, page, position, bytes)?;
            Some((Done { value: (), replaced }, end))
        })
    }

    /// Writes all bytes at an offset.
    #[inline]
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Option<Done<S, ()>> {
        let Done { replaced, .. } = write_at(self.handle.file(), &mut self.page, offset, bytes)?;
        Some(Done { value: (), replaced })
    }
}

#[inline]
fn read_at<S: System, F: DescriptorFile<S> + ?Sized>(
    file: &F,
    page: &mut DirectPage<S>,
    offset: u64,
    buffer: &mut [MaybeUninit<u8>],
) -> Option<Done<S, usize>> {
    if page.read(offset, buffer).is_some() {
        return Some(Done::new(buffer.len()));
    }
    let transfer = file.try_read(offset, buffer)?;
    let value = usize::try_from(transfer.value).ok()?;
    Some(Done { value, replaced: replace(page, transfer.page) })
}

/// Returns the offset after the written bytes.
#[inline]
fn write_at<S: System, F: DescriptorFile<S> + ?Sized>(
    file: &F,
    page: &mut DirectPage<S>,
    offset: u64,
    bytes: &[u8],
) -> Option<Done<S, u64>> {
    if page.write(offset, bytes).is_some() {
        return Some(Done::new(offset + bytes.len() as u64));
    }
    let transfer = file.try_write(offset, bytes)?;
    Some(Done { value: transfer.value, replaced: replace(page, transfer.page) })
}

/// Stores the page of a transfer, if it has one. Returns the page before it.
#[inline]
fn replace<S: System>(page: &mut DirectPage<S>, next: DirectPage<S>) -> DirectPage<S> {
    if matches!(next, DirectPage::None) { next } else { mem::replace(page, next) }
}
