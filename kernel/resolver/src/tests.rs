//! Lookups with scripted servers.
//!
//! A test gives each server a function from a query to the datagrams of the server, and runs a lookup to its
//! end. The clock is simulated: it moves to the next event, so timeouts take no time. The log of queries
//! shows which server was asked, when, and how.

mod network;

use std::boxed::Box;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

use self::network::{
    Network, SECOND, Server, Via, asked, has, has_edns, loses, respond, says, silent, truncates, with_length,
};
use crate::message::tests::{Builder, name};
use crate::{Configuration, Families, LookupError};

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
