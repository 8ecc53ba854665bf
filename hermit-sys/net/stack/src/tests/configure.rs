//! How a host gets its addresses, and how names get theirs.

use crate::testing::wire::{Faults, Port};
use crate::testing::{MILLISECOND, SECOND, System, World, configuration, header, mac, v4, v6};
use crate::wire::emit::IpHeader;
use crate::{
    Cidr, Configuration, Errno, Families, Family, Kind, ResolveError, SocketId, SocketOption, Stack,
};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, DnsFlags, DnsOpcode, DnsPacket, DnsQuestion, DnsRepr,
    Icmpv6Packet, Icmpv6Repr, IpProtocol, NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr,
    NdiscRouterFlags,
};
use std::vec;
use std::vec::Vec;

const LEASE: u32 = 100;

/// A host that is told nothing, and one that knows.
fn unconfigured() -> World {
    let client = Configuration { hostname: Some("guest".into()), ..Configuration::default() };
    World::with([(client, Port::plain(0)), (configuration(1), Port::plain(1))], Faults::default())
}

fn dhcp_server(world: &mut World) -> SocketId {
    let server = world.socket(1, Family::V4, Kind::Datagram);
    world.nodes[1].bind(server, "0.0.0.0:67".parse().unwrap()).unwrap();
    world.nodes[1].set_option(server, SocketOption::Broadcast(true)).unwrap();
    server
}

/// Answers a client; returns what it said of its name.
fn serve_dhcp(world: &mut World, server: SocketId) -> Option<Vec<u8>> {
    let (bytes, _) = world.receive_from(1, server).ok()?;
    let packet = DhcpPacket::new_checked(&bytes[..]).unwrap();
    let name = packet.options().find(|option| option.kind == 12).map(|option| option.data.to_vec());
    let request = DhcpRepr::parse(&packet).unwrap();
    let message_type = match request.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Request => DhcpMessageType::Ack,
        other => panic!("{other:?}"),
    };
    let IpAddr::V4(own) = v4(1) else { panic!() };
    let mut servers = DhcpRepr::parse(&packet).unwrap().dns_servers.unwrap_or_default();
    servers.push(own).unwrap();
    let answer = DhcpRepr {
        message_type,
        your_ip: [10, 0, 0, 77].into(),
        server_ip: own,
        router: Some(own),
        subnet_mask: Some([255, 255, 255, 0].into()),
        server_identifier: Some(own),
        dns_servers: Some(servers),
        lease_duration: Some(LEASE),
        requested_ip: None,
        client_identifier: None,
        parameter_request_list: None,
        max_size: None,
        ..request
    };
    let mut bytes = vec![0; answer.buffer_len()];
    answer.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..])).unwrap();
    world.nodes[1].send(server, &bytes, Some("255.255.255.255:68".parse().unwrap())).unwrap();
    name
}

#[test]
fn a_dhcp_server_is_asked_and_keeps_being_asked() {
    let mut world = unconfigured();
    let server = dhcp_server(&mut world);
    let mut names = vec![];
    let is_configured = world.run_until(5 * SECOND, |world| {
        names.extend(serve_dhcp(world, server));
        world.nodes[0].status().is_configured
    });
    assert!(is_configured && world.now < 100 * MILLISECOND, "{}", world.now);
    assert!(names.contains(&b"guest".to_vec()));
    let status = world.nodes[0].status();
    assert_eq!(status.addresses[0], Cidr { address: [10, 0, 0, 77].into(), prefix: 24 });
    assert_eq!((status.gateways, status.nameservers), (vec![v4(1)], vec![v4(1)]));
    // It works, and goes on working after the lease would have ended.
    let listener = world.listen(1, 80, 1);
    world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    world.run_until(3 * SECOND * u64::from(LEASE), |world| {
        serve_dhcp(world, server);
        false
    });
    assert!(world.nodes[0].status().addresses.iter().any(|own| own.address.is_ipv4()));
    // Without a server it ends.
    world.run(2 * SECOND * u64::from(LEASE));
    assert!(!world.nodes[0].status().addresses.iter().any(|own| own.address.is_ipv4()));
    assert!(world.nodes[0].status().gateways.is_empty());
}

#[test]
fn an_idle_host_without_a_server_does_not_keep_the_processor_busy() {
    let mut world = unconfigured();
    world.run(30 * SECOND);
    let mut rounds = 0;
    world.run_until(300 * SECOND, |_| {
        rounds += 1;
        false
    });
    assert!(rounds < 1000, "{rounds}");
    assert!(!world.nodes[0].status().is_configured);
}

fn advertise(world: &mut World, lifetime: u64) {
    let router: Ipv6Addr = "fe80::ff:fe00:101".parse().unwrap();
    let group: Ipv6Addr = "ff02::1".parse().unwrap();
    let message = Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: Duration::from_secs(lifetime),
        reachable_time: Duration::ZERO,
        retrans_time: Duration::ZERO,
        lladdr: None,
        mtu: None,
        prefix_info: Some(NdiscPrefixInformation {
            prefix_len: 64,
            flags: NdiscPrefixInfoFlags::ON_LINK | NdiscPrefixInfoFlags::ADDRCONF,
            valid_lifetime: Duration::from_secs(lifetime),
            preferred_lifetime: Duration::from_secs(lifetime),
            prefix: "2001:db8::".parse().unwrap(),
        }),
    });
    let packet = header(router.into(), group.into(), IpProtocol::Icmpv6, message.buffer_len());
    world.inject(1, [0x33, 0x33, 0, 0, 0, 1], IpHeader { hop_limit: 255, ..packet }, |bytes| {
        let packet = &mut Icmpv6Packet::new_unchecked(bytes);
        message.emit(&router, &group, packet, &ChecksumCapabilities::default());
    });
}

