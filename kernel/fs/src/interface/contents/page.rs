//! A page of a file in memory.
//!
//! Most reads and writes are short and follow each other within a page. So a descriptor keeps a reference to
//! the page that it has used last, a [`DirectPage`], and uses the page without the file: it takes only the
//! lock of the page. The [contents](super::Contents) of the file permit this for one page at a time. They
//! withdraw the permission before they do anything that such a read or write must see: before the file
//! becomes shorter, before a time must change, and before a write of several pages.

use alloc::sync::Arc;
use core::mem::MaybeUninit;
use core::ops::Range;

use hermit_interface::to_usize;
use hermit_io::Access;
use lock_api::Mutex;

use crate::interface::system::Lock;
use crate::interface::{PAGE_SIZE, System};

/// A page of a file. The lock order is contents of the file, page.
#[derive(Debug)]
pub struct CachedPage<S: System>(Lock<S, PageState<S>>);

#[derive(Debug)]
struct PageState<S: System> {
    bytes: S::Page,
    permission: Permission,
}

/// The part of a page that descriptors may use directly.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Permission {
    /// Offset of the page in the file, in bytes.
    pub(super) start: u64,
    /// Number of bytes from the start of the page that may be read. They do not extend past the end of the
    /// file.
    pub(super) readable: usize,
    /// Number of bytes from the start of the page that may be written while the current tick is `tick`.
    pub(super) writable: usize,
    /// The [tick](System::tick) during which writes need not update the times of the file. For a page that
    /// expires, the tick during which it may be read.
    pub(super) tick: u64,
    /// True if the page is of a file on a server, which may change it.
    pub(super) expires: bool,
}

impl Permission {
    /// Converts an offset in the file to an index in the page. Returns `None` if it is not below `limit`.
    #[inline(always)]
    fn index(&self, offset: u64, limit: usize) -> Option<usize> {
        let index = offset.wrapping_sub(self.start);
        (index < limit as u64).then_some(to_usize(index))
    }

    /// Returns true if the page has not expired.
    #[inline(always)]
    fn is_valid<S: System>(&self) -> bool {
        !self.expires || S::tick() == self.tick
    }

    /// Returns the range of `size` bytes from an offset in the file on, as indices in the page. Returns
    /// `None` if the range does not end within `limit`.
    #[inline]
    fn range(&self, offset: u64, size: usize, limit: usize) -> Option<Range<usize>> {
        let start = self.index(offset, limit)?;
        (size <= limit - start).then(|| start..start + size)
    }
}

impl<S: System> CachedPage<S> {
    pub(super) fn new(bytes: S::Page) -> Self {
        Self(Mutex::new(PageState { bytes, permission: Permission::default() }))
    }

    /// Calls `action` with the bytes of the page.
    #[inline]
    pub(super) fn with<T>(&self, action: impl FnOnce(&mut [u8; PAGE_SIZE]) -> T) -> T {
        action(self.0.lock().bytes.as_mut())
    }

    /// Changes the part of the page that descriptors may use directly.
    #[inline]
    pub(super) fn permit(&self, permission: Permission) {
        self.0.lock().permission = permission;
    }

    /// Withdraws the permission to use the page directly.
    #[inline]
    pub(super) fn withdraw(&self) {
        let mut page = self.0.lock();
        (page.permission.readable, page.permission.writable) = (0, 0);
    }
}

/// A page that a descriptor uses directly, as far as the contents of the file permit it. The variant says for
/// which operations the descriptor is open. All methods return `None` if they cannot serve the whole call.
/// The caller then uses the file.
#[derive(Debug)]
pub enum DirectPage<S: System> {
    /// No page.
    None,
    /// For reads only.
    Read(Arc<CachedPage<S>>),
    /// For reads and writes.
    ReadWrite(Arc<CachedPage<S>>),
    /// For writes only.
    Write(Arc<CachedPage<S>>),
}

impl<S: System> DirectPage<S> {
    pub(super) fn new(page: Arc<CachedPage<S>>, access: Access) -> Self {
        match access {
            Access { reads: true, writes: true } => Self::ReadWrite(page),
            Access { reads: true, writes: false } => Self::Read(page),
            Access { reads: false, writes: true } => Self::Write(page),
            Access { reads: false, writes: false } => Self::None,
        }
    }

    /// Returns the page, if the descriptor is open for reading.
    #[inline(always)]
    fn for_read(&self) -> Option<&CachedPage<S>> {
        match self {
            Self::ReadWrite(page) | Self::Read(page) => Some(page),
            Self::None | Self::Write(_) => None,
        }
    }

    /// Returns the page, if the descriptor is open for writing.
    #[inline(always)]
    fn for_write(&self) -> Option<&CachedPage<S>> {
        match self {
            Self::ReadWrite(page) | Self::Write(page) => Some(page),
            Self::None | Self::Read(_) => None,
        }
    }

    /// Reads the byte at an offset in the file, if the lock of the page is free.
    #[inline(always)]
    pub(crate) fn try_read_byte(&self, offset: u64, byte: &mut MaybeUninit<u8>) -> Option<()> {
        let page = self.for_read()?.0.try_lock()?;
        let index = page.permission.index(offset, page.permission.readable)?;
        if !page.permission.is_valid::<S>() {
            return None;
        }
        byte.write(page.bytes.as_ref()[index % PAGE_SIZE]);
        Some(())
    }

    /// Fills the whole buffer from an offset in the file on.
    #[inline]
    pub(crate) fn read(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let page = self.for_read()?.0.lock();
        let range = page.permission.range(offset, buffer.len(), page.permission.readable)?;
        if !page.permission.is_valid::<S>() {
            return None;
        }
        buffer.write_copy_of_slice(page.bytes.as_ref().get(range)?);
        Some(())
    }

    /// Writes a byte at an offset in the file, if the lock of the page is free.
    #[inline(always)]
    pub(crate) fn try_write_byte(&self, offset: u64, byte: u8) -> Option<()> {
        let page = self.for_write()?;
        // The tick is read before the lock is taken, so that the processor can load it while the lock
        // instruction waits.
        let tick = S::tick();
        let mut page = page.0.try_lock()?;
        let index = page.permission.index(offset, page.permission.writable)?;
        if tick != page.permission.tick {
            return None;
        }
        page.bytes.as_mut()[index % PAGE_SIZE] = byte;
        Some(())
    }

    /// Writes all bytes at an offset in the file.
    #[inline]
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let page = self.for_write()?;
        let tick = S::tick();
        let mut page = page.0.lock();
        let range = page.permission.range(offset, bytes.len(), page.permission.writable)?;
        if tick != page.permission.tick {
            return None;
        }
        page.bytes.as_mut().get_mut(range)?.copy_from_slice(bytes);
        Some(())
    }
}
