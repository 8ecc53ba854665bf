//! A descriptor's reference to an open file. While it is the only one, it keeps the file's position, and the window through
//! which the file's bytes are reached without the file.

#[cfg(not(loom))]
use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, fence};

use hermit_abi::{SEEK_CUR, SEEK_SET};
#[cfg(loom)]
use loom::sync::Arc;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, fence};

/// A position that is no offset of a file: those are at most `i64::MAX`.
const ELSEWHERE: u64 = u64::MAX;

/// An open file, which has a position in bytes.
pub trait Positioned: Send + Sync {
    /// The position, for a caller that excludes other calls.
    fn position(&self) -> u64;

    /// Sets the position, for a caller that excludes other calls.
    fn set_position(&self, position: u64);
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it may be read.
    pub reads: bool,
    /// Whether it may be written at the position or an offset, which opening for appending does not allow.
    pub writes: bool,
}

/// A reference to an open file.
///
/// While it is the only one, it has the position, so that a call needs neither another lock nor the file to move it. A clone
/// gives the position to the file, where all references find it. A handle is used and cloned under the lock of its
/// descriptor, and only clones make references.
///
/// It may have a window `W` of the file beside it. Only the handle that has the position uses the window: a call that changes
/// what the file is opened for has a clone, and that ends the use.
#[derive(Debug)]
pub struct FileHandle<F: ?Sized, W> {
    file: Arc<F>,
    /// The position, or [`ELSEWHERE`] if the file has it. Atomic only to be changed by shared reference: the descriptor's lock
    /// is held.
    position: AtomicU64,
    /// Whether the file is read and written through the window. Atomic for the same reason.
    reads: AtomicBool,
    writes: AtomicBool,
    window: Option<Arc<W>>,
}

impl<F: Positioned + ?Sized, W> FileHandle<F, W> {
    /// A handle of a file that is opened.
    #[must_use]
    pub fn new(file: Arc<F>) -> Self {
        let (reads, writes) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { file, position: AtomicU64::new(ELSEWHERE), reads, writes, window: None }
    }

    /// The file.
    #[inline]
    #[must_use]
    pub fn file(&self) -> &F {
        &self.file
    }

    /// The reference to the file alone.
    #[must_use]
    pub fn into_file(self) -> Arc<F> {
        self.file
    }

    /// The references to the file and to its window.
    #[inline]
    #[must_use]
    pub fn into_parts(self) -> (Arc<F>, Option<Arc<W>>) {
        (self.file, self.window)
    }

    /// Has `call` use the position, and return its result with the new position. `None` if `call` returns that, or other
    /// references may use the position, too.
    #[inline]
    pub fn with_position<T>(&self, call: impl FnOnce(&F, u64) -> Option<(T, u64)>) -> Option<T> {
        let mut position = self.position.load(Relaxed);
        if position == ELSEWHERE {
            position = self.take_position()?;
        }
        let (result, position) = call(&self.file, position)?;
        self.position.store(position, Relaxed);
        Some(result)
    }

    /// Whether the window is still to be asked for: this handle has the position, and does not use the window.
    #[must_use]
    pub fn lacks_window(&self) -> bool {
        let is_used = self.reads.load(Relaxed) || self.writes.load(Relaxed);
        !is_used && self.position.load(Relaxed) != ELSEWHERE
    }

    /// Has a handle that lacks it use the window of its file for what that is opened for now. Returns the window if the handle
    /// has it already, to be dropped by the caller.
    pub fn use_window(&mut self, window: Arc<W>, access: Access) -> Option<Arc<W>> {
        *self.reads.get_mut() = access.reads;
        *self.writes.get_mut() = access.writes;
        // A file has one window as long as it is open.
        self.window.replace(window)
    }

    /// Has `call` read through the window at the position, and return the new one. `None` if `call` returns that, or the
    /// window is not used.
    #[inline]
    pub fn read_window(&self, call: impl FnOnce(&W, u64) -> Option<u64>) -> Option<()> {
        if !self.reads.load(Relaxed) {
            return None;
        }
        self.call_window(call)
    }

