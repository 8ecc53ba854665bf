//! DHCP, SLAAC, static configuration, neighbor discovery and pings.
//!
//! A second host plays the DHCP server and the router: the tests build its replies and advertisements. They
//! check which addresses, gateways and names the first host derives from these messages, and that leases and
//! prefixes are renewed and expire.

use crate::ip::neighbors::Answer;
use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, World, configuration, header, mac, v4, v6};
use crate::wire::emit::IpHeader;
use crate::{Cidr, Configuration, Errno, Family, HostAddress, Kind, OptionName, SocketId, SocketOption};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress, Icmpv6Packet, Icmpv6Repr, IpProtocol,
    NdiscNeighborFlags, NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr, NdiscRouterFlags,
};
use std::vec;
use std::vec::Vec;

const LEASE: u32 = 100;

/// Creates a host without static configuration, and one with it.
fn unconfigured() -> World {
    let client = Configuration { hostname: Some("guest".into()), ..Configuration::default() };
    World::with([(client, SimDevice::plain(0)), (configuration(1), SimDevice::plain(1))], Faults::default())
}

#[test]
fn host_name_resolves_to_the_gateway_of_a_lease() {
    let client = Configuration { host: Some(HostAddress::Gateway), ..Configuration::default() };
    let nodes = [(client, SimDevice::plain(0)), (configuration(1), SimDevice::plain(1))];
    let mut world = World::with(nodes, Faults::default());
    let server = dhcp_server(&mut world);
    let ask = |world: &World| world.nodes[0].known_addresses("host.hermit.internal").unwrap();
    assert!(ask(&world).is_empty());
    let is_configured = world.run_until(10 * SECOND, |world| {
        serve_dhcp(world, server);
        ask(world) == [v4(1)]
    });
    assert!(is_configured);
}

pub(super) fn dhcp_server(world: &mut World) -> SocketId {
    let server = world.socket(1, Family::V4, Kind::Datagram);
    world.nodes[1].bind(server, "0.0.0.0:67".parse().unwrap()).unwrap();
    world.nodes[1].set_option(server, SocketOption::new(OptionName::Broadcast, true)).unwrap();
    server
}

/// Answers a DHCP client with a lease; returns the host name that it sent.
fn serve_dhcp(world: &mut World, server: SocketId) -> Option<Vec<u8>> {
    let IpAddr::V4(own) = v4(1) else { panic!() };
    lease(world, server, [255, 255, 255, 0].into(), own)
}

/// Answers a DHCP client with a lease in a network with a router; returns the host name that it sent.
fn lease(world: &mut World, server: SocketId, mask: Ipv4Addr, router: Ipv4Addr) -> Option<Vec<u8>> {
    let IpAddr::V4(server_address) = v4(1) else { panic!() };
    let servers = &[server_address];
    grant(world, server, &Lease { own: [10, 0, 0, 77].into(), mask, router, servers, options: &[] })
}

/// Parameters of a lease.
pub(super) struct Lease<'a> {
    pub(super) own: Ipv4Addr,
    pub(super) mask: Ipv4Addr,
    pub(super) router: Ipv4Addr,
    pub(super) servers: &'a [Ipv4Addr],
    pub(super) options: &'a [DhcpOption<'a>],
}

/// Answers a DHCP client with a lease; returns the host name that it sent.
pub(super) fn grant(world: &mut World, server: SocketId, lease: &Lease<'_>) -> Option<Vec<u8>> {
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
    servers.extend_from_slice(lease.servers).unwrap();
    let answer = DhcpRepr {
        message_type,
        your_ip: lease.own,
        server_ip: own,
        router: Some(lease.router),
        subnet_mask: Some(lease.mask),
        server_identifier: Some(own),
        dns_servers: Some(servers),
        lease_duration: Some(LEASE),
        requested_ip: None,
        client_identifier: None,
        parameter_request_list: None,
        max_size: None,
        additional_options: lease.options,
        ..request
    };
    let mut bytes = vec![0; answer.buffer_len()];
    answer.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..])).unwrap();
    world.nodes[1].send(server, &bytes, Some("255.255.255.255:68".parse().unwrap())).unwrap();
    name
}

