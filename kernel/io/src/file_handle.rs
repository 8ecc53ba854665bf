//! A descriptor's reference to an open file. While it is the only reference to the file, it also holds the
//! file's position.
//!
//! POSIX has one position for each open file description, shared by all descriptors that `dup` makes. But a
//! file almost always has only one descriptor, and each `read` moves the position. So a [`FileHandle`] holds
//! the position itself while it is the only reference. Each call holds the descriptor's lock anyway, and this
//! lock then protects the position, too. When the handle is shared, it writes the position to the file, where
//! all references find it. After all other references are dropped, the next call takes the position back.

use core::sync::atomic::Ordering::Acquire;

use hermit_abi::{SEEK_CUR, SEEK_SET};
use hermit_base::sync::Arc;
use hermit_base::sync::atomic::fence;

/// Marks that the handle does not have the position. Offsets of files are at most `i64::MAX`.
const ELSEWHERE: u64 = u64::MAX;

/// An open file, which has a position in bytes.
pub trait Positioned: Send + Sync {
    /// Returns the position. The caller ensures that no other call uses the position.
    fn position(&self) -> u64;

    /// Sets the position. The caller ensures that no other call uses the position.
    fn set_position(&self, position: u64);
}

/// Operations that a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// True if the file may be read.
    pub reads: bool,
    /// True if the file may be written at the position or at an offset. False for a file that is open for
    /// appending.
    pub writes: bool,
}

/// A reference to an open file.
///
/// While it is the only reference, it has the position. So a call can move the position without another lock
/// and without accessing the file. A second reference moves the position to the file, where both find it. A
/// handle is used and shared only under the lock of its descriptor. New references to the file are made only
/// by sharing a handle.
#[derive(Debug)]
pub struct FileHandle<F: ?Sized> {
    file: Arc<F>,
    /// The position, or [`ELSEWHERE`] if the file has the position.
    position: u64,
}

impl<F: Positioned + ?Sized> FileHandle<F> {
    /// Creates the first handle of a newly opened file.
    #[must_use]
    pub fn new(file: Arc<F>) -> Self {
        Self { file, position: ELSEWHERE }
    }

    /// The file.
    #[inline]
    #[must_use]
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Converts the handle to a plain reference to the file.
    #[must_use]
    pub fn into_file(self) -> Arc<F> {
        self.file
    }

    /// Calls `call` with the file and the position, and stores the new position that `call` returns. Returns
    /// the result of `call`. Returns `None` if `call` does, or if other references may use the position, too.
    #[inline]
    pub fn with_position<T>(&mut self, call: impl FnOnce(&F, u64) -> Option<(T, u64)>) -> Option<T> {
        let position = self.position()?;
        let (result, position) = call(&self.file, position)?;
        self.position = position;
        Some(result)
    }

    /// Moves the position to an offset, if the handle has the position and the offset is not negative. Calls
    /// no other function.
    #[inline(always)]
    pub fn try_seek_to(&mut self, offset: i64) -> Option<()> {
        // One test finds both: a negative offset and `ELSEWHERE` have the sign bit.
        if offset | self.position.cast_signed() < 0 {
            return None;
        }
        self.position = offset.cast_unsigned();
        Some(())
    }

    /// Calls `transfer`, which transfers the byte at the position, and then advances the position. If the
    /// handle does not have the position, `transfer` gets an offset beyond the end of each file instead, and
    /// must return `None`. Calls no other function.
    #[inline(always)]
    pub fn try_advance(&mut self, transfer: impl FnOnce(u64) -> Option<()>) -> Option<()> {
        transfer(self.position)?;
        debug_assert!(self.position != ELSEWHERE, "no file has this offset");
        self.position += 1;
        Some(())
    }

    /// Returns the position, or `None` if other references may use the position, too.
    #[inline]
    fn position(&mut self) -> Option<u64> {
        match self.position {
            ELSEWHERE => self.take_position(),
            position => Some(position),
        }
    }

    /// Moves the position and returns the new one. Returns `None` if the seek needs more than the old
    /// position, or if it fails.
    #[inline]
    pub fn seek(&mut self, offset: i64, whence: i32) -> Option<u64> {
        self.with_position(|_, position| {
            let sought = sought(position, offset, whence)?;
            Some((sought, sought))
        })
    }

    /// Makes a second reference to the file.
    #[must_use]
    pub fn share(&mut self) -> Self {
        if self.position != ELSEWHERE {
            // There is no other reference yet, and calls through the new reference begin only after this
            // call.
            self.file.set_position(self.position);
            self.position = ELSEWHERE;
        }
        Self::new(Arc::clone(&self.file))
    }

