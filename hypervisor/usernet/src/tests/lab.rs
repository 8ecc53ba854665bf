//! A network, its host, and the guest's end of the link.
//!
//! [`Lab`] builds frames of the guest from short descriptions ([`Sent`]), and decodes frames for the guest
//! ([`Received`]). It checks that each of them is valid.

use std::net::{IpAddr, SocketAddr};

use hermit_tcp::{Flags, Seq};
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet, TcpOption, TcpPacket,
};

use super::fake_host::FakeHost;
use crate::config::{Config, GATEWAY_MAC};
use crate::host::Token;
use crate::sample::{self, MAC, TcpSegment};
use crate::tests::fake_host::Socket;
use crate::{Event, Limits, MAX_HEADERS, Readiness, UserNetwork};

pub(super) const GUEST: &str = "10.0.2.15";

/// Time in nanoseconds after which all delayed frames are sent.
pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) struct Lab {
    pub(super) host: FakeHost,
    pub(super) network: UserNetwork<FakeHost>,
}

/// TCP segment for the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
    pub(super) data: Vec<u8>,
}

/// TCP segment of the guest's.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) scale: Option<u8>,
    pub(super) data: Vec<u8>,
}

impl Sent {
    pub(super) fn new(from: &str, to: &str) -> Self {
        let at = |text: &str| text.parse().unwrap();
        let (seq, ack, flags) = (0, 0, Flags::empty());
        Self { from: at(from), to: at(to), seq, ack, flags, window: 60_000, scale: None, data: Vec::new() }
    }

    pub(super) fn frame(&self) -> Vec<u8> {
        let segment = TcpSegment {
            ends: (self.from, self.to),
            seq: self.seq,
            ack: self.ack,
            flags: self.flags.bits(),
            window: self.window,
            options: self.scale.map(|scale| (1_460, scale)),
            data: &self.data,
        };
        segment.frame()
    }
}

/// Frame of the guest's with a UDP datagram.
pub(super) fn udp_frame(from: &str, to: &str, data: &[u8]) -> Vec<u8> {
    sample::udp_frame(from.parse().unwrap(), to.parse().unwrap(), data)
}

impl Lab {
    pub(super) fn new(edit: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(MAC, 1500);
        edit(&mut config);
        let mut host = FakeHost::new();
        host.clients = config.tcp_ports.iter().map(|_| Default::default()).collect();
        host.port_received = config.udp_ports.iter().map(|_| Default::default()).collect();
        let mut network = UserNetwork::new(config);
        network.set_limits(Limits { max_frame: 65_549, has_large_segments: (true, true) });
        Self { host, network }
    }

    pub(super) fn send_frame(&mut self, frame: &[u8]) {
        let head = &frame[..frame.len().min(MAX_HEADERS)];
        self.network.transmit(&mut self.host, head, &frame, frame.len());
    }

    pub(super) fn send(&mut self, segment: &Sent) {
        self.send_frame(&segment.frame());
    }

    /// Returns the next frame for the guest, with headers and data in one buffer and a complete checksum.
    pub(super) fn frame(&mut self) -> Option<Vec<u8>> {
        let (mut head, mut bytes) = (Vec::new(), vec![0; 70_000]);
        let output = self.network.receive(&mut self.host, &mut head, &mut &mut bytes[..])?;
        bytes.truncate(head.len() + output.data);
        bytes[..head.len()].copy_from_slice(&head);
        output.offload.complete(&mut bytes);
        Some(bytes)
    }

    /// Returns the IP packet in the next frame for the guest: addresses, protocol and payload.
    pub(super) fn packet(&mut self) -> Option<(IpAddr, IpAddr, IpProtocol, Vec<u8>)> {
        let frame = self.frame()?;
        let ethernet = EthernetFrame::new_checked(&frame[..]).unwrap();
        assert_eq!((ethernet.src_addr().0, ethernet.dst_addr().0), (GATEWAY_MAC, MAC));
        let bytes = ethernet.payload();
        Some(match ethernet.ethertype() {
            EthernetProtocol::Ipv4 => {
                let packet = Ipv4Packet::new_checked(bytes).unwrap();
                assert!(packet.verify_checksum() && usize::from(packet.total_len()) == bytes.len());
                let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
                (from, to, packet.next_header(), packet.payload().to_vec())
            }
            EthernetProtocol::Ipv6 => {
                let packet = Ipv6Packet::new_checked(bytes).unwrap();
                assert_eq!(packet.total_len(), bytes.len());
                let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
                (from, to, packet.next_header(), packet.payload().to_vec())
            }
            other => panic!("{other:?}"),
        })
    }

