//! The host's requests to end the program, and descriptors that become readable with the first request.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::{Context, Poll};

use hermit_base::wait::WaitQueue;
use hermit_interface::Errno;
use lock_api::RawMutex;

use crate::{Object, ReadBuffer, Readiness, Stat};

/// Size of a read in bytes: one `u64`.
const SIZE: usize = size_of::<u64>();

/// The requests to end so far. All descriptors share them.
#[derive(Debug)]
pub struct ShutdownRequests<R: RawMutex> {
    count: AtomicU64,
    waiters: WaitQueue<R>,
}

impl<R: RawMutex> Default for ShutdownRequests<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: RawMutex> ShutdownRequests<R> {
    /// Creates the state without requests.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: AtomicU64::new(0), waiters: WaitQueue::new() }
    }

    /// Counts a request, and wakes all waiters.
    pub fn add(&self) {
        self.count.fetch_add(1, AcqRel);
        self.waiters.wake();
    }

    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) const fn waiters(&self) -> &WaitQueue<R> {
        &self.waiters
    }

    /// Returns the number of requests so far. If there are none, registers the waker for the first request
    /// and returns `None`.
    fn poll(&self, context: &Context<'_>) -> Option<u64> {
        let count = || Some(self.count.load(Acquire)).filter(|&count| count > 0);
        // Checks again, because the first request may have come before the waker was registered.
        count().or_else(|| {
            self.waiters.add(context);
            count()
        })
    }
}

/// The object of a descriptor that reports requests to end.
///
/// It becomes readable with the first request and stays readable. So all waiting threads see the request, in
/// whatever order they read.
#[derive(Debug)]
pub struct ShutdownFd<R: RawMutex + Send + Sync + 'static> {
    requests: &'static ShutdownRequests<R>,
    nonblocking: AtomicBool,
}

impl<R: RawMutex + Send + Sync + 'static> ShutdownFd<R> {
    /// Creates an object for these requests.
    pub const fn new(requests: &'static ShutdownRequests<R>, nonblocking: bool) -> Self {
        Self { requests, nonblocking: AtomicBool::new(nonblocking) }
    }
}

impl<R: RawMutex + Send + Sync + 'static> Drop for ShutdownFd<R> {
    fn drop(&mut self) {
        // The queue outlives the descriptor, and epoll cannot remove its wakers from the queue of a closed
        // object. So they are woken here, which removes them.
        self.requests.waiters.wake();
    }
}

impl<R: RawMutex + Send + Sync + 'static> Object for ShutdownFd<R> {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        if buffer.room() < SIZE {
            return Poll::Ready(Err(Errno::EINVAL));
        }
        match self.requests.poll(context) {
            Some(count) => {
                buffer.append(&count.to_le_bytes());
                Poll::Ready(Ok(()))
            }
            None if self.is_nonblocking() => Poll::Ready(Err(Errno::EAGAIN)),
            None => Poll::Pending,
        }
    }

    fn poll_write(&self, _context: &mut Context<'_>, _bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(Err(Errno::EINVAL))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat::ANONYMOUS)
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        Readiness { read: self.requests.poll(context).is_some(), ..Readiness::default() }
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        self.requests.waiters.add(context);
        Readiness { read: self.requests.count.load(Acquire) > 0, ..Readiness::default() }
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.requests.waiters.remove(context);
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

    use super::{ShutdownFd, ShutdownRequests};
    use crate::{Object, ReadBuffer};
    use core::mem::MaybeUninit;
    use core::task::{Context, Poll, Waker};
    use hermit_interface::Errno;
    use parking_lot::RawMutex;
    use std::boxed::Box;

    fn requests() -> &'static ShutdownRequests<RawMutex> {
        Box::leak(Box::new(ShutdownRequests::new()))
    }

    /// Reads into a buffer of this size; returns the number of bytes.
    fn read(object: &ShutdownFd<RawMutex>, size: usize) -> Poll<Result<usize, Errno>> {
        let mut memory = std::vec![MaybeUninit::uninit(); size];
        let mut buffer = ReadBuffer::new(&mut memory);
        let result = object.poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
        result.map_ok(|()| buffer.len())
    }

    fn is_readable(object: &ShutdownFd<RawMutex>) -> bool {
        object.poll_ready(&mut Context::from_waker(Waker::noop())).read
    }

    #[test]
    fn request_makes_every_descriptor_readable_for_ever() {
        let requests = requests();
        let (first, second) = (ShutdownFd::new(requests, false), ShutdownFd::new(requests, true));
        assert!(!is_readable(&first));
        assert_eq!(read(&first, 8), Poll::Pending);
        assert_eq!(read(&second, 8), Poll::Ready(Err(Errno::EAGAIN)));
        assert!(!requests.waiters.is_empty());
        requests.add();
        assert!(requests.waiters.is_empty());
        for object in [&first, &second, &first] {
            assert!(is_readable(object));
            assert_eq!(read(object, 8), Poll::Ready(Ok(8)));
        }
        assert!(requests.waiters.is_empty());
    }

    #[test]
    fn short_read_and_write_are_invalid() {
        let object = ShutdownFd::new(requests(), false);
        assert_eq!(read(&object, 7), Poll::Ready(Err(Errno::EINVAL)));
        let written = object.poll_write(&mut Context::from_waker(Waker::noop()), &[0; 8]);
        assert_eq!(written, Poll::Ready(Err(Errno::EINVAL)));
    }

    #[test]
    fn nonblocking_mode_can_be_changed() {
        let object = ShutdownFd::new(requests(), true);
        object.set_nonblocking(false).unwrap();
        assert_eq!(read(&object, 8), Poll::Pending);
    }
}
