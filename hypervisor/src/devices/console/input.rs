//! Where input comes from.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};

use hermit_interface::console::{END_OF_FILE, LITERAL_NEXT, needs_quoting};

use crate::devices::virtio::Readiness;

/// How much is read from the host at once, in bytes.
const CHUNK: usize = 4096;

/// Input of the host, framed as the guest expects it ([`hermit_interface::console`]).
///
/// It is read only when it is known not to block, and no more than a chunk ahead of the guest.
#[derive(Debug)]
pub struct Input {
    source: File,
    quotes: bool,
    readiness: Option<Readiness>,
    has_ended: bool,
    /// Framed, and not yet given to the guest from [`Self::given`] on.
    pending: Vec<u8>,
    given: usize,
}

impl Input {
    /// A pipe or a file: every byte reaches the guest as it is, and so does the end.
    #[must_use]
    pub fn quoted(source: File) -> Self {
        Self::new(source, true)
    }

    /// A terminal: what is typed means what it means on a terminal.
    #[must_use]
    pub fn raw(source: File) -> Self {
        Self::new(source, false)
    }

    fn new(source: File, quotes: bool) -> Self {
        Self { source, quotes, readiness: None, has_ended: false, pending: Vec::new(), given: 0 }
    }

    /// What to wait for, until the input has ended.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        (!self.has_ended).then(|| self.source.as_raw_fd())
    }

    /// It can be read.
    pub(super) fn set_ready(&mut self, readiness: Readiness) {
        if self.readiness != Some(Readiness::Always) {
            self.readiness = Some(readiness);
        }
    }

    /// Framed bytes for the guest.
    pub(super) fn pending(&self) -> &[u8] {
        self.pending.get(self.given..).unwrap_or_default()
    }

    /// The guest has got this many of them.
    pub(super) fn consume(&mut self, count: usize) {
        self.given = self.given.saturating_add(count);
    }

    /// Reads if nothing is pending. Nothing if nothing is pending then, either.
    pub(super) fn fetched(&mut self) -> Option<&mut Self> {
        if self.pending().is_empty() && !self.has_ended && self.readiness.is_some() {
            self.read();
        }
        (!self.pending().is_empty()).then_some(self)
    }

    fn read(&mut self) {
        if self.readiness == Some(Readiness::Once) {
            self.readiness = None;
        }
        (self.given, self.pending) = (0, Vec::new());
        let mut chunk = [0; CHUNK];
        match self.source.read(&mut chunk) {
            Ok(0) => self.end(),
            Ok(count) => self.frame(chunk.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => {
                log::warn!("console: there is no more input: {error}");
                self.end();
            }
        }
    }

    fn frame(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.quotes && needs_quoting(byte) {
                self.pending.push(LITERAL_NEXT);
            }
            self.pending.push(byte);
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        if self.quotes {
            self.pending.push(END_OF_FILE);
        }
    }
}
