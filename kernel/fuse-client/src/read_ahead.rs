//! Read-ahead: serves consecutive small reads of a program from a few large requests.
//!
//! A window has data of one opening. The data are dropped after [`MAX_AGE`], and when this client writes to
//! the inode. A window serves either a whole read or no part of it, because a read must not be short before
//! the end of the file.
//!
//! The size of the requests doubles with each request of a sequence. A reply may be older than a write that
//! this client has made since the request. So writes are counted, and data are kept only if no write has
//! begun or ended since the request for them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};
use core::mem;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_fs::{Ino, OpenInode};
use hermit_interface::to_usize;
use hermit_io::ReadBuffer;
use lock_api::{Mutex, RawMutex};

use crate::handle::Handle;
use crate::transport::Transport;

/// Size in bytes of the first request of a sequence. The size doubles with each further request, up to
/// [`MAX_AHEAD`].
const FIRST_AHEAD: usize = 128 << 10;

/// Maximum size in bytes of a request.
pub(crate) const MAX_AHEAD: usize = 512 << 10;

/// Maximum size in bytes of reads for which reading ahead is worthwhile. The first request has the size of
/// two such reads.
const MAX_READ: usize = FIRST_AHEAD / 2;

/// Time in nanoseconds for which data are used. It is the validity of names and attributes with the policy
/// `auto` of uhyve and virtiofsd.
const MAX_AGE: u64 = 1_000_000_000;

/// Number of windows. The handle of an opening selects its window.
const WINDOWS: usize = 8;

/// Number of bits for the size in the state of a request.
const SIZE_BITS: u32 = 24;

/// State of a read request that is needed when its reply arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// Number of changes when the request was made, modulo 2^40.
    changes: u64,
    /// Number of requested bytes.
    size: usize,
}

impl ReadRequest {
    const MAX_SIZE: usize = (1 << SIZE_BITS) - 1;

    /// Encodes this value as the state of a request. A size that does not fit becomes the largest size that
    /// fits, so that a complete reply does not look like one that ends at the end of the file.
    pub(crate) fn encode(self) -> u64 {
        self.changes << SIZE_BITS | self.size.min(Self::MAX_SIZE) as u64
    }

    pub(crate) fn decode(state: u64) -> Self {
        Self { changes: state >> SIZE_BITS, size: to_usize(state) & Self::MAX_SIZE }
    }
}

/// Data that were read ahead for an opening.
#[derive(Debug, Default)]
struct Window {
    /// Inode and handle of the opening.
    owner: Option<(Ino, u64)>,
    /// Offset at which the next read begins if the reads are sequential.
    next: u64,
    /// Size in bytes of the last request of the sequence; 0: none yet.
    ahead: usize,
    /// Offset of the data in the file, and offset of the end of the data. They are equal if there are no
    /// data.
    start: u64,
    end: u64,
    /// True if the file ends after the data.
    is_last: bool,
    /// Time of the request for the data.
    since: u64,
    /// The data. They are replaced only while no other thread copies from them.
    data: Arc<Vec<u8>>,
}

impl Window {
    /// Returns the range within the data of the bytes that a read asks for, up to the end of the file.
    /// Returns `None` if the data do not include all these bytes, or are too old.
    fn find(&self, file: OpenInode, offset: u64, size: usize, now: u64) -> Option<Range<usize>> {
        let is_current =
            self.owner == Some((file.ino, file.handle)) && now.saturating_sub(self.since) < MAX_AGE;
        let wanted = offset.saturating_add(size as u64);
        let end = if self.is_last { wanted.min(self.end) } else { wanted };
        let is_found = is_current && self.start <= offset && offset < end && end <= self.end;
        is_found.then(|| to_usize(offset - self.start)..to_usize(end - self.start))
    }

    /// Removes the data of the window. Returns their memory, unless another thread is copying from it.
    fn clear(&mut self) -> Vec<u8> {
        self.end = self.start;
        Arc::get_mut(&mut self.data).map(mem::take).unwrap_or_default()
    }
}

/// The windows of a client.
pub(crate) struct ReadAhead<T: Transport> {
    windows: [Mutex<T::RawLock, Window>; WINDOWS],
    /// Number of changes to files.
    changes: AtomicU64,
}

impl<T: Transport> Debug for ReadAhead<T> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("ReadAhead").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl<T: Transport> ReadAhead<T> {
    pub(crate) fn new() -> Self {
        Self {
            windows: core::array::from_fn(|_| Mutex::const_new(RawMutex::INIT, Window::default())),
            changes: AtomicU64::new(0),
        }
    }

    fn window(&self, handle: u64) -> &Mutex<T::RawLock, Window> {
        // Known servers have small numbers as handles. The lower bits of an encoded handle belong to the
        // client, so they are removed.
        &self.windows[to_usize(handle >> Handle::BITS) % WINDOWS]
    }

