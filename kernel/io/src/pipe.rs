//! Pipes: bytes that are written at one end and read at the other.
//!
//! A pipe is a ring buffer of fixed capacity that both ends share. A reader waits while the buffer is empty
//! and the write end is open. A writer waits while the buffer is full. A write of up to `PIPE_BUF` bytes is
//! atomic: all bytes are written at once or not at all. Longer data are copied in chunks, since the lock may
//! be a spinlock. Readers wait in a queue of their own, so that a write wakes only one of them. A read wakes
//! all writers, since room that is too small for one write may be enough for another.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_abi::{O_RDONLY, O_WRONLY, PIPE_BUF};
use hermit_base::try_alloc::try_vec;
use hermit_base::wait::WaitQueue;
use hermit_interface::{Errno, Readiness};
use lock_api::{Mutex, RawMutex};

use crate::calls::ReadCalls;
use crate::{Object, ReadBuffer, Stat};

/// Capacity of a pipe in bytes, as on Linux. It is smaller under Miri, which fills the bytes one by one.
const CAPACITY: usize = if cfg!(miri) { 4 * PIPE_BUF } else { 64 << 10 };

/// Maximum number of bytes that are copied while the lock is held.
const CHUNK: usize = PIPE_BUF;

/// `st_mode` of a pipe.
const PIPE_MODE: u32 = 0o01_0600;

/// The ring buffer of a pipe.
#[derive(Debug)]
struct Ring {
    /// [`CAPACITY`] bytes.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    has_reader: bool,
    has_writer: bool,
}

impl Ring {
    const fn room(&self) -> usize {
        CAPACITY - self.len
    }

    /// Moves up to [`CHUNK`] bytes to `buffer`, and returns their number.
    fn take(&mut self, buffer: &mut ReadBuffer<'_>) -> usize {
        let size = self.len.min(buffer.room()).min(CHUNK).min(CAPACITY - self.start);
        let bytes = self.bytes.get(self.start..self.start + size).unwrap_or_default();
        let count = buffer.append(bytes);
        self.start = (self.start + count) % CAPACITY;
        self.len -= count;
        count
    }

    /// Appends up to [`CHUNK`] bytes of `bytes`, and returns their number.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room()).min(CHUNK);
        let end = (self.start + self.len) % CAPACITY;
        let (first, second) = bytes.split_at(count.min(CAPACITY - end));
        for (at, part) in [(end, first), (0, second.get(..count - first.len()).unwrap_or_default())] {
            if let Some(place) = self.bytes.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
        self.len += count;
        count
    }
}

/// A pipe. Its two ends share it.
pub struct Pipe<R: RawMutex> {
    ring: Mutex<R, Ring>,
    /// Calls that wait for bytes to read; and below, tasks that wait for the read end to become ready.
    readers: ReadCalls<R>,
    watchers: WaitQueue<R>,
    /// Calls and tasks that wait at the write end. They share a queue and are all woken, since not every
    /// writer can use every amount of room.
    writers: WaitQueue<R>,
}

