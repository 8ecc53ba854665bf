//! Advisory locks of open files (`flock`).
//!
//! A lock belongs to an open file description, which records the kind of its lock. Each mount has a table of
//! the inodes that are locked or waited for. An entry counts the holders of its inode's lock and has a queue
//! of waiting calls. As on Linux, changing the kind of a lock first releases the old lock.
//!
//! The table is divided into shards by inode number, each with a spinlock. Calls are woken and memory is
//! freed after the spinlock is released.

use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};

use hermit_base::wait::WakerQueue;
use hermit_interface::{Errno, to_usize};
use lock_api::{Mutex, RawMutex};
use once_cell::race::OnceBox;

use crate::interface::system::{Lock, allocated};
use crate::interface::{Ino, System};

/// Kind of an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLock {
    /// Several open files may hold it at a time.
    Shared = 1,
    /// One open file holds it alone.
    Exclusive = 2,
}

/// The kind of lock that an open file holds: 0 for no lock, or a [`FileLock`]. Accessed only under the
/// spinlock of the table.
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

    /// Returns true if the open file holds a lock. The caller must be the last user of the open file, so that
    /// no other thread can change this.
    pub(super) fn is_held(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    fn set(&self, lock: Option<FileLock>) {
        self.0.store(lock.map_or(0, |lock| lock as u8), Relaxed);
    }
}

/// Table entry of an inode that is locked or waited for.
#[derive(Debug)]
struct LockedInode {
    ino: Ino,
    shared: usize,
    is_exclusive: bool,
    /// Waiting calls, by the kind of lock that they want.
    waiting_shared: WakerQueue,
    waiting_exclusive: WakerQueue,
}

/// Calls to be woken after a release, and memory to be freed. Both must be done without the spinlock of the
/// table.
#[derive(Debug, Default)]
#[must_use = "the calls wait until they are woken"]
struct Woken {
    /// Calls that wait for a shared lock. All of them can get the lock.
    shared: WakerQueue,
    /// One call that waits for the exclusive lock.
    exclusive: Option<Waker>,
    /// The table entry to be freed, if the inode is neither locked nor waited for any more.
    unused: Option<LockedInode>,
}

impl Woken {
    fn wake(self) {
        drop(self.unused);
        self.shared.wake();
        self.exclusive.into_iter().for_each(Waker::wake);
    }
}

impl LockedInode {
    const fn new(ino: Ino) -> Self {
        Self {
            ino,
            shared: 0,
            is_exclusive: false,
            waiting_shared: WakerQueue::new(),
            waiting_exclusive: WakerQueue::new(),
        }
    }

    const fn admits(&self, lock: FileLock) -> bool {
        match lock {
            FileLock::Shared => !self.is_exclusive,
            FileLock::Exclusive => !self.is_exclusive && self.shared == 0,
        }
    }

    /// True if the inode is neither locked nor waited for.
    const fn is_unused(&self) -> bool {
        self.admits(FileLock::Exclusive)
            && self.waiting_shared.is_empty()
            && self.waiting_exclusive.is_empty()
    }

    /// Registers the waker of a call, so that a release wakes the call when it can get the lock.
    fn wait(&mut self, context: Option<&Context<'_>>, lock: FileLock) -> Poll<Result<(), Errno>> {
        let Some(context) = context else { return Poll::Ready(Err(Errno::EAGAIN)) };
        let waiting = match lock {
            FileLock::Shared => &mut self.waiting_shared,
            FileLock::Exclusive => &mut self.waiting_exclusive,
        };
        match waiting.add(context.waker()) {
            Ok(()) => Poll::Pending,
            Err(_) => Poll::Ready(Err(Errno::ENOLCK)),
        }
    }

    fn add(&mut self, lock: FileLock, context: Option<&Context<'_>>) {
        match lock {
            FileLock::Shared => self.shared += 1,
            FileLock::Exclusive => self.is_exclusive = true,
        }
        if let Some(context) = context {
            self.waiting_shared.withdraw(context.waker());
            self.waiting_exclusive.withdraw(context.waker());
        }
    }

