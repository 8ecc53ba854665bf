//! The page cache: pages of files on servers that are read by requests.
//!
//! A file has a [`CachedFile`] as long as it is open and the file system permits to cache its data. All
//! openings of the file share it, so that each of them sees the writes of the others. Pages are used for at
//! most [`MAX_AGE`]: then, and when the file is opened again, they are requested again, since the server may
//! have changed them. So, as on Linux, an open file does not show data that were read before it was opened.
//!
//! A reply to a read request may be older than a write of this machine that was made since the request. So
//! writes are counted, and pages are cached only if no write has begun since the request for them.
//!
//! The memory of the pages of all files has a limit. When it is reached, another file loses its pages, or if
//! no other file has pages, the file itself.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};

use hermit_interface::{Errno, to_usize};
use hermit_io::ReadBuffer;
use lock_api::{Mutex, RawMutex};

use super::change_count::{Change, ChangeCount, Unchanged};
use super::name_cache::deadline;
use crate::interface::contents::{PageRun, Usage};
use crate::interface::system::Lock;
use crate::interface::{Contents, Ino, System};

/// Maximum time in nanoseconds for which a page is used. It is the validity of names and attributes with the
/// policy `auto` of uhyve and virtiofsd.
const MAX_AGE: u64 = 1_000_000_000;

/// Size in bytes of the first request of a sequence of reads. The size doubles with each further request, up
/// to [`MAX_AHEAD`].
const FIRST_AHEAD: u64 = 128 << 10;

/// Maximum size in bytes of a request that reads ahead.
const MAX_AHEAD: u64 = 512 << 10;

/// Maximum size in bytes of reads that are cached, and for which reading ahead is worthwhile.
pub(super) const MAX_READ: usize = to_usize(FIRST_AHEAD / 2);

/// Number of requests of the maximum size that the cache has room for, however small it is.
const MIN_SEQUENCES: u64 = 4;

/// Number of parts of the table of files.
const BUCKETS: usize = 64;

/// The device ID of a mount, and an inode.
type Key = (u64, Ino);

/// The cached pages of an open file.
#[derive(Debug)]
struct CachedFile<S: System> {
    key: Key,
    contents: Arc<Contents<S>>,
    /// Counts writes of this machine.
    writes: ChangeCount,
}

/// A file, with the number of its openings.
#[derive(Debug)]
struct CountedFile<S: System> {
    file: Arc<CachedFile<S>>,
    openings: usize,
}

/// Files whose keys have the same hash. Its memory is allocated and freed without the lock.
type Bucket<S> = Lock<S, Vec<CountedFile<S>>>;

/// The cached pages of a file, as one opening of the file uses them. Dropping it ends the opening.
#[derive(Debug)]
pub(super) struct CachedOpening<S: System> {
    cache: Arc<PageCache<S>>,
    file: Arc<CachedFile<S>>,
    ahead: ReadAhead,
}

/// The page cache of all mounts.
#[derive(Debug)]
pub(super) struct PageCache<S: System> {
    buckets: [Bucket<S>; BUCKETS],
    usage: Arc<Usage>,
    /// Number of times that a file had to lose its pages, and so the bucket in which the search for the next
    /// such file begins.
    evictions: AtomicUsize,
}

/// State of a sequence of reads by one opening.
#[derive(Debug)]
struct ReadAhead {
    /// Offset after the last request. A request that begins here continues the sequence.
    next: AtomicU64,
    /// Size in bytes of the last request of the sequence; 0 for the first one.
    size: AtomicU64,
}

impl ReadAhead {
    const fn new() -> Self {
        Self { next: AtomicU64::new(0), size: AtomicU64::new(0) }
    }

    /// Returns the end of the bytes to request for a read of `size` bytes at an offset. If the read continues
    /// the sequence, this is more than the read needs.
    /// `max` is the maximum size of a request.
    fn end(&self, offset: u64, size: usize, max: u64) -> u64 {
        let is_next = offset > 0 && self.next.load(Relaxed) == offset;
        let ahead = match self.size.load(Relaxed) {
            _ if !is_next => 0,
            0 => FIRST_AHEAD,
            size => MAX_AHEAD.min(size * 2),
        };
        self.size.store(ahead, Relaxed);
        offset.saturating_add(ahead.min(max).max(size as u64))
    }
}

