//! Frames of the guest, as the input describes them.
//!
//! Each function takes a few bytes of the input, and sends one or a few frames. The bytes are indices into
//! tables of addresses, flags, lengths and windows. Valid values are frequent in these tables, so most frames
//! pass the first checks, and a short input reaches many states.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hermit_usernet::sample::{MAC, packet_frame, udp_frame, write_ethernet};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress,
    EthernetProtocol, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, NdiscNeighborFlags,
    NdiscRepr,
};

use super::guest::{ACK, FIN, RST, SYN, Segment};
use super::{World, is_host};

/// Source addresses: the guest's own addresses, spoofed addresses, and addresses that no host has.
const SOURCES_V4: [&str; 8] = [
    "10.0.2.15",
    "10.0.2.15",
    "10.0.2.15",
    "192.168.7.7",
    "0.0.0.0",
    "224.0.0.5",
    "255.255.255.255",
    "127.0.0.1",
];
const SOURCES_V6: [&str; 6] =
    ["fd00:10:0:2::15", "fd00:10:0:2::15", "fe80::15", "2001:db8::99", "::", "ff02::5"];

/// Addresses to which the guest sends.
const TARGETS: [&str; 16] = [
    "192.0.2.1:80",
    "192.0.2.2:53",
    "10.0.2.2:80",
    "10.0.2.3:53",
    "[2001:db8::1]:80",
    "[2001:db8::1]:53",
    "[fd00:10:0:2::2]:80",
    "198.51.100.7:1000",
    "10.0.2.2:1000",
    "255.255.255.255:67",
    "224.0.0.251:5353",
    "[ff02::1]:5353",
    "[fe80::2]:80",
    "127.0.0.1:80",
    "0.0.0.0:0",
    "[::]:0",
];

/// Flags of segments, the frequent ones first.
const FLAGS: [u8; 16] = [
    ACK,
    ACK,
    ACK,
    ACK,
    ACK | 8,
    ACK | FIN,
    ACK | FIN,
    RST,
    RST | ACK,
    SYN,
    SYN | ACK,
    SYN | ACK,
    FIN,
    SYN | FIN,
    0,
    0xff,
];

/// Numbers of bytes of data of a segment.
const LENGTHS: [usize; 8] = [0, 0, 1, 10, 1_000, 1_460, 8_000, 20_000];

/// Offsets that are added to the correct sequence numbers of a segment.
const OFFSETS: [u32; 8] = [0, 0, 0, 1, u32::MAX, 500, 0_u32.wrapping_sub(500), 0x8000_0000];

/// Windows.
const WINDOWS: [u16; 8] = [60_000, 60_000, 60_000, 65_535, 0, 1, 100, 1_000];

fn source(of: IpAddr, which: u8) -> IpAddr {
    let which = usize::from(which);
    let text = if of.is_ipv4() {
        SOURCES_V4[which % SOURCES_V4.len()]
    } else {
        SOURCES_V6[which % SOURCES_V6.len()]
    };
    text.parse().expect("an address")
}

fn target(which: u8) -> SocketAddr {
    TARGETS[usize::from(which) % TARGETS.len()].parse().expect("an address")
}

impl World {
    /// Records an address from which the guest sends, because answers may go there.
    fn note_source(&mut self, address: IpAddr) {
        if is_host(address) {
            self.rules.addresses.insert(address);
        }
    }

    /// Sends an IP packet.
    fn send_packet(&mut self, from: IpAddr, to: IpAddr, protocol: IpProtocol, payload: &[u8]) {
        self.note_source(from);
        self.send(packet_frame(from, to, protocol, payload));
    }

    /// Sends a segment of an existing connection.
    pub(super) fn send_segment(&mut self, [which, flags, shape, window]: [u8; 4]) {
        let at = usize::from(which) % self.guest.connections.len().max(1);
        let Some(connection) = self.guest.connections.get_mut(at) else { return };
        let flags = FLAGS[usize::from(flags % 16)];
        let is_syn = flags & SYN != 0;
        let length = LENGTHS[usize::from(window >> 3 & 7)];
        let offset = |number: u8| OFFSETS[usize::from(number & 7)];
        // A SYN always has the initial sequence number, so that each sequence number always has the same
        // byte.
        let seq = if is_syn { self.guest.iss } else { connection.next.wrapping_add(offset(shape)) };
        let ack = connection.received.wrapping_add(offset(shape >> 3));
        let control = u32::from(is_syn) + u32::from(flags & FIN != 0);
        let end = seq.wrapping_add(u32::try_from(length).unwrap_or(0)).wrapping_add(control);
        if is_syn || seq == connection.next {
            connection.next = end;
        }
        let options = is_syn.then_some((1_460, shape >> 4));
        let window = WINDOWS[usize::from(window & 7)];
        let segment = Segment { ends: connection.ends, seq, ack, flags, window, options, length };
        self.note_source(segment.ends.0.ip());
        self.send(segment.frame());
    }

