//! Input of the host, which fills `receiveq`.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};

use hermit_interface::console::{END_OF_FILE, LITERAL_NEXT, needs_quoting};

use crate::devices::virtio::EventValidity;

/// Maximum number of bytes of one read(2) of the host's input.
const CHUNK: usize = 4096;

/// Input of the host, framed as the guest's kernel expects it ([`hermit_interface::console`]).
///
/// It is read only when a read does not block, and at most one chunk in advance, so input that the guest does
/// not read stays with the host.
#[derive(Debug)]
pub struct ConsoleInput {
    source: File,
    is_quoted: bool,
    readiness: Option<EventValidity>,
    has_ended: bool,
    /// Framed bytes. The bytes after the first [`Self::consumed`] are not yet in the guest's buffers.
    framed: Vec<u8>,
    consumed: usize,
}

impl ConsoleInput {
    /// Creates an input from a pipe or a file. Control characters are quoted, so that the guest's program
    /// reads every byte unchanged. The end of the input becomes an end-of-file character.
    #[must_use]
    pub fn quoted(source: File) -> Self {
        Self::new(source, true)
    }

    /// Creates an input from a terminal in raw mode. Control characters keep their meaning.
    #[must_use]
    pub fn raw(source: File) -> Self {
        Self::new(source, false)
    }

    fn new(source: File, is_quoted: bool) -> Self {
        Self { source, is_quoted, readiness: None, has_ended: false, framed: Vec::new(), consumed: 0 }
    }

    /// Returns the file descriptor to poll; `None` once the input has ended.
    pub(super) fn fd(&self) -> Option<RawFd> {
        (!self.has_ended).then(|| self.source.as_raw_fd())
    }

    /// Records that the input can be read without blocking.
    pub(super) fn set_ready(&mut self, readiness: EventValidity) {
        if self.readiness != Some(EventValidity::Always) {
            self.readiness = Some(readiness);
        }
    }

    /// Returns the framed bytes that the guest has not received yet.
    pub(super) fn pending(&self) -> &[u8] {
        self.framed.get(self.consumed..).unwrap_or_default()
    }

    /// Removes `count` bytes from the front of [`Self::pending`].
    pub(super) fn consume(&mut self, count: usize) {
        self.consumed = self.consumed.saturating_add(count);
    }

    /// Reads a chunk if nothing is pending and the input is ready. Returns true if bytes are pending
    /// afterwards.
    pub(super) fn fetch(&mut self) -> bool {
        if self.pending().is_empty() && !self.has_ended && self.readiness.is_some() {
            self.read();
        }
        !self.pending().is_empty()
    }

    fn read(&mut self) {
        if self.readiness == Some(EventValidity::Once) {
            self.readiness = None;
        }
        (self.consumed, self.framed) = (0, Vec::new());
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
            if self.is_quoted && needs_quoting(byte) {
                self.framed.push(LITERAL_NEXT);
            }
            self.framed.push(byte);
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        if self.is_quoted {
            self.framed.push(END_OF_FILE);
        }
    }
}
