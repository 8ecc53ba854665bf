//! Scripted servers, and a clock that moves to the next event.

use std::boxed::Box;
use std::collections::VecDeque;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use core::net::IpAddr;
use core::task::Poll;

use hermit_interface::Errno;

use crate::message::tests::Builder;
use crate::{Configuration, Families, LookupError, Name, Resolution, StreamId, Transport};

pub(super) const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// Way by which a query is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Datagram,
    Stream,
}

/// A server: from a query to messages of the server.
pub(super) type Server = Box<dyn FnMut(Via, &[u8]) -> Vec<Vec<u8>>>;

/// A connection in a test.
#[derive(Default)]
struct Connection {
    server: usize,
    /// Bytes of the query.
    sent: Vec<u8>,
    /// Bytes of the response that the client has not received.
    response: VecDeque<u8>,
    is_answered: bool,
}

/// Servers, and datagrams that are on their way.
pub(super) struct Network {
    pub(super) now: u64,
    servers: Vec<Server>,
    /// Time of arrival, server, datagram or error.
    arriving: Vec<(u64, usize, Result<Vec<u8>, Errno>)>,
    received: Vec<u8>,
    connections: [Option<Connection>; 2],
    /// Time in milliseconds, server, kind and name of each query.
    pub(super) log: Vec<(u64, usize, Via, String)>,
    /// Number of random numbers that were drawn.
    random: u16,
}

/// Name and type of a query.
pub(super) fn asked(query: &[u8]) -> (Name, u16) {
    let (name, end) = Name::read(query, 12).unwrap();
    (name, u16::from_be_bytes([query[end], query[end + 1]]))
}

/// Returns true if a query has an OPT record.
pub(super) fn has_edns(query: &[u8]) -> bool {
    query[11] == 1
}

impl Network {
    pub(super) fn new(servers: impl IntoIterator<Item = Server>) -> Self {
        Self {
            now: 5 * SECOND,
            servers: servers.into_iter().collect(),
            arriving: Vec::new(),
            received: Vec::new(),
            connections: [None, None],
            log: Vec::new(),
            random: 0,
        }
    }

    fn log(&mut self, server: usize, via: Via, query: &[u8]) {
        let time = (self.now - 5 * SECOND) / MILLISECOND;
        self.log.push((time, server, via, format!("{:?}", asked(query).0)));
    }

    /// The configuration of all servers.
    pub(super) fn configuration(&self) -> Configuration {
        let mut configuration = Configuration::default();
        for last in 0..self.servers.len() {
            let address = IpAddr::from([10, 0, 0, u8::try_from(last).unwrap()]);
            configuration.add_server(address.into()).unwrap();
        }
        configuration
    }

    /// Resolves a name; the text of the addresses.
    pub(super) fn resolve(
        &mut self,
        configuration: &Configuration,
        name: &str,
        families: Families,
    ) -> Result<Vec<String>, LookupError> {
        let mut resolution = Resolution::new(configuration, name.as_bytes(), families)?;
        for _ in 0..1000 {
            let now = self.now;
            if let Poll::Ready(result) = resolution.poll(self, now) {
                assert!(self.connections.iter().all(Option::is_none), "a connection is left open");
                return result.map(|found| found.iter().map(ToString::to_string).collect());
            }
            let arrival = self.arriving.iter().map(|&(time, ..)| time).min();
            let next = resolution.deadline().min(arrival.unwrap_or(u64::MAX));
            assert!(next > self.now, "the lookup neither waits nor ends");
            self.now = next;
        }
        panic!("the lookup does not end");
    }

    /// Resolves the IPv4 addresses of `a.test`.
    pub(super) fn resolve_a(&mut self) -> Result<Vec<String>, LookupError> {
        self.resolve(&self.configuration(), "a.test", Families::V4)
    }

    /// Times in milliseconds and servers of the queries.
    pub(super) fn queries(&self) -> Vec<(u64, usize)> {
        self.log.iter().map(|&(time, server, ..)| (time, server)).collect()
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.log.iter().map(|(.., name)| name.as_str()).collect()
    }
}

impl Transport for Network {
    fn random(&mut self) -> u16 {
        self.random += 1;
        self.random * 0x101
    }

