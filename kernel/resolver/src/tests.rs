//! Lookups with scripted servers, and a clock that moves to the next event.

use std::boxed::Box;
use std::collections::VecDeque;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use core::net::IpAddr;
use core::task::Poll;

use hermit_interface::Errno;
use proptest::prelude::*;

use crate::message::tests::{Builder, name};
use crate::{Configuration, Families, LookupError, Name, Resolution, StreamId, Transport};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// What a query is received by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    Datagram,
    Stream,
}

/// A server: from a query to messages of the server.
type Server = Box<dyn FnMut(Via, &[u8]) -> Vec<Vec<u8>>>;

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
struct Network {
    now: u64,
    servers: Vec<Server>,
    /// Time of arrival, server, datagram or error.
    arriving: Vec<(u64, usize, Result<Vec<u8>, Errno>)>,
    received: Vec<u8>,
    connections: [Option<Connection>; 2],
    /// Time in milliseconds, server, kind and name of each query.
    log: Vec<(u64, usize, Via, String)>,
    /// Number of random numbers that were drawn.
    random: u16,
}

/// Name and type of a query.
fn asked(query: &[u8]) -> (Name, u16) {
    let (name, end) = Name::read(query, 12).unwrap();
    (name, u16::from_be_bytes([query[end], query[end + 1]]))
}

/// Whether a query has an OPT record.
fn has_edns(query: &[u8]) -> bool {
    query[11] == 1
}

