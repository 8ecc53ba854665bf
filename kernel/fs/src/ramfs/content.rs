//! Contents and attributes of the inodes of a ramfs.

use core::mem::{self, MaybeUninit};
use core::ops::Range;
use core::task::{Context, Poll, ready};

use hermit_interface::{Errno, to_usize};
use hermit_io::ReadBuffer;
use lock_api::MutexGuard;

use super::RamFs;
use super::inode::{Body, File, Inode, PAGE_BYTES};
use super::pages::Count;
use super::table::Slot;
use crate::file_system::{Reply, WriteAt, Written};
use crate::turns::wake;
use crate::{Attr, Ino, PAGE_SIZE, SetAttr, System};

/// Maximum size of a file in bytes.
const MAX_SIZE: u64 = i64::MAX as u64;

/// What a hole reads as.
const ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// Bytes from an offset to the end of its page.
#[inline]
const fn rest_of_page(offset: u64) -> usize {
    PAGE_SIZE - (offset % PAGE_BYTES) as usize
}

/// Limits `size` to a number of bytes.
#[inline]
fn limited(size: usize, limit: u64) -> usize {
    usize::try_from(limit).map_or(size, |limit| size.min(limit))
}

/// Copies bytes to a slice of the same length by `copy`, which is inlined for constant lengths: these need no call. `None` for
/// other lengths.
#[inline(always)]
fn copy_few<T>(to: &mut [T], from: &[u8], copy: impl Fn(&mut [T], &[u8])) -> Option<()> {
    let size = from.len();
    match size {
        1 => copy(&mut to[..1], &from[..1]),
        // The first and the last ones, which may overlap.
        4..8 => {
            copy(&mut to[..4], &from[..4]);
            copy(&mut to[size - 4..], &from[size - 4..]);
        }
        8..=16 => {
            copy(&mut to[..8], &from[..8]);
            copy(&mut to[size - 8..], &from[size - 8..]);
        }
        _ => return None,
    }
    Some(())
}

impl<P: AsRef<[u8; PAGE_SIZE]>> File<P> {
    /// The bytes from an offset on that lie together in memory, at most `size` and at most up to the end of the page; none
    /// only at the end of the file.
    #[inline]
    fn bytes(&self, offset: u64, size: usize) -> &[u8] {
        let size = limited(size.min(rest_of_page(offset)), self.size.saturating_sub(offset));
        let (below, start) = (self.below(offset), to_usize(offset % PAGE_BYTES));
        match self.pages.get(offset / PAGE_BYTES) {
            Some(page) => page.as_ref().get(start..start + size).unwrap_or_default(),
            None if below.is_empty() => ZEROS.get(..size).unwrap_or_default(),
            None => below.get(..size).unwrap_or(below),
        }
    }

