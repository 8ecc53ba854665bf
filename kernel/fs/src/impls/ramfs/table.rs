//! The table of inodes of a ramfs. An inode is found by its number without a global lock.
//!
//! The table has two levels of fixed size above the slots, so it grows without moving slots. However many
//! inodes there are, each part of the table has at most a few pages, and is allocated without a lock. Free
//! slots form a linked list through the slots themselves.

use alloc::boxed::Box;
use core::fmt::{self, Debug};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::{Errno, to_usize};
use lock_api::{Mutex, MutexGuard, RawMutex};
use once_cell::race::OnceBox;

use crate::interface::system::{Lock, boxed};
use crate::interface::{Ino, System};

/// Slots of a chunk.
const CHUNK: usize = 64;

/// Chunks of a directory of chunks, and number of these directories: room for 2^24 inodes.
const CHUNKS: usize = 512;
const DIRECTORIES: usize = 512;

/// A slot with its lock, and a link that the lock of the free numbers protects.
struct TableSlot<S: System, T> {
    /// The inode; `None` in a free slot.
    slot: Lock<S, Option<T>>,
    /// The next number in the list of free slots, while this slot is free; [`NO_NUMBER`] at the end of the
    /// list.
    next_free: AtomicU64,
}

/// A number that no inode has.
const NO_NUMBER: u64 = 0;

/// A slot whose lock is held.
pub(super) type LockedSlot<'a, S, T> = MutexGuard<'a, <S as System>::RawLock, Option<T>>;

/// Slots that are allocated together.
type Chunk<S, T> = [TableSlot<S, T>; CHUNK];

/// Chunks, as far as they are allocated.
type ChunkDirectory<S, T> = [OnceBox<Chunk<S, T>>; CHUNKS];

/// A table of inodes. Each slot has a lock of its own, and no slot is ever moved.
pub(super) struct Table<S: System, T> {
    directories: Box<[OnceBox<ChunkDirectory<S, T>>; DIRECTORIES]>,
    free: Lock<S, FreeNumbers>,
}

impl<S: System, T> Debug for Table<S, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Table").field("free", &self.free).finish_non_exhaustive()
    }
}

/// The numbers that no inode has.
#[derive(Debug)]
struct FreeNumbers {
    /// The number that was released last, or [`NO_NUMBER`].
    released: u64,
    /// Number of released slots.
    count: u64,
    /// All numbers from this one on are free, too.
    unused: u64,
}

/// Returns the indices of a number's directory, chunk and slot.
#[inline]
const fn position(number: u64) -> (usize, usize, usize) {
    let number = to_usize(number);
    (number / (CHUNK * CHUNKS), number / CHUNK % CHUNKS, number % CHUNK)
}

/// Returns the value of a cell. If the cell is empty, allocates the value first.
fn get_or_allocate<T>(
    cell: &OnceBox<T>,
    allocate: impl FnOnce() -> Result<Box<T>, Errno>,
) -> Result<&T, Errno> {
    if cell.get().is_none() {
        // If another thread has set the cell first, its value stays, and this value is dropped.
        drop(cell.set(allocate()?));
    }
    cell.get().ok_or(Errno::ENOMEM)
}