impl Network {
    fn new(servers: impl IntoIterator<Item = Server>) -> Self {
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
    fn configuration(&self) -> Configuration {
        let mut configuration = Configuration::default();
        for last in 0..self.servers.len() {
            let address = IpAddr::from([10, 0, 0, u8::try_from(last).unwrap()]);
            configuration.add_server(address.into()).unwrap();
        }
        configuration
    }

    /// Resolves a name; the text of the addresses.
    fn resolve(
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
    fn resolve_a(&mut self) -> Result<Vec<String>, LookupError> {
        self.resolve(&self.configuration(), "a.test", Families::V4)
    }

    /// Times in milliseconds and servers of the queries.
    fn queries(&self) -> Vec<(u64, usize)> {
        self.log.iter().map(|&(time, server, ..)| (time, server)).collect()
    }

    fn names(&self) -> Vec<&str> {
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
fn respond(query: &[u8], count: u16) -> Vec<u8> {
    let (name, record_type) = asked(query);
    let count = if record_type == 1 { count } else { 0 };
    let numbers = (0..count).map(u16::to_be_bytes);
    numbers.fold(Builder::to(query, 0), |response, [a, b]| response.record(&name, 1, &[10, 0, a, b])).0
}

/// A message with its length, for TCP.
fn with_length(message: Vec<u8>) -> Vec<u8> {
    [u16::try_from(message.len()).unwrap().to_be_bytes().to_vec(), message].concat()
}

/// A server that has so many addresses for each name.
fn has(count: u16) -> Server {
    Box::new(move |_, query| vec![respond(query, count)])
}

/// A server that answers each query with a response code or flags.
fn says(flags: u16) -> Server {
    Box::new(move |_, query| vec![Builder::to(query, flags).0])
}

/// A server whose answers are longer than a datagram, as `truncated` says by UDP.
fn truncates(count: u16) -> Server {
    Box::new(move |via, query| match via {
        Via::Datagram => vec![Builder::to(query, 0x200).0],
        Via::Stream => vec![with_length(respond(query, count))],
    })
}

fn silent() -> Server {
    Box::new(|_, _| Vec::new())
}

/// A server that loses the first queries.
fn loses(mut count: usize) -> Server {
    Box::new(move |_, query| {
        let is_lost = count > 0;
        count = count.saturating_sub(1);
        if is_lost { Vec::new() } else { vec![respond(query, 1)] }
    })
}

#[test]
fn both_families_are_asked_at_once_with_different_identifiers() {
    let mut ids = Vec::new();
    let server: Server = Box::new(move |_, query| {
        assert!(has_edns(query));
        assert!(!ids.contains(&query[..2].to_vec()), "the identifier is used twice");
        ids.push(query[..2].to_vec());
        let (name, record_type) = asked(query);
        let address: &[u8] = if record_type == 1 { &[10, 0, 0, 1] } else { &[0xfd; 16] };
        vec![Builder::to(query, 0).record(&name, record_type, address).0]
    });
    let mut network = Network::new([server]);
    let found = network.resolve(&network.configuration(), "a.test", Families::Both);
    assert_eq!(found.unwrap(), ["10.0.0.1", "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd"]);
    assert_eq!(network.queries(), [(0, 0), (0, 0)]);
}

#[test]
fn addresses_that_fit_a_datagram_are_all_found() {
    for count in [1, 16, 17, 30, 70] {
        assert_eq!(Network::new([has(count)]).resolve_a().unwrap().len(), usize::from(count));
    }
}

#[test]
fn truncated_answer_is_followed_by_tcp() {
    for count in [30, 100, 2400] {
        let mut network = Network::new([truncates(count)]);
        let found = network.resolve_a().unwrap();
        assert_eq!(found.len(), usize::from(count));
        assert_eq!(found.last(), Some(&format!("10.0.{}.{}", (count - 1) / 256, (count - 1) % 256)));
        assert_eq!(network.log[1].2, Via::Stream);
    }
}

#[test]
fn truncated_answer_of_both_families_is_followed_by_two_connections() {
    let mut network = Network::new([truncates(100)]);
    let found = network.resolve(&network.configuration(), "a.test", Families::Both);
    assert_eq!(found.unwrap().len(), 100);
    let streams = network.log.iter().filter(|(_, _, via, _)| *via == Via::Stream);
    assert_eq!(streams.count(), 2);
}

/// A server that truncates, and does this on its connection.
fn on_stream(mut stream: impl FnMut(&[u8]) -> Vec<u8> + 'static) -> Server {
    Box::new(move |via, query| match via {
        Via::Datagram => vec![Builder::to(query, 0x200).0],
        Via::Stream => vec![stream(query)],
    })
}

#[test]
fn broken_connections_are_temporary_failures() {
    let closes = || on_stream(|_| vec![0]);
    let closes_within = || on_stream(|_| vec![0, 99, 1, 2, 3, 4, 5, 0]);
    let truncates_again = || on_stream(|query| with_length(Builder::to(query, 0x200).0));
    let of_another = || on_stream(|query| with_length(Builder::to(query, 0).0.split_off(1)));
    for server in [closes(), closes_within(), truncates_again(), of_another()] {
        assert_eq!(Network::new([server]).resolve_a(), Err(LookupError::Again));
    }
    for server in [closes(), closes_within(), truncates_again(), of_another()] {
        let mut network = Network::new([server, has(3)]);
        assert_eq!(network.resolve_a().unwrap().len(), 3);
        assert_eq!(network.queries(), [(0, 0), (10, 0), (10, 1)]);
    }
}

#[test]
fn silent_connection_is_given_up_after_the_timeout() {
    let mut network = Network::new([on_stream(|_| Vec::new()), has(3)]);
    assert_eq!(network.resolve_a().unwrap().len(), 3);
    assert_eq!(network.queries(), [(0, 0), (10, 0), (5010, 1)]);
}

#[test]
fn lost_datagrams_are_sent_again() {
    let mut network = Network::new([loses(2)]);
    assert_eq!(network.resolve_a().unwrap(), ["10.0.0.0"]);
    assert_eq!(network.queries(), [(0, 0), (1000, 0), (3000, 0)]);
}

#[test]
fn silent_servers_are_given_up_after_ten_seconds() {
    let mut network = Network::new([silent()]);
    assert_eq!(network.resolve_a(), Err(LookupError::Again));
    assert_eq!(network.queries(), [(0, 0), (1000, 0), (3000, 0), (7000, 0)]);
    assert_eq!(network.now, 15 * SECOND);
    let mut network = Network::new([silent(), silent(), silent()]);
    assert_eq!(network.resolve_a(), Err(LookupError::Again));
    assert_eq!(network.now, 15 * SECOND);
    assert_eq!(network.queries()[..4], [(0, 0), (1000, 1), (2000, 2), (3000, 0)]);
}

#[test]
fn all_servers_are_asked_within_the_shortest_time() {
    let mut network = Network::new([silent(), silent(), has(1)]);
    let configuration = Configuration { timeout: SECOND, attempts: 1, ..network.configuration() };
    assert_eq!(network.resolve(&configuration, "a.test", Families::V4).unwrap().len(), 1);
    assert_eq!(network.queries(), [(0, 0), (1000, 1), (2000, 2)]);
}

#[test]
fn late_answer_of_another_server_counts() {
    let mut sent = None;
    let slow: Server = Box::new(move |_, query| {
        // The response to the first query follows the second one.
        sent.replace(respond(query, 1)).into_iter().collect()
    });
    let mut network = Network::new([slow, silent()]);
    assert_eq!(network.resolve_a().unwrap().len(), 1);
    assert_eq!(network.queries(), [(0, 0), (1000, 1), (2000, 0)]);
}

#[test]
fn server_that_cannot_answer_is_followed_by_the_next_at_once() {
    for code in [2, 5, 9] {
        let mut network = Network::new([says(code), has(1)]);
        assert_eq!(network.resolve_a().unwrap().len(), 1, "{code}");
        assert_eq!(network.queries(), [(0, 0), (10, 1)]);
        let mut network = Network::new([says(code), says(code)]);
        assert_eq!(network.resolve_a(), Err(LookupError::Again), "{code}");
        assert_eq!(network.queries(), [(0, 0), (10, 1)]);
    }
}

#[test]
fn refused_datagram_is_followed_by_the_next_server_at_once() {
    let refuses = || -> Server { Box::new(|_, _| vec![Vec::new()]) };
    let mut network = Network::new([refuses(), has(1)]);
    assert_eq!(network.resolve_a().unwrap().len(), 1);
    assert_eq!(network.queries(), [(0, 0), (10, 1)]);
    assert_eq!(Network::new([refuses()]).resolve_a(), Err(LookupError::Again));
}

#[test]
fn server_without_edns_is_asked_without_it() {
    let old = |code: u16| -> Server {
        Box::new(move |_, query| {
            vec![if has_edns(query) { Builder::to(query, code).0 } else { respond(query, 2) }]
        })
    };
    for code in [1, 4] {
        let mut network = Network::new([old(code)]);
        assert_eq!(network.resolve_a().unwrap().len(), 2);
        assert_eq!(network.queries(), [(0, 0), (10, 0)]);
        let mut network = Network::new([says(code), has(1)]);
        assert_eq!(network.resolve_a().unwrap().len(), 1);
        assert_eq!(network.queries(), [(0, 0), (10, 0), (20, 1)]);
    }
}

#[test]
fn network_that_drops_edns_is_asked_without_it() {
    let drops: Server =
        Box::new(|_, query| if has_edns(query) { Vec::new() } else { vec![respond(query, 2)] });
    let mut network = Network::new([drops]);
    assert_eq!(network.resolve_a().unwrap().len(), 2);
    assert_eq!(network.queries(), [(0, 0), (1000, 0), (3000, 0)]);
}

#[test]
fn forged_answers_are_ignored() {
    let forged: Server = Box::new(|_, query| {
        let answer = respond(query, 1);
        let with = |offset: usize, value: u8| {
            let mut other = answer.clone();
            other[offset] = value;
            other
        };
        // Another identifier, another name, a query, and too short a message.
        vec![with(0, 0xee), with(13, b'b'), with(2, 1), answer[..11].into(), respond(query, 2)]
    });
    assert_eq!(Network::new([forged]).resolve_a().unwrap().len(), 2);
}

#[test]
fn names_without_addresses() {
    assert_eq!(Network::new([says(3)]).resolve_a(), Err(LookupError::NoName));
    assert_eq!(Network::new([has(0)]).resolve_a(), Err(LookupError::NoData));
    assert_eq!(Network::new([]).resolve_a(), Err(LookupError::Again));
    let mut network = Network::new([has(1)]);
    for name in ["", ".", "a b", "a..b"] {
        let found = network.resolve(&network.configuration(), name, Families::V4);
        assert_eq!(found, Err(LookupError::NoName), "{name:?}");
    }
}

#[test]
fn addresses_of_one_family_count_although_the_other_fails() {
    let half: Server = Box::new(|_, query| {
        vec![if asked(query).1 == 1 { respond(query, 1) } else { Builder::to(query, 2).0 }]
    });
    let mut network = Network::new([half]);
    let found = network.resolve(&network.configuration(), "a.test", Families::Both);
    assert_eq!(found.unwrap(), ["10.0.0.0"]);
}

/// A server that has one name only.
fn has_only(text: &'static str) -> Server {
    Box::new(move |_, query| {
        vec![if asked(query).0 == name(text) { respond(query, 1) } else { Builder::to(query, 3).0 }]
    })
}

/// Resolves a name with the search list `x.test`, `y.test` and 2 dots.
fn search(network: &mut Network, text: &str) -> Result<Vec<String>, LookupError> {
    let search = vec![name("x.test"), name("y.test")];
    let configuration = Configuration { search, ndots: 2, ..network.configuration() };
    network.resolve(&configuration, text, Families::V4)
}

#[test]
fn short_name_is_completed_first() {
    let mut network = Network::new([has_only("host.y.test")]);
    assert_eq!(search(&mut network, "host").unwrap().len(), 1);
    assert_eq!(network.names(), ["host.x.test.", "host.y.test."]);
    let mut network = Network::new([has_only("a.host")]);
    assert_eq!(search(&mut network, "a.host").unwrap().len(), 1);
    assert_eq!(network.names(), ["a.host.x.test.", "a.host.y.test.", "a.host."]);
}

#[test]
fn name_with_enough_dots_is_asked_for_first() {
    let mut network = Network::new([has_only("b.a.host.x.test")]);
    assert_eq!(search(&mut network, "b.a.host").unwrap().len(), 1);
    assert_eq!(network.names(), ["b.a.host.", "b.a.host.x.test."]);
}

#[test]
fn complete_name_is_not_searched_for() {
    let mut network = Network::new([says(3)]);
    assert_eq!(search(&mut network, "host."), Err(LookupError::NoName));
    assert_eq!(network.names(), ["host."]);
}

#[test]
fn search_ends_when_no_server_answers() {
    let mut network = Network::new([silent()]);
    assert_eq!(search(&mut network, "host"), Err(LookupError::Again));
    assert!(network.names().iter().all(|name| *name == "host.x.test."));
}

#[test]
fn failure_that_may_pass_is_reported_before_a_final_one() {
    let fails_once = |text: &'static str, flags: u16| -> Server {
        Box::new(move |_, query| {
            vec![Builder::to(query, if asked(query).0 == name(text) { flags } else { 3 }).0]
        })
    };
    let mut network = Network::new([fails_once("host.x.test", 2)]);
    assert_eq!(search(&mut network, "host"), Err(LookupError::Again));
    assert_eq!(network.names().len(), 3);
    assert_eq!(search(&mut Network::new([fails_once("host.x.test", 0)]), "host"), Err(LookupError::NoData));
}

#[test]
fn name_that_is_too_long_with_a_domain_is_asked_for_without() {
    let long =
        [&"a".repeat(63), &"b".repeat(63), &"c".repeat(63), &"d".repeat(57)].map(String::as_str).join(".");
    let mut network = Network::new([says(3)]);
    assert_eq!(search(&mut network, &long), Err(LookupError::NoName));
    assert_eq!(network.log.len(), 1);
}

#[test]
fn rotation_begins_with_another_server() {
    let mut network = Network::new([silent(), has(1)]);
    let configuration = Configuration { first: 1, ..network.configuration() };
    assert_eq!(network.resolve(&configuration, "a.test", Families::V4).unwrap().len(), 1);
    assert_eq!(network.queries(), [(0, 1)]);
}

proptest! {
    /// Whatever servers answer, a lookup ends in time, and leaves no connection open.
    #[test]
    fn lookups_end(script: Vec<(u8, Vec<u8>)>, search: bool) {
        let server = |number: usize| -> Server {
            let script = script.clone();
            let mut step = number;
            Box::new(move |_, query| {
                step += 1;
                let Some((kind, bytes)) = script.get(step % script.len().max(1)) else { return Vec::new() };
                match kind % 8 {
                    0 => Vec::new(),
                    1 => vec![Builder::to(query, 0x200).0],
                    2 => vec![Builder::to(query, u16::from(kind / 8)).0],
                    3 => vec![bytes.clone(), with_length(respond(query, 3))],
                    4 => vec![respond(query, 5), Vec::new()],
                    5 => vec![with_length(Builder::to(query, 0).0), bytes.clone()],
                    6 => vec![[&query[..2], bytes].concat()],
                    _ => vec![[&Builder::to(query, 0).0, &bytes[..]].concat()],
                }
            })
        };
        let mut network = Network::new([server(0), server(1)]);
        let mut configuration = network.configuration();
        if search {
            configuration.search = vec![name("x.test"), name("y.test")];
        }
        let found = network.resolve(&configuration, "a", Families::Both);
        prop_assert!(found.is_err() || !found.unwrap().is_empty());
        prop_assert!(network.now <= (5 + 30) * SECOND);
    }
}
