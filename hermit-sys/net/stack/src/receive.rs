//! Frames that arrive: for whom they are.

use core::net::{IpAddr, Ipv4Addr};

use hermit_interface::Errno;
use hermit_interface::net::MIN_MTU_V6;
use hermit_tcp::Seq;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol, Icmpv4Message, Icmpv4Packet,
    Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, NdiscNeighborFlags, NdiscRepr,
};

use crate::address::{Endpoint, Tuple};
use crate::control::{Taker, names};
use crate::core::Core;
use crate::hardware::{Offload, ReceivedInfo};
use crate::host::Host;
use crate::link::Link;
use crate::network::sources::{is_no_source, is_unicast};
use crate::tcp::connection::Phase;
use crate::tcp::path::Limits;
use crate::tcp::rx::Via;
use crate::udp::groups::Interface;
use crate::wire::emit::{self, ETHERNET, EthernetHeader};
use crate::wire::packet::{Frame, Packet};

/// The ports of DHCP (RFC 2131, section 4.1).
pub(crate) const DHCP_SERVER: u16 = 67;
pub(crate) const DHCP_CLIENT: u16 = 68;

/// The least path MTU that is believed in IPv4, below which routers fragment: Linux's `ip_rt_min_pmtu`.
const LEAST_PATH_MTU_V4: u16 = 552;

impl Core {
    /// Takes a frame from the device.
    pub(crate) fn receive_frame(&mut self, bytes: &[u8], info: ReceivedInfo, host: &mut dyn Host) {
        let (Some(frame), Some(port)) = (Frame::parse(bytes), self.port) else { return };
        let is_for_us = frame.destination == port.mac || frame.destination.0[0] & 1 == 1;
        if !is_for_us || frame.source.0[0] & 1 == 1 {
            return;
        }
        match frame.protocol {
            EthernetProtocol::Arp => self.receive_arp(bytes, frame.payload),
            EthernetProtocol::Ipv6 if !port.info.carries_v6() => (),
            EthernetProtocol::Ipv4 | EthernetProtocol::Ipv6 => {
                if let Some(packet) = Packet::parse(frame.payload) {
                    self.receive_from_wire(bytes, &frame, &packet, info, host);
                }
            }
            EthernetProtocol::Unknown(_) => (),
        }
    }

    /// Takes a packet that this host has sent to itself.
    pub(crate) fn receive_local(&mut self, bytes: &[u8], host: &mut dyn Host) {
        if let Some(packet) = Packet::parse_local(bytes) {
            self.receive_segment(&packet, Via::Local, true, host);
        }
    }

    /// Takes a packet from a neighbor.
    fn receive_from_wire(
        &mut self,
        bytes: &[u8],
        frame: &Frame<'_>,
        packet: &Packet<'_>,
        info: ReceivedInfo,
        host: &mut dyn Host,
    ) {
        // Nobody else has our addresses, or those of the loopback; whoever answers to these would talk to himself.
        let is_impossible = self.network.is_own(packet.source) || self.network.is_broadcast(packet.source);
        if is_impossible || is_no_source(packet) || packet.destination.is_loopback() {
            return;
        }
        if packet.fragment.is_some() {
            if !self.is_received_here(packet.destination) {
                return;
            }
            if let Some(whole) = self.fragments.add(packet, self.now) {
                self.receive_whole(&whole, frame, host);
            }
            return;
        }
        self.dispatch(bytes, frame.source, packet, info.checksum_good, host);
    }

    /// Takes a packet that was put together of its parts.
    fn receive_whole(&mut self, packet: &[u8], frame: &Frame<'_>, host: &mut dyn Host) {
        let mut bytes = alloc::vec::Vec::new();
        if bytes.try_reserve_exact(ETHERNET + packet.len()).is_err() {
            return;
        }
        bytes.resize(ETHERNET + packet.len(), 0);
        let header =
            EthernetHeader { source: frame.source, destination: frame.destination, protocol: frame.protocol };
        header.write(&mut bytes).copy_from_slice(packet);
        if let Some(packet) = Packet::parse(packet) {
            self.dispatch(&bytes, frame.source, &packet, false, host);
        }
    }

