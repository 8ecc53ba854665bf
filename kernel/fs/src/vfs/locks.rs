//! Advisory locks of open files (`flock`).
//!
//! A lock belongs to an open-file description, which knows what it has; the table of a mount knows what the inodes have that
//! are locked. An inode is in the table while it is locked or waited for.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};

use hermit_interface::Errno;
use lock_api::{Mutex, RawMutex};

use crate::system::Lock;
use crate::turns::wake;
use crate::{Ino, System};

/// Kind of an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLock {
    /// Several open files may have one at a time.
    Shared = 1,
    /// One open file has it.
    Exclusive = 2,
}

/// What an open file has: 0, or a [`FileLock`]. Accessed under the lock of the table only.
#[derive(Debug)]
pub(super) struct Held(AtomicU8);

impl Held {
    /// No lock.
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    fn get(&self) -> Option<FileLock> {
        match self.0.load(Relaxed) {
            1 => Some(FileLock::Shared),
            2 => Some(FileLock::Exclusive),
            _ => None,
        }
    }

    /// Whether there is a lock, for the last user of the open file: then nothing changes it.
    pub(super) fn is_held(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    fn set(&self, lock: Option<FileLock>) {
        self.0.store(lock.map_or(0, |lock| lock as u8), Relaxed);
    }
}

/// An inode that is locked or waited for.
#[derive(Debug)]
struct LockedInode {
    ino: Ino,
    shared: usize,
    is_exclusive: bool,
    waiting: Vec<Waker>,
}

impl LockedInode {
    const fn admits(&self, lock: FileLock) -> bool {
        match lock {
            FileLock::Shared => !self.is_exclusive,
            FileLock::Exclusive => !self.is_exclusive && self.shared == 0,
        }
    }

    /// Registers the waker of a call for the next release.
    fn wait(&mut self, context: Option<&Context<'_>>) -> Poll<Result<(), Errno>> {
        let Some(context) = context else { return Poll::Ready(Err(Errno::EAGAIN)) };
        if self.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        if self.waiting.try_reserve(1).is_err() {
            return Poll::Ready(Err(Errno::ENOLCK));
        }
        self.waiting.push(context.waker().clone());
        Poll::Pending
    }

    const fn add(&mut self, lock: FileLock) {
        match lock {
            FileLock::Shared => self.shared += 1,
            FileLock::Exclusive => self.is_exclusive = true,
        }
    }

    const fn remove(&mut self, lock: FileLock) {
        match lock {
            FileLock::Shared => self.shared -= 1,
            FileLock::Exclusive => self.is_exclusive = false,
        }
    }
}

/// The locked inodes of a mount, in the order of their numbers.
#[derive(Debug)]
pub(super) struct LockTable<S: System>(Lock<S, Vec<LockedInode>>);

/// Finds an inode, or the index at which it belongs.
fn find(inodes: &[LockedInode], ino: Ino) -> Result<usize, usize> {
    inodes.binary_search_by_key(&ino, |inode| inode.ino)
}

/// Removes the lock that an open file has; returns the calls that wait for it.
fn release(inodes: &mut Vec<LockedInode>, ino: Ino, held: &Held) -> Vec<Waker> {
    let (Some(lock), Ok(index)) = (held.get(), find(inodes, ino)) else { return Vec::new() };
    held.set(None);
    let Some(inode) = inodes.get_mut(index) else { return Vec::new() };
    inode.remove(lock);
    let waiting = core::mem::take(&mut inode.waiting);
    if inode.admits(FileLock::Exclusive) {
        inodes.remove(index);
    }
    waiting
}

impl<S: System> LockTable<S> {
    pub(super) const fn new() -> Self {
        Self(Mutex::const_new(RawMutex::INIT, Vec::new()))
    }

    /// Gives an open file a lock in place of the one that it has; pending while others have locks in conflict. As on
    /// Linux, it has none meanwhile.
    ///
    /// # Errors
    ///
    /// `EAGAIN` instead of pending without a context, `ENOLCK` without memory.
    pub(super) fn poll_lock(
        &self,
        context: Option<&Context<'_>>,
        (ino, held): (Ino, &Held),
        lock: FileLock,
    ) -> Poll<Result<(), Errno>> {
        let mut inodes = self.0.lock();
        if held.get() == Some(lock) {
            return Poll::Ready(Ok(()));
        }
        let waiting = release(&mut inodes, ino, held);
        let result = take(&mut inodes, context, (ino, held), lock);
        drop(inodes);
        wake(waiting);
        result
    }

