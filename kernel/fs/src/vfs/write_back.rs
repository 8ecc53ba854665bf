//! Write-back: consecutive small writes of a program to a file of a server are collected and written as one.
//!
//! The first write of a sequence is made at once. The writes that continue it are collected, for at most
//! [`MAX_AGE`]. They are written out when the buffer is full, when the sequence ends, before any other
//! request of this machine that depends on the file's contents or attributes, and when a descriptor of the
//! file is closed. An error is reported to the opening that has written, by its next write, `fsync` or
//! `close`, whichever comes first.
//!
//! Writes are collected only if the file system has twice the room for them. So a program that fills the file
//! system gets the error from the write that does not fit.
//!
//! Each mount has a few slots. A slot has the collected bytes of one file and an asynchronous mutex, so that
//! one call at a time adds to them or writes them out.

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

use crate::async_mutex::AsyncMutex;
use crate::file_system::{OpenInode, WriteAt, Written, complete};
use crate::system::{Lock, allocated};
use crate::{FileSystem, Ino, System};

/// Maximum time in nanoseconds for which data are collected.
const MAX_AGE: u64 = 1_000_000_000;

/// Maximum size in bytes of a write that is collected: copying a larger one takes longer than a request.
const MAX_SIZE: usize = 64 << 10;

/// Time in nanoseconds for which an answer about the free space of the file system is used.
const MAX_ROOM_AGE: u64 = 1_000_000_000;

/// Number of files of a mount whose writes can be collected at a time. The slot of a file is its inode number
/// modulo this.
const SLOTS: usize = 8;

/// The inode of an opening, as far as writing needs it. Dropping this drops the reference to the inode.
pub(super) trait WrittenInode: Send + Sync {
    /// Its file system.
    fn file_system(&self) -> &dyn FileSystem;

    /// Removes the cached attributes of the inode, since a write changes them.
    fn forget_attr(&self);
}

impl Debug for dyn WrittenInode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("WrittenInode")
    }
}

/// An opening of a file whose writes are collected. The inode is released after they are written.
#[derive(Debug)]
pub(super) struct Opening {
    written: Arc<dyn WrittenInode>,
    inode: OpenInode,
    /// Maximum number of collected bytes.
    max: usize,
    /// Error number of a collected write that failed; 0: none.
    error: AtomicI32,
}

impl Opening {
    /// Creates the opening of an inode. Dropping it releases the inode. `None` if its writes are not to be
    /// collected; then the inode is not released.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the inode is released.
    pub(super) fn new<S: System>(
        written: Arc<dyn WrittenInode>,
        inode: OpenInode,
        flags: i32,
    ) -> Result<Option<Arc<Self>>, Errno> {
        let max = written.file_system().write_back_size(inode.handle, flags);
        if max == 0 {
            return Ok(None);
        }
        let opening = Self { written, inode, max, error: AtomicI32::new(0) };
        S::arc(opening).map(Some).ok_or(Errno::ENOMEM)
    }

    /// Fails with the error of the collected writes, which is reported once.
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

impl Drop for Opening {
    fn drop(&mut self) {
        self.written.file_system().release(self.inode.ino, self.inode.handle);
    }
}

/// Collected writes, and the sequence that they continue.
#[derive(Debug)]
struct Collected {
    /// The opening whose last write has ended at the offset `next`, and true if that write appended.
    writer: Weak<Opening>,
    is_appending: bool,
    next: u64,
    /// The collected bytes, which end at `next`; the time of the first of them; and the opening that has
    /// written them, `None` if there are no bytes.
    bytes: Vec<u8>,
    since: u64,
    opening: Option<Arc<Opening>>,
}

impl Collected {
    const fn new() -> Self {
        Self { writer: Weak::new(), is_appending: false, next: 0, bytes: Vec::new(), since: 0, opening: None }
    }

    /// Returns true if a write continues the last one, and may be collected.
    fn is_next(&self, opening: &Arc<Opening>, start: WriteAt, size: usize) -> bool {
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

    /// Collects a write that continues the last one. Returns false if there is no room.
    fn add<S: System>(&mut self, opening: &Arc<Opening>, bytes: &[u8]) -> bool {
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

    /// Notes that an opening has written up to an offset. If the offset is not known, no write can continue
    /// this one.
    fn note(&mut self, opening: &Arc<Opening>, start: WriteAt, end: Option<u64>) {
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

    /// Writes out the collected bytes. Returns the error, which the opening reports, too.
    async fn write_out(&mut self) -> Option<Errno> {
        let opening = self.opening.take()?;
        let error = self.write_with(&opening).await.err();
        if let Some(error) = error {
            opening.error.store(error.number(), Relaxed);
            // The offset of the next write is not certain, so it is made at once.
            self.writer = Weak::new();
        }
        self.bytes.clear();
        error
    }

    async fn write_with(&mut self, opening: &Opening) -> Result<(), Errno> {
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
                // The end of the file is not known, so the next write is made at once.
                None => self.writer = Weak::new(),
            }
        }
        Ok(())
    }
}

/// The collected writes of one file at a time.
#[derive(Debug)]
struct Slot<S: System> {
    /// Number of the inode that has collected writes; 0: none.
    ino: AtomicU64,
    /// The mutex of the slot, and the collected writes while no call has locked it.
    state: Lock<S, (AsyncMutex, Collected)>,
}

impl<S: System> Slot<S> {
    const fn new() -> Self {
        let state = (AsyncMutex::new(), Collected::new());
        Self { ino: AtomicU64::new(0), state: Mutex::const_new(RawMutex::INIT, state) }
    }

