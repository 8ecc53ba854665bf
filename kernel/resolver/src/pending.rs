//! A question that is not yet answered. This module decides when to ask it again, and which server to ask
//! next.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::task::Poll;

use hermit_interface::Errno;

use crate::Configuration;
use crate::exchange::{Failure, Transport};
use crate::message::{Query, Question, Response, parse_response};
use crate::stream::Stream;

/// Time in nanoseconds until the first retransmission. It doubles each time that all servers have been asked.
const FIRST_INTERVAL: u64 = 1_000_000_000;

/// A question, until it is answered.
#[derive(Debug)]
pub(crate) struct Pending {
    question: Question,
    /// Identifier of all queries with this question.
    id: u16,
    state: State,
    /// Servers that cannot answer the question, a bit for each.
    failed: u32,
    /// Servers that do not know EDNS0, a bit for each.
    plain: u32,
    /// Number of datagrams that were sent.
    sent: u32,
    /// Server of the last datagram.
    last: usize,
    /// Server that is asked again, without EDNS0.
    again: Option<usize>,
    /// Time in nanoseconds of the next datagram.
    next: u64,
    /// Time in nanoseconds at which the question is given up.
    end: u64,
}

#[derive(Debug)]
enum State {
    /// The question is asked by datagrams.
    Datagrams,
    /// A response was truncated: the question is asked by TCP.
    Stream(Stream),
    Done(Result<Vec<IpAddr>, Failure>),
}

/// Returns the bit of a server. There are at most [`MAX_NAMESERVERS`](hermit_interface::net::MAX_NAMESERVERS)
/// servers.
fn bit(server: usize) -> u32 {
    u32::try_from(server).ok().and_then(|server| 1_u32.checked_shl(server)).unwrap_or(0)
}

impl Pending {
    /// Creates the state of a question, which the next poll asks.
    pub(crate) fn new(question: Question, id: u16, configuration: &Configuration, now: u64) -> Self {
        let round = FIRST_INTERVAL.min(configuration.timeout) * configuration.servers.len() as u64;
        let time = configuration.timeout.saturating_mul(configuration.attempts.into()).max(round);
        Self {
            question,
            id,
            state: State::Datagrams,
            failed: 0,
            plain: 0,
            sent: 0,
            last: 0,
            again: None,
            next: now,
            end: now.saturating_add(time),
        }
    }

    /// Time in nanoseconds at which the question is to be polled although nothing has been received.
    pub(crate) fn deadline(&self) -> u64 {
        match &self.state {
            State::Datagrams => self.next.min(self.end),
            State::Stream(stream) => stream.end().min(self.end),
            State::Done(_) => u64::MAX,
        }
    }

    /// The addresses, or why there are none; `None` until the question is done.
    pub(crate) fn result(&self) -> Option<Result<&[IpAddr], Failure>> {
        match &self.state {
            State::Done(Ok(addresses)) => Some(Ok(addresses)),
            State::Done(Err(failure)) => Some(Err(*failure)),
            _ => None,
        }
    }

    /// Takes a datagram of a server. It may be the response to another question, or no response at all.
    pub(crate) fn take(
        &mut self,
        server: usize,
        datagram: &[u8],
        (configuration, now): (&Configuration, u64),
    ) {
        if !matches!(self.state, State::Datagrams) {
            return;
        }
        match parse_response(datagram, self.id, &self.question) {
            None => {}
            Some(Response::Truncated) => self.state = State::Stream(Stream::new(server, configuration, now)),
            Some(Response::NoEdns) if self.plain & bit(server) == 0 => {
                self.plain |= bit(server);
                self.again = Some(server);
                self.next = now;
            }
            Some(response) => self.respond(server, response, now),
        }
    }

    /// Handles the response of a server to the whole question.
    fn respond(&mut self, server: usize, response: Response, now: u64) {
        self.state = State::Done(match response {
            Response::Addresses(addresses) => Ok(addresses),
            Response::NoData => Err(Failure::NoData),
            Response::NoName => Err(Failure::NoName),
            Response::NoMemory => Err(Failure::Memory),
            Response::Truncated | Response::NoEdns | Response::Failure => return self.fail(server, now),
        });
    }

    /// Notes that a server cannot answer. If this server was asked last, the next server is asked at once.
    pub(crate) fn fail(&mut self, server: usize, now: u64) {
        self.failed |= bit(server);
        if self.last == server {
            self.next = now;
        }
    }

    /// Sends due queries. `stream` is the number of the connection that the question may use.
    pub(crate) fn poll(
        &mut self,
        stream: usize,
        configuration: &Configuration,
        transport: &mut dyn Transport,
        now: u64,
    ) {
        if let State::Stream(connection) = &mut self.state {
            let query = Query::new(&self.question, self.id, true);
            let Poll::Ready(message) = connection.poll(stream, &query, transport, now) else {
                return self.expire(stream, transport, now);
            };
            let server = connection.server();
            transport.disconnect(stream);
            (self.state, self.last) = (State::Datagrams, server);
            let response = message.and_then(|message| parse_response(&message, self.id, &self.question));
            self.respond(server, response.unwrap_or(Response::Failure), now);
        }
        self.expire(stream, transport, now);
        while matches!(self.state, State::Datagrams) && self.next <= now {
            self.send(configuration, transport, now);
        }
    }

    /// Gives the question up after its time.
    fn expire(&mut self, stream: usize, transport: &mut dyn Transport, now: u64) {
        if now < self.end || matches!(self.state, State::Done(_)) {
            return;
        }
        if matches!(self.state, State::Stream(_)) {
            transport.disconnect(stream);
        }
        self.state = State::Done(Err(Failure::TimedOut));
    }

    /// Sends a datagram to the next server.
    fn send(&mut self, configuration: &Configuration, transport: &mut dyn Transport, now: u64) {
        let count = configuration.servers.len();
        let order = (0..count).map(|step| (configuration.first + self.sent as usize + step) % count);
        let mut usable = self.again.take().into_iter().chain(order);
        let Some(server) = usable.find(|&server| self.failed & bit(server) == 0) else {
            self.state = State::Done(Err(Failure::Failed));
            return;
        };
        let round = self.sent / u32::try_from(count).unwrap_or(1);
        // Some networks lose datagrams with EDNS0. So after two rounds, the question is asked without EDNS0.
        let has_edns = self.plain & bit(server) == 0 && round < 2;
        let query = Query::new(&self.question, self.id, has_edns);
        match transport.send(server, query.datagram()) {
            // If there is no room for a datagram, it counts as lost.
            Ok(()) | Err(Errno::EAGAIN) => {
                let interval = FIRST_INTERVAL.saturating_mul(1 << round.min(8)).min(configuration.timeout);
                (self.last, self.sent, self.next) = (server, self.sent + 1, now.saturating_add(interval));
            }
            Err(_) => self.failed |= bit(server),
        }
    }
}