#[test]
fn dhcp_lease_is_obtained_renewed_and_expires() {
    let mut world = unconfigured();
    let server = dhcp_server(&mut world);
    let mut names = vec![];
    let is_configured = world.run_until(5 * SECOND, |world| {
        names.extend(serve_dhcp(world, server));
        world.nodes[0].is_configured()
    });
    assert!(is_configured && world.now < 100 * MILLISECOND, "{}", world.now);
    assert!(names.contains(&b"guest".to_vec()));
    let status = world.nodes[0].status();
    assert_eq!(status.addresses[0], Cidr { address: [10, 0, 0, 77].into(), prefix: 24 });
    assert_eq!((status.gateways, status.nameservers), (&[v4(1)][..], &[v4(1)][..]));
    // The lease is renewed before it expires.
    let listener = world.listen(1, 80, 1);
    world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    world.run_until(3 * SECOND * u64::from(LEASE), |world| {
        serve_dhcp(world, server);
        false
    });
    assert!(world.nodes[0].status().addresses.iter().any(|own| own.address.is_ipv4()));
    // Without a server, the lease ends.
    world.run(2 * SECOND * u64::from(LEASE));
    assert!(!world.nodes[0].status().addresses.iter().any(|own| own.address.is_ipv4()));
    assert!(world.nodes[0].status().gateways.is_empty());
}

