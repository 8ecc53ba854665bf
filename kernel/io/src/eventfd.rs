//! A counter behind a descriptor for event notification: `eventfd(2)` of Linux.
//!
//! A write adds to the counter, and waits while the sum would exceed the maximum. A read returns the counter
//! and sets it to 0. In semaphore mode, a read returns 1 and subtracts 1. A read waits while the counter is
//! 0. The counter is an atomic; only the wait queues have locks. Each call that has to wait registers its
//! waker and then tries again, since the counter may have changed before the waker was registered.

use core::fmt::{self, Debug};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::{Context, Poll};

use hermit_base::wait::WaitQueue;
use hermit_interface::Errno;
use lock_api::RawMutex;

use crate::calls::ReadCalls;
use crate::{Object, ReadBuffer, Readiness, Stat};

/// Size of a read or write in bytes: one `u64`.
const SIZE: usize = size_of::<u64>();

/// Maximum of the counter.
const MAX: u64 = u64::MAX - 1;

/// The object behind an eventfd: a counter with its wait queue.
pub struct EventFd<R: RawMutex> {
    value: AtomicU64,
    /// Semaphore mode (`EFD_SEMAPHORE`): a read subtracts 1 instead of resetting the counter to 0.
    semaphore: bool,
    nonblocking: AtomicBool,
    readers: ReadCalls<R>,
    /// Writers that wait, and tasks that wait for the counter to be ready.
    waiters: WaitQueue<R>,
}

impl<R: RawMutex> EventFd<R> {
    /// Creates a counter with an initial value.
    #[must_use]
    pub const fn new(value: u64, semaphore: bool, nonblocking: bool) -> Self {
        let (value, nonblocking) = (AtomicU64::new(value), AtomicBool::new(nonblocking));
        Self { value, semaphore, nonblocking, readers: ReadCalls::new(), waiters: WaitQueue::new() }
    }

    /// Takes the counter's value, or 1 in semaphore mode. Returns the taken value, and true if the counter is
    /// still above 0. Returns `None` if the counter was 0.
    fn take(&self) -> Option<(u64, bool)> {
        let semaphore = self.semaphore;
        let rest = |value: u64| if semaphore { value.checked_sub(1) } else { (value != 0).then_some(0) };
        let before = self.value.fetch_update(AcqRel, Acquire, rest).ok()?;
        Some(if semaphore { (1, before > 1) } else { (before, false) })
    }

    /// Adds to the counter. Returns `None` if the counter would exceed [`MAX`].
    fn add(&self, number: u64) -> Option<()> {
        let sum = |value: u64| value.checked_add(number).filter(|&sum| sum <= MAX);
        self.value.fetch_update(AcqRel, Acquire, sum).ok().map(drop)
    }

    fn readiness(&self) -> Readiness {
        let value = self.value.load(Acquire);
        Readiness { read: value > 0, write: value < MAX, ..Readiness::default() }
    }

    /// Does [`Self::add`]. If the counter would exceed the maximum, registers the waker of the writer.
    fn poll_add(&self, context: &Context<'_>, number: u64) -> Poll<Result<(), Errno>> {
        if self.add(number).is_some() {
            return Poll::Ready(Ok(()));
        }
        if self.nonblocking.load(Relaxed) {
            return Poll::Ready(Err(Errno::EAGAIN));
        }
        self.waiters.add(context);
        // Tries again, because the counter may have changed before the waker was registered.
        self.add(number).map_or(Poll::Pending, |()| Poll::Ready(Ok(())))
    }
}

impl<R: RawMutex> Debug for EventFd<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EventFd").field("value", &self.value).finish_non_exhaustive()
    }
}

