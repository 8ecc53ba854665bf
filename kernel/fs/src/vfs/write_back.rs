//! Write-back: collects consecutive small writes of a program to a file on a server, and writes them in one
//! request.
//!
//! The first write of a sequence is made at once. The writes that continue it are collected, for at most
//! [`MAX_AGE`]. They are written out when the buffer is full, when the sequence ends, before any other
//! request of this machine that depends on the file's contents or attributes, and when a descriptor of the
//! file is closed. If that fails, the error is reported to the opening that made the writes, by its next
//! `write`, `fsync` or `close`.
//!
//! Writes are collected only if the file system has twice as much free space as they need. So a program that
//! fills the file system gets the error from the write that does not fit, and not later.
//!
//! Each mount has a few slots. A slot holds the collected bytes of one file, and an asynchronous mutex. The
//! mutex ensures that only one call at a time adds bytes or writes them out.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};
use core::future::poll_fn;
use core::mem;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicU64};
use core::task::{Context, Poll};

use hermit_interface::{Errno, to_usize};
use lock_api::{Mutex, RawMutex};
use once_cell::race::OnceBox;

use crate::interface::async_mutex::AsyncMutex;
use crate::interface::file_system::{OpenInode, WriteAt, Written, complete};
use crate::interface::system::{Lock, allocated};
use crate::interface::{FileSystem, Ino, System};

/// Maximum time in nanoseconds for which data are collected.
const MAX_AGE: u64 = 1_000_000_000;

/// Maximum size in bytes of a write that is collected. Copying a larger write takes longer than a request.
const MAX_SIZE: usize = 64 << 10;

/// Time in nanoseconds for which the known free space of the file system is used before the server is asked
/// again.
const MAX_ROOM_AGE: u64 = 1_000_000_000;

/// Number of files of a mount whose writes can be collected at the same time. The slot of a file is its inode
/// number modulo this.
const SLOTS: usize = 8;

/// The operations on an inode that writing back needs. Dropping the value drops the reference to the inode.
pub(super) trait WrittenInode<S: System>: Send + Sync {
    /// Returns the file system of the inode.
    fn file_system(&self) -> &dyn FileSystem<S>;

    /// Removes the cached attributes of the inode, since a write changes them.
    fn forget_attr(&self);
}

impl<S: System> Debug for dyn WrittenInode<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("WrittenInode")
    }
}

/// An opening of a file whose writes are collected. Collected writes keep a reference to it, so it is
/// dropped, and the inode released, only after they are written out.
#[derive(Debug)]
pub(super) struct Opening<S: System> {
    written: Arc<dyn WrittenInode<S>>,
    inode: OpenInode,
    /// Maximum number of collected bytes.
    max: usize,
    /// Error number of a collected write that failed; 0 if there is no error to report.
    error: AtomicI32,
}

impl<S: System> Opening<S> {
    /// Creates the opening of an inode. Dropping it releases the inode. Returns `None` if writes to this
    /// inode are not to be collected, or without memory. Then the inode is not released.
    pub(super) fn new(written: Arc<dyn WrittenInode<S>>, inode: OpenInode, flags: i32) -> Option<Arc<Self>> {
        let max = written.file_system().write_back_size(inode.handle, flags);
        if max == 0 {
            return None;
        }
        S::arc_with(|| Self { written, inode, max, error: AtomicI32::new(0) })
    }

    /// Fails with the error of the collected writes if there is one, and clears it, so it is reported only
    /// once.
    pub(super) fn take_error(&self) -> Result<(), Errno> {
        match self.error.swap(0, Relaxed) {
            0 => Ok(()),
            number => Err(Errno::from_number(number)),
        }
    }

    async fn write(&self, start: WriteAt, bytes: &[u8]) -> Result<Written, Errno> {
        let file_system = self.written.file_system();
        let written = complete(|call| file_system.write(call, self.inode, start, bytes)).await;
        self.written.forget_attr();
        written
    }
}

impl<S: System> Drop for Opening<S> {
    fn drop(&mut self) {
        self.written.file_system().release(self.inode.ino, self.inode.handle);
    }
}