/// The search list of a host after a lease with these options.
fn leased_search(options: &[DhcpOption<'_>], configured: &[&str]) -> Vec<u8> {
    let search = configured.iter().map(|domain| (*domain).into()).collect();
    let client = Configuration { search, ..Configuration::default() };
    let nodes = [(client, SimDevice::plain(0)), (configuration(1), SimDevice::plain(1))];
    let mut world = World::with(nodes, Faults::default());
    let server = dhcp_server(&mut world);
    let IpAddr::V4(router) = v4(1) else { panic!() };
    let (own, mask) = ([10, 0, 0, 77].into(), [255, 255, 255, 0].into());
    assert!(world.run_until(5 * SECOND, |world| {
        grant(world, server, &Lease { own, mask, router, servers: &[], options });
        world.nodes[0].is_configured()
    }));
    world.nodes[0].search().into()
}

#[test]
fn lease_has_a_search_list() {
    let domain = DhcpOption { kind: 15, data: b"corp.test\0" };
    let list = [&b"\x01a\0\x01"[..], b"b\xc0\0"].map(|data| DhcpOption { kind: 119, data });
    assert_eq!(leased_search(&[], &[]), b"");
    assert_eq!(leased_search(&[domain], &[]), b"\x04corp\x04test\0");
    // The search list takes precedence over the domain, and may be split into several options. The
    // configuration takes precedence over both.
    assert_eq!(leased_search(&[domain, list[0], list[1]], &[]), b"\x01a\0\x01b\xc0\0");
    assert_eq!(leased_search(&[domain, list[0]], &["own"]), b"\x03own\0");
}

#[test]
fn static_address_is_configured_without_a_lease() {
    for (own, prefix, is_configured) in
        [(v6(0), 64, true), (v4(0), 24, true), ("::1".parse().unwrap(), 64, false)]
    {
        let one =
            Configuration { addresses: vec![Cidr { address: own, prefix }], ..Configuration::default() };
        let nodes = [(one, SimDevice::plain(0)), (configuration(1), SimDevice::plain(1))];
        let mut world = World::with(nodes, Faults::default());
        assert_eq!(world.nodes[0].is_configured(), is_configured, "{own}");
        if own == v6(0) {
            // A static IPv6 address does not disable DHCP.
            let server = dhcp_server(&mut world);
            let leased = IpAddr::from([10, 0, 0, 77]);
            assert!(world.run_until(5 * SECOND, |world| {
                serve_dhcp(world, server);
                world.nodes[0].status().addresses.iter().any(|own| own.address == leased)
            }));
        }
    }
}

/// Asserts that two hosts reach each other, and that the first host also reaches the address `other` of the
/// second one.
fn assert_far_gateway_works(world: &mut World, own: IpAddr, other: IpAddr) {
    let there = world.listen(1, 80, 1);
    world.connect(0, SocketAddr::new(v4(1), 80), (1, there));
    let here = world.listen(0, 80, 1);
    // The second host has to resolve the first one.
    world.run(200 * SECOND);
    world.connect(1, SocketAddr::new(own, 80), (0, here));
    let [client, server] = [0, 1].map(|node| world.socket(node, Family::V4, Kind::Datagram));
    let address = SocketAddr::new(other, 53);
    world.nodes[1].bind(server, address).unwrap();
    for _ in 0..2 {
        world.nodes[0].send(client, b"a", Some(address)).unwrap();
        let start = world.now;
        let is_answered = world.run_until(20 * SECOND, |world| {
            if let Ok((bytes, from)) = world.receive_from(1, server) {
                world.nodes[1].send(server, &bytes, Some(from)).unwrap();
            }
            world.receive_from(0, client).is_ok()
        });
        assert!(is_answered && world.now < start + 3 * SECOND, "{}", world.now - start);
    }
}

#[test]
fn static_off_link_gateway_is_reached() {
    for (own, prefix, gateway, nameserver) in [
        ("10.0.0.1", 32, "10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", 32, "10.0.0.2", "9.9.9.9"),
        ("10.0.0.3", 32, "10.0.0.2", "9.9.9.9"),
        ("10.0.0.9", 31, "10.0.0.2", "9.9.9.9"),
        ("203.0.113.7", 24, "10.0.0.2", "203.0.114.9"),
        ("203.0.113.7", 32, "10.0.0.2", "203.0.113.6"),
    ] {
        let cidr = |text: &str, prefix| Cidr { address: text.parse().unwrap(), prefix };
        let near = Configuration {
            addresses: vec![cidr(own, prefix)],
            gateways: vec![gateway.parse().unwrap()],
            nameservers: vec![nameserver.parse().unwrap()],
            ..Configuration::default()
        };
        let mut far = configuration(1);
        far.addresses.push(cidr(nameserver, 32));
        // The gateway sends its solicitations from another of its addresses.
        far.addresses.push(cidr("203.0.113.8", 24));
        let nodes = [(near, SimDevice::plain(0)), (far, SimDevice::plain(1))];
        let mut world = World::with(nodes, Faults::default());
        let status = world.nodes[0].status();
        assert_eq!(status.addresses[0], cidr(own, prefix));
        assert_eq!(status.gateways, [gateway.parse::<IpAddr>().unwrap()]);
        assert_far_gateway_works(&mut world, own.parse().unwrap(), nameserver.parse().unwrap());
    }
}

#[test]
fn dhcp_lease_with_32_bit_prefix_is_used() {
    let mut world = unconfigured();
    let server = dhcp_server(&mut world);
    let IpAddr::V4(router) = v4(1) else { panic!() };
    let serve = |world: &mut World| lease(world, server, Ipv4Addr::BROADCAST, router);
    assert!(world.run_until(5 * SECOND, |world| {
        serve(world);
        world.nodes[0].is_configured()
    }));
    let own = Cidr { address: [10, 0, 0, 77].into(), prefix: 32 };
    let status = world.nodes[0].status();
    assert_eq!((status.addresses[0], status.gateways), (own, &[v4(1)][..]));
    // The renewal is routed through the gateway.
    world.run_until(3 * SECOND * u64::from(LEASE), |world| {
        serve(world);
        false
    });
    assert_eq!(world.nodes[0].status().addresses[0], own);
    let there = world.listen(1, 80, 1);
    world.connect(0, SocketAddr::new(v4(1), 80), (1, there));
    // Without a server, the lease ends.
    world.run(2 * SECOND * u64::from(LEASE));
    let status = world.nodes[0].status();
    assert!(!status.addresses.iter().any(|own| own.address.is_ipv4()) && status.gateways.is_empty());
}

#[test]
fn renewed_dhcp_lease_replaces_the_gateway() {
    let mut world = unconfigured();
    let server = dhcp_server(&mut world);
    for router in [[10, 0, 0, 2], [10, 0, 0, 9]] {
        let is_taken = world.run_until(SECOND * u64::from(LEASE), |world| {
            lease(world, server, [255, 255, 255, 0].into(), router.into());
            world.nodes[0].status().gateways == [IpAddr::from(router)]
        });
        assert!(is_taken, "{:?}", world.nodes[0].status());
    }
}

#[test]
fn host_without_dhcp_server_polls_rarely() {
    let mut world = unconfigured();
    world.run(30 * SECOND);
    let mut rounds = 0;
    world.run_until(300 * SECOND, |_| {
        rounds += 1;
        false
    });
    assert!(rounds < 1000, "{rounds}");
    assert!(!world.nodes[0].is_configured());
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
fn slaac_addresses_appear_and_expire() {
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
fn link_local_addresses_connect() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 1);
    let address = "[fe80::ff:fe00:101%2]:80".parse().unwrap();
    let (client, _) = world.connect(0, address, (1, listener));
    let SocketAddr::V6(remote) = world.nodes[0].remote(client).unwrap() else { panic!() };
    assert_eq!(remote.scope_id(), 2);
    // A socket that is bound to an interface needs no scope for its peer.
    let bound = world.socket(0, Family::V6, Kind::Datagram);
    let scopeless = "[fe80::ff:fe00:101]:80".parse().unwrap();
    assert_eq!(world.nodes[0].connect(bound, scopeless), Err(Errno::EINVAL));
    let own = world.nodes[0].local(client).unwrap().ip();
    for (scope, expected) in [(0, Err(Errno::EINVAL)), (3, Err(Errno::ENODEV)), (2, Ok(()))] {
        let IpAddr::V6(own) = own else { panic!() };
        assert_eq!(world.nodes[0].bind(bound, SocketAddrV6::new(own, 0, 0, scope).into()), expected);
    }
    assert_eq!(world.nodes[0].connect(bound, scopeless), Ok(()));
}

/// Sends the first host an advertisement for a target without its link-layer address.
fn affirm(world: &mut World, node: usize, target: IpAddr, flags: NdiscNeighborFlags) {
    let (IpAddr::V6(from), IpAddr::V6(to)) = (target, v6(0)) else { panic!() };
    let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr: from, lladdr: None });
    let packet = header(target, v6(0), IpProtocol::Icmpv6, message.buffer_len());
    world.inject(node, mac(0), IpHeader { hop_limit: 255, ..packet }, |bytes| {
        let packet = &mut Icmpv6Packet::new_unchecked(bytes);
        message.emit(&from, &to, packet, &ChecksumCapabilities::default());
    });
    world.run(2 * SECOND);
}

