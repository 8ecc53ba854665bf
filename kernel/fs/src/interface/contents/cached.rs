//! Cached pages of a file on a server.
//!
//! The contents then have only some of the pages of the file. A page that is missing is not a hole: its bytes
//! must be requested. The size is not that of the file either, but the end of the known bytes: the pages
//! before it are complete, the page that contains it is valid up to it, and no page follows. So the bytes
//! from the size on must be requested as well.
//!
//! All pages expire together, at the [deadline](Validity::deadline) of the oldest of them. The clock is not
//! read for each read: it is read once in each tick, by a read on the slow path.

use alloc::sync::Arc;
use core::mem;

use hermit_interface::Errno;

use super::pages::{RemovedPages, SparsePages};
use super::{CachedPage, Contents, PAGE_BYTES, PageRun, State, Times, Usage};
use crate::interface::file_system::ReadTarget;
use crate::interface::{System, Time};

type Page<S> = Arc<CachedPage<S>>;

/// Validity of cached pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Validity {
    /// Time of the [clock](System::monotonic) at which the pages expire.
    deadline: u64,
    /// The [tick](System::tick) in which the deadline was last compared with the clock.
    pub(super) checked_at: u64,
}

impl<S: System> State<S> {
    /// Returns true if the fast path may read `size` bytes at an offset, where the caller has asked for
    /// `wanted` bytes. If the pages are cached, the bytes after the known ones must be requested.
    #[inline]
    pub(super) fn is_readable(&self, size: usize, wanted: usize) -> bool {
        self.validity.as_ref().is_none_or(|validity| size == wanted && validity.checked_at == S::tick())
    }

    /// Takes out the last known page if it is not complete and page `index`, which comes after it, is to be
    /// known.
    fn take_incomplete(&mut self, index: u64) -> Option<RemovedPages<Page<S>>> {
        let last = self.size / PAGE_BYTES;
        if index <= last || self.size.is_multiple_of(PAGE_BYTES) {
            return None;
        }
        self.size = last * PAGE_BYTES;
        let removed = self.pages.take_from(last)?;
        self.pages.subtract(removed.count());
        Some(removed)
    }
}

impl<S: System> Contents<S> {
    /// Creates an empty cache for the pages of a file. `usage` limits the memory of all caches together.
    /// Returns `None` without memory.
    pub(crate) fn cache(usage: &Arc<Usage>) -> Option<Arc<Self>> {
        // The server has the times. As far as the fast paths know, no read or write changes them.
        let times = || Times { is_unread: false, ..Times::new(Time::default()) };
        S::arc_with(|| Self::with(&[], usage, times(), Some(Validity::default())))
    }

    /// Returns true if pages are cached.
    pub(crate) fn has_pages(&self) -> bool {
        self.state.lock().pages.count().pages > 0
    }

    /// Copies cached bytes from an offset on, up to the first one that is not cached. Returns their number.
    /// `now` is the time, and `tick` the tick just before it was read.
    pub(crate) fn read_cached(
        &self,
        offset: u64,
        target: &mut dyn ReadTarget,
        (tick, now): (u64, u64),
    ) -> usize {
        let mut count = 0;
        while target.room() > 0 {
            let mut state = self.state.lock();
            match &mut state.validity {
                Some(validity) if now < validity.deadline => validity.checked_at = tick,
                _ => {
                    drop(state);
                    self.truncate(0);
                    break;
                }
            }
            let offset = offset.saturating_add(count as u64);
            let is_cached = state.pages.get(offset / PAGE_BYTES).is_some();
            let read = if is_cached { state.read_page(offset, target) } else { 0 };
            if read == 0 {
                break;
            }
            count += read;
        }
        count
    }

