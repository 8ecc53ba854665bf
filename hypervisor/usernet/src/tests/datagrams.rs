//! Flows of UDP and of ICMP echo.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Icmpv4Repr, IpProtocol, UdpPacket};

use super::lab::{GUEST, Lab, SECOND, answer, udp_frame};
use crate::Event;
use crate::host::{Protocol, Token};
use crate::sample::packet_frame;

const HERE: &str = "10.0.2.15:4000";
const PEER: &str = "192.0.2.1:53";

/// Returns the next datagram for the guest: its ends and its data.
fn datagram(lab: &mut Lab) -> Option<(String, String, Vec<u8>)> {
    let (from, to, protocol, payload) = lab.packet()?;
    assert_eq!(protocol, IpProtocol::Udp);
    let packet = UdpPacket::new_checked(&payload[..]).unwrap();
    assert!(packet.verify_checksum(&from.into(), &to.into()));
    let from = SocketAddr::new(from, packet.src_port());
    let to = SocketAddr::new(to, packet.dst_port());
    Some((from.to_string(), to.to_string(), packet.payload().to_vec()))
}

fn arrive(lab: &mut Lab, socket: usize, result: Result<&[u8], ErrorKind>) {
    let token = {
        let mut socket = lab.host.datagram_sockets[socket].borrow_mut();
        socket.received.push_back(result.map(<[u8]>::to_vec));
        Token::from(socket.token)
    };
    lab.network.handle_event(&mut lab.host, Event::Datagrams(token));
}

#[test]
fn datagrams_of_a_flow_have_one_socket() {
    let mut lab = Lab::new(|_| {});
    lab.send_frame(&udp_frame(HERE, PEER, b"one"));
    lab.send_frame(&udp_frame(HERE, PEER, b"two"));
    lab.send_frame(&udp_frame(HERE, "192.0.2.2:53", b"other"));
    assert_eq!(lab.host.datagram_sockets.len(), 2);
    {
        let socket = lab.host.datagram_sockets[0].borrow();
        assert_eq!(socket.sent, [b"one", b"two"]);
        assert_eq!((socket.to, socket.protocol), (Some(PEER.parse().unwrap()), Some(Protocol::Udp)));
    }
    arrive(&mut lab, 0, Ok(b"answer"));
    arrive(&mut lab, 0, Ok(b""));
    assert_eq!(datagram(&mut lab), Some((PEER.into(), HERE.into(), b"answer".to_vec())));
    assert_eq!(datagram(&mut lab), Some((PEER.into(), HERE.into(), Vec::new())));
    assert_eq!(datagram(&mut lab), None);
}

#[test]
fn error_of_a_datagram_is_an_icmp_message() {
    let mut lab = Lab::new(|_| {});
    lab.send_frame(&udp_frame(HERE, PEER, b"one"));
    arrive(&mut lab, 0, Err(ErrorKind::ConnectionRefused));
    arrive(&mut lab, 0, Ok(b"later"));
    let (from, to, protocol, message) = lab.packet().unwrap();
    assert_eq!(
        (from.to_string(), to.to_string(), protocol),
        ("192.0.2.1".into(), GUEST.into(), IpProtocol::Icmp)
    );
    let packet = Icmpv4Packet::new_checked(&message[..]).unwrap();
    assert_eq!((packet.msg_type(), packet.msg_code()), (Icmpv4Message::DstUnreachable, 3));
    assert_eq!(message[8 + 20..8 + 24], [0x0f, 0xa0, 0, 53]);
    assert_eq!(datagram(&mut lab).unwrap().2, b"later");
}

#[test]
fn closed_address_is_prohibited_and_unreachable_one_reported() {
    let mut lab = Lab::new(|_| {});
    lab.host.is_closed_to_guest = true;
    lab.send_frame(&udp_frame(HERE, PEER, b"one"));
    let (_, _, _, message) = lab.packet().unwrap();
    assert_eq!(message[..2], [3, 13]);
    lab.host.is_closed_to_guest = false;
    lab.host.connect_error = Some(ErrorKind::NetworkUnreachable);
    lab.send_frame(&udp_frame(HERE, PEER, b"one"));
    assert_eq!(lab.packet().unwrap().3[..2], [3, 0]);
    // Broadcasts and groups lead nowhere, and the gateway itself has no ports.
    for to in ["255.255.255.255:9", "224.0.0.251:5353", "10.0.2.2:53"] {
        lab.send_frame(&udp_frame(HERE, to, b"one"));
        assert_eq!(lab.packet(), None);
    }
    assert_eq!(lab.network.flows(), (0, 0));
}