    /// Returns the next segment for the guest.
    pub(super) fn segment(&mut self) -> Option<Received> {
        let (from, to, protocol, payload) = self.packet()?;
        assert_eq!(protocol, IpProtocol::Tcp);
        let packet = TcpPacket::new_checked(&payload[..]).unwrap();
        assert!(packet.verify_checksum(&IpAddress::from(from), &IpAddress::from(to)));
        let (mut mss, mut scale, mut options) = (None, None, packet.options());
        while let Ok((rest, option)) = TcpOption::parse(options) {
            match option {
                TcpOption::MaxSegmentSize(size) => mss = Some(size),
                TcpOption::WindowScale(shift) => scale = Some(shift),
                TcpOption::EndOfList => break,
                _ => {}
            }
            options = rest;
        }
        Some(Received {
            from: SocketAddr::new(from, packet.src_port()),
            to: SocketAddr::new(to, packet.dst_port()),
            seq: packet.seq_number().0.cast_unsigned(),
            ack: packet.ack_number().0.cast_unsigned(),
            flags: Flags::from_bits_retain(payload[13]),
            window: packet.window_len(),
            mss,
            scale,
            data: packet.payload().to_vec(),
        })
    }

    /// Lets delayed acknowledgements become due, and returns the next segment for the guest.
    pub(super) fn late_segment(&mut self) -> Option<Received> {
        self.pass(SECOND / 100);
        self.segment()
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: u64) {
        self.host.now += time;
        if self.network.deadline().is_some_and(|at| at <= self.host.now) {
            self.network.handle_timers(&mut self.host);
        }
    }

    pub(super) fn event(&mut self, socket: usize, readiness: Readiness) {
        let token = Token::from(self.host.sockets[socket].borrow().token);
        self.network.handle_event(&mut self.host, Event::Stream(token, readiness));
    }

    /// Changes a socket.
    pub(super) fn socket<T>(&self, socket: usize, action: impl FnOnce(&mut Socket) -> T) -> T {
        action(&mut self.host.sockets[socket].borrow_mut())
    }

    /// Bytes arrive at a socket.
    pub(super) fn arrive(&mut self, socket: usize, bytes: &[u8]) {
        self.socket(socket, |socket| socket.received.extend(bytes));
        self.event(socket, Readiness::READABLE);
    }

    /// The peer of a socket ends its stream.
    pub(super) fn hang_up(&mut self, socket: usize) {
        self.socket(socket, |socket| socket.has_ended = true);
        self.event(socket, Readiness::READABLE | Readiness::HANG_UP);
    }

    /// The guest connects to a peer. Returns the guest's next segment, an acknowledgement.
    pub(super) fn connect(&mut self, from: &str, to: &str) -> Sent {
        let socket = self.host.sockets.len();
        let mut segment = Sent { seq: 1_000, flags: Flags::SYN, scale: Some(7), ..Sent::new(from, to) };
        self.send(&segment);
        assert!(self.segment().is_none());
        self.event(socket, Readiness::WRITABLE);
        let answer = self.segment().unwrap();
        assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, 1_001));
        segment =
            Sent { seq: 1_001, ack: answer.seq.wrapping_add(1), flags: Flags::ACK, scale: None, ..segment };
        self.send(&segment);
        assert!(self.segment().is_none());
        segment
    }

    /// A client connects to the listener of number 0. Returns the SYN for the guest.
    pub(super) fn client(&mut self, from: &str) -> Option<Received> {
        self.host.clients[0].push_back(from.parse().unwrap());
        self.network.handle_event(&mut self.host, Event::Listener(0));
        self.segment()
    }
}

/// The answer of a guest's listener to a SYN.
pub(super) fn answer(syn: &Received) -> Sent {
    let (from, to) = (syn.to.to_string(), syn.from.to_string());
    let flags = Flags::SYN | Flags::ACK;
    Sent { seq: 5_000, ack: (Seq(syn.seq) + 1).0, flags, scale: Some(7), ..Sent::new(&from, &to) }
}