    /// Opens a connection.
    pub(super) fn open(&mut self, [which, port, options]: [u8; 3]) {
        let to = target(which);
        let from = SocketAddr::new(source(to.ip(), which >> 4), 4_000 + u16::from(port % 4));
        let at = self.guest.connection((from, to));
        self.guest.connections[at].next = self.guest.iss.wrapping_add(1);
        self.note_source(from.ip());
        let options = match options {
            0x80.. => None,
            0x40.. => Some((u16::from(options), options & 15)),
            _ => Some((1_460, 7)),
        };
        let (seq, window) = (self.guest.iss, 60_000);
        let segment = Segment { ends: (from, to), seq, ack: 0, flags: SYN, window, options, length: 0 };
        self.send(segment.frame());
    }

    /// Sends a UDP datagram.
    pub(super) fn send_datagram(&mut self, [which, port, length]: [u8; 3]) {
        let to = target(which);
        let from = [0, 53, 123, 68, 4_000, 4_001, 4_002, 4_003][usize::from(port % 8)];
        self.send_udp(
            SocketAddr::new(source(to.ip(), which >> 4), from),
            to,
            &vec![9; usize::from(length) * 16],
        );
    }

    fn send_udp(&mut self, from: SocketAddr, to: SocketAddr, data: &[u8]) {
        self.note_source(from.ip());
        self.send(udp_frame(from, to, data));
    }

