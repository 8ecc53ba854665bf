//! A question by TCP (RFC 7766): a connection for a query and its response.

use alloc::vec::Vec;
use core::task::Poll;

use hermit_interface::Errno;

use crate::Configuration;
use crate::exchange::Transport;
use crate::message::{LENGTH_LEN, Query};

/// State of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    server: usize,
    is_open: bool,
    /// Number of bytes of the query that were sent.
    sent: usize,
    /// Received bytes: the length field and the response. They are at most 64 KiB, and the bytes that arrive
    /// together with the last byte of the response.
    received: Vec<u8>,
    end: u64,
}

impl Stream {
    pub(crate) fn new(server: usize, configuration: &Configuration, now: u64) -> Self {
        let end = now.saturating_add(configuration.timeout);
        Self { server, is_open: false, sent: 0, received: Vec::new(), end }
    }

    /// Index of the server.
    pub(crate) const fn server(&self) -> usize {
        self.server
    }

    /// Returns the time in nanoseconds at which the connection is given up.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// Connects, sends and receives as far as possible without blocking. Returns `Ready` with the response,
    /// or without a response after an error.
    pub(crate) fn poll(
        &mut self,
        stream: usize,
        query: &Query,
        transport: &mut dyn Transport,
        now: u64,
    ) -> Poll<Option<Vec<u8>>> {
        match self.advance(stream, query, transport) {
            Ok(response) => Poll::Ready(Some(response)),
            Err(Errno::EAGAIN) if now < self.end => Poll::Pending,
            Err(_) => Poll::Ready(None),
        }
    }

    fn advance(
        &mut self,
        stream: usize,
        query: &Query,
        transport: &mut dyn Transport,
    ) -> Result<Vec<u8>, Errno> {
        if !self.is_open {
            transport.connect(stream, self.server)?;
            self.is_open = true;
        }
        while let Some(rest) = query.stream().get(self.sent..).filter(|rest| !rest.is_empty()) {
            self.sent += transport.write(stream, rest)?;
        }
        loop {
            if let Some(response) = self.response() {
                return Ok(response);
            }
            let bytes = transport.read(stream)?;
            if bytes.is_empty() {
                // The server has closed the connection before the end of its response.
                return Err(Errno::ECONNRESET);
            }
            self.received.try_reserve(bytes.len())?;
            self.received.extend_from_slice(bytes);
        }
    }

    /// Takes the response, if all of it has arrived.
    fn response(&mut self) -> Option<Vec<u8>> {
        let len = usize::from(u16::from_be_bytes(*self.received.first_chunk()?));
        if self.received.len() < LENGTH_LEN + len {
            return None;
        }
        self.received.truncate(LENGTH_LEN + len);
        self.received.drain(..LENGTH_LEN);
        Some(core::mem::take(&mut self.received))
    }
}
