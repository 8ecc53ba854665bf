//! Name resolution.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{SECOND, System, World, configuration, v4, v6};
use crate::{Configuration, Errno, Families, Family, HostAddress, Kind, ResolveError, SocketId, Stack};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use smoltcp::wire::{DnsFlags, DnsOpcode, DnsPacket, DnsQuestion, DnsRepr};
use std::vec;
use std::vec::Vec;

fn ask(world: &mut World, name: &str, families: Families) -> Result<Vec<IpAddr>, ResolveError> {
    let query = world.nodes[0].resolve(name, families, 77).unwrap();
    let mut result = Err(ResolveError::Pending);
    world.run_until(100 * SECOND, |world| {
        result = world.nodes[0].resolved(query);
        result != Err(ResolveError::Pending)
    });
    assert_eq!(world.nodes[0].resolved(query), Err(ResolveError::Unknown));
    result
}

/// A DNS server: names that start with `a` have addresses.
pub(super) fn serve_names(world: &mut World, server: SocketId) {
    let Ok((bytes, from)) = world.receive_from(1, server) else { return };
    let packet = DnsPacket::new_checked(&bytes[..]).unwrap();
    let (_, question) = DnsQuestion::parse(packet.payload()).unwrap();
    let first = question.name.get(1).copied();
    let is_v4 = question.type_ == smoltcp::wire::DnsQueryType::A;
    let repr = DnsRepr {
        transaction_id: packet.transaction_id(),
        opcode: DnsOpcode::Query,
        flags: DnsFlags::RESPONSE,
        question,
    };
    let mut answer = vec![0; repr.buffer_len()];
    repr.emit(&mut DnsPacket::new_unchecked(&mut answer[..]));
    match first {
        Some(b'a') => {
            // One answer record: pointer to the name, type, class, TTL, length, address.
            answer[7] = 1;
            let address: &[u8] =
                if is_v4 { &[1, 2, 3, 4] } else { &[0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9] };
            let kind = if is_v4 { 1 } else { 28 };
            answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 9, 0, u8::try_from(address.len()).unwrap()]);
            answer.extend(address);
        }
        // NXDOMAIN; SERVFAIL; no address of the family.
        Some(b'n') => answer[3] |= 3,
        Some(b'f') => answer[3] |= 2,
        _ => (),
    }
    world.nodes[1].send(server, &answer, Some(from)).unwrap();
}

#[test]
fn dns_server_resolves_names() {
    let client = Configuration { nameservers: vec![v4(1)], ..configuration(0) };
    let mut world = World::with(
        [(client, SimDevice::plain(0)), (configuration(1), SimDevice::plain(1))],
        Faults::default(),
    );
    let server = world.socket(1, Family::V4, Kind::Datagram);
    world.nodes[1].bind(server, "0.0.0.0:53".parse().unwrap()).unwrap();
    let (one, nine): (IpAddr, IpAddr) = ("1.2.3.4".parse().unwrap(), "2001::9".parse().unwrap());
    for (name, families, expected) in [
        ("abc.example", Families::V4, Ok(vec![one])),
        ("abc.example.", Families::V6, Ok(vec![nine])),
        ("abc", Families::Both, Ok(vec![nine, one])),
        ("missing.example", Families::Both, Err(ResolveError::NoName)),
        ("empty.example", Families::Both, Err(ResolveError::NoName)),
        ("fails.example", Families::V4, Err(ResolveError::Again)),
    ] {
        let query = world.nodes[0].resolve(name, families, 77).unwrap();
        world.nodes[0].host().woken.clear();
        let mut result = Err(ResolveError::Pending);
        world.run_until(10 * SECOND, |world| {
            serve_names(world, server);
            result = world.nodes[0].resolved(query);
            result != Err(ResolveError::Pending)
        });
        assert_eq!(result, expected, "{name}");
        assert!(world.nodes[0].host().woken.contains(&77));
    }
    // A cancelled query.
    let query = world.nodes[0].resolve("abc", Families::Both, 77).unwrap();
    world.nodes[0].cancel(query);
    world.nodes[0].cancel(query);
    assert_eq!(world.nodes[0].resolved(query), Err(ResolveError::Unknown));
    // A server that does not answer.
    world.nodes[1].close(server).unwrap();
    assert_eq!(ask(&mut world, "abc", Families::V4), Err(ResolveError::Again));
    assert!(world.now < 60 * SECOND, "{}", world.now);
}

#[test]
fn host_name_resolves_to_the_configured_address_only() {
    let other: IpAddr = "192.0.2.7".parse().unwrap();
    let name = "Host.hermit.internal.";
    for (host, expected) in [
        (None, Err(ResolveError::NoName)),
        (Some(HostAddress::Address(other)), Ok(vec![other])),
        (Some(HostAddress::Gateway), Ok(vec![v4(1)])),
    ] {
        // The server would answer, but gets no query.
        let gateways = vec![v4(1), "fe80::1".parse().unwrap()];
        let client = Configuration { host, gateways, nameservers: vec![v4(1)], ..configuration(0) };
        let mut world = World::with([(client, SimDevice::plain(0))], Faults::default());
        assert_eq!(ask(&mut world, name, Families::Both), expected, "{host:?}");
        assert_eq!(ask(&mut world, name, Families::V6), Err(ResolveError::NoName));
    }
    let lonely = Configuration { host: Some(HostAddress::Gateway), ..configuration(0) };
    let mut world = World::with([(lonely, SimDevice::plain(0))], Faults::default());
    assert_eq!(ask(&mut world, name, Families::Both), Err(ResolveError::NoName));
}

#[test]
fn local_names_resolve_without_a_server() {
    let client = Configuration { hostname: Some("Guest".into()), ..configuration(0) };
    let mut world = World::with([(client, SimDevice::plain(0))], Faults::default());
    let (here4, here6): (IpAddr, IpAddr) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    for (name, families, expected) in [
        ("127.0.0.1", Families::Both, Ok(vec![here4])),
        ("::1", Families::Both, Ok(vec![here6])),
        ("::1", Families::V4, Err(ResolveError::NoName)),
        ("localhost", Families::Both, Ok(vec![here6, here4])),
        ("LOCALHOST.", Families::V4, Ok(vec![here4])),
        ("x.localhost", Families::V6, Ok(vec![here6])),
        ("guest", Families::V4, Ok(vec![v4(0)])),
        ("guest", Families::Both, Ok(vec![v6(0), v4(0)])),
        ("other", Families::V4, Err(ResolveError::NoServer)),
    ] {
        assert_eq!(ask(&mut world, name, families), expected, "{name}");
    }
    for name in ["", "a b", &"x".repeat(300)] {
        assert_eq!(world.nodes[0].resolve(name, Families::Both, 1), Err(Errno::EINVAL), "{name}");
    }
    let mut node = Stack::<SimDevice, System>::new(None, System::new(1), Configuration::default(), 0);
    let query = node.resolve("localhost", Families::V4, 1).unwrap();
    assert_eq!(node.resolved(query), Ok(vec![here4]));
    let query = node.resolve("abc", Families::V4, 1).unwrap();
    assert_eq!(node.resolved(query), Err(ResolveError::NoServer));
}
