//! A window of a descriptor: the position in its file and a page of the file, which short reads and writes
//! use without calling the file system.
//!
//! A read or write of a few bytes would spend most of its time in locks and calls between descriptor, open
//! file and file system. So each descriptor has a window. The file system lends the page that is in use to
//! the window, and short reads and writes copy from and to this page. One word is both the lock and the
//! position, so a `seek` is a single compare-and-exchange. Every operation of this fast path may fail. Then
//! the caller takes the position back from the window ([`PageWindow::suspend`]) and takes the slow path.

use core::fmt;
use core::mem::MaybeUninit;

use hermit_interface::to_usize;
use hermit_io::sought;

use crate::word_lock::{WORD_MARK, WordGuard, WordLock};
use crate::{PAGE_SIZE, System};

/// Bit of a lock word which says that the window has the position. The other bits are the position.
const POSITION: u64 = WORD_MARK;

/// The word of a window that is not used. (A word of 1 means that the lock is held.)
const UNUSED: u64 = 0;

/// The word of a window that has no position, but may have a page.
const SUSPENDED: u64 = 2;

/// A window of a descriptor.
///
/// A window has the position of the descriptor's open file while no other reference to the open file uses the
/// position. It may also have a page that the file system has lent to it. One lock protects both. Since the
/// lock's word contains the position, a seek does not take the lock.
///
/// Before the slow path of a call, the caller locks the descriptor and takes the position back
/// ([`Self::suspend`]). Before a file system uses a file, it locks the file and takes the page back
/// ([`Self::take`]). So the lock order is descriptor, file, window, and no window reads or writes a file
/// while the file system changes it.
// Each window has a cache line of its own, so CPUs that use different windows do not contend for a line.
#[repr(align(64))]
pub struct PageWindow<S: System>(S::WindowLock);

/// The guard of a window's lock.
type Guard<'a, S> = <<S as System>::WindowLock as WordLock<View<<S as System>::Page>>>::Guard<'a>;

/// The page that a window has, if any, and the parts of the page that may be used.
#[derive(Debug)]
pub struct View<P> {
    /// The lock word that a window has if its position is the start of the page.
    start: u64,
    page: Option<P>,
    /// Number of bytes from the start of the page that may be read. They do not extend past the end of the
    /// file.
    readable: usize,
    /// Number of bytes from the start of the page that may be written while the current tick is `tick`.
    writable: usize,
    /// The [tick](System::tick) during which writes need not update the times of the file.
    tick: u64,
}