    /// Returns the number of changes so far, modulo 2^40, so that it fits into the state of a request.
    fn changes(&self) -> u64 {
        self.changes.load(Acquire) & (u64::MAX >> SIZE_BITS)
    }

    /// Fills a buffer with data from an offset on, up to the end of the file. If the window does not have all
    /// these bytes, returns false and appends nothing.
    pub(crate) fn read(&self, file: OpenInode, offset: u64, buffer: &mut ReadBuffer<'_>, now: u64) -> bool {
        let mut window = self.window(file.handle).lock();
        let Some(found) = window.find(file, offset, buffer.room(), now) else { return false };
        window.next = offset + found.len() as u64;
        let data = Arc::clone(&window.data);
        drop(window);
        buffer.append(data.get(found).unwrap_or_default());
        true
    }

    /// Returns the state for a request for `size` bytes that is made now.
    pub(crate) fn request(&self, size: usize) -> ReadRequest {
        ReadRequest { changes: self.changes(), size }
    }

    /// Returns the number of bytes to request for a read that no window can serve. If the read continues the
    /// previous read, this is more than `size`.
    pub(crate) fn wanted(&self, file: OpenInode, offset: u64, size: usize) -> usize {
        let mut locked = self.window(file.handle).lock();
        let window = &mut *locked;
        let is_next = window.owner == Some((file.ino, file.handle)) && window.next == offset;
        window.ahead = match window.ahead {
            _ if !is_next || size > MAX_READ => 0,
            0 => FIRST_AHEAD,
            ahead => MAX_AHEAD.min(ahead * 2),
        };
        window.ahead.max(size)
    }

    /// Notes that a read has ended at the offset `next`. `copy` appends the rest of the reply to a vector.
    /// This rest is kept as the data at `next`, unless this client has begun or ended a write since the
    /// request.
    pub(crate) fn finish(
        &self,
        file: OpenInode,
        next: u64,
        (request, since, size): (ReadRequest, u64, usize),
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        // The memory is allocated, filled and freed without the lock.
        let mut data = self.window(file.handle).lock().clear();
        data.clear();
        copy(&mut data);
        let mut locked = self.window(file.handle).lock();
        let window = &mut *locked;
        (window.owner, window.next) = (Some((file.ino, file.handle)), next);
        (window.start, window.end, window.since) = (next, next, since);
        window.is_last = size < request.size;
        if let Some(kept) = Arc::get_mut(&mut window.data)
            && self.changes() == request.changes
        {
            mem::swap(kept, &mut data);
            window.end = next + kept.len() as u64;
        }
        drop(locked);
    }

    /// Drops the data of an inode. Called both before and after a write to the inode.
    pub(crate) fn invalidate(&self, ino: Ino) {
        self.changes.fetch_add(1, Release);
        for window in &self.windows {
            let mut window = window.lock();
            if window.owner.is_some_and(|(owner, _)| owner == ino) {
                window.end = window.start;
            }
        }
    }

    /// Frees the memory of all windows.
    pub(crate) fn reclaim(&self) {
        for window in &self.windows {
            let data = window.lock().clear();
            drop(data);
        }
    }

    /// Frees the memory of an opening when it ends.
    pub(crate) fn release(&self, file: OpenInode) {
        let mut window = self.window(file.handle).lock();
        if window.owner == Some((file.ino, file.handle)) {
            window.owner = None;
            let data = window.clear();
            drop(window);
            drop(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_AGE, ReadRequest, Window};
    use alloc::sync::Arc;
    use alloc::vec;
    use hermit_fs::{Ino, OpenInode};

    const FILE: OpenInode = OpenInode { ino: Ino(5), handle: 8 };

    #[test]
    fn window_has_whole_reads_only() {
        let mut window = Window {
            owner: Some((FILE.ino, FILE.handle)),
            start: 1000,
            end: 1100,
            since: 7,
            data: Arc::new(vec![0; 100]),
            ..Window::default()
        };
        let find = |window: &Window, offset, size| window.find(FILE, offset, size, 7);
        assert_eq!(find(&window, 1000, 100), Some(0..100));
        assert_eq!(find(&window, 1040, 30), Some(40..70));
        for (offset, size) in [(999, 10), (1040, 61), (1100, 1), (u64::MAX, 9)] {
            assert_eq!(find(&window, offset, size), None, "{offset}");
        }
        window.is_last = true;
        assert_eq!(find(&window, 1040, 61), Some(40..100));
        assert_eq!(find(&window, 1100, 1), None);
        assert_eq!(window.find(FILE, 1000, 1, 7 + MAX_AGE), None);
        assert_eq!(window.find(OpenInode { handle: 12, ..FILE }, 1000, 1, 7), None);
        assert_eq!((window.clear().len(), find(&window, 1000, 1)), (100, None));
    }

    #[test]
    fn request_survives_as_state() {
        let request = ReadRequest { changes: (1 << 40) - 1, size: 1 << 20 };
        assert_eq!(ReadRequest::decode(request.encode()), request);
    }
}