impl<R: RawMutex> Pipe<R> {
    /// Creates an empty pipe. The caller then creates the two ends.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self, Errno> {
        let ring =
            Ring { bytes: try_vec(0, CAPACITY)?, start: 0, len: 0, has_reader: true, has_writer: true };
        let (watchers, writers) = (WaitQueue::new(), WaitQueue::new());
        Ok(Self { ring: Mutex::new(ring), readers: ReadCalls::new(), watchers, writers })
    }

    fn reader_readiness(&self) -> Readiness {
        let ring = self.ring.lock();
        Readiness { read: ring.len > 0, hang_up: !ring.has_writer, ..Readiness::default() }
    }

    /// Reads the available bytes. Returns true if bytes remain, or `None` if a read has to wait.
    fn read(&self, buffer: &mut ReadBuffer<'_>) -> Option<bool> {
        let before = buffer.len();
        let (has_writer, has_more) = loop {
            let mut ring = self.ring.lock();
            if buffer.room() == 0 || ring.take(buffer) == 0 {
                break (ring.has_writer, ring.len > 0);
            }
        };
        if buffer.len() > before {
            self.writers.wake();
        }
        (buffer.len() > before || buffer.room() == 0 || !has_writer).then_some(has_more)
    }

    /// Writes as many bytes as there is room for. Up to [`PIPE_BUF`] bytes are written at once or not at all.
    /// Returns the number of written bytes, or `None` if a write has to wait.
    fn write(&self, bytes: &[u8]) -> Option<Result<usize, Errno>> {
        let mut count = 0;
        while count < bytes.len() {
            let rest = bytes.get(count..).unwrap_or_default();
            let mut ring = self.ring.lock();
            if !ring.has_reader {
                // As on Linux, the bytes written so far are reported instead of the error.
                return Some(Some(count).filter(|count| *count > 0).ok_or(Errno::EPIPE));
            }
            // POSIX: a write of up to `PIPE_BUF` bytes is atomic, so it waits until all of them fit.
            let is_whole = bytes.len() <= PIPE_BUF;
            let written = if is_whole && ring.room() < bytes.len() { 0 } else { ring.put(rest) };
            drop(ring);
            if written == 0 {
                break;
            }
            count += written;
            self.watchers.wake();
            self.readers.wake_one();
        }
        (count > 0 || bytes.is_empty()).then_some(Ok(count))
    }
}

/// The read end of a pipe.
pub struct PipeReader<R: RawMutex> {
    pipe: Arc<Pipe<R>>,
    nonblocking: AtomicBool,
}

impl<R: RawMutex> PipeReader<R> {
    /// Creates the only read end of a pipe.
    pub const fn new(pipe: Arc<Pipe<R>>, nonblocking: bool) -> Self {
        Self { pipe, nonblocking: AtomicBool::new(nonblocking) }
    }
}

impl<R: RawMutex> Drop for PipeReader<R> {
    fn drop(&mut self) {
        self.pipe.ring.lock().has_reader = false;
        self.pipe.writers.wake();
    }
}

/// The write end of a pipe.
pub struct PipeWriter<R: RawMutex> {
    pipe: Arc<Pipe<R>>,
    nonblocking: AtomicBool,
}

impl<R: RawMutex> PipeWriter<R> {
    /// Creates the only write end of a pipe.
    pub const fn new(pipe: Arc<Pipe<R>>, nonblocking: bool) -> Self {
        Self { pipe, nonblocking: AtomicBool::new(nonblocking) }
    }
}

impl<R: RawMutex> Drop for PipeWriter<R> {
    fn drop(&mut self) {
        self.pipe.ring.lock().has_writer = false;
        self.pipe.watchers.wake();
        self.pipe.readers.wake_all();
    }
}

impl<R: RawMutex> Debug for Pipe<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pipe").finish_non_exhaustive()
    }
}

impl<R: RawMutex> Debug for PipeReader<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PipeReader").finish_non_exhaustive()
    }
}

impl<R: RawMutex> Debug for PipeWriter<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PipeWriter").finish_non_exhaustive()
    }
}

/// Methods that both ends have in common.
macro_rules! common {
    ($access:expr) => {
        fn stat(&self) -> Result<Stat, Errno> {
            Ok(Stat { mode: PIPE_MODE, ..Stat::ANONYMOUS })
        }

        fn is_watchable(&self) -> bool {
            true
        }

        fn status_flags(&self) -> i32 {
            $access
        }

        fn is_nonblocking(&self) -> bool {
            self.nonblocking.load(Relaxed)
        }

        fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
            self.nonblocking.store(nonblocking, Relaxed);
            Ok(())
        }
    };
}

