//! Fragments of packets, also hostile ones.

use crate::testing::{MILLISECOND, SECOND, World, header, mac, v6};
use crate::wire::emit::IpHeader;
use crate::{Errno, Family, Kind, SocketId};
use core::net::{IpAddr, SocketAddr};
use smoltcp::wire::{IpProtocol, UdpPacket};
use std::vec;
use std::vec::Vec;

/// A fragment header of IPv6.
fn fragment(next: IpProtocol, offset: u16, is_last: bool, identification: u32) -> Vec<u8> {
    let mut bytes = vec![u8::from(next), 0];
    bytes.extend((offset | u16::from(!is_last)).to_be_bytes());
    bytes.extend(identification.to_be_bytes());
    bytes
}

/// A datagram from port 9 to port 7.
fn datagram(source: IpAddr, destination: IpAddr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 9, 0, 7, 0, 0, 0, 0];
    bytes.extend(payload);
    let size = u16::try_from(bytes.len()).unwrap();
    bytes[4..6].copy_from_slice(&size.to_be_bytes());
    UdpPacket::new_unchecked(&mut bytes).fill_checksum(&source.into(), &destination.into());
    bytes
}

/// Sends a packet from the second host to the first one, which polls.
fn send(world: &mut World, protocol: IpProtocol, payload: &[u8]) {
    let packet = header(v6(1), v6(0), protocol, payload.len());
    world.inject(1, mac(0), packet, |bytes| bytes.copy_from_slice(payload));
    world.run(MILLISECOND);
}

/// Two hosts; the first one has a socket at port 7.
fn hosts() -> (World, SocketId) {
    let mut world = World::new(2);
    let socket = world.socket(0, Family::V6, Kind::Datagram);
    world.nodes[0].bind(socket, SocketAddr::new("::".parse().unwrap(), 7)).unwrap();
    (world, socket)
}

#[test]
fn nested_fragment_headers_are_dropped() {
    let (mut world, socket) = hosts();
    let inner = datagram(v6(1), v6(0), b"nested");
    let atomic = |next| fragment(next, 0, true, 1);
    send(&mut world, IpProtocol::Ipv6Frag, &[&atomic(IpProtocol::Udp)[..], &inner].concat());
    assert_eq!(world.receive(0, socket), Ok(b"nested".to_vec()));
    let nested = [atomic(IpProtocol::Ipv6Frag), atomic(IpProtocol::Udp), inner.clone()].concat();
    send(&mut world, IpProtocol::Ipv6Frag, &nested);
    assert_eq!(world.receive(0, socket), Err(Errno::EAGAIN));
    // After a fragment header: a Hop-by-Hop header belongs before it.
    let hop_by_hop = vec![u8::from(IpProtocol::Ipv6Frag), 0, 1, 4, 0, 0, 0, 0];
    let between = [atomic(IpProtocol::HopByHop), hop_by_hop, atomic(IpProtocol::Udp), inner].concat();
    send(&mut world, IpProtocol::Ipv6Frag, &between);
    assert_eq!(world.receive(0, socket), Err(Errno::EAGAIN));
}

#[test]
fn fragment_headers_without_end_take_no_stack() {
    // 64 KiB of headers, reassembled from ordinary fragments, on a stack as large as that of an application's
    // thread.
    let run = || {
        let (mut world, socket) = hosts();
        let headers = fragment(IpProtocol::Ipv6Frag, 0, true, 1).repeat(8_000);
        for (place, part) in headers.chunks(1_400).enumerate() {
            let start = place * 1_400;
            let is_last = start + part.len() == headers.len();
            let head = fragment(IpProtocol::Ipv6Frag, u16::try_from(start).unwrap(), is_last, 2);
            send(&mut world, IpProtocol::Ipv6Frag, &[head, part.to_vec()].concat());
        }
        send(&mut world, IpProtocol::Udp, &datagram(v6(1), v6(0), b"alive"));
        world.receive(0, socket)
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), Ok(b"alive".to_vec()));
}

#[test]
fn fragments_that_stay_incomplete_are_given_up_without_another_packet() {
    let (mut world, _) = hosts();
    let head = fragment(IpProtocol::Udp, 0, false, 1);
    send(&mut world, IpProtocol::Ipv6Frag, &[&head[..], &[7; 800]].concat());
    assert!(world.nodes[0].layers.buffers.used() >= 800);
    world.run(30 * SECOND);
    assert_eq!(world.nodes[0].layers.buffers.used(), 0);
}

#[test]
fn fragmented_neighbor_discovery_is_dropped() {
    use crate::ip::neighbors::Answer;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{EthernetAddress, Icmpv6Packet, Icmpv6Repr, NdiscRepr};
    for is_fragmented in [true, false] {
        let (mut world, _) = hosts();
        let (IpAddr::V6(source), IpAddr::V6(target)) = (v6(1), v6(0)) else { panic!() };
        let lladdr = Some(EthernetAddress(mac(1)).into());
        let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: target, lladdr });
        let mut payload = vec![0; message.buffer_len()];
        let packet = &mut Icmpv6Packet::new_unchecked(&mut payload);
        message.emit(&source, &target, packet, &ChecksumCapabilities::default());
        let protocol = if is_fragmented { IpProtocol::Ipv6Frag } else { IpProtocol::Icmpv6 };
        if is_fragmented {
            payload = [fragment(IpProtocol::Icmpv6, 0, true, 1), payload].concat();
        }
        let packet = header(v6(1), v6(0), protocol, payload.len());
        world.inject(1, mac(0), IpHeader { hop_limit: 255, ..packet }, |bytes| {
            bytes.copy_from_slice(&payload);
        });
        world.run(MILLISECOND);
        let answer = world.nodes[0].layers.ip.neighbors.lookup(v6(1), world.now);
        assert_eq!(answer == Answer::Unknown, is_fragmented);
    }
}
