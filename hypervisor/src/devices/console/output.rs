//! Where output goes.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long to wait for a terminal or pipe that somebody has made non-blocking.
const PAUSE: Duration = Duration::from_millis(1);

/// A stream of the host, shared by all who write to it: a piece of text stays whole.
///
/// An error, such as a pipe that nobody reads any more, is reported once. What comes later is dropped, so that there is
/// no hole in what was written.
#[derive(Clone)]
pub struct Output(Arc<Mutex<Sink>>);

struct Sink {
    stream: Box<dyn Write + Send>,
    failure: Option<ErrorKind>,
}

impl Output {
    /// Output to this stream.
    #[must_use]
    pub fn new(stream: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(Sink { stream, failure: None })))
    }

    /// Writes all of `bytes`, however long it takes.
    pub fn write(&self, bytes: &[u8]) {
        self.lock().write(bytes);
    }

    /// Why nothing is written any more.
    #[must_use]
    pub fn failure(&self) -> Option<ErrorKind> {
        self.lock().failure
    }

    fn lock(&self) -> MutexGuard<'_, Sink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Output").field("failure", &self.failure()).finish_non_exhaustive()
    }
}

impl Sink {
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
            match patiently(|| self.stream.write(bytes))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => bytes = bytes.get(count..).unwrap_or_default(),
            }
        }
        patiently(|| self.stream.flush())
    }
}

/// Does something until it is done or fails for good.
fn patiently<T>(mut action: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match action() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
            result => return result,
        }
    }
}
