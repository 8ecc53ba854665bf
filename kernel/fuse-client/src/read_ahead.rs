//! Data that were read ahead: what a program reads in small pieces, one after the other, is asked for in
//! large ones.
//!
//! A window has data of one opening. They are dropped after [`MAX_AGE`], and when anything is written to
//! their inode by this client. A window serves a read as a whole or not at all: a read that ends before the
//! end of the file is not short.

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

/// Size in bytes of what a sequence of reads asks for at first. It doubles with each further request, up to
/// [`MAX_AHEAD`].
const FIRST_AHEAD: usize = 128 << 10;

/// Maximum size in bytes of what is read at once.
pub(crate) const MAX_AHEAD: usize = 512 << 10;

/// Maximum size in bytes of reads for which it is worth while: those of half of the size are two.
const MAX_READ: usize = FIRST_AHEAD / 2;

/// Time in nanoseconds for which data are used: that of names and attributes in the policy `auto` of uhyve
/// and virtiofsd.
const MAX_AGE: u64 = 1_000_000_000;

/// Number of windows: a window is chosen by the opening's handle.
const WINDOWS: usize = 8;

/// Number of bits for the size in the state of a request.
const SIZE_BITS: u32 = 24;

/// What is known of a request to read when its reply arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// Number of changes when it was made, modulo 2^40.
    changes: u64,
    /// Number of bytes that it asked for.
    size: usize,
}

impl ReadRequest {
    const MAX_SIZE: usize = (1 << SIZE_BITS) - 1;

    /// As the state of a request. A size that does not fit is the largest one, so the end of the file is not
    /// found by it.
    pub(crate) fn encode(self) -> u64 {
        self.changes << SIZE_BITS | self.size.min(Self::MAX_SIZE) as u64
    }

    pub(crate) fn decode(state: u64) -> Self {
        Self { changes: state >> SIZE_BITS, size: to_usize(state) & Self::MAX_SIZE }
    }
}

/// What was read ahead for an opening.
#[derive(Debug, Default)]
struct Window {
    /// Inode and handle of the opening.
    owner: Option<(Ino, u64)>,
    /// Offset at which the next read begins if the program reads one piece after the other.
    next: u64,
    /// Size in bytes of what the sequence has asked for last; 0: nothing yet.
    ahead: usize,
    /// Offsets in the file of the first byte of the data and behind the last one; equal if there are none.
    start: u64,
    end: u64,
    /// Whether the file ended behind the data.
    is_last: bool,
    /// When the data were asked for.
    since: u64,
    /// The data. Replaced only while no other thread copies from them.
    data: Arc<Vec<u8>>,
}

impl Window {
    /// Where in the data those of a read are: all of its bytes, or those up to the end of the file. `None` if
    /// they are not there or too old.
    fn find(&self, file: OpenInode, offset: u64, size: usize, now: u64) -> Option<Range<usize>> {
        let is_current =
            self.owner == Some((file.ino, file.handle)) && now.saturating_sub(self.since) < MAX_AGE;
        let wanted = offset.saturating_add(size as u64);
        let end = if self.is_last { wanted.min(self.end) } else { wanted };
        let is_found = is_current && self.start <= offset && offset < end && end <= self.end;
        is_found.then(|| to_usize(offset - self.start)..to_usize(end - self.start))
    }

    /// Makes the window one without data, and returns their memory unless another thread copies from it.
    fn clear(&mut self) -> Vec<u8> {
        self.end = self.start;
        Arc::get_mut(&mut self.data).map(mem::take).unwrap_or_default()
    }
}

/// The windows of a client.
pub(crate) struct ReadAhead<T: Transport> {
    windows: [Mutex<T::RawLock, Window>; WINDOWS],
    /// Number of changes that were made to files.
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
        // The handles of the known servers are small numbers; the lower bits are the client's.
        &self.windows[to_usize(handle >> Handle::BITS) % WINDOWS]
    }

    /// Number of changes up to now, modulo 2^40: as much as a request remembers.
    fn changes(&self) -> u64 {
        self.changes.load(Acquire) & (u64::MAX >> SIZE_BITS)
    }

    /// Fills a buffer with the data from an offset on, as far as the file goes. Returns false, and appends
    /// nothing, if they are not all there.
    pub(crate) fn read(&self, file: OpenInode, offset: u64, buffer: &mut ReadBuffer<'_>, now: u64) -> bool {
        let mut window = self.window(file.handle).lock();
        let Some(found) = window.find(file, offset, buffer.room(), now) else { return false };
        window.next = offset + found.len() as u64;
        let data = Arc::clone(&window.data);
        drop(window);
        buffer.append(data.get(found).unwrap_or_default());
        true
    }

    /// A request that is made now for a number of bytes.
    pub(crate) fn request(&self, size: usize) -> ReadRequest {
        ReadRequest { changes: self.changes(), size }
    }

    /// Number of bytes that a read for which there are no data is to ask for: more than `size` if it follows
    /// on the one before.
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

    /// Notes that a read has ended before the offset `next`. Keeps what `copy` appends to a vector as the
    /// data from there on, which were asked for at `since`, unless something has been written since. The
    /// reply had `size` bytes.
    pub(crate) fn finish(
        &self,
        file: OpenInode,
        next: u64,
        (request, since, size): (ReadRequest, u64, usize),
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        // Allocated, filled and freed without the lock.
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

    /// Drops the data of an inode to which something is written. To be called before and after.
    pub(crate) fn invalidate(&self, ino: Ino) {
        self.changes.fetch_add(1, Release);
        for window in &self.windows {
            let mut window = window.lock();
            if window.owner.is_some_and(|(owner, _)| owner == ino) {
                window.end = window.start;
            }
        }
    }

    /// Frees the memory of all data.
    pub(crate) fn reclaim(&self) {
        for window in &self.windows {
            let data = window.lock().clear();
            drop(data);
        }
    }

    /// Frees the memory of an opening that ends.
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