impl<S: System, T> Table<S, T> {
    /// Creates a table without inodes. The first inode gets the number of the root.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        let free = FreeNumbers { released: NO_NUMBER, count: 0, unused: Ino::ROOT.0 };
        Ok(Self { directories: boxed(OnceBox::new)?, free: Mutex::const_new(RawMutex::INIT, free) })
    }

    /// Locks the slot of a number.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the number never had an inode.
    #[inline]
    pub(super) fn lock(&self, ino: Ino) -> Result<LockedSlot<'_, S, T>, Errno> {
        self.slot(ino).map(|found| found.slot.lock()).ok_or(Errno::ENOENT)
    }

    #[inline]
    fn slot(&self, ino: Ino) -> Option<&TableSlot<S, T>> {
        let (directory, chunk, slot) = position(ino.0);
        let directory = self.directories.get(directory).and_then(OnceBox::get)?;
        directory.get(chunk).and_then(OnceBox::get)?.get(slot)
    }

    /// Allocates a number and constructs its inode in place. Returns the number.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are 2^24 inodes, `ENOMEM`.
    #[inline]
    pub(super) fn insert(&self, make: impl FnOnce() -> T) -> Result<Ino, Errno> {
        let (ino, slot) = self.allocate()?;
        *slot.slot.lock() = Some(make());
        Ok(ino)
    }

    /// Allocates a number. The caller stores the inode in its slot.
    ///
    /// # Errors
    ///
    /// As [`Self::insert`].
    pub(super) fn reserve(&self) -> Result<Ino, Errno> {
        self.allocate().map(|(ino, _)| ino)
    }

    /// Allocates a number. Returns it with its slot.
    #[inline(always)]
    fn allocate(&self) -> Result<(Ino, &TableSlot<S, T>), Errno> {
        loop {
            match self.try_allocate() {
                Ok(allocated) => return Ok(allocated),
                Err(number) => self.add_slot(number)?,
            }
        }
    }

    /// Allocates a number. If a chunk must be allocated first, the error is the number that needs it.
    #[inline(always)]
    fn try_allocate(&self) -> Result<(Ino, &TableSlot<S, T>), u64> {
        let mut free = self.free.lock();
        let is_released = free.released != NO_NUMBER;
        let number = if is_released { free.released } else { free.unused };
        let found = self.slot(Ino(number)).ok_or(number)?;
        if is_released {
            free.released = found.next_free.load(Relaxed);
            free.count -= 1;
        } else {
            free.unused += 1;
        }
        drop(free);
        Ok((Ino(number), found))
    }

    /// Allocates the chunk of a number.
    #[cold]
    fn add_slot(&self, number: u64) -> Result<(), Errno> {
        let (directory, chunk, _) = position(number);
        let directory = self.directories.get(directory).ok_or(Errno::ENOSPC)?;
        let directory = get_or_allocate(directory, || boxed(OnceBox::new))?;
        let chunk = directory.get(chunk).ok_or(Errno::ENOSPC)?;
        let slot = || TableSlot { slot: Mutex::new(None), next_free: AtomicU64::new(NO_NUMBER) };
        get_or_allocate(chunk, || boxed(slot)).map(drop)
    }

    /// Frees a number. The caller has taken the inode out of its slot.
    pub(super) fn release(&self, ino: Ino) {
        let Some(found) = self.slot(ino) else { return };
        let mut free = self.free.lock();
        found.next_free.store(free.released, Relaxed);
        free.released = ino.0;
        free.count += 1;
    }

    /// Number of inodes.
    pub(super) fn count(&self) -> u64 {
        let free = self.free.lock();
        free.unused - Ino::ROOT.0 - free.count
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{CHUNK, Table};
    use crate::interface::Ino;
    use crate::testing::TestSystem;
    use hermit_interface::Errno;
    use std::vec::Vec;

    fn free(table: &Table<TestSystem, usize>, ino: Ino) -> Option<usize> {
        let inode = table.lock(ino).unwrap().take();
        table.release(ino);
        inode
    }

    #[test]
    fn released_numbers_are_used_again() {
        let table: Table<TestSystem, usize> = Table::new().unwrap();
        let inos: Vec<Ino> = (0..3 * CHUNK).map(|inode| table.insert(|| inode).unwrap()).collect();
        assert_eq!((inos[0], table.count()), (Ino::ROOT, 3 * CHUNK as u64));
        assert_eq!((free(&table, inos[7]), free(&table, inos[100])), (Some(7), Some(100)));
        assert_eq!(table.count(), 3 * CHUNK as u64 - 2);
        assert_eq!(table.insert(|| 1000), Ok(inos[100]));
        assert_eq!(table.insert(|| 1001), Ok(inos[7]));
        assert_eq!(table.insert(|| 1002), Ok(Ino(inos.len() as u64 + 1)));
        assert_eq!(*table.lock(inos[8]).unwrap(), Some(8));
    }

    #[test]
    fn numbers_without_a_slot_are_enoent() {
        let table: Table<TestSystem, usize> = Table::new().unwrap();
        table.insert(|| 0).unwrap();
        assert_eq!(table.lock(Ino(CHUNK as u64)).err(), Some(Errno::ENOENT));
        assert_eq!(table.lock(Ino(u64::MAX)).err(), Some(Errno::ENOENT));
    }
}