    /// Takes the position from the file, if this is the only reference to it.
    #[cold]
    fn take_position(&mut self) -> Option<u64> {
        if Arc::strong_count(&self.file) != 1 {
            return None;
        }
        // Acquire: the other references were dropped, so the accesses of their calls must happen before this
        // one's.
        fence(Acquire);
        let position = self.file.position();
        self.position = position;
        Some(position)
    }
}

/// Returns the position after a seek that depends only on the old position. Returns `None` for other seeks,
/// and if the result is not a valid offset of a file.
#[inline]
fn sought(position: u64, offset: i64, whence: i32) -> Option<u64> {
    let sought = match whence {
        SEEK_SET => offset,
        SEEK_CUR => position.cast_signed().checked_add(offset)?,
        _ => return None,
    };
    u64::try_from(sought).ok()
}

#[cfg(test)]
#[cfg(loom)]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{FileHandle, Positioned};
    use crate::DescriptorTable;
    use alloc::sync::Arc;
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::Relaxed;
    use hermit_abi::{SEEK_CUR, SEEK_END, SEEK_SET};
    use std::sync::Mutex;
    use std::thread;

    /// A file with a lock that calls on the slow path take.
    #[derive(Debug, Default)]
    struct File {
        position: AtomicU64,
        lock: Mutex<()>,
    }

    type Handle = FileHandle<File>;

    impl File {
        fn advance(&self) {
            let _guard = self.lock.lock().unwrap();
            self.position.store(self.position.load(Relaxed) + 1, Relaxed);
        }
    }

    impl Positioned for File {
        fn position(&self) -> u64 {
            self.position.load(Relaxed)
        }

        fn set_position(&self, position: u64) {
            self.position.store(position, Relaxed);
        }
    }

    fn advance(handle: &mut Handle) -> Option<u64> {
        handle.with_position(|_, position| Some((position, position + 1)))
    }

    #[test]
    fn only_handle_has_the_position_and_two_share_that_of_the_file() {
        let mut handle = Handle::new(Arc::new(File::default()));
        assert_eq!((advance(&mut handle), advance(&mut handle)), (Some(0), Some(1)));
        assert_eq!(handle.file().position(), 0, "the handle has it");
        let mut other = handle.share();
        assert_eq!((advance(&mut handle), advance(&mut other)), (None, None));
        other.file().advance();
        drop(other);
        assert_eq!(advance(&mut handle), Some(3));
        let file = handle.share().into_file();
        assert_eq!(advance(&mut handle), None);
        assert_eq!(file.position(), 4);
    }

    #[test]
    fn call_that_returns_nothing_leaves_the_position() {
        let mut handle = Handle::new(Arc::new(File::default()));
        advance(&mut handle).unwrap();
        assert_eq!(handle.with_position(|_, _| None::<((), u64)>), None);
        assert_eq!(advance(&mut handle), Some(1));
    }

    #[test]
    fn seek_moves_within_offsets_of_files() {
        let mut handle = Handle::new(Arc::new(File::default()));
        assert_eq!(handle.seek(5, SEEK_SET), Some(5));
        assert_eq!(handle.seek(-3, SEEK_CUR), Some(2));
        assert_eq!(handle.seek(-3, SEEK_CUR), None);
        assert_eq!(handle.seek(-1, SEEK_SET), None);
        assert_eq!(handle.seek(i64::MAX, SEEK_CUR), None);
        assert_eq!(handle.seek(0, SEEK_END), None);
        assert_eq!(handle.seek(i64::MAX - 2, SEEK_CUR), Some(i64::MAX.cast_unsigned()));
    }

    #[test]
    fn calls_of_several_descriptors_use_each_position_once() {
        const COUNT: u64 = if cfg!(miri) { 50 } else { 5_000 };
        let table: DescriptorTable<parking_lot::RawMutex, Handle> = DescriptorTable::default();
        let file = Arc::new(File::default());
        let first = table.reserve().unwrap();
        table.fill(first, Handle::new(Arc::clone(&file)));
        drop(file);
        let call = || {
            let mut slot = table.lock(first).unwrap();
            let handle = slot.get_mut().unwrap();
            if advance(handle).is_none() {
                let other = handle.share();
                drop(slot);
                other.file().advance();
            }
        };
        let share = |descriptor| table.lock(descriptor).unwrap().get_mut().unwrap().share();
        let duplicate = || {
            let second = table.open_from(share(first), 0).unwrap();
            share(second).file().advance();
            table.remove(second).unwrap();
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..COUNT).for_each(|_| call()));
            }
            scope.spawn(|| (0..COUNT).for_each(|_| duplicate()));
        });
        assert_eq!(share(first).file().position(), 3 * COUNT);
    }
}