#[test]
fn routers_give_addresses_and_take_them_away() {
    let mut world = unconfigured();
    world.wire.borrow_mut().log = Some(vec![]);
    world.run(SECOND);
    let sent = world.wire.borrow_mut().log.take().unwrap();
    let asked =
        sent.iter().any(|frame| frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.get(54) == Some(&133));
    assert!(asked, "routers are solicited");
    advertise(&mut world, 60);
    world.run(SECOND);
    let status = world.nodes[0].status();
    let expected: IpAddr = "2001:db8::ff:fe00:100".parse().unwrap();
    assert!(status.addresses.contains(&Cidr { address: expected, prefix: 64 }), "{status:?}");
    assert_eq!(status.gateways, ["fe80::ff:fe00:101".parse::<IpAddr>().unwrap()]);
    world.run(120 * SECOND);
    let status = world.nodes[0].status();
    assert!(!status.addresses.iter().any(|own| own.address == expected), "{status:?}");
    assert!(status.gateways.is_empty());
}

#[test]
fn hosts_talk_by_their_link_local_addresses() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 1);
    let address: IpAddr = "fe80::ff:fe00:101".parse().unwrap();
    let (client, _) = world.connect(0, SocketAddr::new(address, 80), (1, listener));
    let SocketAddr::V6(remote) = world.nodes[0].remote(client).unwrap() else { panic!() };
    assert_eq!(remote.scope_id(), 2);
}

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

/// Answers questions: names that begin with `a` have addresses.
fn serve_names(world: &mut World, server: SocketId) {
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
            // One answer record: a pointer to the name, type, class, time to live, length, address.
            answer[7] = 1;
            let address: &[u8] =
                if is_v4 { &[1, 2, 3, 4] } else { &[0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9] };
            let kind = if is_v4 { 1 } else { 28 };
            answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 9, 0, u8::try_from(address.len()).unwrap()]);
            answer.extend(address);
        }
        // There is no such name; the server fails; it has no address.
        Some(b'n') => answer[3] |= 3,
        Some(b'f') => answer[3] |= 2,
        _ => (),
    }
    world.nodes[1].send(server, &answer, Some(from)).unwrap();
}

#[test]
fn names_are_resolved_by_a_server() {
    let client = Configuration { nameservers: vec![v4(1)], ..configuration(0) };
    let mut world =
        World::with([(client, Port::plain(0)), (configuration(1), Port::plain(1))], Faults::default());
    let server = world.socket(1, Family::V4, Kind::Datagram);
    world.nodes[1].bind(server, "0.0.0.0:53".parse().unwrap()).unwrap();
    let (one, nine): (IpAddr, IpAddr) = ("1.2.3.4".parse().unwrap(), "2001::9".parse().unwrap());
    for (name, families, expected) in [
        ("abc.example", Families::V4, Ok(vec![one])),
        ("abc.example.", Families::V6, Ok(vec![nine])),
        ("abc", Families::Both, Ok(vec![nine, one])),
        ("nobody.example", Families::Both, Err(ResolveError::NoName)),
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
    // One who is not asked any more.
    let query = world.nodes[0].resolve("abc", Families::Both, 77).unwrap();
    world.nodes[0].cancel(query);
    world.nodes[0].cancel(query);
    assert_eq!(world.nodes[0].resolved(query), Err(ResolveError::Unknown));
    // A server that has gone.
    world.nodes[1].close(server).unwrap();
    assert_eq!(ask(&mut world, "abc", Families::V4), Err(ResolveError::Again));
    assert!(world.now < 60 * SECOND, "{}", world.now);
}

#[test]
fn some_names_are_known() {
    let client = Configuration { hostname: Some("Guest".into()), ..configuration(0) };
    let mut world = World::with([(client, Port::plain(0))], Faults::default());
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
    let mut node = Stack::<Port, System>::new(None, System::new(1), Configuration::default(), 0);
    let query = node.resolve("localhost", Families::V4, 1).unwrap();
    assert_eq!(node.resolved(query), Ok(vec![here4]));
    let query = node.resolve("abc", Families::V4, 1).unwrap();
    assert_eq!(node.resolved(query), Err(ResolveError::NoServer));
}

#[test]
fn pings_are_answered() {
    use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Icmpv4Repr};
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 1);
    // They know each other then.
    world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    let data = [7; 56];
    let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 2, data: &data };
    world.wire.borrow_mut().log = Some(vec![]);
    world.inject(0, mac(1), header(v4(0), v4(1), IpProtocol::Icmp, echo.buffer_len()), |bytes| {
        echo.emit(&mut Icmpv4Packet::new_unchecked(bytes), &ChecksumCapabilities::default());
    });
    world.run(SECOND);
    let log = world.wire.borrow_mut().log.take().unwrap();
    let answers = log.iter().filter(|frame| {
        frame.get(23) == Some(&1)
            && Icmpv4Packet::new_checked(&frame[34..])
                .is_ok_and(|packet| packet.msg_type() == Icmpv4Message::EchoReply)
    });
    assert_eq!(answers.count(), 1);
}