    /// Whether packets to an address are received: ours, everybody's, or those of a group.
    pub(crate) fn is_received_here(&self, address: IpAddr) -> bool {
        let is_joined = || {
            address.is_multicast()
                && (self.has_members(address, Interface::Device)
                    || self.control.as_ref().is_some_and(|control| control.has_group(address)))
        };
        self.network.is_own(address) || self.network.is_broadcast(address) || is_joined()
    }

    fn dispatch(
        &mut self,
        bytes: &[u8],
        source: EthernetAddress,
        packet: &Packet<'_>,
        is_checked: bool,
        host: &mut dyn Host,
    ) {
        match packet.protocol {
            IpProtocol::Tcp if !self.network.is_own(packet.destination) => (),
            IpProtocol::Tcp => self.receive_segment(packet, Via::Wire(source), is_checked, host),
            IpProtocol::Udp => self.dispatch_datagram(bytes, packet, is_checked, host),
            IpProtocol::Icmp | IpProtocol::Icmpv6 => {
                self.look_at_message(packet, source, host);
                // An answer has to fit into one frame, and one question must not have many.
                let is_asked_alone = packet.destination.is_ipv6() || self.network.is_own(packet.destination);
                if packet.bytes.len() <= self.reply.capacity() && is_asked_alone {
                    self.give_to_control(bytes, Taker::Nobody);
                }
            }
            IpProtocol::Igmp => {
                self.enliven();
                self.give_to_control(bytes, Taker::Nobody);
            }
            _ if self.complaints.take(self.now) => self.give_to_control(bytes, Taker::Nobody),
            _ => (),
        }
    }

    fn dispatch_datagram(
        &mut self,
        bytes: &[u8],
        packet: &Packet<'_>,
        is_checked: bool,
        host: &mut dyn Host,
    ) {
        let Some(datagram) = packet.udp(is_checked) else { return };
        let (from, to) = (datagram.src_port(), datagram.dst_port());
        if from == DHCP_SERVER && to == DHCP_CLIENT && self.udp.bindings(to).is_empty() {
            return self.give_to_control(bytes, Taker::Dhcp);
        }
        if !self.is_received_here(packet.destination) || self.receive_datagram(packet, is_checked, host) {
            return;
        }
        let is_answer = from == names::PORT;
        let servers = self.control.as_ref().map_or(&[][..], |control| control.names.servers());
        let taker = if is_answer && servers.contains(&packet.source) { Taker::Names } else { Taker::Nobody };
        if taker == Taker::Names {
            self.give_to_control(bytes, taker);
            self.look_for_answers(host);
        } else if self.complaints.take(self.now) {
            self.give_to_control(bytes, taker);
        }
    }

    /// Gives a frame to smoltcp, and sends what it answers.
    fn give_to_control(&mut self, bytes: &[u8], taker: Taker) {
        let Some(control) = &mut self.control else { return };
        control.receive(self.now, bytes, taker, &mut self.reply);
        let answer = &self.reply;
        if !answer.is_empty() && self.outbox.can_transmit(answer.len()) {
            let mut fill = |bytes: &mut [u8]| bytes.copy_from_slice(answer);
            self.outbox.transmit(answer.len(), Offload::default(), &mut fill);
        }
    }

    fn enliven(&mut self) {
        if let Some(control) = &mut self.control {
            control.enliven(self.now);
        }
    }