/// Collected writes, and the sequence that they continue.
#[derive(Debug)]
struct Collected<S: System> {
    /// The opening whose last write ended at the offset `next`, and whether that write appended.
    writer: Weak<Opening<S>>,
    is_appending: bool,
    next: u64,
    /// The collected bytes, whose end is at the offset `next`; the time when the first of them was collected;
    /// and the opening that wrote them, or `None` if there are no bytes.
    bytes: Vec<u8>,
    since: u64,
    opening: Option<Arc<Opening<S>>>,
}

impl<S: System> Collected<S> {
    const fn new() -> Self {
        Self { writer: Weak::new(), is_appending: false, next: 0, bytes: Vec::new(), since: 0, opening: None }
    }

    /// Returns true if a write continues the last write and may be collected.
    fn is_next(&self, opening: &Arc<Opening<S>>, start: WriteAt, size: usize) -> bool {
        let is_next = match start {
            WriteAt::Offset(offset) => !self.is_appending && offset == self.next,
            WriteAt::End => self.is_appending,
        };
        let end = self.next.checked_add(size as u64).is_some_and(|end| i64::try_from(end).is_ok());
        is_next
            && end
            && size <= MAX_SIZE.min(opening.max / 2)
            && self.writer.as_ptr() == Arc::as_ptr(opening)
    }

    /// Collects a write that continues the last write. Returns false if there is no room.
    fn add(&mut self, opening: &Arc<Opening<S>>, bytes: &[u8]) -> bool {
        let has_room = bytes.len() <= opening.max - self.bytes.len().min(opening.max);
        if !has_room || self.bytes.try_reserve(bytes.len()).is_err() {
            return false;
        }
        if self.opening.is_none() {
            self.opening = Some(Arc::clone(opening));
            self.since = S::monotonic();
        }
        self.bytes.extend_from_slice(bytes);
        self.next += bytes.len() as u64;
        true
    }

    /// Notes that an opening has written bytes up to the offset `end`. If `end` is not known, no later write
    /// can continue this write.
    fn note(&mut self, opening: &Arc<Opening<S>>, start: WriteAt, end: Option<u64>) {
        if self.opening.is_some() {
            return;
        }
        match end {
            Some(end) => {
                self.writer = Arc::downgrade(opening);
                (self.is_appending, self.next) = (start == WriteAt::End, end);
            }
            None => self.writer = Weak::new(),
        }
    }

    fn ino(&self) -> Option<Ino> {
        self.opening.as_ref().map(|opening| opening.inode.ino)
    }

    /// Writes out the collected bytes. Returns the error if that fails. The opening reports the error, too.
    async fn write_out(&mut self) -> Option<Errno> {
        let opening = self.opening.take()?;
        let error = self.write_with(&opening).await.err();
        if let Some(error) = error {
            opening.error.store(error.number(), Relaxed);
            // The offset of the next write is not certain, so the next write must not be collected.
            self.writer = Weak::new();
        }
        self.bytes.clear();
        error
    }

    async fn write_with(&mut self, opening: &Opening<S>) -> Result<(), Errno> {
        let start = self.next - self.bytes.len() as u64;
        let mut done = 0;
        while let Some(rest) = self.bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let offset = WriteAt::Offset(start + done as u64);
            let written = opening.write(if self.is_appending { WriteAt::End } else { offset }, rest).await?;
            if written.count == 0 {
                return Err(Errno::EIO);
            }
            done += written.count;
            match written.end {
                Some(end) if self.is_appending => self.next = end,
                Some(_) => {}
                // The end of the file is not known, so the next write must not be collected.
                None => self.writer = Weak::new(),
            }
        }
        Ok(())
    }
}

/// A place for collected writes. It holds the writes of one file at a time.
#[derive(Debug)]
struct Slot<S: System> {
    /// Number of the inode that has collected writes in this slot; 0 if there are none.
    ino: AtomicU64,
    /// The mutex of the slot, and the collected writes while no call has locked it.
    state: Lock<S, (AsyncMutex, Collected<S>)>,
}

impl<S: System> Slot<S> {
    const fn new() -> Self {
        let state = (AsyncMutex::new(), Collected::new());
        Self { ino: AtomicU64::new(0), state: Mutex::const_new(RawMutex::INIT, state) }
    }

