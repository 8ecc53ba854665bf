//! Data that were read ahead: what a program reads in small pieces, one after the other, is asked for in large ones.
//!
//! A window has data of one opening. They are dropped after [`MAX_AGE`], and when anything is written to their inode by this
//! client. Windows are locked for the copy of at most a page.

use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_fs::{Ino, OpenInode, PAGE_SIZE};
use hermit_interface::to_usize;
use hermit_io::ReadBuffer;
use lock_api::{Mutex, RawMutex};

use crate::transport::Transport;

/// Size in bytes of what is read at once.
pub(crate) const AHEAD: usize = 128 << 10;

/// Maximum size in bytes of reads for which it is worth while: those of half of the size are two.
const MAX_READ: usize = AHEAD / 2;

/// Time in nanoseconds for which data are used: that of names and attributes in the policy `auto` of uhyve and virtiofsd.
const MAX_AGE: u64 = 1_000_000_000;

/// Number of windows: a window is chosen by the opening's handle.
const WINDOWS: usize = 8;

/// What was read ahead for an opening.
#[derive(Debug, Default)]
struct Window {
    /// Inode and handle of the opening.
    owner: Option<(Ino, u64)>,
    /// Offset at which the next read begins if the program reads one piece after the other.
    next: u64,
    /// Offset of the data in the file, the data, and when they were read.
    start: u64,
    data: Vec<u8>,
    since: u64,
}

impl Window {
    /// The data from an offset on, unless they are too old.
    fn data_from(&self, file: OpenInode, offset: u64, now: u64) -> &[u8] {
        let is_current =
            self.owner == Some((file.ino, file.handle)) && now.saturating_sub(self.since) < MAX_AGE;
        let skipped = offset.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        skipped.filter(|_| is_current).and_then(|skipped| self.data.get(skipped..)).unwrap_or_default()
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
        &self.windows[to_usize(handle >> 2) % WINDOWS]
    }

    /// Number of changes up to now, for [`Self::fill`].
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Appends what there is from an offset on; returns the number of bytes.
    pub(crate) fn read(&self, file: OpenInode, offset: u64, buffer: &mut ReadBuffer<'_>, now: u64) -> usize {
        let before = buffer.len();
        while buffer.room() > 0 {
            let position = offset + (buffer.len() - before) as u64;
            let mut window = self.window(file.handle).lock();
            let data = window.data_from(file, position, now);
            if data.is_empty() {
                break;
            }
            let count = buffer.append(data.get(..PAGE_SIZE).unwrap_or(data));
            window.next = position + count as u64;
        }
        buffer.len() - before
    }

    /// Whether a read for which there are no data is to ask for [`AHEAD`] bytes: it follows on the one before.
    pub(crate) fn follows(&self, file: OpenInode, offset: u64, size: usize) -> bool {
        let window = self.window(file.handle).lock();
        window.owner == Some((file.ino, file.handle)) && window.next == offset && size <= MAX_READ
    }

    /// Notes that a read has ended before the offset `next`. Keeps what `copy` appends to a vector as the data from there on,
    /// unless something has been written since `changes` were counted.
    pub(crate) fn finish(
        &self,
        file: OpenInode,
        next: u64,
        (changes, now): (u64, u64),
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        // Allocated, filled and freed without the lock.
        let mut data = core::mem::take(&mut self.window(file.handle).lock().data);
        data.clear();
        copy(&mut data);
        let mut window = self.window(file.handle).lock();
        (window.owner, window.next) = (Some((file.ino, file.handle)), next);
        if self.changes() != changes {
            data.clear();
        }
        core::mem::swap(&mut window.data, &mut data);
        (window.start, window.since) = (next, now);
        drop(window);
    }

    /// Drops the data of an inode to which something is written. To be called before and after.
    pub(crate) fn invalidate(&self, ino: Ino) {
        self.changes.fetch_add(1, Release);
        for window in &self.windows {
            let mut window = window.lock();
            if window.owner.is_some_and(|(owner, _)| owner == ino) {
                window.data.clear();
            }
        }
    }

    /// Frees the memory of an opening that ends.
    pub(crate) fn release(&self, file: OpenInode) {
        let mut window = self.window(file.handle).lock();
        if window.owner == Some((file.ino, file.handle)) {
            let window_before = core::mem::take(&mut *window);
            drop(window);
            drop(window_before);
        }
    }
}