    /// Learns where a neighbor is that asks for us, or answers.
    fn receive_arp(&mut self, bytes: &[u8], payload: &[u8]) {
        let parsed = ArpPacket::new_checked(payload).and_then(|packet| ArpRepr::parse(&packet));
        let Ok(ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: mac,
            source_protocol_addr: source,
            target_protocol_addr: target,
            ..
        }) = parsed
        else {
            return;
        };
        if target.is_loopback() || !self.network.is_own(target.into()) {
            return;
        }
        self.learn(source.into(), mac);
        self.give_to_control(bytes, Taker::Nobody);
        if operation == ArpOperation::Request && self.reply.is_empty() {
            self.answer_arp(target, source, mac);
        }
    }

    /// Tells where an address of ours is to whom smoltcp does not tell it: a host outside of our networks, and one that asks
    /// whether the address is free (RFC 5227, section 2.1).
    fn answer_arp(&mut self, target: Ipv4Addr, source: Ipv4Addr, mac: EthernetAddress) {
        let Some(port) = self.port else { return };
        if mac.is_unicast() && !source.is_multicast() && self.outbox.can_transmit(emit::ARP) {
            let mut fill = |bytes: &mut [u8]| emit::arp_answer(bytes, port.mac, target, mac, source);
            self.outbox.transmit(emit::ARP, Offload::default(), &mut fill);
        }
    }

    /// Takes note of where a neighbor is, and sends what waited for it.
    fn learn(&mut self, address: IpAddr, mac: EthernetAddress) {
        let is_beside = self.network.is_neighbor(address) || self.network.gateways.contains(&address);
        let is_plausible = mac.is_unicast() && is_unicast(address) && is_beside;
        if !is_plausible || self.network.is_own(address) || self.network.is_broadcast(address) {
            return;
        }
        let waited = self.neighbors.learn(address, mac, self.now);
        for slot in waited.connections {
            self.mark(slot);
        }
        for mut frame in waited.frames {
            if let Some(destination) = frame.get_mut(..6) {
                destination.copy_from_slice(&mac.0);
            }
            if self.outbox.can_transmit(frame.len()) {
                let mut fill = |bytes: &mut [u8]| bytes.copy_from_slice(&frame);
                self.outbox.transmit(frame.len(), Offload::default(), &mut fill);
            }
        }
    }

    /// Looks at a control message, which may be about one of our packets or tell where a neighbor is.
    fn look_at_message(&mut self, packet: &Packet<'_>, from: EthernetAddress, host: &mut dyn Host) {
        if !self.is_received_here(packet.destination) {
            return;
        }
        match (packet.source, packet.destination) {
            (IpAddr::V4(_), _) => {
                let Ok(message) = Icmpv4Packet::new_checked(packet.payload) else { return };
                let is_unreachable = message.msg_type() == Icmpv4Message::DstUnreachable;
                if !is_unreachable || !message.verify_checksum() {
                    return;
                }
                match unreachable_v4(message.msg_code()) {
                    // RFC 1191 §4.
                    Errno::EMSGSIZE => self.shrink_path(message.data(), packet.payload.get(6..8)),
                    error => self.hear_of(message.data(), error, host),
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let Ok(message) = Icmpv6Packet::new_checked(packet.payload) else { return };
                if !message.verify_checksum(&source, &destination) {
                    return;
                }
                match message.msg_type() {
                    Icmpv6Message::DstUnreachable => {
                        self.hear_of(message.payload(), unreachable_v6(message.msg_code()), host);
                    }
                    // RFC 4443 §3.2. No packet of IPv6 is larger than 64 KiB.
                    Icmpv6Message::PktTooBig => {
                        self.shrink_path(message.payload(), packet.payload.get(6..8));
                    }
                    Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert => {
                        self.learn_from_ndisc(packet, from, &message);
                    }
                    Icmpv6Message::MldQuery | Icmpv6Message::RouterAdvert => self.enliven(),
                    _ => (),
                }
            }
            _ => (),
        }
    }

    fn learn_from_ndisc(
        &mut self,
        packet: &Packet<'_>,
        from: EthernetAddress,
        message: &Icmpv6Packet<&[u8]>,
    ) {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination) else {
            return;
        };
        // Nobody from afar can say so: the limit of hops has not been lowered (RFC 4861, section 7.1).
        if packet.bytes.get(7) != Some(&255) {
            return;
        }
        let parsed = Icmpv6Repr::parse(&source, &destination, message, &ChecksumCapabilities::ignored());
        let (address, mac) = match parsed {
            Ok(Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { lladdr: Some(mac), .. })) => {
                (packet.source, mac)
            }
            Ok(Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { lladdr: Some(mac), target_addr, .. })) => {
                (target_addr.into(), mac)
            }
            // Whoever is asked alone need not say where it is (RFC 4861, section 7.2.4).
            Ok(Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr, lladdr: None }))
                if flags.contains(NdiscNeighborFlags::SOLICITED) =>
            {
                return self.neighbors.confirm(target_addr.into(), from, self.now);
            }
            _ => return,
        };
        if let Ok(mac) = <[u8; 6]>::try_from(mac.as_bytes()) {
            self.learn(address, EthernetAddress(mac));
        }
    }

    /// A router says that a packet of a connection was larger than what it can send on: those that follow are not.
    fn shrink_path(&mut self, sent: &[u8], mtu: Option<&[u8]>) {
        let mtu = mtu.and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes);
        let Some(slot) = self.find_sent(sent) else { return };
        let Some(connection) = self.connection(slot) else { return };
        let remote = connection.tuple.remote.address;
        let least = if remote.is_ipv4() { LEAST_PATH_MTU_V4 } else { MIN_MTU_V6 };
        connection.may_be_fragmented |= mtu < least;
        connection.tcp.reduce_mss(Limits::without_headers(mtu.max(least), &remote));
        self.mark(slot);
    }

    /// The connection of a segment whose packet somebody quotes, if that segment is in flight: no other is
    /// believed to have been sent (RFC 5927 §4.1).
    fn find_sent(&mut self, sent: &[u8]) -> Option<u32> {
        let (IpProtocol::Tcp, local, remote) = ends(sent)? else { return None };
        let (.., payload) = quoted(sent)?;
        let seq = Seq(u32::from_be_bytes(payload.get(4..8)?.try_into().ok()?));
        let slot = *self.tcp.connections.get(&Tuple { local, remote })?;
        let is_sent = self.connection(slot)?.tcp.is_in_flight(seq);
        is_sent.then_some(slot)
    }

    /// Somebody says that one of our packets, whose beginning is given, did not arrive.
    fn hear_of(&mut self, sent: &[u8], error: Errno, host: &mut dyn Host) {
        let Some((protocol, local, remote)) = ends(sent) else { return };
        match protocol {
            IpProtocol::Udp if matches!(error, Errno::ECONNREFUSED | Errno::ENOPROTOOPT) => {
                self.refuse_datagram((local.address, local.port), remote, error, host);
            }
            IpProtocol::Tcp => {
                let Some(slot) = self.find_sent(sent) else { return };
                if self.connection(slot).is_some_and(|connection| connection.phase == Phase::Connecting) {
                    self.fail(slot, error, host);
                }
            }
            _ => (),
        }
    }
}