/// A request for bytes that are to be cached.
#[derive(Debug)]
pub(super) struct Fetch<S: System> {
    /// Takes the bytes.
    pub(super) run: PageRun<S>,
    before: Option<Unchanged>,
    started: u64,
}

impl<S: System> CachedFile<S> {
    /// Begins a write from an offset on: forgets the bytes from there on, and keeps replies to earlier
    /// requests from being cached.
    fn begin_write(&self, offset: u64) -> Change<'_> {
        let change = self.writes.begin();
        // The write is counted first. So either `insert` sees it, or its pages are removed here.
        self.contents.truncate(offset);
        change
    }
}

impl<S: System> CachedOpening<S> {
    /// Returns the contents that have the cached pages.
    #[inline]
    pub(super) fn contents(&self) -> &Contents<S> {
        &self.file.contents
    }

    /// Copies cached bytes from an offset on, up to the first one that is not cached. Returns their number.
    pub(super) fn read(&self, offset: u64, buffer: &mut ReadBuffer<'_>) -> usize {
        let tick = S::tick();
        self.file.contents.read_cached(offset, buffer, (tick, S::monotonic()))
    }

    /// Begins the request for a read that the cache cannot serve. Returns `None` without memory.
    pub(super) fn begin_fetch(&self, offset: u64, size: usize) -> Option<Fetch<S>> {
        let before = self.file.writes.unchanged();
        // The reply to a request during a write is not cached.
        let max = if before.is_some() { self.cache.usage.limit_and_free().0 / MIN_SEQUENCES } else { 0 };
        let run = PageRun::new(offset, self.ahead.end(offset, size, max))?;
        Some(Fetch { run, before, started: S::monotonic() })
    }

    /// Caches the bytes of a request, unless a write has begun since.
    pub(super) fn end_fetch(&self, fetch: Fetch<S>) {
        let (Fetch { run, before, started }, Self { cache, file, ahead }) = (fetch, self);
        ahead.next.store(run.end(), Relaxed);
        let Some(before) = before else { return };
        while run.size() as u64 > cache.usage.limit_and_free().1 && cache.evict(file) {}
        // Without memory or room, the bytes are not cached.
        let is_current = || file.writes.is_still(before);
        let _is_cached = file.contents.insert(run, deadline(started, MAX_AGE), is_current).is_ok();
    }
}

impl<S: System> Drop for CachedOpening<S> {
    fn drop(&mut self) {
        self.cache.close(&self.file);
    }
}