    fn send(&mut self, server: usize, message: &[u8]) -> Result<(), Errno> {
        self.log(server, Via::Datagram, message);
        for answer in (self.servers[server])(Via::Datagram, message) {
            // An empty message is an ICMP error.
            let answer = if answer.is_empty() { Err(Errno::ECONNREFUSED) } else { Ok(answer) };
            self.arriving.push((self.now + 10 * MILLISECOND, server, answer));
        }
        Ok(())
    }

    fn receive(&mut self, server: usize) -> Result<&[u8], Errno> {
        let is_there = |&(time, from, _): &(u64, usize, _)| time <= self.now && from == server;
        let index = self.arriving.iter().position(is_there).ok_or(Errno::EAGAIN)?;
        match self.arriving.remove(index).2 {
            Ok(datagram) => {
                self.received = datagram;
                Ok(&self.received)
            }
            Err(error) => {
                // A socket keeps one error.
                let now = self.now;
                self.arriving.retain(|(time, from, other)| *time > now || *from != server || other.is_ok());
                Err(error)
            }
        }
    }

    fn connect(&mut self, stream: StreamId, server: usize) -> Result<(), Errno> {
        assert!(self.connections[stream].is_none(), "the connection is open already");
        self.connections[stream] = Some(Connection { server, ..Connection::default() });
        Ok(())
    }

    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Result<usize, Errno> {
        let connection = self.connections[stream].as_mut().unwrap();
        // In pieces.
        let count = bytes.len().min(10);
        connection.sent.extend(&bytes[..count]);
        Ok(count)
    }

    fn read(&mut self, stream: StreamId) -> Result<&[u8], Errno> {
        let Connection { server, sent, is_answered, .. } = self.connections[stream].as_mut().unwrap();
        let server = *server;
        if !*is_answered {
            *is_answered = true;
            let query = sent.split_off(2);
            assert_eq!(usize::from(u16::from_be_bytes([sent[0], sent[1]])), query.len());
            self.log(server, Via::Stream, &query);
            let answers = (self.servers[server])(Via::Stream, &query);
            self.connections[stream].as_mut().unwrap().response.extend(answers.concat());
        }
        let response = &mut self.connections[stream].as_mut().unwrap().response;
        if response.is_empty() {
            return Err(Errno::EAGAIN);
        }
        self.received = response.drain(..response.len().min(7)).collect();
        // A single last zero is the end of the connection.
        if self.received == [0] { Ok(&[]) } else { Ok(&self.received) }
    }

    fn disconnect(&mut self, stream: StreamId) {
        assert!(self.connections[stream].take().is_some(), "the connection is not open");
    }
}

/// The response to a query with so many addresses, 10.0.0.0 and on, or none for other types than A.
pub(super) fn respond(query: &[u8], count: u16) -> Vec<u8> {
    let (name, record_type) = asked(query);
    let count = if record_type == 1 { count } else { 0 };
    let numbers = (0..count).map(u16::to_be_bytes);
    numbers.fold(Builder::to(query, 0), |response, [a, b]| response.record(&name, 1, &[10, 0, a, b])).0
}

/// A message with its length, for TCP.
pub(super) fn with_length(message: Vec<u8>) -> Vec<u8> {
    [u16::try_from(message.len()).unwrap().to_be_bytes().to_vec(), message].concat()
}

/// A server that has so many addresses for each name.
pub(super) fn has(count: u16) -> Server {
    Box::new(move |_, query| vec![respond(query, count)])
}

/// A server that answers each query with a response code or flags.
pub(super) fn says(flags: u16) -> Server {
    Box::new(move |_, query| vec![Builder::to(query, flags).0])
}

/// A server whose answers are longer than a datagram, as `truncated` says by UDP.
pub(super) fn truncates(count: u16) -> Server {
    Box::new(move |via, query| match via {
        Via::Datagram => vec![Builder::to(query, 0x200).0],
        Via::Stream => vec![with_length(respond(query, count))],
    })
}

pub(super) fn silent() -> Server {
    Box::new(|_, _| Vec::new())
}

/// A server that loses the first queries.
pub(super) fn loses(mut count: usize) -> Server {
    Box::new(move |_, query| {
        let is_lost = count > 0;
        count = count.saturating_sub(1);
        if is_lost { Vec::new() } else { vec![respond(query, 1)] }
    })
}
