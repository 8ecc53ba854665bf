//! The guest: the frames that it sends, and as much state of its TCP connections as it needs for valid
//! segments.

use std::net::SocketAddr;

use hermit_usernet::sample::TcpSegment;

use super::checks::Received;
use super::host::byte;

/// Maximum number of connections that the guest knows.
const MAX_CONNECTIONS: usize = 16;

/// Flags of TCP (RFC 9293 §3.1).
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// A TCP segment of the guest's.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    /// Maximum segment size and window scale.
    pub(super) options: Option<(u16, u8)>,
    pub(super) length: usize,
}

impl Segment {
    /// Returns the frame of the segment. Its sequence numbers determine the data.
    pub(super) fn frame(&self) -> Vec<u8> {
        let first = self.seq.wrapping_add(u32::from(self.flags & SYN != 0));
        let data: Vec<u8> = (0..self.length).zip(0..).map(|(_, at)| byte(first.wrapping_add(at))).collect();
        let &Self { ends, seq, ack, flags, window, options, .. } = self;
        TcpSegment { ends, seq, ack, flags, window, options, data: &data }.frame()
    }
}

/// A connection, as far as the guest knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// The guest's end, and the peer's.
    pub(super) ends: (SocketAddr, SocketAddr),
    /// SND.NXT and RCV.NXT.
    pub(super) next: u32,
    pub(super) received: u32,
    /// Sequence number of the network's SYN, once it was received.
    peer_iss: Option<u32>,
}

/// The connections of the guest. All have the same initial number, `iss`.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) iss: u32,
    pub(super) connections: Vec<Connection>,
}

impl Guest {
    /// Returns the position of the connection with these ends, which may be new.
    pub(super) fn connection(&mut self, ends: (SocketAddr, SocketAddr)) -> usize {
        if let Some(at) = self.connections.iter().position(|connection| connection.ends == ends) {
            return at;
        }
        if self.connections.len() == MAX_CONNECTIONS {
            self.connections.remove(0);
        }
        self.connections.push(Connection { ends, next: self.iss, received: 0, peer_iss: None });
        self.connections.len() - 1
    }

    /// Updates the connection from a segment of the network, and checks its data if `has_content`.
    pub(super) fn receive(&mut self, segment: &Received<'_>, has_content: bool) {
        let is_syn = segment.flags & SYN != 0;
        let ends = (segment.to, segment.from);
        let is_known = self.connections.iter().any(|connection| connection.ends == ends);
        if !is_known && !is_syn {
            return;
        }
        let at = self.connection(ends);
        let connection = &mut self.connections[at];
        if is_syn {
            connection.peer_iss = Some(segment.seq);
            connection.received = segment.seq.wrapping_add(1);
        }
        let start = connection.peer_iss.map(|iss| segment.seq.wrapping_sub(iss).wrapping_sub(1));
        if let Some(start) = start.filter(|_| has_content) {
            let is_right = (0..).zip(segment.data).all(|(at, found)| *found == byte(start.wrapping_add(at)));
            assert!(is_right, "the guest receives other bytes at {start}");
        }
        if segment.seq == connection.received && !is_syn {
            let length = u32::try_from(segment.data.len()).expect("a frame is small");
            let end = segment.seq.wrapping_add(length);
            connection.received = end.wrapping_add(u32::from(segment.flags & FIN != 0));
        }
        if segment.flags & (ACK | RST) == ACK {
            connection.next = segment.ack;
        }
    }
}