    /// Waits until no other call uses the slot, and takes the collected writes out of it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    async fn acquire(&self) -> Result<SlotGuard<'_, S>, Errno> {
        let collected = poll_fn(|context| self.poll_lock(context)).await?;
        Ok(SlotGuard { slot: self, collected })
    }

    fn poll_lock(&self, context: &Context<'_>) -> Poll<Result<Collected<S>, Errno>> {
        let mut state = self.state.lock();
        let (mutex, collected) = &mut *state;
        mutex.poll_lock(context).map_ok(|()| mem::replace(collected, Collected::new()))
    }
}

/// A slot that a call has acquired. Dropping it releases the slot.
#[derive(Debug)]
struct SlotGuard<'a, S: System> {
    slot: &'a Slot<S>,
    collected: Collected<S>,
}

impl<S: System> Deref for SlotGuard<'_, S> {
    type Target = Collected<S>;

    fn deref(&self) -> &Collected<S> {
        &self.collected
    }
}

impl<S: System> DerefMut for SlotGuard<'_, S> {
    fn deref_mut(&mut self) -> &mut Collected<S> {
        &mut self.collected
    }
}

impl<S: System> Drop for SlotGuard<'_, S> {
    fn drop(&mut self) {
        let collected = mem::replace(&mut self.collected, Collected::new());
        // This must precede the release of the slot, because other calls read `ino` to decide whether they
        // must write out.
        self.slot.ino.store(collected.ino().map_or(0, |ino| ino.0), Release);
        let mut state = self.slot.state.lock();
        let empty = mem::replace(&mut state.1, collected);
        let unlocked = state.0.unlock();
        drop(state);
        drop(empty);
        unlocked.wake();
    }
}

/// Last known free space of the file system.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Time at which the file system was asked; `None` if it was never asked.
    since: Option<u64>,
    /// Number of bytes that may still be collected.
    left: u64,
}

/// The write-back state of a mount: the collected writes of all its files.
#[derive(Debug)]
pub(super) struct WriteBack<S: System> {
    /// Allocated for the first write.
    slots: OnceBox<[Slot<S>; SLOTS]>,
    room: Lock<S, Room>,
    /// See [`Vfs::with_write_back`](super::Vfs::with_write_back).
    data_collected: fn() -> bool,
}

impl<S: System> WriteBack<S> {
    pub(super) const fn new(data_collected: fn() -> bool) -> Self {
        let room = Room { since: None, left: 0 };
        Self { slots: OnceBox::new(), room: Mutex::const_new(RawMutex::INIT, room), data_collected }
    }

    /// Returns the slot of an inode, if the slots have been allocated.
    fn slot(&self, ino: Ino) -> Option<&Slot<S>> {
        self.slots.get()?.get(to_usize(ino.0) % SLOTS)
    }

    /// Iterates over the slots, if they have been allocated.
    fn all(&self) -> impl Iterator<Item = &Slot<S>> {
        self.slots.get().into_iter().flatten()
    }

    /// Returns true if there are collected writes of an inode that have not been written out.
    pub(super) fn has(&self, ino: Ino) -> bool {
        self.slot(ino).is_some_and(|slot| slot.ino.load(Acquire) == ino.0)
    }

    /// Returns true if the file system has at least twice the space that an opening's collected writes can
    /// need. Asks the file system at most once per [`MAX_ROOM_AGE`].
    async fn has_room(&self, opening: &Opening<S>) -> bool {
        let (now, size) = (S::monotonic(), opening.max as u64);
        let take = || {
            let mut room = self.room.lock();
            if room.since.is_none_or(|since| now.saturating_sub(since) >= MAX_ROOM_AGE) {
                return None;
            }
            let left = room.left.checked_sub(size);
            room.left = left.unwrap_or(room.left);
            Some(left.is_some())
        };
        if let Some(has_room) = take() {
            return has_room;
        }
        let file_system = opening.written.file_system();
        let usage = complete(|call| file_system.statfs(call)).await;
        // Half of the free space may be collected, as the module documentation says. If the free space is not
        // known, it counts as 0.
        let free = usage.map_or(0, |usage| usage.free_blocks.saturating_mul(usage.block_size.into()));
        *self.room.lock() = Room { since: Some(now), left: free / 2 };
        take().unwrap_or(false)
    }

