//! Contents of a regular file in memory: its pages, its size, and its times.
//!
//! Open files and file systems share the [`Contents`] of a file by reference. One spinlock protects them. It
//! is held at most for the copy of a page, so a transfer is split at page boundaries. A write of several
//! pages holds an asynchronous mutex until its last page. So it is atomic with respect to other writes, but
//! reads can come between its pages.
//!
//! The clock is read before the lock is taken, since reading it may take long. Only the first read after a
//! change records a time (as with Linux's `relatime`), and writes within one tick record the same time. So
//! most short transfers do not change the times. Such a transfer has a fast path, `try_read` and `try_write`,
//! which never waits. A descriptor that uses a page directly ([`DirectPage`]) does not even need that.
//!
//! Pages are allocated when they are first written. A file may have a base: memory that never changes, such
//! as a part of the initramfs. The bytes of the base are visible where the file has no page.
//!
//! The same type caches pages of a file on a server (`cached.rs`). Then a page that is missing is not a hole.

mod cached;
mod page;
mod page_run;
mod pages;
mod times;
mod usage;

use alloc::sync::Arc;
use core::mem::{self, MaybeUninit};
use core::ops::Range;
use core::task::{Context, Poll, ready};

use hermit_interface::{Errno, to_usize};
use hermit_io::Access;
use lock_api::{Mutex, MutexGuard};

use crate::interface::async_mutex::{AsyncMutex, Unlocked};
use crate::interface::file_system::{ReadTarget, Reply, WriteAt, Written};
use crate::interface::system::Lock;
use crate::interface::{PAGE_SIZE, SetAttr, System, Time};
use cached::Validity;
use page::{CachedPage, Permission};
use pages::{Count, SparsePages};

pub use page::DirectPage;
pub(crate) use page_run::PageRun;
pub(crate) use pages::PAGE_BYTES;
pub(crate) use times::Times;
pub(crate) use usage::Usage;

/// Maximum size of a file in bytes.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Contents of a hole.
const ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// Contents of a regular file, or cached pages of one.
#[derive(Debug)]
pub struct Contents<S: System> {
    state: Lock<S, State<S>>,
    /// Counts the memory of the pages.
    usage: Arc<Usage>,
}

#[derive(Debug)]
struct State<S: System> {
    size: u64,
    pages: SparsePages<Arc<CachedPage<S>>>,
    /// Bytes that are visible where the file has no pages. Not longer than the file.
    base: &'static [u8],
    times: Times,
    /// Serialises writers that change more than one page. The spinlock is not enough, since it is released
    /// between two pages.
    writers: AsyncMutex,
    /// The page that descriptors may use directly. It is one of `pages`.
    direct: Option<Arc<CachedPage<S>>>,
    /// Validity of the pages, if they are cached. `None` if the file is in memory.
    validity: Option<Validity>,
}

/// Result of a transfer on the fast path.
#[derive(Debug)]
pub struct Transfer<S: System> {
    /// Number of bytes that were read, or the offset in the file after the written bytes.
    pub(crate) value: u64,
    /// The page of the transfer, if the descriptor may now use it directly.
    pub(crate) page: DirectPage<S>,
}

/// Work that a change of the size leaves to its caller.
#[derive(Debug, Default)]
struct Resized {
    /// Number of the first page to be freed. Other writers wait until this is done.
    first_removed: Option<u64>,
    unlocked: Unlocked,
}

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

/// Returns the range of `size` bytes from an offset on, relative to the offset's page.
#[inline]
const fn range(offset: u64, size: usize) -> Range<usize> {
    let start = to_usize(offset % PAGE_BYTES);
    start..start + size
}

impl<S: System> State<S> {
    /// Withdraws the permission to use a page directly. Called before any change of the file or its times.
    #[inline(always)]
    fn end_direct_use(&mut self) {
        if let Some(page) = self.direct.take() {
            page.withdraw();
        }
    }

    /// Permits descriptors to use the page of an offset directly, as far as that changes no time. The page
    /// replaces the page for which this was permitted before.
    #[inline]
    fn share_page(&mut self, page: Option<Arc<CachedPage<S>>>, offset: u64, access: Access) -> DirectPage<S> {
        let Some(page) = page else { return DirectPage::None };
        if !self.direct.as_ref().is_some_and(|direct| Arc::ptr_eq(direct, &page)) {
            self.end_direct_use();
            self.direct = Some(Arc::clone(&page));
        }
        let start = offset - offset % PAGE_BYTES;
        let size = limited(PAGE_SIZE, self.size.saturating_sub(start));
        page.permit(Permission {
            start,
            readable: if self.times.is_unread { 0 } else { size },
            writable: if self.writers.is_locked() || self.validity.is_some() { 0 } else { size },
            tick: self.validity.as_ref().map_or(self.times.written_at, |validity| validity.checked_at),
            expires: self.validity.is_some(),
        });
        DirectPage::new(page, access)
    }