impl<R: RawMutex + Send + Sync + 'static> Object for EventFd<R> {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        if buffer.room() < SIZE {
            return Poll::Ready(Err(Errno::EINVAL));
        }
        self.readers.poll(context, &self.nonblocking, || self.take()).map_ok(|value| {
            self.waiters.wake();
            buffer.append(&value.to_le_bytes());
        })
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        let number =
            bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).filter(|&number| number <= MAX);
        let Some(number) = number else { return Poll::Ready(Err(Errno::EINVAL)) };
        self.poll_add(context, number).map_ok(|()| {
            self.waiters.wake();
            self.readers.wake_one();
            SIZE
        })
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat::ANONYMOUS)
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        self.waiters.add(context);
        self.readiness()
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn watch_exclusive(&self, context: &mut Context<'_>) -> Readiness {
        self.readers.watch(context);
        let ready = self.readiness();
        if ready.write {
            return ready;
        }
        // This is rare: the counter is at its maximum, so the entry must also wait for a read, which makes
        // the counter writable.
        self.poll_ready(context)
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.waiters.remove(context);
        self.readers.unwatch(context);
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Relaxed)
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        self.nonblocking.store(nonblocking, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::MAX;
    use crate::{Object, ReadBuffer};
    use core::mem::MaybeUninit;
    use core::sync::atomic::AtomicUsize;
    use core::sync::atomic::Ordering::Relaxed;
    use core::task::{Context, Poll, Waker};
    use hermit_interface::Errno;
    use parking_lot::RawMutex;
    use std::sync::Arc;
    use std::task::Wake;
    use std::vec::Vec;

    type EventFd = super::EventFd<RawMutex>;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Reads. Returns the counter's value before and after the read.
    fn read(counter: &EventFd) -> Poll<Result<(u64, u64), Errno>> {
        let mut bytes = [MaybeUninit::uninit(); 8];
        let mut buffer = ReadBuffer::new(&mut bytes);
        let mut context = Context::from_waker(Waker::noop());
        let before = counter.value.load(Relaxed);
        let result = counter.poll_read(&mut context, &mut buffer);
        assert_eq!(buffer.len(), if matches!(result, Poll::Ready(Ok(()))) { 8 } else { 0 });
        result.map_ok(|()| (before, counter.value.load(Relaxed)))
    }

    fn write(counter: &EventFd, number: u64) -> Poll<Result<usize, Errno>> {
        counter.poll_write(&mut Context::from_waker(Waker::noop()), &number.to_le_bytes())
    }

    #[test]
    fn read_resets_the_counter_and_write_wakes_readers() {
        let counter = EventFd::new(3, false, false);
        assert_eq!(write(&counter, 4), Poll::Ready(Ok(8)));
        assert_eq!(read(&counter), Poll::Ready(Ok((7, 0))));
        assert_eq!(read(&counter), Poll::Pending);
        assert_eq!(counter.readers.count(), 1);
        assert_eq!(write(&counter, 1), Poll::Ready(Ok(8)));
        assert_eq!(counter.readers.count(), 0);
    }

    #[test]
    fn semaphore_read_takes_one() {
        let counter = EventFd::new(2, true, true);
        assert_eq!(read(&counter), Poll::Ready(Ok((2, 1))));
        assert_eq!(read(&counter), Poll::Ready(Ok((1, 0))));
        assert_eq!(read(&counter), Poll::Ready(Err(Errno::EAGAIN)));
    }

    #[test]
    fn write_beyond_the_maximum_fails() {
        let counter = EventFd::new(MAX, false, true);
        assert_eq!(write(&counter, 1), Poll::Ready(Err(Errno::EAGAIN)));
        assert_eq!(write(&counter, u64::MAX), Poll::Ready(Err(Errno::EINVAL)));
        let ready = counter.poll_ready(&mut Context::from_waker(Waker::noop()));
        assert!(ready.read && !ready.write);
    }

    #[test]
    fn read_and_write_need_eight_bytes() {
        let counter = EventFd::new(1, false, true);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(counter.poll_write(&mut context, &[1; 7]), Poll::Ready(Err(Errno::EINVAL)));
        let mut bytes = [MaybeUninit::uninit(); 7];
        let short = counter.poll_read(&mut context, &mut ReadBuffer::new(&mut bytes));
        assert_eq!(short, Poll::Ready(Err(Errno::EINVAL)));
    }

    /// Tasks that count their wake-ups.
    fn readers(count: usize) -> Vec<(Arc<Counter>, Waker)> {
        (0..count)
            .map(|_| {
                let counter = Arc::new(Counter::default());
                (Arc::clone(&counter), Waker::from(counter))
            })
            .collect()
    }

    /// Reads for a task; returns true if it has read something.
    fn read_for(counter: &EventFd, waker: &Waker) -> bool {
        let mut bytes = [MaybeUninit::uninit(); 8];
        counter.poll_read(&mut Context::from_waker(waker), &mut ReadBuffer::new(&mut bytes)).is_ready()
    }

    #[test]
    #[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
    fn write_wakes_as_many_of_a_thousand_readers_as_can_read() {
        let counter = EventFd::new(0, true, false);
        let readers = readers(1000);
        assert!(!readers.iter().any(|(_, waker)| read_for(&counter, waker)));
        // A task that only polls the readiness waits in addition to the readers.
        let (watcher, waker) = (Arc::new(Counter::default()), Waker::from(Arc::new(Counter::default())));
        assert!(!counter.poll_ready(&mut Context::from_waker(&Waker::from(Arc::clone(&watcher)))).read);
        let woken = || readers.iter().filter(|(count, _)| count.0.load(Relaxed) > 0).count();
        assert_eq!(write(&counter, 3), Poll::Ready(Ok(8)));
        assert_eq!((woken(), watcher.0.load(Relaxed)), (1, 1));
        // Each reader wakes the next reader while the counter is above 0.
        for (index, (_, waker)) in readers.iter().enumerate().take(3) {
            assert!(read_for(&counter, waker));
            assert_eq!(woken(), (index + 2).min(3));
        }
        // Another call reads before the woken reader does. The woken reader waits again, and the next write
        // wakes it.
        assert_eq!(write(&counter, 1), Poll::Ready(Ok(8)));
        assert!(read_for(&counter, &waker) && !read_for(&counter, &readers[3].1));
        assert_eq!((woken(), counter.readers.count()), (4, 997));
    }
}
