//! Handles of closed files, which later opens of the same files use again without a request.
//!
//! Programs often open the same files again and again, and each open would wait for the server. So the client
//! keeps the handle of a file that was opened only for reading, as long as the server permits it to keep
//! attributes. A handle is released at the latest when the reference to its inode is dropped, since the
//! server may then give the number of the inode to another file.

use core::fmt::{self, Debug, Formatter};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_fs::Ino;
use lock_api::{Mutex, RawMutex};

use crate::transport::Transport;

/// Maximum number of handles. It is small, since a server may have few descriptors.
const MAX_HANDLES: usize = 16;

/// Maximum time in nanoseconds for which a handle is kept, whatever the server permits.
const MAX_AGE: u64 = 1_000_000_000;

/// An encoded handle with its inode.
pub(crate) type InodeHandle = (Ino, u64);

#[derive(Clone, Copy, Debug)]
struct KeptHandle {
    inode: InodeHandle,
    /// Time from which on the handle is not used again.
    deadline: u64,
}

/// The kept handles of a client.
pub(crate) struct HandleCache<T: Transport> {
    handles: Mutex<T::RawLock, [Option<KeptHandle>; MAX_HANDLES]>,
    /// Validity in nanoseconds of the attributes that the server has sent last.
    validity: AtomicU64,
}

impl<T: Transport> Debug for HandleCache<T> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("HandleCache").field("validity", &self.validity).finish_non_exhaustive()
    }
}

impl<T: Transport> HandleCache<T> {
    pub(crate) const fn new() -> Self {
        let handles = Mutex::const_new(RawMutex::INIT, [None; MAX_HANDLES]);
        Self { handles, validity: AtomicU64::new(0) }
    }

    /// Notes for how long the server permits to keep attributes.
    pub(crate) fn note_validity(&self, validity: u64) {
        self.validity.store(validity.min(MAX_AGE), Relaxed);
    }

    /// Takes a handle of an inode out of the cache. The returned `bool` is true if the handle may be used
    /// again. Otherwise the caller releases it.
    pub(crate) fn take(&self, ino: Ino, now: u64) -> Option<(u64, bool)> {
        let mut handles = self.handles.lock();
        let is_of_inode = |kept: &&mut Option<KeptHandle>| kept.is_some_and(|kept| kept.inode.0 == ino);
        let KeptHandle { inode, deadline } = handles.iter_mut().find(is_of_inode)?.take()?;
        Some((inode.1, now < deadline))
    }

    /// Takes the handle that was kept first out of the cache.
    pub(crate) fn take_oldest(&self) -> Option<InodeHandle> {
        Some(take_oldest(&mut self.handles.lock())?.inode)
    }

    /// Keeps a handle. Returns a handle that the caller releases: one that is too old, the oldest one if
    /// there are too many, or this handle if the server does not permit to keep it.
    pub(crate) fn keep(&self, inode: InodeHandle, now: u64) -> Option<InodeHandle> {
        let validity = self.validity.load(Relaxed);
        if validity == 0 {
            return Some(inode);
        }
        let mut handles = self.handles.lock();
        let is_removed = |kept: &Option<KeptHandle>| kept.is_some_and(|kept| kept.deadline <= now);
        let is_full = handles.iter().all(Option::is_some);
        let removed =
            if is_full || handles.iter().any(is_removed) { take_oldest(&mut handles) } else { None };
        if let Some(place) = handles.iter_mut().find(|kept| kept.is_none()) {
            *place = Some(KeptHandle { inode, deadline: now.saturating_add(validity) });
        }
        removed.map(|removed| removed.inode)
    }
}

/// Takes out the handle with the earliest deadline.
fn take_oldest(handles: &mut [Option<KeptHandle>; MAX_HANDLES]) -> Option<KeptHandle> {
    let deadline = |kept: &&mut Option<KeptHandle>| kept.map_or(u64::MAX, |kept| kept.deadline);
    handles.iter_mut().min_by_key(deadline)?.take()
}