    /// Makes a write, or collects it. A returned error may belong to an earlier, collected write.
    ///
    /// # Errors
    ///
    /// Those of [`FileSystem::write`](crate::FileSystem::write), `ENOMEM`.
    pub(super) async fn write(
        &self,
        opening: &Arc<Opening<S>>,
        start: WriteAt,
        bytes: &[u8],
    ) -> Result<Written, Errno> {
        opening.take_error()?;
        let slots = allocated(&self.slots, Slot::new);
        let Some(slot) = slots.get(to_usize(opening.inode.ino.0) % SLOTS) else {
            return opening.write(start, bytes).await;
        };
        let mut collected = slot.acquire().await?;
        if let Some(written) = self.collect(&mut collected, opening, start, bytes).await? {
            return Ok(written);
        }
        drop(collected);
        // The slot is not held during the request, which may take long. If another call uses the slot
        // meanwhile, `note` either starts a new sequence or leaves the sequence of the other call as it is.
        let written = opening.write(start, bytes).await?;
        if let Ok(mut collected) = slot.acquire().await {
            collected.note(opening, start, written.end);
        }
        Ok(written)
    }

    /// Collects a write if it continues the previous one. Otherwise, writes out the collected writes of the
    /// file.
    async fn collect(
        &self,
        collected: &mut SlotGuard<'_, S>,
        opening: &Arc<Opening<S>>,
        start: WriteAt,
        bytes: &[u8],
    ) -> Result<Option<Written>, Errno> {
        // Another file uses the slot and keeps it. This write is not collected.
        if collected.ino().is_some_and(|ino| ino != opening.inode.ino) {
            return Ok(None);
        }
        loop {
            let is_first = collected.opening.is_none();
            let is_next = collected.is_next(opening, start, bytes.len());
            let may_begin = is_next && is_first && self.has_room(opening).await && (self.data_collected)();
            if is_next && (may_begin || !is_first) && collected.add(opening, bytes) {
                let written = Written { count: bytes.len(), end: Some(collected.next) };
                // `ino` must be set before the call returns, so that other threads see the collected writes.
                collected.slot.ino.store(opening.inode.ino.0, Release);
                opening.written.forget_attr();
                return Ok(Some(written));
            }
            if is_first {
                return Ok(None);
            }
            collected.write_out().await;
            opening.take_error()?;
        }
    }

    /// Writes out the collected writes of an inode, before a request that depends on them. Returns the error
    /// of the writes. The opening that made them reports it, too.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) async fn write_out(&self, ino: Ino) -> Result<Option<Errno>, Errno> {
        let mut error = None;
        if let Some(slot) = self.slot(ino)
            && slot.ino.load(Acquire) == ino.0
        {
            let mut collected = slot.acquire().await?;
            // The slot may have changed to another file while this call was waiting for it.
            if collected.ino() == Some(ino) {
                error = collected.write_out().await;
                collected.bytes = Vec::new();
            }
        }
        Ok(error)
    }

    /// Does [`Self::write_out`] before the size of the file changes. Also ends the sequence of writes,
    /// because a write at the new end of the file does not continue it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) async fn end_sequence(&self, ino: Ino) -> Result<(), Errno> {
        let Some(slot) = self.slot(ino) else { return Ok(()) };
        let mut collected = slot.acquire().await?;
        if collected.ino().is_none_or(|other| other == ino) {
            collected.write_out().await;
            collected.writer = Weak::new();
        }
        Ok(())
    }

    /// Writes out all collected writes, or with `is_due` only the writes that are old enough, and frees their
    /// memory. Returns the time at which the remaining writes are due, if any remain.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) async fn write_all(&self, is_due: bool) -> Result<Option<u64>, Errno> {
        let mut next = None;
        for slot in self.all() {
            let mut collected = slot.acquire().await?;
            let due = collected.since.saturating_add(MAX_AGE);
            if collected.opening.is_some() && is_due && S::monotonic() < due {
                next = Some(next.map_or(due, |next: u64| next.min(due)));
                continue;
            }
            collected.write_out().await;
            collected.bytes = Vec::new();
        }
        Ok(next)
    }

    /// Drops the collected writes. This breaks reference cycles when the mounts are dropped, because
    /// collected writes refer to mounts.
    pub(super) fn clear(&self) {
        for slot in self.all() {
            let collected = mem::replace(&mut slot.state.lock().1, Collected::new());
            drop(collected);
        }
    }
}
