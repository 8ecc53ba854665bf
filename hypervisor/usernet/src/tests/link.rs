//! ARP, neighbor discovery, router advertisements, DHCP, echo.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::any;
use proptest::{collection, prop_assert, proptest};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress,
    EthernetProtocol, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, NdiscRepr, UdpPacket,
};

use super::lab::{GUEST, Lab, udp_frame};
use crate::config::{GATEWAY_MAC, GATEWAY_V4, PREFIX_V6};
use crate::sample::{MAC, packet_frame, write_ethernet};

pub(super) fn arp(target: Ipv4Addr, source: Ipv4Addr) -> Vec<u8> {
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(MAC),
        source_protocol_addr: source,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: target,
    };
    let mut bytes = vec![0; 14 + request.buffer_len()];
    write_ethernet(&mut bytes, EthernetProtocol::Arp);
    request.emit(&mut ArpPacket::new_unchecked(&mut bytes[14..]));
    bytes
}

#[test]
fn gateway_answers_for_all_addresses_but_the_guests() {
    let mut lab = Lab::new(|_| {});
    let guest: Ipv4Addr = GUEST.parse().unwrap();
    for target in [GATEWAY_V4, Ipv4Addr::new(10, 0, 2, 3), Ipv4Addr::new(192, 0, 2, 1)] {
        lab.send_frame(&arp(target, guest));
        let frame = lab.frame().unwrap();
        let reply = ArpRepr::parse(&ArpPacket::new_checked(&frame[14..]).unwrap()).unwrap();
        let ArpRepr::EthernetIpv4 { operation, source_hardware_addr, source_protocol_addr, .. } = reply
        else {
            panic!("{reply:?}")
        };
        assert_eq!((operation, source_protocol_addr), (ArpOperation::Reply, target));
        assert_eq!(source_hardware_addr, EthernetAddress(GATEWAY_MAC));
    }
    // Probe, announcement.
    lab.send_frame(&arp(guest, Ipv4Addr::UNSPECIFIED));
    lab.send_frame(&arp(guest, guest));
    assert_eq!(lab.frame(), None);
}

pub(super) fn icmp_v6(lab: &mut Lab, from: Ipv6Addr, to: Ipv6Addr, message: &Icmpv6Repr<'_>) {
    let mut bytes = vec![0; message.buffer_len()];
    let capabilities = ChecksumCapabilities::default();
    message.emit(&from, &to, &mut Icmpv6Packet::new_unchecked(&mut bytes), &capabilities);
    lab.send_frame(&packet_frame(from.into(), to.into(), IpProtocol::Icmpv6, &bytes));
}

#[test]
fn neighbors_are_found_but_not_duplicate_addresses() {
    let mut lab = Lab::new(|_| {});
    let own: Ipv6Addr = "fd00:10:0:2::15".parse().unwrap();
    let target: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let group: Ipv6Addr = "ff02::1:ff00:1".parse().unwrap();
    let solicit = |target_addr| Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr: None });
    icmp_v6(&mut lab, Ipv6Addr::UNSPECIFIED, group, &solicit(own));
    assert_eq!(lab.frame(), None);
    icmp_v6(&mut lab, own, group, &solicit(target));
    let (from, to, protocol, message) = lab.packet().unwrap();
    assert_eq!((from, to, protocol), (target.into(), IpAddr::from(own), IpProtocol::Icmpv6));
    let packet = Icmpv6Packet::new_checked(&message[..]).unwrap();
    let parsed = Icmpv6Repr::parse(&target, &own, &packet, &ChecksumCapabilities::default()).unwrap();
    assert!(
        matches!(parsed, Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { target_addr, .. }) if target_addr == target)
    );
}

#[test]
fn router_is_advertised_when_asked_and_now_and_then() {
    let mut lab = Lab::new(|_| {});
    let own: Ipv6Addr = "fe80::15".parse().unwrap();
    let routers: Ipv6Addr = "ff02::2".parse().unwrap();
    let solicit = Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { lladdr: None });
    assert_eq!(lab.network.deadline(), None);
    icmp_v6(&mut lab, own, routers, &solicit);
    for _ in 0..3 {
        let (IpAddr::V6(from), IpAddr::V6(to), _, message) = lab.packet().unwrap() else { panic!() };
        let packet = Icmpv6Packet::new_checked(&message[..]).unwrap();
        let parsed = Icmpv6Repr::parse(&from, &to, &packet, &ChecksumCapabilities::default()).unwrap();
        let Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert { prefix_info, router_lifetime, mtu, .. }) = parsed
        else {
            panic!("{parsed:?}")
        };
        assert_eq!((prefix_info.unwrap().prefix, mtu), (PREFIX_V6, Some(1500)));
        // The next one comes before the router is forgotten.
        assert_eq!(lab.frame(), None);
        lab.pass(router_lifetime.total_micros() * 1_000 / 2);
    }
    let mut lab = Lab::new(|config| config.has_servers = false);
    icmp_v6(&mut lab, own, routers, &solicit);
    assert_eq!((lab.frame(), lab.network.deadline()), (None, None));
}