    /// Caches the pages of a run, which expire at `deadline`. Stops at the first page for which `is_current`,
    /// which is called with the lock held, returns false: then the bytes may be outdated.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the caches have reached their limit, `ENOMEM`. Then only the pages before are cached.
    pub(crate) fn insert(
        &self,
        run: PageRun<S>,
        deadline: u64,
        is_current: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        let (first, end, is_end) = (run.start() / PAGE_BYTES, run.end(), run.is_end());
        if is_end && is_current() {
            self.truncate(end);
        }
        for (index, page) in (first..).zip(run.pages) {
            let mut page = Some(S::arc(CachedPage::new(page)).ok_or(Errno::ENOMEM)?);
            let page_end = (index + 1) * PAGE_BYTES;
            let mut state = self.lock();
            // The last page of a run may be incomplete. It is cached only as the last page of the file.
            let is_cacheable = page_end <= end || (is_end && state.size <= end);
            if !is_cacheable || !is_current() {
                return Ok(());
            }
            let incomplete = state.take_incomplete(index);
            let inserted = self.insert_page(&mut state, index, &mut page, deadline);
            if inserted.is_ok() {
                state.size = state.size.max(end.min(page_end));
            }
            // Pages are freed without the lock.
            drop(state);
            self.free(incomplete);
            drop(page);
            inserted?;
        }
        Ok(())
    }

    /// Stores a page, and takes out the page that it replaces.
    fn insert_page(
        &self,
        state: &mut State<S>,
        index: u64,
        page: &mut Option<Page<S>>,
        deadline: u64,
    ) -> Result<(), Errno> {
        let is_first = state.pages.count().pages == 0;
        state.create_missing(&self.usage, index, || page.take().ok_or(Errno::ENOMEM))?;
        if let Some(page) = page {
            mem::swap(page, state.pages.get_or_insert(index, || Err(Errno::EIO))?);
        }
        if let Some(validity) = &mut state.validity {
            validity.deadline = if is_first { deadline } else { deadline.min(validity.deadline) };
        }
        Ok(())
    }

    /// Forgets all bytes from an offset on.
    pub(crate) fn truncate(&self, offset: u64) {
        self.free_pages(offset.div_ceil(PAGE_BYTES), offset);
    }

    /// Frees pages that were taken out.
    fn free(&self, removed: Option<RemovedPages<Page<S>>>) {
        if let Some(removed) = removed {
            self.usage.release(removed.count().size());
        }
    }

