//! A page of an open file that reads and writes reach without the file system, together with the position in
//! the file.
//!
//! A read or write of a few bytes would spend most of its time in locks and calls between descriptor, open
//! file and file system. So each descriptor has a window: the file system lends it the page that is in use,
//! and short reads and writes copy from and to this page. One word holds both the lock and the position, so a
//! `seek` is a single compare-and-exchange. Every operation of the fast path may fail; the caller then takes
//! the position back ([`PageWindow::suspend`]) and makes the call in the general way.

use core::fmt;
use core::mem::MaybeUninit;

use hermit_interface::to_usize;
use hermit_io::sought;

use crate::word_lock::{WORD_MARK, WordGuard, WordLock};
use crate::{PAGE_SIZE, System};

/// Bit of a lock word that says that the window has the position. The other bits are the position.
const POSITION: u64 = WORD_MARK;

/// The word of a window that is not used. (A word of 1 means that the lock is held.)
const UNUSED: u64 = 0;

/// The word of a window without a position, which may have a page.
const SUSPENDED: u64 = 2;

/// A window of a descriptor.
///
/// It has the position of the descriptor's file while no other reference to the open file uses the position.
/// It may also have a page of the file, which the file system lends to it. One lock protects both, and a seek
/// needs no lock: the word of the lock is the position.
///
/// A caller that needs more takes the position back with the descriptor locked ([`Self::suspend`]). The file
/// system takes its page back with the file locked ([`Self::take`]), before it uses the file. So the order of
/// locks is descriptor, file, window. While a file system changes a file, no window reads or writes it.
// One cache line each, so that windows of several CPUs do not share one.
#[repr(align(64))]
pub struct PageWindow<S: System>(S::WindowLock);

/// The lock of a window while it is held.
type Guard<'a, S> = <<S as System>::WindowLock as WordLock<View<<S as System>::Page>>>::Guard<'a>;

/// The page that a window shows, if any.
#[derive(Debug)]
pub struct View<P> {
    /// The word of a window whose position is the start of the page.
    start: u64,
    page: Option<P>,
    /// Number of bytes from the start of the page that may be read: at most those of the file.
    readable: usize,
    /// Number of bytes from the start that may be written, as long as the tick is this one.
    writable: usize,
    /// The [tick](System::tick) at which a write leaves the times of the file as they are.
    tick: u64,
}

/// A page that a file system lends to a window.
#[derive(Debug)]
pub(crate) struct Lent<P> {
    /// Offset of the page in the file, in bytes.
    pub(crate) start: u64,
    pub(crate) page: P,
    pub(crate) readable: usize,
    pub(crate) writable: usize,
    pub(crate) tick: u64,
}

impl<S: System> PageWindow<S> {
    /// A window that is not used.
    #[must_use]
    pub const fn new() -> Self {
        Self(S::WindowLock::NEW)
    }

    /// Moves the position to an offset, and returns the offset. `None` if the window does not have the
    /// position, or if the offset is negative.
    #[inline]
    pub fn seek_to(&self, offset: i64) -> Option<i64> {
        // The mark is set in the word of a window with a position, and is cleared by a negative offset.
        self.0.replace(self.0.word(), offset.cast_unsigned() ^ POSITION).then_some(offset)
    }

    /// Moves the position and returns it. `None` if the window does not have the position, if `whence` is the
    /// end of the file, or if the seek is invalid.
    pub fn seek(&self, offset: i64, whence: i32) -> Option<u64> {
        let word = self.active()?;
        let sought = sought(word ^ POSITION, offset, whence)?;
        self.0.replace(word, sought ^ POSITION).then_some(sought)
    }

    /// Reads the byte at the position; `None` if it is not in the window, or the window is in use.
    #[inline]
    pub fn read_byte(&self, byte: &mut MaybeUninit<u8>) -> Option<()> {
        let (word, mut view) = self.lock_active()?;
        let index = view.index(word, view.readable)?;
        byte.write(view.page.as_ref()?.as_ref()[index % PAGE_SIZE]);
        view.set_word(word + 1);
        Some(())
    }

    /// Writes the byte that `byte` returns at the position, as [`Self::read_byte`]. `byte` is called without
    /// the lock, and only if the window has the position.
    #[inline]
    pub fn write_byte(&self, byte: impl FnOnce() -> Option<u8>) -> Option<()> {
        let word = self.active()?;
        let byte = byte()?;
        // Before the lock is taken: the processor reads the clock while the lock instruction waits.
        let tick = S::tick();
        let mut view = self.0.try_lock(word)?;
        let index = view.index(word, view.writable)?;
        if tick != view.tick {
            return None;
        }
        view.page.as_mut()?.as_mut()[index % PAGE_SIZE] = byte;
        view.set_word(word + 1);
        Some(())
    }