impl<S: System> PageCache<S> {
    /// Creates a cache with a limit of `max_size` bytes for the memory of pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(max_size: u64) -> Result<Arc<Self>, Errno> {
        let usage = S::arc(Usage::new(max_size)).ok_or(Errno::ENOMEM)?;
        let bucket = |_| Mutex::const_new(RawMutex::INIT, Vec::new());
        let make = || Self { buckets: core::array::from_fn(bucket), usage, evictions: AtomicUsize::new(0) };
        S::arc_with(make).ok_or(Errno::ENOMEM)
    }

    fn bucket(&self, (device, ino): Key) -> &Bucket<S> {
        &self.buckets[to_usize(device ^ ino.0) % BUCKETS]
    }

    /// Returns the cached pages of a file, if it is open.
    fn find(&self, key: Key) -> Option<Arc<CachedFile<S>>> {
        let files = self.bucket(key).lock();
        files.iter().find(|counted| counted.file.key == key).map(|counted| Arc::clone(&counted.file))
    }

    /// Opens a file, and forgets the data that were read before. Returns `None` without memory. Then the data
    /// of this opening are not cached.
    pub(super) fn open(self: &Arc<Self>, key: Key) -> Option<CachedOpening<S>> {
        let file = self.count_opening(key).or_else(|| self.insert(key))?;
        // Counted as a write, so that replies to requests from before the opening are not cached.
        drop(file.begin_write(0));
        Some(CachedOpening { cache: Arc::clone(self), file, ahead: ReadAhead::new() })
    }

    /// Adds an opening to a file that is open.
    fn count_opening(&self, key: Key) -> Option<Arc<CachedFile<S>>> {
        let mut files = self.bucket(key).lock();
        let counted = files.iter_mut().find(|counted| counted.file.key == key)?;
        counted.openings += 1;
        Some(Arc::clone(&counted.file))
    }

    /// Adds a file with one opening.
    fn insert(&self, key: Key) -> Option<Arc<CachedFile<S>>> {
        let contents = Contents::cache(&self.usage)?;
        let file = S::arc(CachedFile { key, contents, writes: ChangeCount::new() })?;
        loop {
            reserve(self.bucket(key))?;
            let mut files = self.bucket(key).lock();
            if let Some(counted) = files.iter_mut().find(|counted| counted.file.key == key) {
                // Another thread has inserted the file first.
                counted.openings += 1;
                return Some(Arc::clone(&counted.file));
            }
            // Other threads may have used the reserved room.
            if files.len() < files.capacity() {
                files.push(CountedFile { file: Arc::clone(&file), openings: 1 });
                return Some(file);
            }
        }
    }

    /// Notes that an opening of a file has ended. The last one frees the pages.
    fn close(&self, file: &CachedFile<S>) {
        let mut files = self.bucket(file.key).lock();
        let Some(index) = files.iter().position(|counted| counted.file.key == file.key) else { return };
        let Some(counted) = files.get_mut(index) else { return };
        counted.openings -= 1;
        let closed = (counted.openings == 0).then(|| files.swap_remove(index));
        drop(files);
        drop(closed);
    }

    /// Takes the pages from another file. If no other file has pages, takes them from the file itself, and
    /// returns false.
    fn evict(&self, filling: &CachedFile<S>) -> bool {
        let start = self.evictions.fetch_add(1, Relaxed);
        let victim = (0..BUCKETS).find_map(|index| {
            let files = self.buckets[start.wrapping_add(index) % BUCKETS].lock();
            let files = files.iter().map(|counted| &counted.file);
            files
                .filter(|file| file.key != filling.key)
                .find(|file| file.contents.has_pages())
                .map(Arc::clone)
        });
        victim.as_deref().unwrap_or(filling).contents.truncate(0);
        victim.is_some()
    }

    /// Makes a change of a file's data from an offset on by this machine. Replies to requests from before or
    /// during the change are not cached.
    pub(super) async fn change<T>(&self, key: Key, offset: u64, change: impl Future<Output = T>) -> T {
        let file = self.find(key);
        let _write = file.as_deref().map(|file| file.begin_write(offset));
        change.await
    }

    /// Frees the memory of all pages that are not in use. May be called by an allocation that has failed.
    pub(super) fn clear(&self) {
        for bucket in &self.buckets {
            // Each file loses its pages without the lock.
            let file = |index| {
                bucket.try_lock()?.get(index).map(|counted: &CountedFile<S>| Arc::clone(&counted.file))
            };
            (0..).map_while(file).for_each(|file| file.contents.try_clear());
        }
    }
}

/// Makes room for one more element. Allocates without the lock. Returns `None` without memory.
fn reserve<S: System>(bucket: &Bucket<S>) -> Option<()> {
    let count = Some(bucket.lock()).filter(|files| files.len() == files.capacity()).map(|files| files.len());
    let Some(count) = count else { return Some(()) };
    let mut larger = Vec::new();
    larger.try_reserve(2 * count + 1).ok()?;
    let mut files = bucket.lock();
    if files.len() < larger.capacity() && files.capacity() < larger.capacity() {
        larger.append(&mut files);
        mem::swap(&mut *files, &mut larger);
    }
    drop(files);
    Some(())
}