    /// [`Self::read_window`] for writing.
    #[inline]
    pub fn write_window(&self, call: impl FnOnce(&W, u64) -> Option<u64>) -> Option<()> {
        if !self.writes.load(Relaxed) {
            return None;
        }
        self.call_window(call)
    }

    #[inline]
    fn call_window(&self, call: impl FnOnce(&W, u64) -> Option<u64>) -> Option<()> {
        let position = call(self.window.as_ref()?, self.position.load(Relaxed))?;
        self.position.store(position, Relaxed);
        Some(())
    }

    /// [`Self::seek`] in a handle that has the position already.
    #[inline]
    pub fn seek_here(&self, offset: i64, whence: i32) -> Option<u64> {
        let position = self.position.load(Relaxed);
        if position == ELSEWHERE {
            return None;
        }
        let sought = sought(position, offset, whence)?;
        self.position.store(sought, Relaxed);
        Some(sought)
    }

    /// Moves the position and returns it. `None` if that takes more than the position, or fails.
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
        // Other references were dropped: what their calls have done is seen behind this.
        fence(Acquire);
        let position = self.file.position();
        self.position.store(position, Relaxed);
        Some(position)
    }
}

/// Where a seek leads that needs no more than the position; `None` if it is no offset of a file.
#[inline]
fn sought(position: u64, offset: i64, whence: i32) -> Option<u64> {
    let base = match whence {
        SEEK_SET => 0,
        SEEK_CUR => position.cast_signed(),
        _ => return None,
    };
    base.checked_add(offset).filter(|sought| *sought >= 0).map(i64::cast_unsigned)
}

impl<F: Positioned + ?Sized, W> Clone for FileHandle<F, W> {
    fn clone(&self) -> Self {
        let position = self.position.load(Relaxed);
        if position != ELSEWHERE {
            // There is no other reference yet, and calls with the new one begin behind this.
            self.file.set_position(position);
            self.position.store(ELSEWHERE, Relaxed);
            self.reads.store(false, Relaxed);
            self.writes.store(false, Relaxed);
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

    use super::{Access, FileHandle, Positioned};
    use crate::DescriptorTable;
    use alloc::sync::Arc;
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::Relaxed;
    use hermit_abi::{SEEK_CUR, SEEK_END, SEEK_SET};
    use std::sync::Mutex;
    use std::thread;

    /// A file whose calls on the long path take a lock.
    #[derive(Debug, Default)]
    struct File {
        position: AtomicU64,
        lock: Mutex<()>,
    }

    /// A handle of a file without a window.
    type Handle = FileHandle<File, ()>;

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
    fn window_is_used_by_the_only_handle_for_what_the_file_is_opened_for() {
        let mut handle: FileHandle<File, u64> = FileHandle::new(Arc::new(File::default()));
        let read =
            |handle: &FileHandle<File, u64>| handle.read_window(|step, position| Some(position + step));
        let write =
            |handle: &FileHandle<File, u64>| handle.write_window(|step, position| Some(position + step));
        assert!(!handle.lacks_window(), "the file has the position");
        assert_eq!(handle.seek(1, SEEK_SET), Some(1));
        assert!(handle.lacks_window());
        assert_eq!(handle.use_window(Arc::new(10), Access { reads: true, writes: false }), None);
        assert_eq!(
            (read(&handle), write(&handle), handle.seek_here(0, SEEK_CUR)),
            (Some(()), None, Some(11))
        );
        let clone = handle.clone();
        assert_eq!((read(&handle), read(&clone), handle.seek_here(0, SEEK_CUR)), (None, None, None));
        assert_eq!(handle.file().position(), 11);
        drop(clone);
        assert_eq!(handle.seek(0, SEEK_CUR), Some(11));
        assert_eq!(read(&handle), None, "the file may be opened for something else now");
        assert!(handle.lacks_window());
        let former = handle.use_window(Arc::new(20), Access { reads: false, writes: true });
        assert_eq!(former.as_deref(), Some(&10));
        assert_eq!(
            (read(&handle), write(&handle), handle.seek_here(0, SEEK_CUR)),
            (None, Some(()), Some(31))
        );
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
            let second = table.duplicate(first, 0).unwrap();
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