    /// Reads from the position until the buffer is full; `None` as [`Self::read_byte`].
    pub fn read(&self, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let (word, mut view) = self.lock_active()?;
        view.read(word, buffer)?;
        view.set_word(word + buffer.len() as u64);
        Some(())
    }

    /// [`Self::read`] at an offset of the file.
    pub fn read_at(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let (_, view) = self.lock_active()?;
        view.read(offset | POSITION, buffer)
    }

    /// Writes all bytes at the position; `None` as [`Self::read_byte`].
    pub fn write(&self, bytes: &[u8]) -> Option<()> {
        let (word, mut view) = self.lock_active()?;
        view.write::<S>(word, bytes)?;
        view.set_word(word + bytes.len() as u64);
        Some(())
    }

    /// [`Self::write`] at an offset of the file.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let (_, mut view) = self.lock_active()?;
        view.write::<S>(offset | POSITION, bytes)
    }

    /// Returns the word if the window has the position.
    #[inline]
    fn active(&self) -> Option<u64> {
        let word = self.0.word();
        (word & POSITION != 0).then_some(word)
    }

    /// Locks the window if it has the position and is not in use; also returns the word.
    #[inline]
    fn lock_active(&self) -> Option<(u64, Guard<'_, S>)> {
        let word = self.active()?;
        Some((word, self.0.try_lock(word)?))
    }

    /// Gives the position to the window. The caller has locked the descriptor.
    pub fn resume(&self, position: u64) {
        self.0.lock().set_word(position | POSITION);
    }

    /// Takes the position back, if the window has it. The caller has locked the descriptor.
    #[inline]
    pub fn suspend(&self) -> Option<u64> {
        // This cannot change in between: only a caller that has locked the descriptor changes it.
        if matches!(self.0.word(), UNUSED | SUSPENDED) {
            return None;
        }
        let mut locked = self.0.lock();
        let word = locked.word();
        locked.set_word(SUSPENDED);
        (word & POSITION != 0).then_some(word & !POSITION)
    }

    /// Makes the window show no page until one is lent again, since the file may be open with another access
    /// mode then. The caller has locked the descriptor, and the window is suspended.
    #[inline]
    pub fn blind(&self) {
        if self.0.word() != UNUSED {
            self.0.lock().blind();
        }
    }

    /// Ends the use of the window when the descriptor's file is closed. The caller has locked the descriptor.
    /// Returns true if the window has a page, which the file system must take back.
    #[inline]
    pub fn end(&self) -> bool {
        if self.0.word() == UNUSED {
            return false;
        }
        let mut view = self.0.lock();
        view.set_word(UNUSED);
        view.page.is_some()
    }

    /// Shows a page. The window is suspended and has none.
    pub(crate) fn show(&self, lent: Lent<S::Page>) {
        let Lent { start, page, readable, writable, tick } = lent;
        *self.0.lock() = View { start: start | POSITION, page: Some(page), readable, writable, tick };
    }

    /// Takes the page out of the window; returns its offset in the file and the page.
    pub(crate) fn take(&self) -> Option<(u64, S::Page)> {
        let mut view = self.0.lock();
        view.blind();
        Some((view.start & !POSITION, view.page.take()?))
    }
}

impl<S: System> fmt::Debug for PageWindow<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageWindow").field("word", &self.0.word()).finish_non_exhaustive()
    }
}

impl<S: System> Default for PageWindow<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> View<P> {
    /// No page.
    pub const EMPTY: Self = Self { start: 0, page: None, readable: 0, writable: 0, tick: 0 };
}

impl<P: AsRef<[u8; PAGE_SIZE]> + AsMut<[u8; PAGE_SIZE]>> View<P> {
    /// Makes the page neither readable nor writable.
    const fn blind(&mut self) {
        (self.readable, self.writable) = (0, 0);
    }

    /// Index in the page of the position in a word, if it is below `limit`.
    #[inline]
    fn index(&self, word: u64, limit: usize) -> Option<usize> {
        let distance = word.wrapping_sub(self.start);
        (distance < limit as u64).then_some(to_usize(distance))
    }

    fn read(&self, word: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let start = self.index(word, self.readable)?;
        let bytes = self.page.as_ref()?.as_ref();
        buffer.write_copy_of_slice(bytes.get(start..self.readable)?.get(..buffer.len())?);
        Some(())
    }

    fn write<S: System>(&mut self, word: u64, bytes: &[u8]) -> Option<()> {
        let start = self.index(word, self.writable)?;
        let page = self.page.as_mut()?.as_mut();
        let to = page.get_mut(start..self.writable)?.get_mut(..bytes.len())?;
        if S::tick() != self.tick {
            return None;
        }
        to.copy_from_slice(bytes);
        Some(())
    }
}