    /// Waits until no other call uses the slot, and takes its collected writes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    async fn acquire(&self) -> Result<SlotGuard<'_, S>, Errno> {
        let collected = poll_fn(|context| self.poll_lock(context)).await?;
        Ok(SlotGuard { slot: self, collected })
    }

    fn poll_lock(&self, context: &Context<'_>) -> Poll<Result<Collected, Errno>> {
        let mut state = self.state.lock();
        let (mutex, collected) = &mut *state;
        mutex.poll_lock(context).map_ok(|()| mem::replace(collected, Collected::new()))
    }
}

/// A slot that a call has acquired. Dropping it releases the slot.
#[derive(Debug)]
struct SlotGuard<'a, S: System> {
    slot: &'a Slot<S>,
    collected: Collected,
}

impl<S: System> Deref for SlotGuard<'_, S> {
    type Target = Collected;

    fn deref(&self) -> &Collected {
        &self.collected
    }
}

impl<S: System> DerefMut for SlotGuard<'_, S> {
    fn deref_mut(&mut self) -> &mut Collected {
        &mut self.collected
    }
}

impl<S: System> Drop for SlotGuard<'_, S> {
    fn drop(&mut self) {
        let collected = mem::replace(&mut self.collected, Collected::new());
        // Stored before the slot is released: from then on, other calls decide by it whether they must write
        // out.
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
    /// Time at which the file system was asked; `None`: never.
    since: Option<u64>,
    /// Number of bytes that may still be collected.
    left: u64,
}

/// The collected writes of all files of a mount.
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

    /// The slot of an inode, if the slots have been allocated.
    fn slot(&self, ino: Ino) -> Option<&Slot<S>> {
        self.slots.get()?.get(to_usize(ino.0) % SLOTS)
    }

    /// All slots, if they have been allocated.
    fn all(&self) -> impl Iterator<Item = &Slot<S>> {
        self.slots.get().into_iter().flatten()
    }

    /// Returns true if there are collected writes of an inode that have not been written out.
    pub(super) fn has(&self, ino: Ino) -> bool {
        self.slot(ino).is_some_and(|slot| slot.ino.load(Acquire) == ino.0)
    }

    /// Returns true if the maximum of an opening may be collected: the file system has at least twice the
    /// room. It is asked once per [`MAX_ROOM_AGE`].
    async fn has_room(&self, opening: &Opening) -> bool {
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
        // Half of the free space, as the documentation of this module says. An unknown amount counts as none.
        let free = usage.map_or(0, |usage| usage.free_blocks.saturating_mul(usage.block_size.into()));
        *self.room.lock() = Room { since: Some(now), left: free / 2 };
        take().unwrap_or(false)
    }

    /// Writes, or collects the write. An error may be that of an earlier write.
    ///
    /// # Errors
    ///
    /// Those of [`FileSystem::write`](crate::FileSystem::write), `ENOMEM`.
    pub(super) async fn write(
        &self,
        opening: &Arc<Opening>,
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
        // The slot is not kept during the write, which may take long. If another call uses it meanwhile,
        // `note` starts a new sequence or leaves the other one alone.
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
        opening: &Arc<Opening>,
        start: WriteAt,
        bytes: &[u8],
    ) -> Result<Option<Written>, Errno> {
        // The slot is in use for another file, which keeps it. This write is made at once.
        if collected.ino().is_some_and(|ino| ino != opening.inode.ino) {
            return Ok(None);
        }
        loop {
            let is_first = collected.opening.is_none();
            let is_next = collected.is_next(opening, start, bytes.len());
            let may_begin = is_next && is_first && self.has_room(opening).await && (self.data_collected)();
            if is_next && (may_begin || !is_first) && collected.add::<S>(opening, bytes) {
                let written = Written { count: bytes.len(), end: Some(collected.next) };
                // Set before the call returns: other threads must see that there are collected writes.
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
            // Another file may have got the slot while this call was waiting for it.
            if collected.ino() == Some(ino) {
                error = collected.write_out().await;
                collected.bytes = Vec::new();
            }
        }
        Ok(error)
    }

    /// Writes out as [`Self::write_out`], before the size of the file changes. Ends the sequence, since
    /// writes at the new end do not continue it.
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

    /// Writes out all collected writes, or with `is_due` only those that are old enough, and frees their
    /// memory. Returns the time at which the rest is due.
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

    /// Drops the collected writes when the mounts are dropped: they refer to the mounts.
    pub(super) fn clear(&self) {
        for slot in self.all() {
            let collected = mem::replace(&mut slot.state.lock().1, Collected::new());
            drop(collected);
        }
    }
}
