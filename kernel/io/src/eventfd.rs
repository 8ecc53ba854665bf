//! A counter behind a descriptor for event notification: `eventfd(2)` of Linux.

use core::fmt::Debug;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::{Context, Poll};

use hermit_interface::Errno;

use crate::{Object, ReadBuffer, Readiness, Stat};

/// Wait queue of an object: the wakers of the tasks that wait for it to change.
pub trait WaitQueue: Debug + Send + Sync {
    /// Registers the waker of `context` for the next [`Self::wake`].
    fn add(&self, context: &Context<'_>);

    /// Removes the waker of `context`. Returns whether it was registered: if not, it has been called.
    fn remove(&self, context: &Context<'_>) -> bool;

    /// Calls and removes all registered wakers.
    fn wake(&self);
}

/// Size of a read or write in bytes: one `u64`.
const SIZE: usize = size_of::<u64>();

/// Maximum of the counter.
const MAX: u64 = u64::MAX - 1;

/// The object behind an eventfd: a counter with its wait queue.
#[derive(Debug)]
pub struct EventFd<W> {
    value: AtomicU64,
    /// Semaphore mode (`EFD_SEMAPHORE`): a read subtracts 1 instead of resetting the counter to 0.
    semaphore: bool,
    nonblocking: AtomicBool,
    waiters: W,
}

impl<W: WaitQueue> EventFd<W> {
    /// Creates a counter with an initial value.
    pub const fn new(value: u64, semaphore: bool, nonblocking: bool, waiters: W) -> Self {
        Self { value: AtomicU64::new(value), semaphore, nonblocking: AtomicBool::new(nonblocking), waiters }
    }

    /// Takes the counter's value, or 1 in semaphore mode; `None` if the counter is 0.
    fn take(&self) -> Option<u64> {
        let semaphore = self.semaphore;
        let rest = |value: u64| if semaphore { value.checked_sub(1) } else { (value != 0).then_some(0) };
        let before = self.value.fetch_update(AcqRel, Acquire, rest).ok()?;
        Some(if semaphore { 1 } else { before })
    }

    /// Adds to the counter; `None` if it would exceed [`MAX`].
    fn add(&self, number: u64) -> Option<()> {
        let sum = |value: u64| value.checked_add(number).filter(|&sum| sum <= MAX);
        self.value.fetch_update(AcqRel, Acquire, sum).ok().map(drop)
    }

    /// Polls `action`, which returns `None` if it must wait.
    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        action: impl Fn(&Self) -> Option<T>,
    ) -> Poll<Result<T, Errno>> {
        let mut result = action(self);
        if result.is_none() {
            if self.nonblocking.load(Relaxed) {
                return Poll::Ready(Err(Errno::EAGAIN));
            }
            self.waiters.add(context);
            // Again, as the counter may have changed before the waker was registered.
            result = action(self);
        }
        result.map_or(Poll::Pending, |result| {
            self.waiters.wake();
            Poll::Ready(Ok(result))
        })
    }
}

impl<W: WaitQueue + 'static> Object for EventFd<W> {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        if buffer.room() < SIZE {
            return Poll::Ready(Err(Errno::EINVAL));
        }
        self.poll(context, Self::take).map_ok(|value| {
            buffer.append(&value.to_le_bytes());
        })
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        let number =
            bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).filter(|&number| number <= MAX);
        let Some(number) = number else { return Poll::Ready(Err(Errno::EINVAL)) };
        self.poll(context, |counter| counter.add(number)).map_ok(|()| SIZE)
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat::ANONYMOUS)
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        self.waiters.add(context);
        let value = self.value.load(Acquire);
        Readiness { read: value > 0, write: value < MAX, ..Readiness::default() }
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.waiters.remove(context);
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

    use super::{EventFd, MAX};
    use crate::testing::FakeWaitQueue;
    use crate::{Object, ReadBuffer};
    use core::mem::MaybeUninit;
    use core::sync::atomic::Ordering::Relaxed;
    use core::task::{Context, Poll, Waker};
    use hermit_interface::Errno;

    /// Reads; returns the counter's value before and after.
    fn read(counter: &EventFd<FakeWaitQueue>) -> Poll<Result<(u64, u64), Errno>> {
        let mut bytes = [MaybeUninit::uninit(); 8];
        let mut buffer = ReadBuffer::new(&mut bytes);
        let mut context = Context::from_waker(Waker::noop());
        let before = counter.value.load(Relaxed);
        let result = counter.poll_read(&mut context, &mut buffer);
        assert_eq!(buffer.len(), if matches!(result, Poll::Ready(Ok(()))) { 8 } else { 0 });
        result.map_ok(|()| (before, counter.value.load(Relaxed)))
    }

    fn write(counter: &EventFd<FakeWaitQueue>, number: u64) -> Poll<Result<usize, Errno>> {
        counter.poll_write(&mut Context::from_waker(Waker::noop()), &number.to_le_bytes())
    }

    #[test]
    fn read_resets_the_counter_and_write_wakes_readers() {
        let counter = EventFd::new(3, false, false, FakeWaitQueue::default());
        assert_eq!(write(&counter, 4), Poll::Ready(Ok(8)));
        assert_eq!(read(&counter), Poll::Ready(Ok((7, 0))));
        assert_eq!(read(&counter), Poll::Pending);
        assert_eq!(counter.waiters.0.lock().unwrap().len(), 1);
        assert_eq!(write(&counter, 1), Poll::Ready(Ok(8)));
        assert!(counter.waiters.0.lock().unwrap().is_empty());
    }

    #[test]
    fn semaphore_read_takes_one() {
        let counter = EventFd::new(2, true, true, FakeWaitQueue::default());
        assert_eq!(read(&counter), Poll::Ready(Ok((2, 1))));
        assert_eq!(read(&counter), Poll::Ready(Ok((1, 0))));
        assert_eq!(read(&counter), Poll::Ready(Err(Errno::EAGAIN)));
    }

    #[test]
    fn write_beyond_the_maximum_fails() {
        let counter = EventFd::new(MAX, false, true, FakeWaitQueue::default());
        assert_eq!(write(&counter, 1), Poll::Ready(Err(Errno::EAGAIN)));
        assert_eq!(write(&counter, u64::MAX), Poll::Ready(Err(Errno::EINVAL)));
        let ready = counter.poll_ready(&mut Context::from_waker(Waker::noop()));
        assert!(ready.read && !ready.write);
    }

    #[test]
    fn read_and_write_need_eight_bytes() {
        let counter = EventFd::new(1, false, true, FakeWaitQueue::default());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(counter.poll_write(&mut context, &[1; 7]), Poll::Ready(Err(Errno::EINVAL)));
        let mut bytes = [MaybeUninit::uninit(); 7];
        let short = counter.poll_read(&mut context, &mut ReadBuffer::new(&mut bytes));
        assert_eq!(short, Poll::Ready(Err(Errno::EINVAL)));
    }
}