/// The packet that a control message is about, of which only the beginning need be there.
fn quoted(bytes: &[u8]) -> Option<(IpProtocol, IpAddr, IpAddr, &[u8])> {
    match bytes.first()? >> 4 {
        4 => {
            let header = usize::from(bytes.first()? & 15) * 4;
            let source: [u8; 4] = bytes.get(12..16)?.try_into().ok()?;
            let destination: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
            let protocol = (*bytes.get(9)?).into();
            Some((protocol, source.into(), destination.into(), bytes.get(header.max(20)..)?))
        }
        6 => {
            let source: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let destination: [u8; 16] = bytes.get(24..40)?.try_into().ok()?;
            Some(((*bytes.get(6)?).into(), source.into(), destination.into(), bytes.get(40..)?))
        }
        _ => None,
    }
}

/// The protocol and the ends of what was sent.
fn ends(sent: &[u8]) -> Option<(IpProtocol, Endpoint, Endpoint)> {
    let (protocol, source, destination, payload) = quoted(sent)?;
    let &[a, b, c, d] = payload.first_chunk()?;
    let local = Endpoint::new(source, u16::from_be_bytes([a, b]));
    Some((protocol, local, Endpoint::new(destination, u16::from_be_bytes([c, d]))))
}

/// What Linux makes of the codes of "destination unreachable" (RFC 792; RFC 1122, section 3.2.2.1).
const fn unreachable_v4(code: u8) -> Errno {
    match code {
        0 | 6 | 9 | 11 => Errno::ENETUNREACH,
        2 => Errno::ENOPROTOOPT,
        3 => Errno::ECONNREFUSED,
        4 => Errno::EMSGSIZE,
        _ => Errno::EHOSTUNREACH,
    }
}

/// The same for IPv6 (RFC 4443, section 3.1).
const fn unreachable_v6(code: u8) -> Errno {
    match code {
        0 | 2 => Errno::ENETUNREACH,
        1 | 5 | 6 => Errno::EACCES,
        4 => Errno::ECONNREFUSED,
        _ => Errno::EHOSTUNREACH,
    }
}