    /// Returns the offset at which a write begins.
    #[inline]
    const fn start_of(&self, position: WriteAt) -> u64 {
        match position {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => self.size,
        }
    }

    /// Returns the bytes of the base from an offset on. The result is empty only after the end of the base.
    #[inline]
    fn below(&self, offset: u64) -> &'static [u8] {
        self.base.get(to_usize(offset)..).unwrap_or_default()
    }

    /// Returns at most `size` bytes of a hole, from the base or zeros.
    fn hole(&self, offset: u64, size: usize) -> &'static [u8] {
        let below = self.below(offset);
        let bytes = if below.is_empty() { &ZEROS } else { below };
        bytes.get(..size).unwrap_or(bytes)
    }

    /// Reads up to the end of the page, of the file or of the hole, whichever comes first. Returns the number
    /// of bytes.
    #[inline]
    fn read_page(&self, offset: u64, buffer: &mut dyn ReadTarget) -> usize {
        let size = buffer.room().min(rest_of_page(offset));
        let size = limited(size, self.size.saturating_sub(offset));
        match self.pages.get(offset / PAGE_BYTES) {
            Some(page) => {
                page.with(|bytes| buffer.append(bytes.get(range(offset, size)).unwrap_or_default()))
            }
            None => buffer.append(self.hole(offset, size)),
        }
    }

    /// Creates page `index` with `allocate` if it is missing, and counts the memory that it takes.
    #[inline]
    fn create_missing(
        &mut self,
        usage: &Usage,
        index: u64,
        allocate: impl FnOnce() -> Result<Arc<CachedPage<S>>, Errno>,
    ) -> Result<(), Errno> {
        let missing = self.pages.missing(index);
        if missing.pages == 0 {
            return Ok(());
        }
        usage.charge(missing.size())?;
        let inserted = self.pages.get_or_insert(index, allocate).map(drop);
        // Only the page and branches that are still missing are released. Branches that were already
        // allocated stay in the tree for the next write.
        inserted.inspect_err(|_| usage.release(self.pages.missing(index).size()))
    }

    /// Writes up to the end of the page. Returns the number of bytes.
    #[inline]
    fn write_page(&mut self, usage: &Usage, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let count = bytes.len().min(rest_of_page(offset));
        if count == 0 {
            return Ok(0);
        }
        let index = offset / PAGE_BYTES;
        let (below, bytes) = (self.below(index * PAGE_BYTES), bytes.get(..count).unwrap_or_default());
        // A new page that is overwritten completely need not be filled first.
        let replaces_all = offset.is_multiple_of(PAGE_BYTES) && count >= below.len().min(PAGE_SIZE);
        let mut is_written = false;
        let allocate = || {
            is_written = replaces_all;
            let start = if replaces_all { bytes } else { below };
            let page = S::allocate_page(start.get(..PAGE_SIZE).unwrap_or(start)).ok_or(Errno::ENOSPC)?;
            S::arc(CachedPage::new(page)).ok_or(Errno::ENOSPC)
        };
        self.create_missing(usage, index, allocate)?;
        if !is_written && let Some(page) = self.pages.get(index) {
            copy_to_page(page, offset, bytes);
        }
        self.size = self.size.max(offset + count as u64);
        Ok(count)
    }

    /// Sets the size of the file.
    fn resize(&mut self, size: u64, context: &Context<'_>) -> Result<Poll<Resized>, Errno> {
        if size > MAX_SIZE {
            return Err(Errno::EFBIG);
        }
        if self.writers.poll_lock(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        let is_shorter = size < self.size;
        self.size = size;
        if !is_shorter {
            return Ok(Poll::Ready(Resized { first_removed: None, unlocked: self.writers.unlock() }));
        }
        self.base = self.base.get(..to_usize(size)).unwrap_or(self.base);
        let kept = to_usize(size % PAGE_BYTES);
        if kept != 0
            && let Some(page) = self.pages.get(size / PAGE_BYTES)
        {
            // The rest of the last page is cleared. Otherwise the old bytes would reappear when the file
            // grows again.
            page.with(|bytes| bytes.iter_mut().skip(kept).for_each(|byte| *byte = 0));
        }
        let first_removed = Some(size.div_ceil(PAGE_BYTES));
        Ok(Poll::Ready(Resized { first_removed, unlocked: Unlocked::default() }))
    }
}