#[test]
fn clients_of_a_port_are_answered_from_it() {
    let mut lab = Lab::new(|config| config.udp_ports = vec![53, 123]);
    let clients = ["198.51.100.7:9", "127.0.0.1:9", "[::1]:9"];
    for client in clients {
        lab.host.port_received[1].push_back((client.parse().unwrap(), client.as_bytes().to_vec()));
    }
    lab.network.handle_event(&mut lab.host, Event::Port(1));
    // The guest sees both clients on the host itself as the gateway, with different ports.
    for (client, seen) in clients.into_iter().zip(["198.51.100.7:9", "10.0.2.2:9", "10.0.2.2:10"]) {
        let (from, to, data) = datagram(&mut lab).unwrap();
        assert_eq!((&from[..], &to[..], data), (seen, "10.0.2.15:123", client.as_bytes().to_vec()));
        lab.send_frame(&udp_frame(&to, &from, b"answer"));
        let sent = lab.host.port_sent.pop().unwrap();
        assert_eq!(sent, (1, client.parse().unwrap(), b"answer".to_vec()));
    }
    assert_eq!((datagram(&mut lab), lab.network.flows()), (None, (0, 3)));
    assert!(lab.host.datagram_sockets.is_empty());
}

#[test]
fn idle_flows_end_and_the_oldest_makes_room() {
    let mut lab = Lab::new(|_| {});
    let send = |lab: &mut Lab, number: u16| {
        lab.host.now += 1;
        lab.send_frame(&udp_frame(HERE, &format!("192.0.2.1:{number}"), b"x"));
    };
    (1..=5_000).for_each(|number| send(&mut lab, number));
    assert_eq!(lab.network.flows(), (0, 4_096));
    let sockets = lab.host.datagram_sockets.len();
    send(&mut lab, 5_000);
    assert_eq!(lab.host.datagram_sockets.len(), sockets);
    send(&mut lab, 1);
    assert_eq!(lab.host.datagram_sockets.len(), sockets + 1);
    lab.pass(100 * SECOND);
    send(&mut lab, 1);
    lab.pass(100 * SECOND);
    assert_eq!(lab.network.flows(), (0, 1));
    lab.pass(100 * SECOND);
    lab.pass(100 * SECOND);
    assert_eq!((lab.network.flows(), lab.network.deadline()), ((0, 0), None));
}

#[test]
fn echo_reply_has_the_identifier_of_the_guest() {
    let mut lab = Lab::new(|_| {});
    let capabilities = ChecksumCapabilities::default();
    let message = |repr: &Icmpv4Repr<'_>| {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &capabilities);
        bytes
    };
    let (guest, peer): (IpAddr, IpAddr) = (GUEST.parse().unwrap(), "192.0.2.1".parse().unwrap());
    let request = message(&Icmpv4Repr::EchoRequest { ident: 0x1234, seq_no: 1, data: b"ping" });
    lab.send_frame(&packet_frame(guest, peer, IpProtocol::Icmp, &request));
    assert_eq!(lab.host.datagram_sockets[0].borrow().protocol, Some(Protocol::Echo));
    assert_eq!(lab.host.datagram_sockets[0].borrow().sent, [request]);
    // The host's kernel has replaced the identifier.
    arrive(&mut lab, 0, Ok(&message(&Icmpv4Repr::EchoReply { ident: 7, seq_no: 1, data: b"ping" })));
    let (from, _, _, bytes) = lab.packet().unwrap();
    let packet = Icmpv4Packet::new_checked(&bytes[..]).unwrap();
    assert_eq!(from, peer);
    let reply = Icmpv4Repr::parse(&packet, &capabilities).unwrap();
    assert_eq!(reply, Icmpv4Repr::EchoReply { ident: 0x1234, seq_no: 1, data: b"ping" });
    // An error quotes the guest's request.
    arrive(&mut lab, 0, Err(ErrorKind::HostUnreachable));
    let (_, _, _, bytes) = lab.packet().unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[8 + 9]), (3, 1, 1));
    assert_eq!(bytes[8 + 20..], [8, 0, 0, 0, 0x12, 0x34, 0, 0]);
}

