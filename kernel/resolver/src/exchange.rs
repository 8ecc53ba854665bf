//! Questions for the addresses of one complete name, and their responses.
//!
//! A question is sent to the first server. If no answer arrives in time, it is sent to the next server, and
//! so on in turn. The time between datagrams is a second at first, and doubles each time that all servers
//! have been asked. A server is not asked again if it answers that it cannot answer the question. After a
//! truncated response, the question is sent to the same server over TCP.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::task::Poll;

use hermit_interface::Errno;

use crate::message::{Question, RecordType};
use crate::pending::Pending;
use crate::{Configuration, Families, Name};

/// Number of a TCP connection: 0 or 1.
pub type StreamId = usize;

/// Sockets to name servers, which are named by their index in [`Configuration::servers`]. No call blocks.
pub trait Transport {
    /// An unpredictable number: the identifier of a query (RFC 5452 §9.2).
    fn random(&mut self) -> u16;

    /// Sends a datagram to port 53 of a server. The first call opens a socket with an unpredictable port,
    /// which receives from this server only (RFC 5452 §9).
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room; any other error means that the server cannot be reached.
    fn send(&mut self, server: usize, message: &[u8]) -> Result<(), Errno>;

    /// Receives a datagram of a server, at least the first
    /// [`MAX_DATAGRAM_LEN`](crate::message::MAX_DATAGRAM_LEN) bytes of it.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none; any other error means that the server cannot be reached.
    fn receive(&mut self, server: usize) -> Result<&[u8], Errno>;

    /// Opens a connection to port 53 of a server, which need not be established when this returns.
    ///
    /// # Errors
    ///
    /// The server cannot be reached.
    fn connect(&mut self, stream: StreamId, server: usize) -> Result<(), Errno>;

    /// Sends bytes on a connection, and returns their number.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room, or the connection is not established yet; others end the connection.
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Result<usize, Errno>;

    /// Receives bytes on a connection: none at its end.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there are none yet; others end the connection.
    fn read(&mut self, stream: StreamId) -> Result<&[u8], Errno>;

    /// Closes a connection.
    fn disconnect(&mut self, stream: StreamId);
}

/// Reason why a complete name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The name does not exist.
    NoName,
    /// The name has no address of the family.
    NoData,
    /// All servers have answered that they cannot.
    Failed,
    /// No server has answered.
    TimedOut,
    /// Out of memory.
    Memory,
}

/// The questions for a name: for one family or for both, side by side.
#[derive(Debug)]
pub(crate) struct Exchange {
    questions: [Option<Pending>; 2],
}

impl Exchange {
    pub(crate) fn new(
        name: &Name,
        families: Families,
        configuration: &Configuration,
        transport: &mut dyn Transport,
        now: u64,
    ) -> Self {
        let mut ask = |record_type, is_wanted: bool| {
            let question = Question { name: *name, record_type };
            is_wanted.then(|| Pending::new(question, transport.random(), configuration, now))
        };
        let questions =
            [ask(RecordType::A, families != Families::V6), ask(RecordType::Aaaa, families != Families::V4)];
        Self { questions }
    }

    /// Returns the time in nanoseconds at which the exchange must be polled even if nothing was received.
    pub(crate) fn deadline(&self) -> u64 {
        self.questions.iter().flatten().map(Pending::deadline).min().unwrap_or(u64::MAX)
    }

    /// Receives answers, and sends due queries. Ready when all questions are done.
    pub(crate) fn poll(
        &mut self,
        configuration: &Configuration,
        transport: &mut dyn Transport,
        now: u64,
    ) -> Poll<Result<Vec<IpAddr>, Failure>> {
        (0..configuration.servers.len())
            .for_each(|server| self.receive(server, configuration, transport, now));
        for (stream, question) in self.questions.iter_mut().enumerate() {
            if let Some(question) = question {
                question.poll(stream, configuration, transport, now);
            }
        }
        let mut results = self.questions.iter().flatten().map(Pending::result);
        if results.any(|result| result.is_none()) { Poll::Pending } else { Poll::Ready(self.result()) }
    }

    /// Receives all datagrams of a server.
    fn receive(
        &mut self,
        server: usize,
        configuration: &Configuration,
        transport: &mut dyn Transport,
        now: u64,
    ) {
        // A socket reports an error only once, before or between datagrams.
        let mut has_failed = false;
        loop {
            let received = transport.receive(server);
            let questions = self.questions.iter_mut().flatten();
            match received {
                Ok(datagram) => {
                    questions.for_each(|question| question.take(server, datagram, (configuration, now)));
                }
                Err(error) if error == Errno::EAGAIN || has_failed => return,
                Err(_) => questions.for_each(|question| question.fail(server, now)),
            }
            has_failed = received.is_err();
        }
    }

    /// Returns the addresses of both questions. If there are none, returns the most important failure: a
    /// failure that may be temporary takes precedence over a final one.
    fn result(&self) -> Result<Vec<IpAddr>, Failure> {
        let results = || self.questions.iter().flatten().filter_map(Pending::result);
        let mut found = Vec::new();
        for addresses in results().flatten() {
            found.try_reserve(addresses.len()).map_err(|_| Failure::Memory)?;
            found.extend_from_slice(addresses);
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let has = |failure| results().any(|result| result == Err(failure));
        let order = [Failure::Memory, Failure::TimedOut, Failure::Failed, Failure::NoData];
        Err(order.into_iter().find(|&failure| has(failure)).unwrap_or(Failure::NoName))
    }
}
