//! The inodes of a ramfs, found by number without a lock of all.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hermit_interface::{Errno, to_usize};
use lock_api::{Mutex, MutexGuard, RawMutex};
use once_cell::race::OnceBox;

use crate::system::Lock;
use crate::{Ino, System};

/// Slots of the first chunk; each further chunk has twice as many as the one before.
const FIRST_CHUNK: u64 = 64;

/// Number of chunks: room for 2^32 inodes.
const CHUNKS: usize = 27;

/// A slot of the table.
#[derive(Debug)]
pub(super) struct Slot<T> {
    /// Number of inodes that had the slot before.
    pub(super) generation: u64,
    /// The inode; `None` in a free slot.
    pub(super) inode: Option<T>,
}

/// Slots that are allocated together.
type Chunk<S, T> = [Lock<S, Slot<T>>];

/// A table of inodes. Each slot has a lock of its own, and no slot is ever moved.
#[derive(Debug)]
pub(super) struct Table<S: System, T> {
    chunks: [OnceBox<Box<Chunk<S, T>>>; CHUNKS],
    free: Lock<S, FreeNumbers>,
}

/// The numbers without an inode.
#[derive(Debug)]
struct FreeNumbers {
    /// Numbers that had an inode.
    released: Vec<u64>,
    /// All numbers from this one on are free, too.
    unused: u64,
}

/// The chunk and the index in it of a number.
#[inline]
const fn position(number: u64) -> (usize, usize) {
    let shifted = number + FIRST_CHUNK;
    let chunk = shifted.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, to_usize(shifted - (FIRST_CHUNK << chunk)))
}

impl<S: System, T> Table<S, T> {
    /// A table without inodes. The first number is that of the root.
    pub(super) const fn new() -> Self {
        Self {
            chunks: [const { OnceBox::new() }; CHUNKS],
            free: Mutex::const_new(RawMutex::INIT, FreeNumbers { released: Vec::new(), unused: Ino::ROOT.0 }),
        }
    }

    /// The slot of a number.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the number never had an inode.
    #[inline]
    pub(super) fn lock(&self, ino: Ino) -> Result<MutexGuard<'_, S::RawLock, Slot<T>>, Errno> {
        let (chunk, index) = position(ino.0);
        let chunk = self.chunks.get(chunk).and_then(OnceBox::get).ok_or(Errno::ENOENT)?;
        chunk.get(index).map(Mutex::lock).ok_or(Errno::ENOENT)
    }

    /// Allocates a number and stores its inode; returns the number and its generation.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are 2^32 inodes, `ENOMEM`.
    pub(super) fn insert(&self, inode: T) -> Result<(Ino, u64), Errno> {
        let number = self.allocate()?;
        let mut slot = self.lock(Ino(number))?;
        slot.inode = Some(inode);
        Ok((Ino(number), slot.generation))
    }

    fn allocate(&self) -> Result<u64, Errno> {
        let mut free = self.free.lock();
        if let Some(number) = free.released.pop() {
            return Ok(number);
        }
        let number = free.unused;
        let (chunk, _) = position(number);
        // So that `release` needs no memory.
        let capacity = usize::try_from(number).map_err(|_| Errno::ENOSPC)?;
        let missing = capacity.saturating_sub(free.released.len());
        free.released.try_reserve(missing).map_err(|_| Errno::ENOMEM)?;
        let chunk = self.chunks.get(chunk).ok_or(Errno::ENOSPC)?;
        if chunk.get().is_none() {
            // Filled under the lock of the numbers, so once.
            let _: Result<(), _> = chunk.set(Box::new(Self::new_chunk(number)?));
        }
        free.unused += 1;
        Ok(number)
    }

    fn new_chunk(number: u64) -> Result<Box<Chunk<S, T>>, Errno> {
        let (chunk, _) = position(number);
        let size = usize::try_from(FIRST_CHUNK << chunk).map_err(|_| Errno::ENOSPC)?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
        slots.resize_with(size, || Mutex::new(Slot { generation: 0, inode: None }));
        Ok(slots.into_boxed_slice())
    }

    /// Frees a number whose inode the caller has taken out of its slot.
    pub(super) fn release(&self, ino: Ino) {
        self.free.lock().released.push(ino.0);
    }

    /// Number of inodes.
    pub(super) fn count(&self) -> u64 {
        let free = self.free.lock();
        free.unused - Ino::ROOT.0 - free.released.len() as u64
    }
}
