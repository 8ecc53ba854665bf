//! A window: a page of an open file that reads and writes reach without its file system, and the position in
//! the file.

use core::fmt;
use core::mem::MaybeUninit;

use hermit_interface::to_usize;
use hermit_io::sought;

use crate::word_lock::{WORD_MARK, WordGuard, WordLock};
use crate::{PAGE_SIZE, System};

/// The mark of a word that says that the window has the position, which is the rest of the word.
const POSITION: u64 = WORD_MARK;

/// The word of a window that is not used. (1 is the word of a lock that is held.)
const UNUSED: u64 = 0;

/// The word of a window without a position, which may have a page.
const SUSPENDED: u64 = 2;

/// A window of a descriptor.
///
/// It has the position of the descriptor's file while no other reference to the open file uses that, and may
/// have a page of the file, which the file system lends it. Both have one lock, and a seek needs no lock: the
/// word of the lock is the position.
///
/// What needs more takes the position back with the descriptor locked ([`Self::suspend`]), and the file
/// system takes its page back ([`Self::take`]) with the file locked, before it uses the file. So the order of
/// locks is descriptor, file, window, and a file system that changes a file has no reader or writer beside
/// it.
// Of a cache line, which windows that several CPUs use do not share.
#[repr(align(64))]
pub struct PageWindow<S: System>(S::WindowLock);

/// The lock of a window while it is held.
type Guard<'a, S> = <<S as System>::WindowLock as WordLock<View<<S as System>::Page>>>::Guard<'a>;

/// The page that a window shows, if it has one.
#[derive(Debug)]
pub struct View<P> {
    /// The word of a window whose position is the start of the page.
    start: u64,
    page: Option<P>,
    /// Number of bytes from the start of the page that may be read: at most those of the file.
    readable: usize,
    /// Likewise written, while the tick is this one.
    writable: usize,
    /// The [tick](System::tick) at which the time of the last change is the right one for a write.
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

    /// Moves the position to an offset, and returns that. `None` if the window does not have the position, or
    /// if the offset is negative.
    #[inline]
    pub fn seek_to(&self, offset: i64) -> Option<i64> {
        // The mark is set in the word of a window with a position, and is cleared by a negative offset.
        self.0.replace(self.0.word(), offset.cast_unsigned() ^ POSITION).then_some(offset)
    }

    /// Moves the position and returns it. `None` if the window does not have it, or that takes more, or
    /// fails.
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

    /// Writes the byte that `byte` returns at the position, as [`Self::read_byte`]. `byte` is called if the
    /// window has the position, without the lock.
    #[inline]
    pub fn write_byte(&self, byte: impl FnOnce() -> Option<u8>) -> Option<()> {
        let word = self.active()?;
        let byte = byte()?;
        // Before the lock: the processor reads the clock while it takes that.
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

    /// Reads at the position to the whole buffer, or `None` as [`Self::read_byte`].
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

    /// Writes all bytes at the position, or `None` as [`Self::read_byte`].
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

    /// The word, if the window has the position.
    #[inline]
    fn active(&self) -> Option<u64> {
        let word = self.0.word();
        (word & POSITION != 0).then_some(word)
    }

    /// Locks the window, if it has the position and is not in use; returns the word, too.
    #[inline]
    fn lock_active(&self) -> Option<(u64, Guard<'_, S>)> {
        let word = self.active()?;
        Some((word, self.0.try_lock(word)?))
    }

    /// Gives the window the position. The descriptor is locked.
    pub fn resume(&self, position: u64) {
        self.0.lock().set_word(position | POSITION);
    }

    /// Takes the position back, if the window has it. The descriptor is locked.
    #[inline]
    pub fn suspend(&self) -> Option<u64> {
        // Only a caller that has locked the descriptor changes this.
        if matches!(self.0.word(), UNUSED | SUSPENDED) {
            return None;
        }
        let mut locked = self.0.lock();
        let word = locked.word();
        locked.set_word(SUSPENDED);
        (word & POSITION != 0).then_some(word & !POSITION)
    }

    /// Has the window show nothing until a page is lent again: the file may be opened for something else
    /// then. The descriptor is locked, and the window suspended.
    #[inline]
    pub fn blind(&self) {
        if self.0.word() != UNUSED {
            self.0.lock().blind();
        }
    }

    /// Ends the use of the window by the file of a descriptor that is closed, which is locked. Returns
    /// whether the window has a page, which the file system is to take back.
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
    /// Has the page neither read nor written.
    const fn blind(&mut self) {
        (self.readable, self.writable) = (0, 0);
    }

    /// The index of the position of a word in the page, if it is below `limit`.
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
