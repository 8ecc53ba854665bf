//! User-mode network of a guest.
//!
//! The guest's Ethernet frames end here. Their payload goes out through ordinary sockets of the host, and
//! data that the sockets receive becomes frames for the guest. So a guest has a network without root, without
//! a network interface of the host, and without another program. A virtual gateway answers for all addresses
//! except the guest's. DHCP and router advertisements configure the guest.
//!
//! ```text
//!  guest ── frame ──► UserNetwork::transmit ─► parse ─► link, dhcp, icmp: answered here ──┐
//!                                               │                                         ▼
//!                                               └─► tcp, datagrams ─► Host: sockets     queue of frames
//!                                                        ▲                │ events         │
//!  guest ◄── frame ── UserNetwork::receive ◄─────────────┴── handle_event ┘ ◄──────────────┘
//! ```
//!
//! This crate never blocks, and makes no system calls. The implementation of [`Host`] makes them, and moves
//! data between guest memory and sockets without a copy in between. Frames are untrusted. The number of flows
//! and their memory are bounded.
//!
//! Some packets are dropped without an ICMP error: fragments, packets with IPv4 options or IPv6 extension
//! headers, and packets from addresses that no host has. Without fragments, a datagram must fit into one
//! packet of the MTU, in both directions.
//!
//! | module | |
//! | --- | --- |
//! | `host` | sockets, a trait |
//! | `config` | addresses, forwarded ports |
//! | `parse`, `emit` | headers of frames |
//! | `link`, `dhcp`, `icmp` | ARP, neighbor discovery, router advertisements; DHCP; errors |
//! | `tcp` | TCP flows |
//! | `datagrams` | flows of UDP and of ICMP echo |
//! | `signs` | signs that the guest has started |
//! | `slab` | flows by their numbers |
//! | `usage` | resources that a network uses |
//! | `sample` | frames of a guest, for tests |

#![forbid(unsafe_code)]

pub mod config;
mod datagrams;
mod dhcp;
mod emit;
pub mod host;
mod icmp;
mod link;
mod parse;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod signs;
mod slab;
mod tcp;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bitflags::bitflags;
use hermit_tcp::Seq;
use smoltcp::wire::IpProtocol;

use self::config::{Config, PREFIX_V6, is_host};
use self::datagrams::{Datagrams, ECHO, Key};
pub use self::emit::Offload;
use self::host::{Host, Protocol, Token};
use self::icmp::Unreachable;
use self::link::ROUTER_SOLICITATION;
pub use self::parse::MAX_HEADERS;
use self::parse::{Ends, Packet, Parsed};
use self::signs::Signs;
use self::tcp::output::Place;
pub use self::tcp::output::{Limits, Output};
use self::tcp::{Answer, Tcp};
pub use self::usage::Usage;

/// Maximum number of queued frames for the guest that belong to no flow.
const MAX_FRAMES: usize = 256;

/// Maximum size in bytes of a message that the network itself answers. Longer messages are dropped.
const MAX_MESSAGE: usize = 2_048;

/// Time in nanoseconds between two router advertisements: a third of the advertised router lifetime.
const ADVERTISEMENT_INTERVAL: u64 = 6 * 3_600 * 1_000_000_000;

bitflags! {
    /// State of a socket that has changed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Readiness: u8 {
        /// The socket can be read.
        const READABLE = 1 << 0;
        /// The socket can be written to.
        const WRITABLE = 1 << 1;
        /// The peer has ended the stream, or has sent urgent data: the socket must be read to the end.
        const HANG_UP = 1 << 2;
        /// The connection has failed, or both directions have ended.
        const FAILED = 1 << 3;
    }
}

/// Event of the host, by its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The socket of a TCP flow.
    Stream(Token, Readiness),
    /// The socket of a flow of datagrams has a datagram, or an error.
    Datagrams(Token),
    /// The TCP listener of this number has clients.
    Listener(usize),
    /// The forwarded UDP port of this number has datagrams.
    Port(usize),
}

/// Addresses of the guest.
#[derive(Clone, Copy, Debug)]
struct Guest {
    v4: Ipv4Addr,
    v6: Option<Ipv6Addr>,
}

impl Guest {
    /// Returns the guest's address for a client's connection. It has the IP version of the client's address,
    /// unless the guest could not see this address.
    fn address_for(&self, client: IpAddr) -> IpAddr {
        match (client.to_canonical(), self.v6) {
            (IpAddr::V6(client), Some(address)) if !client.is_loopback() => address.into(),
            _ => self.v4.into(),
        }
    }
}