#[test]
fn solicited_advertisement_without_address_confirms_the_neighbor() {
    let mut world = World::new(3);
    let listener = world.listen(1, 80, 1);
    world.connect(0, SocketAddr::new(v6(1), 80), (1, listener));
    world.run(40 * SECOND);
    let known = EthernetAddress(mac(1));
    let look = |world: &mut World| world.nodes[0].layers.ip.neighbors.lookup(v6(1), world.now);
    let solicited = NdiscNeighborFlags::SOLICITED;
    for (node, flags) in [(2, solicited), (1, NdiscNeighborFlags::OVERRIDE)] {
        assert_eq!(look(&mut world), Answer::Ask(known));
        affirm(&mut world, node, v6(1), flags);
    }
    assert_eq!(look(&mut world), Answer::Ask(known));
    affirm(&mut world, 1, v6(1), solicited);
    assert_eq!(look(&mut world), Answer::Known(known));
    // An unknown neighbor stays unknown.
    affirm(&mut world, 2, v6(2), solicited);
    assert_eq!(world.nodes[0].layers.ip.neighbors.lookup(v6(2), world.now), Answer::Unknown);
}

#[test]
fn echo_requests_are_answered() {
    use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Icmpv4Repr};
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 1);
    // After a connection, both hosts have resolved each other.
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