impl<S: System> Drop for Contents<S> {
    fn drop(&mut self) {
        self.usage.release(self.state.get_mut().pages.count().size());
    }
}

/// Copies bytes to a page. They do not extend beyond the end of the page.
#[inline]
fn copy_to_page<S: System>(page: &CachedPage<S>, offset: u64, bytes: &[u8]) {
    page.with(|page| {
        if let Some(place) = page.get_mut(range(offset, bytes.len())) {
            place.copy_from_slice(bytes);
        }
    });
}

impl<S: System> Contents<S> {
    /// Creates contents that consist of the base. Its bytes are not copied until they are written. Returns
    /// `None` without memory.
    pub(crate) fn new(base: &'static [u8], usage: &Arc<Usage>, now: Time) -> Option<Arc<Self>> {
        S::arc_with(|| Self::with(base, usage, Times::new(now), None))
    }

    #[inline]
    fn with(base: &'static [u8], usage: &Arc<Usage>, times: Times, validity: Option<Validity>) -> Self {
        Self {
            state: Mutex::new(State {
                size: base.len() as u64,
                pages: SparsePages::new(),
                base,
                times,
                writers: AsyncMutex::new(),
                direct: None,
                validity,
            }),
            usage: Arc::clone(usage),
        }
    }

    /// Locks the contents for a use that may change them or their times.
    #[inline(always)]
    fn lock(&self) -> MutexGuard<'_, S::RawLock, State<S>> {
        let mut state = self.state.lock();
        state.end_direct_use();
        state
    }

    /// Calls `make` with the part of the attributes that the contents have: the size in bytes, the allocated
    /// bytes including those of the base, and the times. The lock is held meanwhile.
    #[inline(always)]
    pub(crate) fn with_attr<T>(&self, make: impl FnOnce(u64, u64, &Times) -> T) -> T {
        let state = self.state.lock();
        let base = (state.base.len() as u64).next_multiple_of(512);
        let allocated = state.pages.count().pages * PAGE_BYTES + base;
        make(state.size, allocated, &state.times)
    }

    /// Changes the times of the file.
    #[inline]
    pub(crate) fn change_times<T>(&self, change: impl FnOnce(&mut Times) -> T) -> T {
        change(&mut self.lock().times)
    }

    /// Reads from an offset on, up to the end of the file.
    pub(crate) fn read(&self, offset: u64, buffer: &mut dyn ReadTarget) {
        let mut offset = offset;
        let mut is_first_read = false;
        loop {
            let state = self.state.lock();
            let count = state.read_page(offset, buffer);
            is_first_read |= count > 0 && state.times.is_unread;
            drop(state);
            offset += count as u64;
            if count == 0 || buffer.room() == 0 {
                break;
            }
        }
        if is_first_read {
            // The clock is read without a lock, since reading it may take long.
            let now = S::now();
            self.change_times(|times| times.read(now));
        }
    }

    /// Reads within a page if this does not change the times of the file. The caller may hold a spinlock. If
    /// the descriptor has not read the whole page, it may use the page directly afterwards.
    pub(crate) fn try_read(
        &self,
        offset: u64,
        buffer: &mut [MaybeUninit<u8>],
        access: Access,
    ) -> Option<Transfer<S>> {
        let mut state = self.state.lock();
        let size = limited(buffer.len(), state.size.saturating_sub(offset));
        if size > rest_of_page(offset) || state.times.is_unread || !state.is_readable(size, buffer.len()) {
            return None;
        }
        let to = buffer.get_mut(..size)?;
        let Some(page) = state.pages.get(offset / PAGE_BYTES) else {
            let bytes = state.hole(offset, size);
            if bytes.len() != size || state.validity.is_some() {
                return None;
            }
            to.write_copy_of_slice(bytes);
            return Some(Transfer { value: size as u64, page: DirectPage::None });
        };
        page.with(|bytes| _ = to.write_copy_of_slice(bytes.get(range(offset, size)).unwrap_or_default()));
        let page = (size < PAGE_SIZE).then(|| Arc::clone(page));
        Some(Transfer { value: size as u64, page: state.share_page(page, offset, access) })
    }

    /// Writes within an existing page if this does not change the times of the file. The caller may hold a
    /// spinlock. If the descriptor has not written the whole page, it may use the page directly afterwards.
    pub(crate) fn try_write(&self, position: WriteAt, bytes: &[u8], access: Access) -> Option<Transfer<S>> {
        let tick = S::tick();
        let mut state = self.state.lock();
        let offset = state.start_of(position);
        let end = offset.checked_add(bytes.len() as u64)?;
        let is_short = bytes.len() <= rest_of_page(offset) && end <= MAX_SIZE;
        if !is_short || state.times.written_at != tick || state.writers.is_locked() {
            return None;
        }
        let page = state.pages.get(offset / PAGE_BYTES)?;
        copy_to_page(page, offset, bytes);
        let page = (bytes.len() < PAGE_SIZE && access.writes).then(|| Arc::clone(page));
        state.size = state.size.max(end);
        Some(Transfer { value: end, page: state.share_page(page, offset, access) })
    }

    /// Writes bytes. Writes fewer than requested if there is no more space.
    ///
    /// # Errors
    ///
    /// `EFBIG`, `ENOSPC`, `ENOMEM`.
    pub(crate) fn poll_write(
        &self,
        context: &Context<'_>,
        position: WriteAt,
        bytes: &[u8],
    ) -> Reply<Written> {
        let (tick, now) = (S::tick(), S::now());
        let mut state = self.lock();
        ready!(state.writers.poll_lock(context))?;
        let start = state.start_of(position);
        let limited = bytes.get(..limited(bytes.len(), MAX_SIZE.saturating_sub(start))).unwrap_or_default();
        let first = state.write_page(&self.usage, start, limited);
        if first.is_ok_and(|count| count > 0) {
            state.times.written(tick, now);
        }
        // If pages remain to be written, the mutex stays locked, so that other writers wait.
        let has_more = first.is_ok_and(|count| count < limited.len());
        let unlocked = if has_more { Unlocked::default() } else { state.writers.unlock() };
        drop(state);
        unlocked.wake();
        let first = first?;
        if limited.is_empty() && !bytes.is_empty() {
            return Poll::Ready(Err(Errno::EFBIG));
        }
        let count = if has_more { self.write_rest(start, first, limited) } else { first };
        Poll::Ready(Ok(Written { count, end: Some(start + count as u64) }))
    }

    /// Writes the pages after the first page, while other writers wait. `first` is the number of bytes in the
    /// first page. Returns the number of written bytes, including the first page.
    fn write_rest(&self, start: u64, first: usize, bytes: &[u8]) -> usize {
        let mut count = first;
        while let Some(rest) = bytes.get(count..).filter(|rest| !rest.is_empty()) {
            let written = self.lock().write_page(&self.usage, start + count as u64, rest);
            match written {
                Ok(written) => count += written,
                Err(_) => break,
            }
        }
        self.end_writing();
        count
    }

    fn end_writing(&self) {
        let unlocked = self.state.lock().writers.unlock();
        unlocked.wake();
    }

    /// Changes the size and the times of the file.
    ///
    /// # Errors
    ///
    /// `EFBIG`, `ENOMEM`.
    pub(crate) fn poll_change(&self, context: &Context<'_>, changes: &SetAttr) -> Reply<()> {
        let now = S::now();
        let mut state = self.lock();
        let mut resized = Resized::default();
        if let Some(size) = changes.size {
            resized = ready!(state.resize(size, context)?);
            state.times.modified(now);
        }
        state.times.set(changes.atime, changes.mtime, now);
        drop(state);
        resized.unlocked.wake();
        if let Some(first) = resized.first_removed {
            // Other writers wait meanwhile, so the size does not change.
            self.free_pages(first, MAX_SIZE);
            self.end_writing();
        }
        Poll::Ready(Ok(()))
    }

    /// Frees all pages whose number is at least `first`. The size of the file is at most `size` afterwards.
    fn free_pages(&self, first: u64, size: u64) {
        let mut freed = Count::default();
        loop {
            let mut state = self.lock();
            state.size = state.size.min(size);
            state.pages.subtract(mem::take(&mut freed));
            let removed = state.pages.take_from(first);
            drop(state);
            let Some(removed) = removed else { break };
            freed = removed.count();
            drop(removed);
            self.usage.release(freed.size());
        }
    }

    /// Returns all bytes.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) fn bytes(&self) -> alloc::vec::Vec<u8> {
        let state = self.state.lock();
        let mut bytes = alloc::vec::Vec::new();
        while (bytes.len() as u64) < state.size {
            let offset = bytes.len() as u64;
            let size = limited(rest_of_page(offset), state.size - offset);
            match state.pages.get(offset / PAGE_BYTES) {
                Some(page) => page.with(|page| bytes.extend_from_slice(&page[range(offset, size)])),
                None => bytes.extend_from_slice(state.hole(offset, size)),
            }
        }
        bytes
    }
}
