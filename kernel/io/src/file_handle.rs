//! A descriptor's reference to an open file. While it is the only reference to the file, it also holds the
//! file's position.
//!
//! POSIX has one position for each open file description, shared by all descriptors that `dup` makes. But a
//! file almost always has only one descriptor, and each `read` moves the position. So a [`FileHandle`] holds
//! the position itself while it is the only reference. Each call holds the descriptor's lock anyway, and this
//! lock then protects the position, too. When the handle is cloned, it writes the position to the file, where
//! all references find it. After all other references are dropped, the next call takes the position back.

#[cfg(not(loom))]
use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, fence};

use hermit_abi::{SEEK_CUR, SEEK_SET};
#[cfg(loom)]
use loom::sync::Arc;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, fence};

/// Marks that the handle does not have the position. Offsets of files are at most `i64::MAX`.
const ELSEWHERE: u64 = u64::MAX;

/// Marks that [`FileHandle::is_repeated`] was not called yet. Page numbers are far smaller.
const NONE: u64 = u64::MAX;

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
/// and without accessing the file. A clone moves the position to the file, where all references find it. A
/// handle is used and cloned only under the lock of its descriptor. New references to the file are made only
/// by cloning a handle.
#[derive(Debug)]
pub struct FileHandle<F: ?Sized> {
    file: Arc<F>,
    /// The position, or [`ELSEWHERE`] if the file has the position. It is atomic only so that it can be
    /// changed through a shared reference. The descriptor's lock protects it.
    position: AtomicU64,
    /// The number of the last call of [`Self::is_repeated`]. It is atomic for the same reason.
    last: AtomicU64,
}

impl<F: Positioned + ?Sized> FileHandle<F> {
    /// Creates the first handle of a newly opened file.
    #[must_use]
    pub fn new(file: Arc<F>) -> Self {
        Self { file, position: AtomicU64::new(ELSEWHERE), last: AtomicU64::new(NONE) }
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
    pub fn with_position<T>(&self, call: impl FnOnce(&F, u64) -> Option<(T, u64)>) -> Option<T> {
        let (result, position) = call(&self.file, self.position()?)?;
        self.position.store(position, Relaxed);
        Some(result)
    }

    /// Returns the position, or `None` if other references may use the position, too.
    #[inline]
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        match self.position.load(Relaxed) {
            ELSEWHERE => self.take_position(),
            position => Some(position),
        }
    }

    /// Takes the position back from the page window of the descriptor, to which this handle has lent it.
    #[inline]
    pub fn return_position(&self, position: u64) {
        self.position.store(position, Relaxed);
    }

    /// Returns true if the page number is the same as in the previous call. After a call that returns true,
    /// the next call returns false.
    pub fn is_repeated(&self, number: u64) -> bool {
        let is_repeated = self.last.load(Relaxed) == number;
        self.last.store(if is_repeated { NONE } else { number }, Relaxed);
        is_repeated
    }

    /// Moves the position and returns the new one. Returns `None` if the seek needs more than the old
    /// position, or if it fails.
    #[inline]
    pub fn seek(&self, offset: i64, whence: i32) -> Option<u64> {
        self.with_position(|_, position| {
            let sought = sought(position, offset, whence)?;
            Some((sought, sought))
        })
    }

    /// Takes the position from the file, if this is the only reference to it.
    #[cold]
    fn take_position(&self) -> Option<u64> {
        if Arc::strong_count(&self.file) != 1 {
            return None;
        }
        // Acquire: the other references were dropped, so the accesses of their calls must happen before this
        // one's.
        fence(Acquire);
        let position = self.file.position();
        self.position.store(position, Relaxed);
        Some(position)
    }
}

/// Returns the position after a seek that depends only on the old position. Returns `None` for other seeks,
/// and if the result is not a valid offset of a file.
#[inline]
#[must_use]
pub fn sought(position: u64, offset: i64, whence: i32) -> Option<u64> {
    let sought = match whence {
        SEEK_SET => offset,
        SEEK_CUR => position.cast_signed().checked_add(offset)?,
        _ => return None,
    };
    u64::try_from(sought).ok()
}