/// A page on its way from a file system to a window.
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

    /// Moves the position to an offset, and returns the offset. Returns `None` if the window does not have
    /// the position, or if the offset is negative.
    #[inline]
    pub fn seek_to(&self, offset: i64) -> Option<i64> {
        // A window that has the position has the mark in its word. A negative offset clears the mark, so
        // `replace` fails.
        self.0.replace(self.0.word(), offset.cast_unsigned() ^ POSITION).then_some(offset)
    }

    /// Moves the position and returns the new one. Returns `None` if the window does not have the position,
    /// if `whence` is `SEEK_END`, or if the seek is invalid.
    pub fn seek(&self, offset: i64, whence: i32) -> Option<u64> {
        let word = self.active()?;
        let sought = sought(word ^ POSITION, offset, whence)?;
        self.0.replace(word, sought ^ POSITION).then_some(sought)
    }

    /// Reads the byte at the position and advances the position. Returns `None` if the window does not have
    /// the byte, or if another thread holds the window's lock.
    #[inline]
    pub fn read_byte(&self, byte: &mut MaybeUninit<u8>) -> Option<()> {
        let (word, mut view) = self.lock_active()?;
        let index = view.index(word, view.readable)?;
        byte.write(view.page.as_ref()?.as_ref()[index % PAGE_SIZE]);
        view.set_word(word + 1);
        Some(())
    }

    /// Writes a byte at the position and advances the position. Returns `None` as [`Self::read_byte`], and
    /// also if the tick has changed since the page was lent. The function `byte` returns the byte to write.
    /// It is called without the lock, and only if the window has the position.
    #[inline]
    pub fn write_byte(&self, byte: impl FnOnce() -> Option<u8>) -> Option<()> {
        let word = self.active()?;
        let byte = byte()?;
        // The tick is read before the lock is taken, so that the processor can load it while the lock
        // instruction waits.
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

    /// Fills the whole buffer from the position on, and advances the position. Returns `None` as
    /// [`Self::read_byte`].
    pub fn read(&self, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let (word, mut view) = self.lock_active()?;
        view.read(word, buffer)?;
        view.set_word(word + buffer.len() as u64);
        Some(())
    }

    /// Fills the whole buffer from an offset in the file. Returns `None` as [`Self::read_byte`].
    pub fn read_at(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let (_, view) = self.lock_active()?;
        view.read(offset | POSITION, buffer)
    }

    /// Writes all bytes at the position, and advances the position. Returns `None` as [`Self::read_byte`].
    pub fn write(&self, bytes: &[u8]) -> Option<()> {
        let (word, mut view) = self.lock_active()?;
        view.write::<S>(word, bytes)?;
        view.set_word(word + bytes.len() as u64);
        Some(())
    }

    /// Writes all bytes at an offset in the file. Returns `None` as [`Self::read_byte`].
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Option<()> {
        let (_, mut view) = self.lock_active()?;
        view.write::<S>(offset | POSITION, bytes)
    }

    /// Returns the lock word if the window has the position.
    #[inline]
    fn active(&self) -> Option<u64> {
        let word = self.0.word();
        (word & POSITION != 0).then_some(word)
    }

    /// Locks the window if it has the position and is not locked. Returns the guard and the lock word.
    #[inline]
    fn lock_active(&self) -> Option<(u64, Guard<'_, S>)> {
        let word = self.active()?;
        Some((word, self.0.try_lock(word)?))
    }

    /// Gives the position to the window. The caller has locked the descriptor.
    pub fn resume(&self, position: u64) {
        self.0.lock().set_word(position | POSITION);
    }

    /// Takes the position back from the window. Returns `None` if the window does not have the position. The
    /// caller has locked the descriptor.
    #[inline]
    pub fn suspend(&self) -> Option<u64> {
        // Another thread cannot give the position to the window after this check, since only a caller that
        // has locked the descriptor may do so.
        if matches!(self.0.word(), UNUSED | SUSPENDED) {
            return None;
        }
        let mut locked = self.0.lock();
        let word = locked.word();
        locked.set_word(SUSPENDED);
        (word & POSITION != 0).then_some(word & !POSITION)
    }

    /// Makes the page of the window inaccessible, because the descriptor may next refer to a file that is
    /// open with another access mode. The file system must lend a page again before the window can be used.
    /// The caller has locked the descriptor, and the window is suspended.
    #[inline]
    pub fn blind(&self) {
        if self.0.word() != UNUSED {
            self.0.lock().blind();
        }
    }

    /// Ends the use of the window when the descriptor is closed. The caller has locked the descriptor.
    /// Returns true if the window still has a page, so the file system must take the page back.
    #[inline]
    pub fn end(&self) -> bool {
        if self.0.word() == UNUSED {
            return false;
        }
        let mut view = self.0.lock();
        view.set_word(UNUSED);
        view.page.is_some()
    }

    /// Gives a page to the window. The window is suspended and has no page.
    pub(crate) fn show(&self, lent: Lent<S::Page>) {
        let Lent { start, page, readable, writable, tick } = lent;
        *self.0.lock() = View { start: start | POSITION, page: Some(page), readable, writable, tick };
    }

    /// Takes the page out of the window. Returns the page's offset in the file, and the page.
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

    /// Converts the position in a lock word to an index in the page. Returns `None` if the index is not below
    /// `limit`.
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