    /// Reads a hole, or the contents below it, as far as they lie together; `None` if the buffer is not filled by that.
    #[cold]
    fn read_hole(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<()> {
        let bytes = self.bytes(offset, buffer.len());
        if bytes.len() != buffer.len() {
            return None;
        }
        buffer.write_copy_of_slice(bytes);
        Some(())
    }
}

/// The locked slot of an inode.
type LockedSlot<'a, S> = MutexGuard<'a, <S as System>::RawLock, Slot<Inode<<S as System>::Page>>>;

/// The file in a slot, the offset in a page, and the number of bytes, if reading these bytes is within a page and leaves the
/// times of the inode as they are.
#[inline(always)]
fn readable<P>(slot: &mut Slot<Inode<P>>, offset: u64, size: usize) -> Option<(&mut File<P>, usize, usize)> {
    let Inode { body: Body::File(file), times, .. } = slot.inode.as_mut()? else { return None };
    let size = limited(size, file.size.saturating_sub(offset));
    let is_short = size <= rest_of_page(offset) && !times.is_unread;
    is_short.then_some((file, to_usize(offset % PAGE_BYTES), size))
}

/// The file in a slot, and the offsets of a write and behind it, if writing these bytes is within a page and leaves the times
/// of the inode as they are.
#[inline(always)]
fn writable<S: System>(
    slot: &mut Slot<Inode<S::Page>>,
    position: WriteAt,
    size: usize,
) -> Option<(&mut File<S::Page>, u64, u64)> {
    let Inode { body: Body::File(file), times, .. } = slot.inode.as_mut()? else { return None };
    let offset = match position {
        WriteAt::Offset(offset) => offset,
        WriteAt::End => file.size,
    };
    if size > rest_of_page(offset) || times.written_at != S::tick() || file.writers.is_taken() {
        return None;
    }
    let end = offset + size as u64;
    (end <= MAX_SIZE).then_some((file, offset, end))
}

/// Where bytes are in the page of an offset.
#[inline]
const fn range(offset: u64, size: usize) -> Range<usize> {
    let start = to_usize(offset % PAGE_BYTES);
    start..start + size
}

impl<S: System> RamFs<S> {
    /// Reads up to the end of the file, a page at a time.
    pub(super) fn read_pages(&self, ino: Ino, offset: u64, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        let mut offset = offset;
        let mut is_first_read = false;
        loop {
            let (count, is_first) = self.read_page(ino, offset, buffer)?;
            is_first_read |= is_first;
            offset += count as u64;
            if count == 0 || buffer.room() == 0 {
                break;
            }
        }
        if is_first_read {
            // The clock is not asked under a lock: that may take long.
            let now = S::now();
            self.with(ino, |inode| {
                inode.times.read(now);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Reads up to the end of the page or file, or of what a hole shows; returns the number of bytes, and whether it is the first read since a
    /// change.
    #[inline]
    fn read_page(&self, ino: Ino, offset: u64, buffer: &mut ReadBuffer<'_>) -> Result<(usize, bool), Errno> {
        self.with(ino, |inode| {
            let (file, times) = inode.file()?;
            let bytes = file.bytes(offset, buffer.room());
            Ok((buffer.append(bytes), !bytes.is_empty() && times.is_unread))
        })
    }

    /// Reads within a page, in an inode whose times do not change by that; returns the number of bytes.
    ///
    /// What is not usual is done by functions that are called last, so that this one need not save registers.
    #[inline]
    pub(super) fn read_short(&self, offset: u64, buffer: &mut [MaybeUninit<u8>], ino: Ino) -> Option<usize> {
        let Some(mut slot) = self.inodes.try_lock(ino) else {
            return self.read_after_waiting(offset, buffer, ino);
        };
        if let Some((file, start, size)) = readable(&mut slot, offset, buffer.len())
            && let Some(page) = file.pages.current(offset / PAGE_BYTES)
            && let (Some(to), Some(from)) = (buffer.get_mut(..size), page.as_ref().get(start..start + size))
            && copy_few(to, from, |to, from| _ = to.write_copy_of_slice(from)).is_some()
        {
            return Some(size);
        }
        Self::read_locked(slot, offset, buffer)
    }

    #[cold]
    #[inline(never)]
    fn read_after_waiting(&self, offset: u64, buffer: &mut [MaybeUninit<u8>], ino: Ino) -> Option<usize> {
        Self::read_locked(self.inodes.lock(ino).ok()?, offset, buffer)
    }

    #[inline(never)]
    fn read_locked(
        mut slot: LockedSlot<'_, S>,
        offset: u64,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        let (file, start, size) = readable(&mut slot, offset, buffer.len())?;
        let to = buffer.get_mut(..size)?;
        match file.pages.get_often(offset / PAGE_BYTES) {
            Some(page) => _ = to.write_copy_of_slice(page.as_ref().get(start..start + size)?),
            None => file.read_hole(offset, to)?,
        }
        Some(size)
    }

    /// Writes within a page that exists, in an inode whose times do not change by that; returns the offset behind it. As
    /// [`Self::read_short`].
    #[inline]
    pub(super) fn write_short(&self, position: WriteAt, bytes: &[u8], ino: Ino) -> Option<u64> {
        let Some(mut slot) = self.inodes.try_lock(ino) else {
            return self.write_after_waiting(position, bytes, ino);
        };
        if let Some((file, offset, end)) = writable::<S>(&mut slot, position, bytes.len())
            && let Some(page) = file.pages.current(offset / PAGE_BYTES)
            && let Some(to) = page.as_mut().get_mut(range(offset, bytes.len()))
            && copy_few(to, bytes, <[u8]>::copy_from_slice).is_some()
        {
            file.size = file.size.max(end);
            return Some(end);
        }
        Self::write_locked(slot, position, bytes)
    }

    #[cold]
    #[inline(never)]
    fn write_after_waiting(&self, position: WriteAt, bytes: &[u8], ino: Ino) -> Option<u64> {
        Self::write_locked(self.inodes.lock(ino).ok()?, position, bytes)
    }

    #[inline(never)]
    fn write_locked(mut slot: LockedSlot<'_, S>, position: WriteAt, bytes: &[u8]) -> Option<u64> {
        let (file, offset, end) = writable::<S>(&mut slot, position, bytes.len())?;
        let page = file.pages.get_often(offset / PAGE_BYTES)?;
        page.as_mut().get_mut(range(offset, bytes.len()))?.copy_from_slice(bytes);
        file.size = file.size.max(end);
        Some(end)
    }

    /// Writes bytes, fewer than requested if the space ends.
    pub(super) fn write_pages(
        &self,
        context: &Context<'_>,
        ino: Ino,
        position: WriteAt,
        bytes: &[u8],
    ) -> Reply<Written> {
        let (tick, now) = (S::tick(), S::now());
        let mut start = 0;
        let first = self.with(ino, |inode| {
            let (file, times) = inode.file()?;
            if file.writers.is_pending(context)? {
                return Ok(Poll::Pending);
            }
            start = match position {
                WriteAt::Offset(offset) => offset,
                WriteAt::End => file.size,
            };
            let bytes = bytes.get(..limited(bytes.len(), MAX_SIZE.saturating_sub(start))).unwrap_or_default();
            let count = self.write_page(file, start, bytes)?;
            if count > 0 {
                times.written(tick, now);
            }
            if count < bytes.len() {
                file.writers.begin();
            }
            Ok(Poll::Ready((count, bytes)))
        })?;
        let (first, limited) = ready!(first);
        if limited.is_empty() && !bytes.is_empty() {
            return Poll::Ready(Err(Errno::EFBIG));
        }
        let count = if first < limited.len() { self.write_rest(ino, start, first, limited) } else { first };
        Poll::Ready(Ok(Written { count, end: start + count as u64 }))
    }

    /// Writes the pages behind the first one while other writers wait; returns the number of bytes with the first.
    fn write_rest(&self, ino: Ino, start: u64, first: usize, bytes: &[u8]) -> usize {
        let mut count = first;
        while let Some(rest) = bytes.get(count..).filter(|rest| !rest.is_empty()) {
            let written = self.with(ino, |inode| {
                let (file, _) = inode.file()?;
                self.write_page(file, start + count as u64, rest)
            });
            match written {
                Ok(written) => count += written,
                Err(_) => break,
            }
        }
        self.end_writing(ino);
        count
    }

    fn end_writing(&self, ino: Ino) {
        let waiting = self.with(ino, |inode| Ok(inode.file()?.0.writers.end()));
        wake(waiting.unwrap_or_default());
    }

    /// Writes up to the end of the page; returns the number of bytes.
    #[inline]
    fn write_page(&self, file: &mut File<S::Page>, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let count = bytes.len().min(rest_of_page(offset));
        if count == 0 {
            return Ok(0);
        }
        let (index, start) = (offset / PAGE_BYTES, to_usize(offset % PAGE_BYTES));
        let (below, bytes) = (file.below(index * PAGE_BYTES), bytes.get(..count).unwrap_or_default());
        // A new page need not be filled with what is written over.
        let replaces_all = start == 0 && count >= below.len().min(PAGE_SIZE);
        let mut is_written = false;
        let missing = file.pages.missing(index);
        if missing.pages > 0 {
            self.usage.charge(missing.size())?;
        }
        let inserted = file.pages.get_or_insert(index, || {
            is_written = replaces_all;
            let start = if replaces_all { bytes } else { below };
            S::allocate_page(start.get(..PAGE_SIZE).unwrap_or(start)).ok_or(Errno::ENOSPC)
        });
        let page = match inserted {
            Ok(page) => page,
            Err(error) => {
                // Branches that are allocated stay, for the next write.
                self.usage.release(file.pages.missing(index).size());
                return Err(error);
            }
        };
        if !is_written && let Some(place) = page.as_mut().get_mut(start..start + count) {
            place.copy_from_slice(bytes);
        }
        file.size = file.size.max(offset + count as u64);
        Ok(count)
    }

    /// Changes attributes.
    pub(super) fn change(&self, context: &Context<'_>, ino: Ino, changes: &SetAttr) -> Reply<Attr> {
        let now = S::now();
        let truncated = self.with(ino, |inode| {
            let mut truncated = None;
            if let Some(size) = changes.size {
                truncated = match resize(inode.file()?.0, size, context)? {
                    Poll::Ready(truncated) => truncated,
                    Poll::Pending => return Ok(Poll::Pending),
                };
                inode.times.modified(now);
            }
            if let Some(permissions) = changes.permissions {
                inode.permissions = permissions & 0o7777;
            }
            inode.times.set(changes.atime, changes.mtime, now);
            Ok(Poll::Ready(truncated))
        })?;
        if let Some(first) = ready!(truncated) {
            self.free_pages(ino, first);
        }
        Poll::Ready(self.with(ino, |inode| Ok(inode.attr(ino))))
    }

    /// Frees the pages from number `first` on, while other writers wait.
    fn free_pages(&self, ino: Ino, first: u64) {
        let mut freed = Count::default();
        loop {
            let removed = self.with(ino, |inode| {
                let (file, _) = inode.file()?;
                file.pages.subtract(mem::take(&mut freed));
                Ok(file.pages.take_from(first))
            });
            let Ok(Some(removed)) = removed else { break };
            freed = removed.count();
            drop(removed);
            self.usage.release(freed.size());
        }
        self.end_writing(ino);
    }
}

/// Sets the size of a file. If that removes pages, returns the number of the first of them, and other writers wait.
fn resize<P: AsMut<[u8; PAGE_SIZE]>>(
    file: &mut File<P>,
    size: u64,
    context: &Context<'_>,
) -> Result<Poll<Option<u64>>, Errno> {
    if size > MAX_SIZE {
        return Err(Errno::EFBIG);
    }
    if file.writers.is_pending(context)? {
        return Ok(Poll::Pending);
    }
    let is_shorter = size < file.size;
    file.size = size;
    if !is_shorter {
        return Ok(Poll::Ready(None));
    }
    file.base = file.base.get(..to_usize(size)).unwrap_or(file.base);
    let kept = to_usize(size % PAGE_BYTES);
    if kept != 0
        && file.pages.get(size / PAGE_BYTES).is_some()
        && let Ok(page) = file.pages.get_or_insert(size / PAGE_BYTES, || Err(Errno::EIO))
        && let Some(end) = page.as_mut().get_mut(kept..)
    {
        // A longer file would show the bytes again.
        end.fill(0);
    }
    file.writers.begin();
    Ok(Poll::Ready(Some(size.div_ceil(PAGE_BYTES))))
}

#[cfg(test)]
impl<S: System> RamFs<S> {
    /// The contents of a file.
    pub(crate) fn contents(&self, ino: Ino) -> alloc::vec::Vec<u8> {
        let contents = self.with(ino, |inode| {
            let (file, _) = inode.file()?;
            let mut contents = alloc::vec::Vec::new();
            while (contents.len() as u64) < file.size {
                contents.extend_from_slice(file.bytes(contents.len() as u64, PAGE_SIZE));
            }
            Ok(contents)
        });
        contents.expect("a regular file")
    }
}
