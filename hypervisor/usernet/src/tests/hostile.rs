//! Guests that violate the protocols.

use std::net::{IpAddr, Ipv6Addr};

use hermit_tcp::Flags;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, NdiscRepr};

use super::lab::{GUEST, Lab, Sent, udp_frame};
use crate::config::{GATEWAY_LINK_LOCAL, GATEWAY_V4, GATEWAY_V6};
use crate::sample::packet_frame;
use crate::{Event, Readiness};

/// Maximum number of entries in the queues of a network without flows.
const MAX_QUEUED: usize = 200;

#[test]
fn flows_that_end_while_the_guest_takes_no_frames_leave_nothing_in_the_queue() {
    let mut lab = Lab::new(|_| {});
    for number in 0..2_000 {
        let syn = Sent { flags: Flags::SYN, ..Sent::new("10.0.2.15:4000", "192.0.2.1:80") };
        lab.send(&syn);
        lab.event(number, Readiness::WRITABLE);
        lab.send(&Sent { flags: Flags::RST, seq: 1, ..syn });
    }
    assert_eq!(lab.network.usage().tcp_flows, 0);
    assert!(lab.network.usage().queued <= MAX_QUEUED, "{:?}", lab.network.usage());
}

#[test]
fn flows_of_datagrams_that_make_room_leave_nothing_in_the_queue() {
    let mut lab = Lab::new(|_| {});
    for number in 0..9_000 {
        lab.send_frame(&udp_frame("10.0.2.15:4000", &format!("192.0.2.1:{}", 1 + number), b"x"));
        let token = lab.host.datagram_sockets[number].borrow().token;
        lab.network.handle_event(&mut lab.host, Event::Datagrams(token.into()));
    }
    let usage = lab.network.usage();
    assert!(usage.queued <= 2 * usage.datagram_flows + MAX_QUEUED, "{usage:?}");
}

#[test]
fn packets_from_addresses_of_no_host_are_dropped() {
    let mut lab = Lab::new(|config| config.has_host_loopback = true);
    for source in ["0.0.0.0", "127.0.0.1", "224.0.0.5", "255.255.255.255"] {
        let from = format!("{source}:4000");
        lab.send(&Sent { flags: Flags::SYN, ..Sent::new(&from, "192.0.2.1:80") });
        lab.send(&Sent { flags: Flags::ACK, ..Sent::new(&from, "192.0.2.1:80") });
        lab.send_frame(&udp_frame(&from, "192.0.2.1:53", b"x"));
        let mut request = vec![8, 0, 0, 0, 0, 1, 0, 1];
        for to in ["192.0.2.1", "10.0.2.2"] {
            request[7] += 1;
            let (from, to) = (source.parse().unwrap(), to.parse().unwrap());
            lab.send_frame(&packet_frame(from, to, IpProtocol::Icmp, &request));
        }
    }
    for source in ["::", "::1", "ff02::5"] {
        let from = format!("[{source}]:4000");
        lab.send(&Sent { flags: Flags::SYN, ..Sent::new(&from, "[2001:db8::1]:80") });
        lab.send_frame(&udp_frame(&from, "[2001:db8::1]:53", b"x"));
        let (from, to) = (source.parse().unwrap(), GATEWAY_V6.into());
        lab.send_frame(&packet_frame(from, to, IpProtocol::Icmpv6, &[128, 0, 0, 0, 0, 1, 0, 1]));
    }
    assert_eq!((lab.network.flows(), lab.frame()), ((0, 0), None));
}

#[test]
fn segments_for_groups_are_not_answered() {
    let mut lab = Lab::new(|_| {});
    for to in ["224.0.0.251:80", "255.255.255.255:80", "0.0.0.0:80", "127.0.0.1:80"] {
        for flags in [Flags::SYN, Flags::ACK] {
            lab.send(&Sent { flags, ..Sent::new("10.0.2.15:4000", to) });
            assert_eq!(lab.frame(), None, "{to}");
        }
    }
}

#[test]
fn datagram_without_a_source_port_is_dropped() {
    let mut lab = Lab::new(|_| {});
    lab.send_frame(&udp_frame("10.0.2.15:0", "192.0.2.1:53", b"x"));
    assert_eq!(lab.network.flows(), (0, 0));
}

fn echo_v4(length: usize) -> Vec<u8> {
    let request = Icmpv4Repr::EchoRequest { ident: 5, seq_no: 6, data: &vec![1; length] };
    let mut bytes = vec![0; request.buffer_len()];
    request.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &ChecksumCapabilities::default());
    packet_frame(GUEST.parse().unwrap(), GATEWAY_V4.into(), IpProtocol::Icmp, &bytes)
}

#[test]
fn echo_request_is_answered_whole_or_not_at_all() {
    for (mtu, answered, dropped) in [(1_500, 1_472, 1_473), (9_000, 2_040, 2_041)] {
        let mut lab = Lab::new(|config| config.mtu = mtu);
        lab.send_frame(&echo_v4(answered));
        assert_eq!(lab.packet().unwrap().3.len(), 8 + answered);
        lab.send_frame(&echo_v4(dropped));
        assert_eq!(lab.packet(), None);
    }
}

fn send_v6(lab: &mut Lab, from: &str, to: &str, repr: &Icmpv6Repr<'_>) {
    let (from, to): (Ipv6Addr, Ipv6Addr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut bytes = vec![0; repr.buffer_len()];
    let capabilities = ChecksumCapabilities::default();
    repr.emit(&from, &to, &mut Icmpv6Packet::new_unchecked(&mut bytes), &capabilities);
    lab.send_frame(&packet_frame(from.into(), to.into(), IpProtocol::Icmpv6, &bytes));
}

#[test]
fn echo_request_for_a_group_is_answered_by_the_gateway_itself() {
    let mut lab = Lab::new(|_| {});
    let request = Icmpv6Repr::EchoRequest { ident: 5, seq_no: 6, data: b"ping" };
    for (guest, gateway) in [("fe80::15", GATEWAY_LINK_LOCAL), ("fd00:10:0:2::15", GATEWAY_V6)] {
        send_v6(&mut lab, guest, "ff02::1", &request);
        let (from, to, ..) = lab.packet().unwrap();
        assert_eq!((from, to), (IpAddr::from(gateway), guest.parse().unwrap()));
    }
}

#[test]
fn groups_are_no_neighbors() {
    let mut lab = Lab::new(|_| {});
    for target in ["ff02::5", "::", "::1"] {
        let solicit = NdiscRepr::NeighborSolicit { target_addr: target.parse().unwrap(), lladdr: None };
        send_v6(&mut lab, "fe80::15", "ff02::1", &Icmpv6Repr::Ndisc(solicit));
        assert_eq!(lab.frame(), None, "{target}");
    }
}

#[test]
fn message_without_a_whole_header_is_dropped() {
    let mut lab = Lab::new(|_| {});
    lab.host.is_closed_to_guest = true;
    for length in 0..8 {
        let message = &[8, 0, 0xf7, 0xfe, 0, 1, 0, 0][..length];
        let frame =
            packet_frame(GUEST.parse().unwrap(), "192.0.2.1".parse().unwrap(), IpProtocol::Icmp, message);
        // Ethernet pads frames to 60 bytes.
        lab.send_frame(&[frame, vec![0; 20]].concat());
    }
    assert_eq!((lab.frame(), lab.network.flows()), (None, (0, 0)));
}