    /// Sends an echo request.
    pub(super) fn send_echo(&mut self, [which, ident, length]: [u8; 3]) {
        let to = target(which).ip();
        let from = source(to, which >> 4);
        let (ident, seq_no, data) = (ident.into(), 1, &vec![9; usize::from(length) * 16][..]);
        let capabilities = ChecksumCapabilities::ignored();
        let mut bytes = vec![0; 8 + data.len()];
        let protocol = match (from, to) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let repr = Icmpv6Repr::EchoRequest { ident, seq_no, data };
                repr.emit(&from, &to, &mut Icmpv6Packet::new_unchecked(&mut bytes), &capabilities);
                IpProtocol::Icmpv6
            }
            _ => {
                let repr = Icmpv4Repr::EchoRequest { ident, seq_no, data };
                repr.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &capabilities);
                IpProtocol::Icmp
            }
        };
        self.send_packet(from, to, protocol, &bytes);
    }

    /// Sends an ARP packet.
    pub(super) fn send_arp(&mut self, [which]: [u8; 1]) {
        let ip = |which: u8| match source(Ipv4Addr::UNSPECIFIED.into(), which) {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let repr = ArpRepr::EthernetIpv4 {
            operation: if which & 0x80 == 0 { ArpOperation::Request } else { ArpOperation::Reply },
            source_hardware_addr: EthernetAddress(MAC),
            source_protocol_addr: ip(which),
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: ip(which >> 3),
        };
        let mut bytes = vec![0; 14 + repr.buffer_len()];
        write_ethernet(&mut bytes, EthernetProtocol::Arp);
        repr.emit(&mut ArpPacket::new_unchecked(&mut bytes[14..]));
        self.send(bytes);
    }

    /// Sends a message of DHCP.
    pub(super) fn send_dhcp(&mut self, [which]: [u8; 1]) {
        let own = Ipv4Addr::new(10, 0, 2, 15);
        let wanted = [None, Some(own), Some(Ipv4Addr::new(10, 0, 2, 99))][usize::from(which >> 4) % 3];
        let repr = DhcpRepr {
            message_type: DhcpMessageType::from(1 + which % 8),
            transaction_id: 77,
            secs: 0,
            client_hardware_address: EthernetAddress(MAC),
            client_ip: if which & 8 == 0 { Ipv4Addr::UNSPECIFIED } else { own },
            your_ip: Ipv4Addr::UNSPECIFIED,
            server_ip: Ipv4Addr::UNSPECIFIED,
            router: None,
            subnet_mask: None,
            relay_agent_ip: Ipv4Addr::UNSPECIFIED,
            broadcast: which & 0x80 != 0,
            requested_ip: wanted,
            client_identifier: None,
            server_identifier: None,
            parameter_request_list: None,
            dns_servers: None,
            max_size: None,
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).expect("there is room");
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 68));
        self.send_udp(unspecified, SocketAddr::from((Ipv4Addr::BROADCAST, 67)), &bytes);
    }

    /// Sends a message of neighbor discovery.
    pub(super) fn send_neighbor_discovery(&mut self, [which, target]: [u8; 2]) {
        let address = |which: u8| match source(Ipv6Addr::UNSPECIFIED.into(), which) {
            IpAddr::V6(ip) => ip,
            IpAddr::V4(_) => Ipv6Addr::UNSPECIFIED,
        };
        let (from, target_addr) = (address(which), address(target));
        let groups = [[0xff02, 0, 0, 0, 0, 0, 0, 1].into(), [0xff02, 0, 0, 0, 0, 0, 0, 2].into()];
        let to = if which & 0x40 == 0 { groups[usize::from(which >> 7)] } else { address(target >> 4) };
        let message = match which >> 3 & 3 {
            0 => NdiscRepr::RouterSolicit { lladdr: None },
            1 => NdiscRepr::NeighborAdvert { flags: NdiscNeighborFlags::OVERRIDE, target_addr, lladdr: None },
            _ => NdiscRepr::NeighborSolicit { target_addr, lladdr: None },
        };
        let repr = Icmpv6Repr::Ndisc(message);
        let mut bytes = vec![0; repr.buffer_len()];
        let capabilities = ChecksumCapabilities::default();
        repr.emit(&from, &to, &mut Icmpv6Packet::new_unchecked(&mut bytes), &capabilities);
        self.send_packet(from.into(), to.into(), IpProtocol::Icmpv6, &bytes);
    }

    /// Sends an IP packet with these bytes.
    pub(super) fn send_raw(&mut self, kind: u8, protocol: u8, payload: &[u8]) {
        let to = target(kind).ip();
        let protocol = [6, 17, 1, 58, 44, 0, 2, protocol][usize::from(protocol % 8)];
        self.host.has_content &= protocol != 6;
        self.send_packet(source(to, kind >> 4), to, protocol.into(), payload);
    }

    /// Sends the last frame again, with one byte changed, and truncated.
    pub(super) fn repeat_changed(&mut self, [at, value, cut]: [u8; 3]) {
        let mut frame = self.last_frame.clone();
        if let Some(byte) = frame.get_mut(usize::from(at)) {
            *byte ^= value;
        }
        let is_tcp = frame.get(23) == Some(&6) || frame.get(20) == Some(&6);
        self.host.has_content &= !is_tcp;
        if let Some(&[a, b, c, d]) = frame.get(26..).and_then(|rest| rest.first_chunk()) {
            self.note_source(Ipv4Addr::new(a, b, c, d).into());
        }
        if let Some(address) = frame.get(22..).and_then(|rest| rest.first_chunk::<16>()) {
            self.note_source(Ipv6Addr::from(*address).into());
        }
        frame.truncate(frame.len().saturating_sub(if cut & 3 == 0 { 0 } else { usize::from(cut >> 2) }));
        self.send(frame);
    }

    /// Sends many frames that each begin a new flow, or many ARP requests, which are cheap. Has an effect
    /// only once, so that a run stays short.
    pub(super) fn flood(&mut self, [which, count]: [u8; 2]) {
        let to = target(which);
        let max = if which >> 4 & 3 == 2 { 300 } else { 40 };
        let count = if mem::replace(&mut self.has_flooded, true) { 0 } else { usize::from(count) * 2 };
        for port in (10_000..).take(count.min(max)) {
            let from = SocketAddr::new(source(to.ip(), 0), port);
            match which >> 4 & 3 {
                0 => {
                    let (seq, options) = (self.guest.iss, Some((1_460, 7)));
                    let (ack, flags, window, length) = (0, SYN, 60_000, 0);
                    self.note_source(from.ip());
                    self.send(Segment { ends: (from, to), seq, ack, flags, window, options, length }.frame());
                }
                1 => self.send_udp(from, to, b"x"),
                2 => self.send_arp([0x18]),
                _ => self.send_echo([which & 15, u8::try_from(port % 251).unwrap_or(0), 1]),
            }
        }
    }
}
