//! Contents and attributes of the inodes of a ramfs.
//!
//! A transfer is split at page boundaries, and each page is copied under the lock of the inode. The clock is
//! read before the lock is taken, since reading it may take long. Only the first read after a change records
//! a time (as with Linux's `relatime`), and writes within one tick record the same time. So most short
//! transfers do not change the times of the inode. A write of several pages holds the file's `AsyncMutex`
//! until its last page. So it is atomic with respect to other writes, but reads can come between its pages.

use core::mem::{self, MaybeUninit};
use core::ops::Range;
use core::task::{Context, Poll, ready};

use hermit_interface::{Errno, to_usize};
use hermit_io::{Access, ReadBuffer};

use super::RamFs;
use super::inode::{Body, File, Inode};
use super::pages::{Count, PAGE_BYTES};
use crate::async_mutex::Unlocked;
use crate::file_system::{Reply, WriteAt, Written};
use crate::page_window::Lent;
use crate::{Attr, Ino, PAGE_SIZE, PageWindow, SetAttr, System};

/// Maximum size of a file in bytes.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Contents of a hole.
const ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// Number of bytes from an offset to the end of its page.
#[inline]
const fn rest_of_page(offset: u64) -> usize {
    PAGE_SIZE - (offset % PAGE_BYTES) as usize
}

/// Limits `size` to a number of bytes.
#[inline]
fn limited(size: usize, limit: u64) -> usize {
    usize::try_from(limit).map_or(size, |limit| size.min(limit))
}

impl<S: System> File<S> {
    /// Returns at most `size` bytes of the file, starting at an offset, that are contiguous in memory. They
    /// do not extend beyond the end of the page. The result is empty only at the end of the file.
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