    /// Removes a lock. Returns the calls that can continue: all calls that want a shared lock or, without
    /// such calls, one call that wants the exclusive lock. A woken call that finds the inode locked again
    /// waits again.
    fn remove(&mut self, lock: FileLock) -> Woken {
        match lock {
            FileLock::Shared => self.shared -= 1,
            FileLock::Exclusive => self.is_exclusive = false,
        }
        if !self.waiting_shared.is_empty() {
            Woken { shared: mem::take(&mut self.waiting_shared), ..Woken::default() }
        } else if self.admits(FileLock::Exclusive) {
            Woken { exclusive: self.waiting_exclusive.pop(), ..Woken::default() }
        } else {
            Woken::default()
        }
    }
}

/// Entries of locked inodes, in the order of their numbers.
type Shard<S> = Lock<S, Vec<LockedInode>>;

/// Number of shards of the table. With many shards, each has few entries. This matters because inserting an
/// entry moves other entries under the spinlock.
const SHARDS: usize = 64;

/// The locked inodes of a mount. The shards are allocated for the first lock.
#[derive(Debug)]
pub(super) struct LockTable<S: System>(OnceBox<[Shard<S>; SHARDS]>);

/// Returns the index of an inode, or as an error the index at which to insert it.
fn find(inodes: &[LockedInode], ino: Ino) -> Result<usize, usize> {
    inodes.binary_search_by_key(&ino, |inode| inode.ino)
}

/// Removes the lock of an open file.
fn release(inodes: &mut Vec<LockedInode>, ino: Ino, held: &Held) -> Woken {
    let (Some(lock), Ok(index)) = (held.get(), find(inodes, ino)) else { return Woken::default() };
    held.set(None);
    let Some(inode) = inodes.get_mut(index) else { return Woken::default() };
    let mut woken = inode.remove(lock);
    if inode.is_unused() {
        woken.unused = Some(inodes.remove(index));
    }
    woken
}

impl<S: System> LockTable<S> {
    pub(super) const fn new() -> Self {
        Self(OnceBox::new())
    }

    /// The shard of an inode; `None` without memory.
    fn shard(&self, ino: Ino) -> Option<&Shard<S>> {
        let shards = allocated(&self.0, || Mutex::const_new(RawMutex::INIT, Vec::new()));
        shards.get(to_usize(ino.0) % SHARDS)
    }

    /// Gives a lock to an open file, in place of its old lock. Returns `Pending` while other open files hold
    /// conflicting locks. As on Linux, the file does not hold its old lock meanwhile.
    ///
    /// # Errors
    ///
    /// `EAGAIN` instead of `Pending` if `context` is `None`; `ENOLCK` without memory.
    pub(super) fn poll_lock(
        &self,
        context: Option<&Context<'_>>,
        (ino, held): (Ino, &Held),
        lock: FileLock,
    ) -> Poll<Result<(), Errno>> {
        let Some(shard) = self.shard(ino) else { return Poll::Ready(Err(Errno::ENOLCK)) };
        let mut inodes = shard.lock();
        if held.get() == Some(lock) {
            return Poll::Ready(Ok(()));
        }
        let woken = release(&mut inodes, ino, held);
        let result = take(&mut inodes, context, (ino, held), lock);
        drop(inodes);
        woken.wake();
        result
    }

    /// Removes the lock of an open file.
    pub(super) fn unlock(&self, ino: Ino, held: &Held) {
        let Some(shard) = self.shard(ino) else { return };
        let woken = release(&mut shard.lock(), ino, held);
        woken.wake();
    }
}