    /// Removes the lock that an open file has.
    pub(super) fn unlock(&self, ino: Ino, held: &Held) {
        let waiting = release(&mut self.0.lock(), ino, held);
        wake(waiting);
    }
}

/// Gives an open file without a lock one, or registers the waker for the next release.
fn take(
    inodes: &mut Vec<LockedInode>,
    context: Option<&Context<'_>>,
    (ino, held): (Ino, &Held),
    lock: FileLock,
) -> Poll<Result<(), Errno>> {
    match find(inodes, ino) {
        Ok(index) => {
            let Some(inode) = inodes.get_mut(index) else { return Poll::Ready(Err(Errno::EIO)) };
            if !inode.admits(lock) {
                return inode.wait(context);
            }
            inode.add(lock);
        }
        Err(index) => {
            if inodes.try_reserve(1).is_err() {
                return Poll::Ready(Err(Errno::ENOLCK));
            }
            let mut inode = LockedInode { ino, shared: 0, is_exclusive: false, waiting: Vec::new() };
            inode.add(lock);
            inodes.insert(index, inode);
        }
    }
    held.set(Some(lock));
    Poll::Ready(Ok(()))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::FileLock::{Exclusive, Shared};
    use crate::testing::{TestSystem, run, vfs};
    use crate::{OpenFile, OpenedPath, Vfs};
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::pin::pin;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use core::task::{Context, Poll, Waker};
    use hermit_abi::{O_CREAT, O_RDWR};
    use hermit_interface::Errno;

    fn open(vfs: &Vfs<TestSystem>, path: &[u8]) -> Arc<OpenFile<TestSystem>> {
        match run(vfs.open(path, O_CREAT | O_RDWR, 0o666)) {
            Ok(OpenedPath::File(file)) => file,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn exclusive_lock_excludes_others_until_it_is_released() {
        let (_, vfs) = vfs(1 << 20);
        let (first, second, other) = (open(&vfs, b"/a"), open(&vfs, b"/a"), open(&vfs, b"/b"));
        assert_eq!(run(first.lock(Exclusive, false)), Ok(()));
        assert_eq!(run(first.lock(Exclusive, false)), Ok(()));
        assert_eq!(run(second.lock(Exclusive, true)), Err(Errno::EAGAIN));
        assert_eq!(run(second.lock(Shared, true)), Err(Errno::EAGAIN));
        assert_eq!(run(other.lock(Exclusive, true)), Ok(()));
        first.unlock();
        assert_eq!(run(second.lock(Shared, true)), Ok(()));
        assert_eq!(run(first.lock(Shared, true)), Ok(()));
        drop(second);
        assert_eq!(run(first.lock(Exclusive, true)), Ok(()));
        drop(first);
        assert_eq!(run(open(&vfs, b"/a").lock(Exclusive, true)), Ok(()));
    }

    #[test]
    fn failed_change_of_the_kind_loses_the_lock_as_on_linux() {
        let (_, vfs) = vfs(1 << 20);
        let (first, second, third) = (open(&vfs, b"/a"), open(&vfs, b"/a"), open(&vfs, b"/a"));
        assert_eq!(run(first.lock(Shared, true)), Ok(()));
        assert_eq!(run(second.lock(Shared, true)), Ok(()));
        assert_eq!(run(first.lock(Exclusive, true)), Err(Errno::EAGAIN));
        // The lock of `first` is gone: `second` is alone.
        assert_eq!(run(second.lock(Exclusive, true)), Ok(()));
        assert_eq!(run(third.lock(Shared, true)), Err(Errno::EAGAIN));
    }

    #[derive(Debug, Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn waiting_call_is_woken_by_the_release() {
        let (_, vfs) = vfs(1 << 20);
        let (first, second) = (open(&vfs, b"/a"), open(&vfs, b"/a"));
        assert_eq!(run(first.lock(Shared, false)), Ok(()));
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        let mut waiting = pin!(second.lock(Exclusive, false));
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(counter.0.load(Relaxed), 0);
        first.unlock();
        assert_eq!(counter.0.load(Relaxed), 1);
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        assert_eq!(run(first.lock(Shared, true)), Err(Errno::EAGAIN));
    }
}