    /// Fills the buffer from a hole, or from the contents below the hole. Returns `None` if the contiguous
    /// bytes do not fill the buffer.
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

/// Returns the range of `size` bytes from an offset on, relative to the offset's page.
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
            // The clock is read without a lock, since reading it may take long.
            let now = S::now();
            self.with(ino, |inode| {
                inode.times.read(now);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Reads up to the end of the page, of the file or of the hole, whichever comes first. Returns the number
    /// of bytes, and true if this is the first read since a change of the file.
    #[inline]
    fn read_page(&self, ino: Ino, offset: u64, buffer: &mut ReadBuffer<'_>) -> Result<(usize, bool), Errno> {
        self.with(ino, |inode| {
            let (file, times) = inode.file()?;
            let bytes = file.bytes(offset, buffer.room());
            Ok((buffer.append(bytes), !bytes.is_empty() && times.is_unread))
        })
    }

    /// Reads within a page if this does not change the times of the inode. Returns the number of bytes.
    pub(super) fn read_short(&self, offset: u64, buffer: &mut [MaybeUninit<u8>], ino: Ino) -> Option<usize> {
        let mut slot = self.inodes.lock(ino).ok()?;
        let Inode { body: Body::File(file), times, .. } = slot.inode.as_mut()? else { return None };
        let size = limited(buffer.len(), file.size.saturating_sub(offset));
        if size > rest_of_page(offset) || times.is_unread {
            return None;
        }
        let to = buffer.get_mut(..size)?;
        file.take_back_page();
        match file.pages.get(offset / PAGE_BYTES) {
            Some(page) => _ = to.write_copy_of_slice(page.as_ref().get(range(offset, size))?),
            None => file.read_hole(offset, to)?,
        }
        Some(size)
    }

    /// Writes within an existing page if this does not change the times of the inode. Returns the offset
    /// after the written bytes.
    pub(super) fn write_short(&self, position: WriteAt, bytes: &[u8], ino: Ino) -> Option<u64> {
        let mut slot = self.inodes.lock(ino).ok()?;
        let Inode { body: Body::File(file), times, .. } = slot.inode.as_mut()? else { return None };
        let offset = match position {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => file.size,
        };
        let end = offset.checked_add(bytes.len() as u64)?;
        let is_short = bytes.len() <= rest_of_page(offset) && end <= MAX_SIZE;
        if !is_short || times.written_at != S::tick() || file.writers.is_locked() {
            return None;
        }
        file.take_back_page();
        let page = file.pages.get_mut(offset / PAGE_BYTES)?;
        page.as_mut().get_mut(range(offset, bytes.len()))?.copy_from_slice(bytes);
        file.size = file.size.max(end);
        Some(end)
    }

    /// Lends an existing page to the window of a descriptor.
    pub(super) fn lend(&self, ino: Ino, offset: u64, access: Access, window: &'static PageWindow<S>) {
        let Ok(mut slot) = self.inodes.lock(ino) else { return };
        let Some(Inode { body: Body::File(file), times, .. }) = slot.inode.as_mut() else { return };
        file.take_back_page();
        let index = offset / PAGE_BYTES;
        let Some(page) = file.pages.take(index) else { return };
        let start = index * PAGE_BYTES;
        let size = limited(PAGE_SIZE, file.size.saturating_sub(start));
        window.show(Lent {
            start,
            page,
            // The window permits only accesses that do not change the times of the inode.
            readable: if access.reads && !times.is_unread { size } else { 0 },
            writable: if access.writes && !file.writers.is_locked() { size } else { 0 },
            tick: times.written_at,
        });
        file.window = Some(window);
    }

    /// Writes bytes. Writes fewer than requested if there is no more space.
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
            if file.writers.poll_lock(context)?.is_pending() {
                return Ok(Poll::Pending);
            }
            start = match position {
                WriteAt::Offset(offset) => offset,
                WriteAt::End => file.size,
            };
            let bytes = bytes.get(..limited(bytes.len(), MAX_SIZE.saturating_sub(start))).unwrap_or_default();
            let count = self.write_page(file, start, bytes);
            if count.is_ok_and(|count| count > 0) {
                times.written(tick, now);
            }
            // If pages remain to be written, the mutex stays locked, so that other writers wait.
            let has_more = count.is_ok_and(|count| count < bytes.len());
            let unlocked = if has_more { Unlocked::default() } else { file.writers.unlock() };
            Ok(Poll::Ready((count, bytes, unlocked)))
        })?;
        let (first, limited, unlocked) = ready!(first);
        unlocked.wake();
        let first = first?;
        if limited.is_empty() && !bytes.is_empty() {
            return Poll::Ready(Err(Errno::EFBIG));
        }
        let count = if first < limited.len() { self.write_rest(ino, start, first, limited) } else { first };
        Poll::Ready(Ok(Written { count, end: Some(start + count as u64) }))
    }

    /// Writes the pages after the first page, while other writers wait. `first` is the number of bytes in the
    /// first page. Returns the number of written bytes, including the first page.
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
        let unlocked = self.with(ino, |inode| Ok(inode.file()?.0.writers.unlock()));
        unlocked.unwrap_or_default().wake();
    }

    /// Writes up to the end of the page. Returns the number of bytes.
    #[inline]
    fn write_page(&self, file: &mut File<S>, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let count = bytes.len().min(rest_of_page(offset));
        if count == 0 {
            return Ok(0);
        }
        let (index, start) = (offset / PAGE_BYTES, to_usize(offset % PAGE_BYTES));
        let (below, bytes) = (file.below(index * PAGE_BYTES), bytes.get(..count).unwrap_or_default());
        // A new page that is overwritten completely need not be filled first.
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
                // Only the page and branches that are still missing are released. Branches that were already
                // allocated stay in the tree for the next write.
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
        let resized = self.with(ino, |inode| {
            let mut resized = Resized::default();
            if let Some(size) = changes.size {
                resized = match resize(inode.file()?.0, size, context)? {
                    Poll::Ready(resized) => resized,
                    Poll::Pending => return Ok(Poll::Pending),
                };
                inode.times.modified(now);
            }
            if let Some(permissions) = changes.permissions {
                inode.permissions = permissions & 0o7777;
            }
            inode.times.set(changes.atime, changes.mtime, now);
            Ok(Poll::Ready(resized))
        })?;
        let Resized { first_removed, unlocked } = ready!(resized);
        unlocked.wake();
        if let Some(first) = first_removed {
            self.free_pages(ino, first);
        }
        Poll::Ready(self.with(ino, |inode| Ok(inode.attr(ino))))
    }

    /// Frees all pages whose number is at least `first`, while other writers wait.
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

/// Work that [`resize`] leaves to its caller, which must do it after it has released the lock of the inode.
#[derive(Debug, Default)]
struct Resized {
    /// Number of the first page to be freed. Other writers wait until this is done.
    first_removed: Option<u64>,
    unlocked: Unlocked,
}

/// Sets the size of a file.
fn resize<S: System>(file: &mut File<S>, size: u64, context: &Context<'_>) -> Result<Poll<Resized>, Errno> {
    if size > MAX_SIZE {
        return Err(Errno::EFBIG);
    }
    if file.writers.poll_lock(context)?.is_pending() {
        return Ok(Poll::Pending);
    }
    let is_shorter = size < file.size;
    file.size = size;
    if !is_shorter {
        return Ok(Poll::Ready(Resized { first_removed: None, unlocked: file.writers.unlock() }));
    }
    file.base = file.base.get(..to_usize(size)).unwrap_or(file.base);
    let kept = to_usize(size % PAGE_BYTES);
    if kept != 0
        && file.pages.get(size / PAGE_BYTES).is_some()
        && let Ok(page) = file.pages.get_or_insert(size / PAGE_BYTES, || Err(Errno::EIO))
        && let Some(end) = page.as_mut().get_mut(kept..)
    {
        // The rest of the last page is cleared. Otherwise the old bytes would reappear when the file grows
        // again.
        end.fill(0);
    }
    let first_removed = Some(size.div_ceil(PAGE_BYTES));
    Ok(Poll::Ready(Resized { first_removed, unlocked: Unlocked::default() }))
}

#[cfg(test)]
#[cfg(not(loom))]
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