#[test]
fn datagram_beyond_the_mtu_is_dropped() {
    let mut lab = Lab::new(|_| {});
    lab.send_frame(&udp_frame(HERE, PEER, b"x"));
    arrive(&mut lab, 0, Ok(&[1; 1_473]));
    arrive(&mut lab, 0, Ok(&[2; 1_472]));
    assert_eq!(datagram(&mut lab).unwrap().2, [2; 1_472]);
    assert_eq!(datagram(&mut lab), None);
}

#[test]
fn datagrams_and_segments_take_turns() {
    let mut lab = Lab::new(|config| config.udp_ports = vec![53]);
    lab.connect("10.0.2.15:5000", "192.0.2.1:80");
    for _ in 0..10 {
        lab.host.port_received[0].push_back(("198.51.100.7:9".parse().unwrap(), vec![1; 10]));
    }
    lab.network.handle_event(&mut lab.host, Event::Port(0));
    lab.arrive(0, b"segment");
    let protocols: Vec<IpProtocol> = (0..3).map(|_| lab.packet().unwrap().2).collect();
    assert!(protocols.contains(&IpProtocol::Tcp), "{protocols:?}");
}

/// Makes the host run out of descriptors.
fn exhaust(lab: &mut Lab) {
    lab.host.max_sockets = lab.host.open_sockets();
}

/// Sends a datagram of the flow with this number.
fn send(lab: &mut Lab, number: u16) {
    lab.host.now += 1;
    lab.send_frame(&udp_frame(HERE, &format!("192.0.2.1:{number}"), b"x"));
}

#[test]
fn host_without_descriptors_loses_the_oldest_socket_but_no_client() {
    let mut lab = Lab::new(|config| config.udp_ports = vec![53]);
    let client: SocketAddr = "198.51.100.7:9".parse().unwrap();
    lab.host.port_received[0].push_back((client, vec![1]));
    lab.network.handle_event(&mut lab.host, Event::Port(0));
    datagram(&mut lab).unwrap();
    (1..=3).for_each(|number| send(&mut lab, number));
    exhaust(&mut lab);
    send(&mut lab, 1);
    send(&mut lab, 4);
    // Flow 2 has ended. The client's flow has not, and neither has flow 1, which was used again.
    assert_eq!((lab.host.open_sockets(), lab.network.flows()), (3, (0, 4)));
    let sockets = lab.host.datagram_sockets.len();
    send(&mut lab, 1);
    assert_eq!(lab.host.datagram_sockets.len(), sockets);
    lab.send_frame(&udp_frame("10.0.2.15:53", "198.51.100.7:9", b"answer"));
    assert_eq!(lab.host.port_sent.len(), 1);
}

#[test]
fn clients_of_ports_end_no_flow_of_the_guest() {
    let mut lab = Lab::new(|config| config.udp_ports = vec![53]);
    send(&mut lab, 1);
    for number in 1..=2_000_u16 {
        let client = SocketAddr::new("198.51.100.7".parse().unwrap(), number);
        lab.host.now += 1;
        lab.host.port_received[0].push_back((client, vec![1]));
        lab.network.handle_event(&mut lab.host, Event::Port(0));
        datagram(&mut lab).unwrap();
    }
    assert_eq!(lab.network.flows(), (0, 1 + 1_024));
    send(&mut lab, 1);
    assert_eq!(lab.host.datagram_sockets.len(), 1);
}

#[test]
fn flood_of_datagrams_leaves_descriptors_to_tcp() {
    let mut lab = Lab::new(|config| config.tcp_ports = vec![80]);
    (1..=200).for_each(|number| send(&mut lab, number));
    exhaust(&mut lab);
    lab.connect("10.0.2.15:5000", "192.0.2.1:80");
    assert_eq!(lab.network.flows(), (1, 199));
    for number in 1..=50 {
        assert!(lab.client(&format!("198.51.100.7:{number}")).is_some(), "{number}");
    }
    assert_eq!(lab.network.flows(), (51, 149));
    // And the reverse: the last ones are not taken, nor does UDP take one of TCP's.
    for number in 51..=200 {
        let syn = lab.client(&format!("198.51.100.7:{number}"));
        syn.iter().for_each(|syn| lab.send(&answer(syn)));
        while lab.segment().is_some() {}
    }
    assert_eq!(lab.network.flows().1, 64);
    let flows = lab.network.flows().0;
    (1..=200).for_each(|number| send(&mut lab, number));
    assert_eq!(lab.network.flows(), (flows, 64));
}
