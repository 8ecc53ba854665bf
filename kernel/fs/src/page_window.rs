//! A window: a page of an open file that reads and writes reach without its file system.

use core::mem::MaybeUninit;

use lock_api::{Mutex, RawMutex};

use crate::system::NestedLock;
use crate::{PAGE_SIZE, System};

/// A page of a file with its own lock, which the file system and the descriptors of the file share.
///
/// While the window is open, the page is in it alone, and reads and writes of its bytes change nothing else of the file. For
/// everything else the file system closes the window: it takes the page back, with the lock of the file held. So a file
/// system that changes a file has no reader or writer beside it.
#[derive(Debug)]
pub struct PageWindow<S: System>(NestedLock<S, Option<View<S::Page>>>);

/// What an open window shows.
#[derive(Debug)]
pub(crate) struct View<P> {
    /// Offset of the page in the file, in bytes.
    pub(crate) start: u64,
    pub(crate) page: P,
    /// Number of bytes from the start of the page that may be read: at most those of the file.
    pub(crate) readable: usize,
    /// Likewise written, while the tick is this one.
    pub(crate) writable: usize,
    /// The [tick](System::tick) at which the time of the last change is the right one for a write.
    pub(crate) tick: u64,
}

impl<S: System> PageWindow<S> {
    /// A closed window.
    pub(crate) const fn new() -> Self {
        Self(Mutex::const_new(RawMutex::INIT, None))
    }

    /// Opens the window, which is closed.
    pub(crate) fn open(&self, view: View<S::Page>) {
        *self.0.lock() = Some(view);
    }

    /// Closes the window; returns what it showed, if it was open.
    pub(crate) fn close(&self) -> Option<View<S::Page>> {
        self.0.lock().take()
    }

    /// Reads the byte at an offset of the file; `None` if that is not in the window, or the window is in use.
    #[inline]
    pub fn read_byte(&self, offset: u64, byte: &mut MaybeUninit<u8>) -> Option<()> {
        let locked = self.0.try_lock()?;
        let view = locked.as_ref()?;
        let index = view.index(offset, view.readable)?;
        byte.write(view.page.as_ref()[index % PAGE_SIZE]);
        Some(())
    }

    /// Writes the byte at an offset of the file, as [`Self::read_byte`].
    #[inline]
    pub fn write_byte(&self, offset: u64, byte: u8) -> Option<()> {
        let mut locked = self.0.try_lock()?;
        let view = locked.as_mut()?;
        let index = view.index(offset, view.writable)?;
        if view.tick != S::tick() {
            return None;
        }
        view.page.as_mut()[index % PAGE_SIZE] = byte;
        Some(())
    }

    /// Reads at an offset of the file to the whole buffer, or `None` as [`Self::read_byte`].
    pub fn read(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let locked = self.0.lock();
        let view = locked.as_ref()?;
        let start = view.index(offset, view.readable)?;
        let from = view.page.as_ref().get(start..view.readable)?.get(..buffer.len())?;
        buffer.write_copy_of_slice(from);
        Some(())
    }

    /// Writes all bytes at an offset of the file, or `None` as [`Self::read_byte`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let mut locked = self.0.lock();
        let view = locked.as_mut()?;
        let start = view.index(offset, view.writable)?;
        let to = view.page.as_mut().get_mut(start..view.writable)?.get_mut(..bytes.len())?;
        if view.tick != S::tick() {
            return None;
        }
        to.copy_from_slice(bytes);
        Some(())
    }
}

impl<P> View<P> {
    /// The index of an offset in the page, if it is below `limit`.
    #[inline]
    fn index(&self, offset: u64, limit: usize) -> Option<usize> {
        let distance = offset.wrapping_sub(self.start);
        (distance < limit as u64).then_some(hermit_interface::to_usize(distance))
    }
}