/// Gives a lock to an open file that holds no lock, or registers the waker for a release.
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
                return inode.wait(context, lock);
            }
            inode.add(lock, context);
        }
        Err(index) => {
            if inodes.try_reserve(1).is_err() {
                return Poll::Ready(Err(Errno::ENOLCK));
            }
            let mut inode = LockedInode::new(ino);
            inode.add(lock, context);
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
    use crate::testing::{TestSystem, WakeCount, run, vfs, wake_count};
    use crate::vfs::{FileLock, OpenFile, OpenedPath, Vfs};
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::pin::{Pin, pin};
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
        // `first` has lost its lock, so `second` is the only holder.
        assert_eq!(run(second.lock(Exclusive, true)), Ok(()));
        assert_eq!(run(third.lock(Shared, true)), Err(Errno::EAGAIN));
    }

    #[test]
    fn waiting_call_is_woken_by_the_release() {
        let (_, vfs) = vfs(1 << 20);
        let (first, second) = (open(&vfs, b"/a"), open(&vfs, b"/a"));
        assert_eq!(run(first.lock(Shared, false)), Ok(()));
        let (count, waker) = wake_count();
        let mut context = Context::from_waker(&waker);
        let mut waiting = pin!(second.lock(Exclusive, false));
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(count.get(), 0);
        first.unlock();
        assert_eq!(count.get(), 1);
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        assert_eq!(run(first.lock(Shared, true)), Err(Errno::EAGAIN));
    }

    /// A call that waits for a lock.
    struct Call<'a> {
        future: Pin<Box<dyn Future<Output = Result<(), Errno>> + 'a>>,
        woken: WakeCount,
        waker: Waker,
    }

    impl<'a> Call<'a> {
        /// Makes a file wait for a lock.
        fn new(file: &'a OpenFile<TestSystem>, lock: FileLock) -> Self {
            let (woken, waker) = wake_count();
            let mut call = Self { future: Box::pin(file.lock(lock, false)), woken, waker };
            assert!(!call.has_lock());
            call
        }

        fn has_lock(&mut self) -> bool {
            let poll = self.future.as_mut().poll(&mut Context::from_waker(&self.waker));
            poll.map(Result::unwrap).is_ready()
        }
    }

    fn woken(calls: &[Call<'_>]) -> Vec<usize> {
        calls.iter().map(|call| call.woken.get()).collect()
    }

    #[test]
    fn release_wakes_one_of_a_thousand_calls_for_the_exclusive_lock() {
        let (_, vfs) = vfs(1 << 20);
        let holder = open(&vfs, b"/a");
        assert_eq!(run(holder.lock(Exclusive, false)), Ok(()));
        let files: Vec<_> = (0..1000).map(|_| open(&vfs, b"/a")).collect();
        let mut calls: Vec<_> = files.iter().map(|file| Call::new(file, Exclusive)).collect();
        holder.unlock();
        for index in 0..1000 {
            assert_eq!(woken(&calls).iter().sum::<usize>(), index + 1);
            assert!(calls[index].has_lock());
            files[index].unlock();
        }
        assert!(woken(&calls).iter().all(|count| *count == 1));
        assert_eq!(run(holder.lock(Exclusive, true)), Ok(()));
    }

    #[test]
    fn release_wakes_the_calls_for_a_shared_lock_and_the_last_of_them_one_for_the_exclusive() {
        let (_, vfs) = vfs(1 << 20);
        let files: Vec<_> = (0..7).map(|_| open(&vfs, b"/a")).collect();
        assert_eq!(run(files[6].lock(Exclusive, false)), Ok(()));
        let kinds = [Exclusive, Shared, Shared, Exclusive, Shared];
        let mut calls: Vec<_> = files.iter().zip(kinds).map(|(file, lock)| Call::new(file, lock)).collect();
        files[6].unlock();
        assert_eq!(woken(&calls), [0, 1, 1, 0, 1]);
        assert!([1, 2, 4].map(|index| calls[index].has_lock()) == [true; 3] && !calls[0].has_lock());
        files[1].unlock();
        files[4].unlock();
        assert_eq!(woken(&calls), [0, 1, 1, 0, 1]);
        files[2].unlock();
        assert_eq!(woken(&calls), [1, 1, 1, 0, 1]);
        // Another file takes the lock before the woken call polls. The woken call waits again and is woken
        // later.
        assert_eq!(run(files[5].lock(Exclusive, true)), Ok(()));
        assert!(!calls[0].has_lock());
        files[5].unlock();
        assert_eq!(woken(&calls), [1, 1, 1, 1, 1]);
        assert!(calls[3].has_lock());
        files[3].unlock();
        assert_eq!(woken(&calls), [2, 1, 1, 1, 1]);
        assert!(calls[0].has_lock());
    }
}