pub(super) fn dhcp(
    lab: &mut Lab,
    message_type: DhcpMessageType,
    wanted: Option<Ipv4Addr>,
) -> Option<(DhcpMessageType, Ipv4Addr)> {
    let repr = DhcpRepr {
        message_type,
        transaction_id: 77,
        secs: 0,
        client_hardware_address: EthernetAddress(MAC),
        client_ip: Ipv4Addr::UNSPECIFIED,
        your_ip: Ipv4Addr::UNSPECIFIED,
        server_ip: Ipv4Addr::UNSPECIFIED,
        router: None,
        subnet_mask: None,
        relay_agent_ip: Ipv4Addr::UNSPECIFIED,
        broadcast: false,
        requested_ip: wanted,
        client_identifier: None,
        server_identifier: wanted.map(|_| GATEWAY_V4),
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: None,
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).unwrap();
    lab.send_frame(&udp_frame("0.0.0.0:68", "255.255.255.255:67", &bytes));
    let (from, to, _, payload) = lab.packet()?;
    let datagram = UdpPacket::new_checked(&payload[..]).unwrap();
    assert!(datagram.verify_checksum(&from.into(), &to.into()));
    let packet = DhcpPacket::new_checked(datagram.payload()).unwrap();
    let reply = DhcpRepr::parse(&packet).unwrap();
    assert_eq!((reply.transaction_id, reply.server_identifier), (77, Some(GATEWAY_V4)));
    if reply.message_type != DhcpMessageType::Nak {
        assert_eq!(
            (reply.router, reply.subnet_mask),
            (Some(GATEWAY_V4), Some(Ipv4Addr::new(255, 255, 255, 0)))
        );
        assert_eq!(reply.dns_servers.unwrap().first(), Some(&Ipv4Addr::new(10, 0, 2, 3)));
        let option =
            |kind| packet.options().find(|option| option.kind == kind).map(|option| option.data.to_vec());
        assert_eq!(option(12).unwrap(), b"web");
        assert_eq!(option(119).unwrap(), b"\x01a\x04test\x00\x01b\x00");
    }
    Some((reply.message_type, reply.your_ip))
}

#[test]
fn dhcp_assigns_the_address_of_the_guest() {
    let mut lab = Lab::new(|config| {
        config.hostname = Some("web".into());
        config.search = vec!["a.test".into(), "b".into()];
    });
    let guest: Ipv4Addr = GUEST.parse().unwrap();
    assert_eq!(dhcp(&mut lab, DhcpMessageType::Discover, None), Some((DhcpMessageType::Offer, guest)));
    assert_eq!(dhcp(&mut lab, DhcpMessageType::Request, Some(guest)), Some((DhcpMessageType::Ack, guest)));
    let other = Ipv4Addr::new(10, 0, 2, 99);
    let nak = Some((DhcpMessageType::Nak, Ipv4Addr::UNSPECIFIED));
    assert_eq!(dhcp(&mut lab, DhcpMessageType::Request, Some(other)), nak);
    assert_eq!(dhcp(&mut lab, DhcpMessageType::Release, None), None);
    let mut lab = Lab::new(|config| config.has_servers = false);
    assert_eq!(dhcp(&mut lab, DhcpMessageType::Discover, None), None);
}

#[test]
fn gateway_answers_echo_requests() {
    let mut lab = Lab::new(|_| {});
    let request = Icmpv4Repr::EchoRequest { ident: 5, seq_no: 6, data: b"ping" };
    let mut bytes = vec![0; request.buffer_len()];
    request.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &ChecksumCapabilities::default());
    let guest: IpAddr = GUEST.parse().unwrap();
    lab.send_frame(&packet_frame(guest, GATEWAY_V4.into(), IpProtocol::Icmp, &bytes));
    let (from, to, _, message) = lab.packet().unwrap();
    assert_eq!((from, to), (GATEWAY_V4.into(), guest));
    let packet = Icmpv4Packet::new_checked(&message[..]).unwrap();
    let reply = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()).unwrap();
    assert_eq!(reply, Icmpv4Repr::EchoReply { ident: 5, seq_no: 6, data: b"ping" });
    assert_eq!(lab.network.flows(), (0, 0));
}

#[test]
fn frames_for_the_guest_are_bounded() {
    let mut lab = Lab::new(|_| {});
    for _ in 0..1_000 {
        lab.send_frame(&arp(GATEWAY_V4, GUEST.parse().unwrap()));
    }
    assert_eq!(std::iter::from_fn(|| lab.frame()).count(), 256);
}

proptest! {
    #[test]
    fn arbitrary_frames_are_survived(
        frames in collection::vec((0..4_usize, 0..256_usize, collection::vec(any::<u8>(), 0..120)), 1..30),
    ) {
        const PROTOCOLS: [IpProtocol; 4] = [IpProtocol::Tcp, IpProtocol::Udp, IpProtocol::Icmp, IpProtocol::Icmpv6];
        let mut lab = Lab::new(|_| {});
        for (protocol, cut, payload) in frames {
            let ips: (IpAddr, IpAddr) = if protocol == 3 {
                ("fd00:10:0:2::15".parse().unwrap(), "2001:db8::1".parse().unwrap())
            } else {
                (GUEST.parse().unwrap(), "192.0.2.1".parse().unwrap())
            };
            let frame = packet_frame(ips.0, ips.1, PROTOCOLS[protocol], &payload);
            lab.send_frame(&frame);
            lab.send_frame(&frame[..cut.min(frame.len())]);
            while lab.frame().is_some() {}
        }
        prop_assert!(lab.network.flows().0 <= 60 && lab.network.flows().1 <= 60);
    }
}