impl<F: Positioned + ?Sized> Clone for FileHandle<F> {
    fn clone(&self) -> Self {
        let position = self.position.load(Relaxed);
        if position != ELSEWHERE {
            // There is no other reference yet, and calls through the new reference begin only after this
            // clone.
            self.file.set_position(position);
            self.position.store(ELSEWHERE, Relaxed);
        }
        Self::new(Arc::clone(&self.file))
    }
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
    use std::vec::Vec;

    /// A file with a lock that calls on the slow path take.
    #[derive(Debug, Default)]
    struct File {
        position: AtomicU64,
        lock: Mutex<()>,
    }

    /// A handle of a file without a window.
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

    fn advance(handle: &Handle) -> Option<u64> {
        handle.with_position(|_, position| Some((position, position + 1)))
    }

    #[test]
    fn only_handle_has_the_position_and_clones_share_that_of_the_file() {
        let handle = Handle::new(Arc::new(File::default()));
        assert_eq!((advance(&handle), advance(&handle)), (Some(0), Some(1)));
        assert_eq!(handle.file().position(), 0, "the handle has it");
        let clone = handle.clone();
        assert_eq!((advance(&handle), advance(&clone)), (None, None));
        clone.file().advance();
        drop(clone);
        assert_eq!(advance(&handle), Some(3));
        let file = handle.clone().into_file();
        assert_eq!(advance(&handle), None);
        assert_eq!(file.position(), 4);
    }

    #[test]
    fn call_that_returns_nothing_leaves_the_position() {
        let handle = Handle::new(Arc::new(File::default()));
        advance(&handle).unwrap();
        assert_eq!(handle.with_position(|_, _| None::<((), u64)>), None);
        assert_eq!(advance(&handle), Some(1));
    }

    #[test]
    fn seek_moves_within_offsets_of_files() {
        let handle = Handle::new(Arc::new(File::default()));
        assert_eq!(handle.seek(5, SEEK_SET), Some(5));
        assert_eq!(handle.seek(-3, SEEK_CUR), Some(2));
        assert_eq!(handle.seek(-3, SEEK_CUR), None);
        assert_eq!(handle.seek(-1, SEEK_SET), None);
        assert_eq!(handle.seek(i64::MAX, SEEK_CUR), None);
        assert_eq!(handle.seek(0, SEEK_END), None);
        assert_eq!(handle.seek(i64::MAX - 2, SEEK_CUR), Some(i64::MAX.cast_unsigned()));
    }

    #[test]
    fn position_that_was_given_away_comes_back_unless_the_file_has_it() {
        let handle = Handle::new(Arc::new(File::default()));
        assert_eq!(handle.seek(1, SEEK_SET), Some(1));
        assert_eq!(handle.position(), Some(1));
        handle.return_position(7);
        assert_eq!(advance(&handle), Some(7));
        let clone = handle.clone();
        assert_eq!((handle.position(), clone.position()), (None, None));
        assert_eq!(handle.file().position(), 8);
    }

    #[test]
    fn every_second_call_in_a_row_repeats_a_number() {
        let handle = Handle::new(Arc::new(File::default()));
        let repeated: Vec<bool> = [3, 3, 3, 3, 4, 3, 0, 0].map(|number| handle.is_repeated(number)).into();
        assert_eq!(repeated, [false, true, false, true, false, false, false, true]);
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
            let slot = table.lock(first).unwrap();
            let handle = slot.get().unwrap();
            if advance(handle).is_none() {
                let handle = handle.clone();
                drop(slot);
                handle.file().advance();
            }
        };
        let duplicate = || {
            let second = table.open_from(table.get(first).unwrap(), 0).unwrap();
            table.get(second).unwrap().file().advance();
            table.remove(second).unwrap();
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..COUNT).for_each(|_| call()));
            }
            scope.spawn(|| (0..COUNT).for_each(|_| duplicate()));
        });
        assert_eq!(table.get(first).unwrap().file().position(), 3 * COUNT);
    }
}
