//! Output of the guest: the host's streams to which `transmitq` is written.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::escape::Escaper;
use crate::devices::virtio::QueueSink;

/// Interval between two attempts to write to a terminal or pipe in non-blocking mode (another process that
/// shares it may have set `O_NONBLOCK`).
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// A stream of the host, shared by all its writers. Calls of [`Self::write`] do not interleave.
///
/// An error, such as a pipe without a reader, is reported once. All later output is dropped, so that the
/// stream never has a gap.
#[derive(Clone)]
pub struct Output(Arc<OutputState>);

struct OutputState {
    sink: Mutex<HostStream>,
    /// Chunks that [`Output::buffer`] has added. The holder of the sink's lock writes and removes them.
    buffered: Mutex<VecDeque<Vec<u8>>>,
}

struct HostStream {
    stream: Box<dyn Write + Send>,
    /// File of the stream, which is polled to find out if it takes bytes; `None` if the stream always takes
    /// bytes.
    file: Option<Arc<File>>,
    escaper: Option<Escaper>,
    failure: Option<ErrorKind>,
}

impl Output {
    /// Creates an output to this stream, which must never block. Every byte is written unchanged.
    #[must_use]
    pub fn new(stream: Box<dyn Write + Send>) -> Self {
        Self::with(HostStream { stream, file: None, escaper: None, failure: None })
    }

    /// Creates an output to a terminal. Control characters are replaced by a visible form, except those for
    /// text layout and colours.
    #[must_use]
    pub fn escaped(stream: Box<dyn Write + Send>) -> Self {
        let escaper = Some(Escaper::default());
        Self::with(HostStream { stream, file: None, escaper, failure: None })
    }

    /// Creates an output to a file, such as a pipe, whose reader may block it.
    #[must_use]
    pub fn file(file: File, is_escaped: bool) -> Self {
        let file = Arc::new(file);
        let escaper = is_escaped.then(Escaper::default);
        Self::with(HostStream {
            stream: Box::new(Arc::clone(&file)),
            file: Some(file),
            escaper,
            failure: None,
        })
    }

    fn with(stream: HostStream) -> Self {
        Self(Arc::new(OutputState { sink: Mutex::new(stream), buffered: Mutex::default() }))
    }

    /// Buffers a chunk. The [`QueueSink::write_after`] in which this is called writes it.
    pub(super) fn buffer(&self, chunk: Vec<u8>) {
        self.buffered().push_back(chunk);
    }

    /// Writes all of `bytes`. Blocks until the stream has taken them.
    pub fn write(&self, bytes: &[u8]) {
        self.lock().write(bytes);
    }

    /// Writes all of `bytes`, which must be few, unless this would block for another writer or for the reader
    /// of the stream. Returns true if they were written.
    pub fn try_write(&self, bytes: &[u8]) -> bool {
        let mut sink = match self.0.sink.try_lock() {
            Err(TryLockError::WouldBlock) => return false,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(sink) => sink,
        };
        let is_ready = sink.is_ready();
        if is_ready {
            sink.write(bytes);
        }
        is_ready
    }

    /// Returns the error that has ended the output, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<ErrorKind> {
        self.lock().failure
    }

    fn lock(&self) -> MutexGuard<'_, HostStream> {
        self.0.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn buffered(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.0.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_chunk(&self) -> Option<Vec<u8>> {
        self.buffered().pop_front()
    }
}

impl QueueSink for Output {
    fn write_after(&self, process: &mut dyn FnMut()) {
        let mut sink = self.lock();
        process();
        while let Some(chunk) = self.take_chunk() {
            sink.write(&chunk);
        }
    }

    fn finish(&self) {
        let mut sink = self.lock();
        let end = sink.escaper.as_mut().map(Escaper::finish).unwrap_or_default();
        sink.write_visible(&end);
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The failure is not printed, because its lock is held as long as a write blocks.
        out.debug_struct("Output").finish_non_exhaustive()
    }
}

impl HostStream {
    /// Returns true if a few bytes can be written without blocking. A pipe that is writable has room for at
    /// least a page (pipe(7)).
    fn is_ready(&self) -> bool {
        let Some(file) = &self.file else { return true };
        let mut descriptor = [PollFd::new(file, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error also counts as ready, because the write reports it.
        poll(&mut descriptor, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn write(&mut self, bytes: &[u8]) {
        match &mut self.escaper {
            Some(escaper) => {
                let visible = escaper.escape(bytes);
                self.write_visible(&visible);
            }
            None => self.write_visible(bytes),
        }
    }

    /// Writes bytes that need no escaping.
    fn write_visible(&mut self, bytes: &[u8]) {
        if self.failure.is_some() || bytes.is_empty() {
            return;
        }
        if let Err(error) = self.write_all(bytes) {
            log::warn!("console: the guest's output is lost from here on: {error}");
            self.failure = Some(error.kind());
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match retry(|| self.stream.write(bytes))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => bytes = bytes.get(count..).unwrap_or_default(),
            }
        }
        retry(|| self.stream.flush())
    }
}

/// Repeats `operation` while it fails with `EINTR` or `EAGAIN`.
fn retry<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_INTERVAL),
            result => return result,
        }
    }
}