/// User-mode network of a guest.
#[derive(Debug)]
pub struct UserNetwork<H: Host> {
    config: Config,
    guest: Guest,
    signs: Signs,
    limits: Limits,
    /// Frames for the guest that belong to no flow.
    frames: VecDeque<Vec<u8>>,
    tcp: Tcp<H::Stream>,
    datagrams: Datagrams<H::Datagrams>,
    advertise_at: Option<u64>,
    /// True if the next frame is taken from TCP first, false if from the datagrams first.
    is_turn_of_tcp: bool,
}

impl<H: Host> UserNetwork<H> {
    /// Creates a network with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            guest: Guest { v4: config.guest_v4.0, v6: config.guest_v6 },
            signs: Signs::empty(),
            limits: Limits::default(),
            frames: VecDeque::new(),
            tcp: Tcp::new(config.tcp_ports.len()),
            datagrams: Datagrams::new(config.udp_ports.len()),
            advertise_at: None,
            is_turn_of_tcp: false,
            config,
        }
    }

    /// Sets the limits of the guest's driver for frames that it receives.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns true if [`Self::receive`] may return a frame.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.frames.is_empty() || self.tcp.has_output() || self.datagrams.has_output()
    }

    /// Returns true if sockets have not taken all data that the guest has sent.
    #[must_use]
    pub const fn has_unsent(&self) -> bool {
        self.tcp.has_unsent()
    }

    /// Handles a frame of `length` bytes from the guest. `head` is a copy of its first bytes: at least
    /// [`MAX_HEADERS`], unless the frame is shorter.
    pub fn transmit(&mut self, host: &mut H, head: &[u8], frame: &H::Frame<'_>, length: usize) {
        let packet = match parse::frame(head, length, self.config.guest_mac) {
            Some(Parsed::Arp) => return self.transmit_arp(host, head),
            Some(Parsed::Ip(packet)) => packet,
            None => return,
        };
        self.learn(packet.source);
        match packet.protocol {
            IpProtocol::Tcp => self.transmit_tcp(host, &packet, head, frame),
            IpProtocol::Udp => self.transmit_udp(host, &packet, head, frame),
            IpProtocol::Icmp | IpProtocol::Icmpv6 => self.transmit_icmp(host, &packet, head, frame),
            _ => {}
        }
        // Recorded after the packet is handled: the packet may be the answer to a SYN, which is not repeated
        // then.
        self.note(host, Signs::of_source(&self.guest, packet.source));
    }

    /// Records the IPv6 address that the guest has chosen.
    fn learn(&mut self, source: IpAddr) {
        if let IpAddr::V6(address) = source
            && self.config.guest_v6.is_none()
            && address.octets().starts_with(PREFIX_V6.octets().first_chunk::<8>().unwrap_or(&[0; 8]))
        {
            self.guest.v6 = Some(address);
        }
    }

    /// Records signs that the guest has started.
    fn note(&mut self, host: &H, signs: Signs) {
        if !self.signs.contains(signs) {
            self.signs |= signs;
            self.tcp.expect_answers(host.now());
        }
    }

    fn transmit_arp(&mut self, host: &H, head: &[u8]) {
        let Some(packet) = link::arp(head) else { return };
        if link::is_from_guest(&self.config, &packet) {
            self.note(host, Signs::ARP);
        }
        self.push(link::answer_arp(&self.config, &packet));
    }

    fn transmit_tcp(&mut self, host: &mut H, packet: &Packet, head: &[u8], frame: &H::Frame<'_>) {
        // A segment to a multicast or broadcast address is not answered (RFC 9293 §3.9.2.3).
        let segment = packet.segment(head).filter(|_| is_host(packet.source) && is_host(packet.destination));
        let Some(segment) = segment else { return };
        let mut answer = self.tcp.transmit(host, (&self.config, &self.guest), &segment, frame);
        if matches!(answer, Answer::Exhausted(_)) && self.datagrams.free_socket() {
            answer = self.tcp.transmit(host, (&self.config, &self.guest), &segment, frame);
        }
        let start = head.get(packet.payload.start..).unwrap_or_default();
        self.answer(answer, segment.ends, (start, packet.payload.len()));
        self.accept(host);
    }

    fn transmit_udp(&mut self, host: &mut H, packet: &Packet, head: &[u8], frame: &H::Frame<'_>) {
        let Some((ends, data)) = packet.datagram(head) else { return };
        if dhcp::is_server(ends.peer, &self.config) {
            if self.config.has_servers {
                self.transmit_dhcp(host, frame, data);
            }
            return;
        }
        if !is_host(packet.source) {
            return;
        }
        let key = Key { protocol: Protocol::Udp, ends };
        let refused = self.datagrams.transmit(host, &self.config, key, (frame, data));
        self.refuse(refused, ends, packet, head);
    }

    fn transmit_dhcp(&mut self, host: &mut H, frame: &H::Frame<'_>, data: std::ops::Range<usize>) {
        let answer = copy(host, frame, data).and_then(|message| dhcp::answer(&self.config, &message));
        let Some(dhcp::Answer { frame, is_lease }) = answer else { return };
        self.push(Some(frame));
        if is_lease {
            self.note(host, Signs::LEASE);
        }
    }

    fn transmit_icmp(&mut self, host: &mut H, packet: &Packet, head: &[u8], frame: &H::Frame<'_>) {
        let gateway = self.config.gateway(packet.destination);
        let is_outside = match packet.destination {
            IpAddr::V4(_) => packet.destination != gateway,
            // Neighbor discovery belongs to the link.
            IpAddr::V6(address) => {
                packet.destination != gateway && !address.is_multicast() && !address.is_unicast_link_local()
            }
        };
        let header = head.get(packet.payload.start..).and_then(|rest| rest.first_chunk());
        let Some(&[kind, code, _, _, a, b, _, _]) = header.filter(|_| packet.payload.len() >= ECHO) else {
            return;
        };
        // Only a router solicitation may come from a guest without an address.
        if !is_host(packet.source) && kind != ROUTER_SOLICITATION {
            return;
        }
        let is_echo = code == 0 && kind == if packet.source.is_ipv4() { 8 } else { 128 };
        if !(is_outside && is_echo) {
            let Some(message) = copy(host, frame, packet.payload.clone()) else { return };
            let answer = match packet.source {
                IpAddr::V4(_) if packet.destination == gateway => {
                    link::answer_icmp_v4(&self.config, packet, &message)
                }
                IpAddr::V4(_) => None,
                IpAddr::V6(_) => link::answer_icmp_v6(&self.config, packet, &message),
            };
            if packet.source.is_ipv6() && kind == ROUTER_SOLICITATION && self.config.has_servers {
                self.advertise_at.get_or_insert(host.now() + ADVERTISEMENT_INTERVAL);
            }
            if packet.source.is_ipv6() {
                self.note(host, Signs::of_message(kind));
            }
            return self.push(answer);
        }
        let ident = u16::from_be_bytes([a, b]);
        let (guest, peer) = (SocketAddr::new(packet.source, ident), SocketAddr::new(packet.destination, 0));
        let key = Key { protocol: Protocol::Echo, ends: Ends { guest, peer } };
        let refused = self.datagrams.transmit(host, &self.config, key, (frame, packet.payload.clone()));
        self.refuse(refused, key.ends, packet, head);
    }

    /// Sends the guest an ICMP error with `reason` about its packet; does nothing if there is no reason.
    fn refuse(&mut self, reason: Option<Unreachable>, ends: Ends, packet: &Packet, head: &[u8]) {
        let Some(reason) = reason else { return };
        let start = head.get(packet.payload.start..).unwrap_or_default();
        self.push(icmp::unreachable(
            &self.config,
            reason,
            ends,
            packet.protocol,
            (start, packet.payload.len()),
        ));
    }

    /// Sends the answer to a segment of the guest. `segment` has the first bytes and the length of the
    /// segment.
    fn answer(&mut self, answer: Answer, ends: Ends, segment: (&[u8], usize)) {
        match answer {
            Answer::Silence => {}
            Answer::Segment(frame) | Answer::Exhausted(frame) => self.push(Some(frame)),
            Answer::Unreachable(reason) => {
                self.push(icmp::unreachable(&self.config, reason, ends, IpProtocol::Tcp, segment));
            }
        }
    }

    /// Queues a frame for the guest, if there is room. Drops a frame that exceeds the MTU, because the answer
    /// to an oversized packet of the guest may be as large.
    fn push(&mut self, frame: Option<Vec<u8>>) {
        let max = parse::ETHERNET + usize::from(self.config.mtu);
        self.frames.extend(frame.filter(|frame| self.frames.len() < MAX_FRAMES && frame.len() <= max));
    }

    /// Accepts waiting clients. If descriptors are exhausted, ends flows of datagrams to free some.
    fn accept(&mut self, host: &mut H) {
        let mut flows_before = usize::MAX;
        // Stops when a freed descriptor has not led to a new flow.
        while self.tcp.accept(host, &self.config, &self.guest) && self.tcp.len() != flows_before {
            flows_before = self.tcp.len();
            if !self.datagrams.free_socket() {
                return;
            }
        }
    }

    /// Handles an event of the host.
    pub fn handle_event(&mut self, host: &mut H, event: Event) {
        match event {
            Event::Stream(token, readiness) => {
                let (answer, syn) =
                    self.tcp.handle_event(host, (&self.config, &self.guest), token, readiness);
                if let Some((ends, seq)) = syn {
                    self.answer(answer, ends, (&start_of_syn(ends, seq), parse::TCP));
                }
            }
            Event::Datagrams(token) => self.datagrams.note(token),
            Event::Listener(listener) => self.tcp.note_clients(listener),
            Event::Port(port) => self.datagrams.note_port(port),
        }
        self.accept(host);
    }

    /// Returns the time in nanoseconds at which [`Self::handle_timers`] must be called; `None` if no timer is
    /// set.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        [self.tcp.deadline(), self.datagrams.deadline(), self.advertise_at].into_iter().flatten().min()
    }

    /// Handles the timers that have expired.
    pub fn handle_timers(&mut self, host: &mut H) {
        let now = host.now();
        self.datagrams.handle_timer(now);
        for answer in self.tcp.handle_timers(host, (&self.config, &self.guest)) {
            self.push(answer.into_frame());
        }
        self.accept(host);
        if self.advertise_at.is_some_and(|at| at <= now) {
            self.advertise_at = Some(now + ADVERTISEMENT_INTERVAL);
            self.push(link::advertisement(&self.config));
        }
    }

    /// Writes the next frame for the guest. First clears `head`, and writes the frame's first bytes there.
    /// Writes the other bytes to `space`, at the offset where the bytes of `head` end in the frame. Returns
    /// `None` if there is no frame.
    pub fn receive(&mut self, host: &mut H, head: &mut Vec<u8>, space: &mut H::Space<'_>) -> Option<Output> {
        loop {
            head.clear();
            if let Some(frame) = self.frames.pop_front() {
                head.extend_from_slice(&frame);
                return Some(Output::default());
            }
            let mut place = Place { head, space, limits: self.limits };
            // TCP and datagrams take turns, so that neither starves the other.
            self.is_turn_of_tcp = !self.is_turn_of_tcp;
            let is_datagram = self.datagrams.has_output() && (self.is_turn_of_tcp || !self.tcp.has_output());
            let result = if is_datagram {
                self.datagrams.next_datagram(host, (&self.config, &self.guest), &mut place).map_err(Some)
            } else {
                let next = self.tcp.next_segment(host, (&self.config, &self.guest), &mut place);
                next.map_err(Answer::into_frame)
            };
            match result {
                Ok(None) if self.has_output() => {}
                Ok(output) => return output,
                Err(frame) => self.push(frame),
            }
        }
    }
}

/// Returns the first bytes of the guest's SYN for the quotation in an ICMP error. They include the sequence
/// number, because the guest checks it (RFC 5927 §4.1).
fn start_of_syn(ends: Ends, seq: Seq) -> [u8; 8] {
    let [a, b] = ends.guest.port().to_be_bytes();
    let [c, d] = ends.peer.port().to_be_bytes();
    let [e, f, g, h] = seq.0.to_be_bytes();
    [a, b, c, d, e, f, g, h]
}

/// Copies a message that the network itself answers. Returns `None` if the message is too long.
fn copy<H: Host>(host: &mut H, frame: &H::Frame<'_>, part: std::ops::Range<usize>) -> Option<Vec<u8>> {
    if part.len() > MAX_MESSAGE {
        return None;
    }
    let mut bytes = Vec::with_capacity(part.len());
    host.copy(frame, part, &mut bytes);
    Some(bytes)
}
