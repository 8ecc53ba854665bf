//! Output of the guest on the host, the destination of `transmitq`.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval between two attempts to write to a terminal or pipe in non-blocking mode (another process that shares it
/// may have set `O_NONBLOCK`).
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// A stream of the host, shared by all its writers. One call of [`Self::write`] is atomic with respect to the others.
///
/// An error, such as a pipe without a reader, is reported once. Later output is dropped, so that the stream never
/// continues behind a gap.
#[derive(Clone)]
pub struct Output(Arc<Mutex<HostStream>>);

struct HostStream {
    stream: Box<dyn Write + Send>,
    failure: Option<ErrorKind>,
}

impl Output {
    /// Output to this stream.
    #[must_use]
    pub fn new(stream: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(HostStream { stream, failure: None })))
    }

    /// Writes all of `bytes`. Blocks until the stream has taken them.
    pub fn write(&self, bytes: &[u8]) {
        self.lock().write(bytes);
    }

    /// Error that has ended the output, if one has.
    #[must_use]
    pub fn failure(&self) -> Option<ErrorKind> {
        self.lock().failure
    }

    fn lock(&self) -> MutexGuard<'_, HostStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Output").field("failure", &self.failure()).finish_non_exhaustive()
    }
}

impl HostStream {
    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_some() {
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