impl<R> Object for PipeReader<R>
where
    R: RawMutex + Send + Sync + 'static,
{
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        let read = || self.pipe.read(buffer).map(|has_more| ((), has_more));
        self.pipe.readers.poll(context, &self.nonblocking, read)
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        self.pipe.watchers.add(context);
        self.pipe.reader_readiness()
    }

    fn watch_exclusive(&self, context: &mut Context<'_>) -> Readiness {
        self.pipe.readers.watch(context);
        self.pipe.reader_readiness()
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.pipe.watchers.remove(context);
        self.pipe.readers.unwatch(context);
    }

    common!(O_RDONLY);
}

impl<R> Object for PipeWriter<R>
where
    R: RawMutex + Send + Sync + 'static,
{
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        if let Some(written) = self.pipe.write(bytes) {
            return Poll::Ready(written);
        }
        if self.nonblocking.load(Relaxed) {
            return Poll::Ready(Err(Errno::EAGAIN));
        }
        self.pipe.writers.add(context);
        // Tries again, because the pipe may have changed before the waker was registered.
        self.pipe.write(bytes).map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        self.pipe.writers.add(context);
        let ring = self.pipe.ring.lock();
        Readiness { write: ring.room() >= PIPE_BUF, error: !ring.has_reader, ..Readiness::default() }
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.pipe.writers.remove(context);
    }

    fn writes_all(&self) -> bool {
        !self.nonblocking.load(Relaxed)
    }

    common!(O_WRONLY);
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{CAPACITY, Pipe, PipeReader, PipeWriter};
    use crate::{Object, ReadBuffer};
    use core::mem::MaybeUninit;
    use core::sync::atomic::AtomicUsize;
    use core::sync::atomic::Ordering::Relaxed;
    use core::task::{Context, Poll, Waker};
    use hermit_abi::PIPE_BUF;
    use hermit_interface::Errno;
    use std::sync::Arc;
    use std::task::Wake;
    use std::vec;
    use std::vec::Vec;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    type Ends = (PipeReader<parking_lot::RawMutex>, PipeWriter<parking_lot::RawMutex>);

    fn ends(nonblocking: bool) -> Ends {
        let pipe = Arc::new(Pipe::new().unwrap());
        (PipeReader::new(Arc::clone(&pipe), nonblocking), PipeWriter::new(pipe, nonblocking))
    }

    fn write(writer: &impl Object, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        writer.poll_write(&mut Context::from_waker(Waker::noop()), bytes)
    }

    /// Reads up to `size` bytes; returns their number.
    fn read(reader: &impl Object, size: usize) -> Poll<Result<usize, Errno>> {
        let mut memory = vec![MaybeUninit::uninit(); size];
        let mut buffer = ReadBuffer::new(&mut memory);
        let mut context = Context::from_waker(Waker::noop());
        reader.poll_read(&mut context, &mut buffer).map_ok(|()| buffer.len())
    }

    #[test]
    fn read_returns_what_was_written_and_end_of_file_after_the_writer() {
        let (reader, writer) = ends(false);
        assert_eq!(read(&reader, 10), Poll::Pending);
        assert_eq!(write(&writer, b"abcdef"), Poll::Ready(Ok(6)));
        assert_eq!(read(&reader, 4), Poll::Ready(Ok(4)));
        drop(writer);
        assert_eq!(read(&reader, 4), Poll::Ready(Ok(2)));
        assert_eq!(read(&reader, 4), Poll::Ready(Ok(0)));
    }

    #[test]
    fn bytes_keep_their_order_around_the_ring() {
        let (reader, writer) = ends(true);
        let (mut next, mut expected) = (0_u8, 0_u8);
        // The first bytes are near the end of the ring.
        reader.pipe.ring.lock().start = CAPACITY - 1500;
        for round in 0..if cfg!(miri) { 2 } else { 200 } {
            let bytes: Vec<u8> = (0..1000 + round)
                .map(|_| {
                    next = next.wrapping_add(1);
                    next
                })
                .collect();
            assert_eq!(write(&writer, &bytes), Poll::Ready(Ok(bytes.len())));
            let mut ring = reader.pipe.ring.lock();
            let found: Vec<u8> = (0..ring.len).map(|at| ring.bytes[(ring.start + at) % CAPACITY]).collect();
            assert!(found.iter().all(|byte| {
                expected = expected.wrapping_add(1);
                *byte == expected
            }));
            (ring.start, ring.len) = ((ring.start + ring.len) % CAPACITY, 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
    fn write_wakes_one_of_a_thousand_readers_and_that_the_next_if_it_leaves_something() {
        let (reader, writer) = ends(false);
        let tasks: Vec<_> = (0..1000).map(|_| Arc::new(Counter::default())).collect();
        let read_for = |index: usize, size: usize| {
            let waker = Waker::from(Arc::clone(&tasks[index]));
            let mut memory = vec![MaybeUninit::uninit(); size];
            reader.poll_read(&mut Context::from_waker(&waker), &mut ReadBuffer::new(&mut memory)).is_ready()
        };
        assert!(!(0..1000).any(|index| read_for(index, 2)));
        let woken = || tasks.iter().map(|task| task.0.load(Relaxed)).sum::<usize>();
        assert_eq!(write(&writer, b"abc"), Poll::Ready(Ok(3)));
        assert_eq!(woken(), 1);
        assert!(read_for(0, 2));
        assert_eq!(woken(), 2);
        assert!(read_for(1, 2) && !read_for(1, 2));
        assert_eq!((woken(), reader.pipe.readers.count()), (2, 999));
        drop(writer);
        assert_eq!((woken(), reader.pipe.readers.count()), (2 + 999, 0));
    }

    #[test]
    fn small_write_is_whole_or_waits() {
        let (reader, writer) = ends(true);
        assert_eq!(write(&writer, &vec![1; CAPACITY + 1]), Poll::Ready(Ok(CAPACITY)));
        assert_eq!(write(&writer, b"x"), Poll::Ready(Err(Errno::EAGAIN)));
        assert_eq!(read(&reader, PIPE_BUF - 1), Poll::Ready(Ok(PIPE_BUF - 1)));
        assert_eq!(write(&writer, &[2; PIPE_BUF]), Poll::Ready(Err(Errno::EAGAIN)));
        // A larger write is made in parts.
        assert_eq!(write(&writer, &[2; PIPE_BUF + 1]), Poll::Ready(Ok(PIPE_BUF - 1)));
        assert_eq!(read(&reader, 2 * CAPACITY), Poll::Ready(Ok(CAPACITY)));
        assert_eq!(write(&writer, &[2; PIPE_BUF]), Poll::Ready(Ok(PIPE_BUF)));
    }

    #[test]
    fn write_without_reader_is_a_broken_pipe() {
        let (reader, writer) = ends(false);
        assert_eq!(write(&writer, &vec![1; CAPACITY]), Poll::Ready(Ok(CAPACITY)));
        assert_eq!(write(&writer, b"x"), Poll::Pending);
        assert_eq!(writer.pipe.writers.len(), 1);
        drop(reader);
        assert!(writer.pipe.writers.is_empty());
        assert_eq!(write(&writer, b"x"), Poll::Ready(Err(Errno::EPIPE)));
        assert_eq!(write(&writer, b""), Poll::Ready(Ok(0)));
    }

    #[test]
    fn readiness_follows_bytes_room_and_ends() {
        let (reader, writer) = ends(false);
        let mut context = Context::from_waker(Waker::noop());
        let of_reader = |context: &mut Context<'_>| {
            let ready = reader.poll_ready(context);
            (ready.read, ready.hang_up)
        };
        assert_eq!(of_reader(&mut context), (false, false));
        assert!(writer.poll_ready(&mut context).write);
        assert_eq!(write(&writer, &vec![1; CAPACITY]), Poll::Ready(Ok(CAPACITY)));
        assert_eq!(of_reader(&mut context), (true, false));
        assert!(!writer.poll_ready(&mut context).write);
        drop(writer);
        assert_eq!(of_reader(&mut context), (true, true));
    }
}