    /// Forgets all bytes, unless another call uses the contents. May be called by an allocation that has
    /// failed, which may hold the lock.
    pub(crate) fn try_clear(&self) {
        let Some(mut state) = self.state.try_lock() else { return };
        state.end_direct_use();
        state.size = 0;
        let pages = mem::replace(&mut state.pages, SparsePages::new());
        drop(state);
        self.usage.release(pages.count().size());
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::super::{Contents, PageRun, Usage};
    use crate::interface::file_system::ReadTarget;
    use crate::interface::{PAGE_SIZE, System as _};
    use crate::testing::TestSystem;

    /// Time at which the pages of the tests expire.
    const DEADLINE: u64 = 100;

    /// A target with room for a number of bytes.
    struct Bytes(Vec<u8>, usize);

    impl ReadTarget for Bytes {
        fn room(&self) -> usize {
            self.1 - self.0.len()
        }

        fn append(&mut self, bytes: &[u8]) -> usize {
            let count = bytes.len().min(self.room());
            self.0.extend_from_slice(&bytes[..count]);
            count
        }
    }

    /// A cache, and the file on the server.
    struct Cache {
        contents: Arc<Contents<TestSystem>>,
        usage: Arc<Usage>,
        file: Vec<u8>,
    }

    impl Cache {
        fn new(pages: u64) -> Self {
            let usage = Arc::new(Usage::new(pages * 5000));
            Self { contents: Contents::cache(&usage).unwrap(), usage, file: Vec::new() }
        }

        /// Requests bytes. The server is asked for `requested` of them at most.
        fn fetch(&self, offset: usize, size: usize, requested: usize) {
            let mut run: PageRun<TestSystem> = PageRun::new(offset as u64, (offset + size) as u64).unwrap();
            let requested = requested.min(run.room());
            let rest = self.file.get(usize::try_from(run.start()).unwrap()..).unwrap_or_default();
            run.append(&rest[..requested.min(rest.len())]);
            run.note_requested(requested);
            let _is_cached = self.contents.insert(run, DEADLINE, || true).is_ok();
        }

        /// Writes to the file, which becomes longer if need be.
        fn write(&mut self, offset: usize, bytes: &[u8]) {
            self.contents.truncate(offset as u64);
            self.file.resize(self.file.len().max(offset + bytes.len()), 0);
            self.file[offset..offset + bytes.len()].copy_from_slice(bytes);
        }

        fn read(&self, offset: usize, size: usize, now: u64) -> Vec<u8> {
            let mut target = Bytes(Vec::new(), size);
            let count = self.contents.read_cached(offset as u64, &mut target, (TestSystem::tick(), now));
            assert_eq!(count, target.0.len());
            target.0
        }
    }

    #[test]
    fn pages_are_read_until_they_expire() {
        let mut cache = Cache::new(10);
        cache.write(0, &[7; 3 * PAGE_SIZE]);
        cache.fetch(PAGE_SIZE, 10, usize::MAX);
        assert_eq!(cache.read(PAGE_SIZE + 1, PAGE_SIZE, 99).len(), PAGE_SIZE - 1);
        assert_eq!((cache.read(0, 1, 99).len(), cache.read(2 * PAGE_SIZE, 1, 99).len()), (0, 0));
        assert!(cache.contents.has_pages());
        assert_eq!(cache.read(PAGE_SIZE, 1, DEADLINE).len(), 0);
        assert!(!cache.contents.has_pages());
        assert_eq!(cache.usage.limit_and_free(), (50_000, 50_000));
    }

    #[test]
    fn run_that_is_outdated_is_not_cached() {
        let cache = Cache::new(10);
        let mut run: PageRun<TestSystem> = PageRun::new(0, 1).unwrap();
        run.append(b"abc");
        assert_eq!(cache.contents.insert(run, DEADLINE, || false), Ok(()));
        assert!(!cache.contents.has_pages());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Fetch(usize, usize, usize),
        Write(usize, usize),
        Truncate(usize),
        Read(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let offset = || prop_oneof![0..40_000_usize, (0..10_usize).prop_map(|page| page * PAGE_SIZE)];
        prop_oneof![
            (offset(), 1..20_000_usize, prop_oneof![Just(usize::MAX), 1..20_000_usize])
                .prop_map(|(offset, size, requested)| Step::Fetch(offset, size, requested)),
            (offset(), 1..9000_usize).prop_map(|(offset, size)| Step::Write(offset, size)),
            offset().prop_map(Step::Truncate),
            (offset(), 1..30_000_usize).prop_map(|(offset, size)| Step::Read(offset, size)),
        ]
    }

    proptest! {
        #[test]
        fn cached_bytes_are_those_of_the_file(
            limit in 1..12_u64,
            steps in prop::collection::vec(step(), 1..if cfg!(miri) { 10 } else { 60 }),
        ) {
            let mut cache = Cache::new(limit);
            for (step, byte) in steps.iter().zip((1..=251_u8).cycle()) {
                match *step {
                    Step::Fetch(offset, size, requested) => cache.fetch(offset, size, requested),
                    Step::Write(offset, size) => cache.write(offset, &std::vec![byte; size]),
                    Step::Truncate(size) => {
                        cache.contents.truncate(size as u64);
                        cache.file.resize(size, 0);
                    }
                    Step::Read(offset, size) => {
                        let bytes = cache.read(offset, size, 0);
                        let rest = cache.file.get(offset..).unwrap_or_default();
                        prop_assert!(rest.starts_with(&bytes), "{:?}", step);
                    }
                }
            }
            cache.contents.try_clear();
            let (limit, free) = cache.usage.limit_and_free();
            prop_assert_eq!(limit, free);
        }
    }
}
