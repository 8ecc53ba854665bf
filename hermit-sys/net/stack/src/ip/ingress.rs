//! Ingress: parses received frames and dispatches them by protocol.

use core::net::{IpAddr, Ipv4Addr};

use hermit_interface::Errno;
use hermit_interface::net::MIN_MTU_V6;
use hermit_tcp::Seq;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol, Icmpv4Message, Icmpv4Packet,
    Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, NdiscNeighborFlags, NdiscRepr,
};

use crate::dns::client;
use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::config::SmoltcpSocket;
use crate::ip::sources::{is_no_source, is_unicast};
use crate::phy::device::{Offload, ReceivedInfo};
use crate::phy::tx_queue::Link;
use crate::socket::address::{Endpoint, Tuple};
use crate::tcp::connection::Phase;
use crate::tcp::path::Limits;
use crate::tcp::rx::Via;
use crate::udp::groups::Interface;
use crate::wire::emit::{self, ETHERNET, EthernetHeader};
use crate::wire::packet::{Frame, Packet};

/// The ports of DHCP (RFC 2131, section 4.1).
pub(crate) const DHCP_SERVER: u16 = 67;
pub(crate) const DHCP_CLIENT: u16 = 68;

/// Minimum path MTU accepted in IPv4, below which routers fragment: Linux's `ip_rt_min_pmtu`.
const MIN_PATH_MTU_V4: u16 = 552;

impl StackInner {
    /// Receives a frame from the device.
    pub(crate) fn receive_frame(&mut self, bytes: &[u8], info: ReceivedInfo, host: &mut dyn Host) {
        let (Some(frame), Some(port)) = (Frame::parse(bytes), self.interface) else { return };
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

    /// Receives a loopback packet.
    pub(crate) fn receive_local(&mut self, bytes: &[u8], host: &mut dyn Host) {
        if let Some(packet) = Packet::parse_local(bytes) {
            self.receive_segment(&packet, Via::Local, true, host);
        }
    }

    /// Receives a packet from the device.
    fn receive_from_wire(
        &mut self,
        bytes: &[u8],
        frame: &Frame<'_>,
        packet: &Packet<'_>,
        info: ReceivedInfo,
        host: &mut dyn Host,
    ) {
        // Martians: no other host has our addresses or those of the loopback. An answer would go to this host itself.
        let is_impossible = self.routes.is_own(packet.source) || self.routes.is_broadcast(packet.source);
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

    /// Receives a reassembled packet.
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

    /// Whether packets to an address are received: an own, broadcast or joined multicast address.
    pub(crate) fn is_received_here(&self, address: IpAddr) -> bool {
        let is_joined = || {
            address.is_multicast()
                && (self.has_members(address, Interface::Device)
                    || self.config.as_ref().is_some_and(|config| config.has_group(address)))
        };
        self.routes.is_own(address) || self.routes.is_broadcast(address) || is_joined()
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
            IpProtocol::Tcp if !self.routes.is_own(packet.destination) => (),
            IpProtocol::Tcp => self.receive_segment(packet, Via::Wire(source), is_checked, host),
            IpProtocol::Udp => self.dispatch_datagram(bytes, packet, is_checked, host),
            IpProtocol::Icmp | IpProtocol::Icmpv6 => {
                self.handle_icmp(packet, source, host);
                // An answer must fit into one frame, and a broadcast must not cause many answers.
                let is_asked_alone = packet.destination.is_ipv6() || self.routes.is_own(packet.destination);
                if packet.bytes.len() <= self.reply.capacity() && is_asked_alone {
                    self.pass_to_smoltcp(bytes, SmoltcpSocket::None);
                }
            }
            IpProtocol::Igmp => {
                self.start_fast_poll();
                self.pass_to_smoltcp(bytes, SmoltcpSocket::None);
            }
            _ if self.icmp_limiter.take(self.now) => self.pass_to_smoltcp(bytes, SmoltcpSocket::None),
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
            return self.pass_to_smoltcp(bytes, SmoltcpSocket::Dhcp);
        }
        if !self.is_received_here(packet.destination) || self.receive_datagram(packet, is_checked, host) {
            return;
        }
        let is_answer = from == client::PORT;
        let servers = self.config.as_ref().map_or(&[][..], |config| config.dns.servers());
        let target = if is_answer && servers.contains(&packet.source) {
            SmoltcpSocket::Dns
        } else {
            SmoltcpSocket::None
        };
        if target == SmoltcpSocket::Dns {
            self.pass_to_smoltcp(bytes, target);
            self.update_queries(host);
        } else if self.icmp_limiter.take(self.now) {
            self.pass_to_smoltcp(bytes, target);
        }
    }

    /// Passes a frame to smoltcp, and queues its answer.
    fn pass_to_smoltcp(&mut self, bytes: &[u8], target: SmoltcpSocket) {
        let Some(config) = &mut self.config else { return };
        config.receive(self.now, bytes, target, &mut self.reply);
        let answer = &self.reply;
        if !answer.is_empty() && self.outbox.can_transmit(answer.len()) {
            let mut fill = |bytes: &mut [u8]| bytes.copy_from_slice(answer);
            self.outbox.transmit(answer.len(), Offload::default(), &mut fill);
        }
    }

    fn start_fast_poll(&mut self) {
        if let Some(config) = &mut self.config {
            config.start_fast_poll(self.now);
        }
    }

    /// Receives an ARP packet: learns the neighbor's MAC address, and answers requests.
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
        if target.is_loopback() || !self.routes.is_own(target.into()) {
            return;
        }
        self.learn(source.into(), mac);
        self.pass_to_smoltcp(bytes, SmoltcpSocket::None);
        if operation == ArpOperation::Request && self.reply.is_empty() {
            self.answer_arp(target, source, mac);
        }
    }

    /// Answers ARP requests that smoltcp does not answer: from hosts outside of our networks, and address probes (RFC
    /// 5227, section 2.1).
    fn answer_arp(&mut self, target: Ipv4Addr, source: Ipv4Addr, mac: EthernetAddress) {
        let Some(port) = self.interface else { return };
        if mac.is_unicast() && !source.is_multicast() && self.outbox.can_transmit(emit::ARP) {
            let mut fill = |bytes: &mut [u8]| emit::arp_answer(bytes, port.mac, target, mac, source);
            self.outbox.transmit(emit::ARP, Offload::default(), &mut fill);
        }
    }

    /// Updates the MAC address of a neighbor, and sends the packets that waited for it.
    fn learn(&mut self, address: IpAddr, mac: EthernetAddress) {
        let is_beside = self.routes.is_neighbor(address) || self.routes.gateways.contains(&address);
        let is_plausible = mac.is_unicast() && is_unicast(address) && is_beside;
        if !is_plausible || self.routes.is_own(address) || self.routes.is_broadcast(address) {
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

    /// Handles an ICMP message: an error about a sent packet, or neighbor discovery.
    fn handle_icmp(&mut self, packet: &Packet<'_>, from: EthernetAddress, host: &mut dyn Host) {
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
                    error => self.handle_icmp_error(message.data(), error, host),
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let Ok(message) = Icmpv6Packet::new_checked(packet.payload) else { return };
                if !message.verify_checksum(&source, &destination) {
                    return;
                }
                match message.msg_type() {
                    Icmpv6Message::DstUnreachable => {
                        self.handle_icmp_error(message.payload(), unreachable_v6(message.msg_code()), host);
                    }
                    // RFC 4443 §3.2. The upper half of the MTU field is 0: no IPv6 packet is larger than 64 KiB.
                    Icmpv6Message::PktTooBig => {
                        self.shrink_path(message.payload(), packet.payload.get(6..8));
                    }
                    Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert => {
                        self.learn_from_ndisc(packet, from, &message);
                    }
                    Icmpv6Message::MldQuery | Icmpv6Message::RouterAdvert => self.start_fast_poll(),
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
        // A hop limit of 255 proves that the message comes from the link itself (RFC 4861, section 7.1).
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
            // The answer to a unicast solicitation may omit the link-layer address (RFC 4861, section 7.2.4).
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

    /// Handles "fragmentation needed" or "packet too big": reduces the MSS of the connection to the path MTU.
    fn shrink_path(&mut self, sent: &[u8], mtu: Option<&[u8]>) {
        let mtu = mtu.and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes);
        let Some(slot) = self.find_sent(sent) else { return };
        let Some(connection) = self.connection(slot) else { return };
        let remote = connection.tuple.remote.address;
        let least = if remote.is_ipv4() { MIN_PATH_MTU_V4 } else { MIN_MTU_V6 };
        connection.may_be_fragmented |= mtu < least;
        connection.tcp.reduce_mss(Limits::without_headers(mtu.max(least), &remote));
        self.mark(slot);
    }

    /// The connection of a segment that an ICMP error quotes, if its sequence number is in flight: others may be forged
    /// (RFC 5927 §4.1).
    fn find_sent(&mut self, sent: &[u8]) -> Option<u32> {
        let (IpProtocol::Tcp, local, remote) = ends(sent)? else { return None };
        let (.., payload) = quoted(sent)?;
        let seq = Seq(u32::from_be_bytes(payload.get(4..8)?.try_into().ok()?));
        let slot = *self.tcp.connections.get(&Tuple { local, remote })?;
        let is_sent = self.connection(slot)?.tcp.is_in_flight(seq);
        is_sent.then_some(slot)
    }

    /// Handles an ICMP error about a sent packet, of which it quotes the beginning.
    fn handle_icmp_error(&mut self, sent: &[u8], error: Errno, host: &mut dyn Host) {
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

/// Parses the packet quoted in an ICMP error, which may be truncated.
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

/// Protocol, local and remote endpoint of a quoted packet.
fn ends(sent: &[u8]) -> Option<(IpProtocol, Endpoint, Endpoint)> {
    let (protocol, source, destination, payload) = quoted(sent)?;
    let &[a, b, c, d] = payload.first_chunk()?;
    let local = Endpoint::new(source, u16::from_be_bytes([a, b]));
    Some((protocol, local, Endpoint::new(destination, u16::from_be_bytes([c, d]))))
}

/// Errno of an ICMP "destination unreachable" code, as in Linux (RFC 792; RFC 1122, section 3.2.2.1).
const fn unreachable_v4(code: u8) -> Errno {
    match code {
        0 | 6 | 9 | 11 => Errno::ENETUNREACH,
        2 => Errno::ENOPROTOOPT,
        3 => Errno::ECONNREFUSED,
        4 => Errno::EMSGSIZE,
        _ => Errno::EHOSTUNREACH,
    }
}

/// Errno of an `ICMPv6` "destination unreachable" code, as in Linux (RFC 4443, section 3.1).
const fn unreachable_v6(code: u8) -> Errno {
    match code {
        0 | 2 => Errno::ENETUNREACH,
        1 | 5 | 6 => Errno::EACCES,
        4 => Errno::ECONNREFUSED,
        _ => Errno::EHOSTUNREACH,
    }
}
