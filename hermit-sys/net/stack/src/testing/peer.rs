//! A simulated TCP peer that sends arbitrary segments.

use crate::SocketId;
use crate::testing::{MILLISECOND, World, header, mac};
use core::net::SocketAddr;
use core::ops::Range;
use smoltcp::wire::{IpProtocol, TcpPacket, TcpSeqNumber};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;

/// Payload size in bytes of a full segment.
pub(crate) const SEGMENT: usize = 1408;

/// Options of a SYN: MSS 1408, window scale 7.
pub(crate) const OPTIONS: [u8; 8] = [2, 4, 0x05, 0x80, 1, 3, 3, 7];

/// A simulated peer.
pub(crate) struct Peer {
    /// Number of the peer's destination host.
    pub(crate) node: usize,
    /// Address of the peer, and address of the host.
    pub(crate) ends: (SocketAddr, SocketAddr),
    /// Sequence number of the peer's first byte.
    pub(crate) first: TcpSeqNumber,
    pub(crate) acknowledged: TcpSeqNumber,
    pub(crate) window: u16,
}

impl Peer {
    /// Replaces the peer of a connection.
    pub(crate) fn of(world: &mut World, node: usize, socket: SocketId) -> Self {
        let ends = (world.nodes[node].remote(socket).unwrap(), world.nodes[node].local(socket).unwrap());
        let slot = world.nodes[node].layers.tcp.slot(socket.key()).unwrap();
        let (acknowledged, first) = world.nodes[node].layers.tcp.connection(slot).unwrap().numbers();
        Self { node, ends, first, acknowledged, window: 0x2000 }
    }

    /// Sends a segment.
    pub(crate) fn send(
        &self,
        world: &mut World,
        flags: u8,
        number: TcpSeqNumber,
        (options, data): (&[u8], &[u8]),
    ) {
        self.send_to(world, mac(self.node), flags, number, (options, data));
    }

    /// Sends a segment in a frame to a MAC address.
    pub(crate) fn send_to(
        &self,
        world: &mut World,
        ethernet: [u8; 6],
        flags: u8,
        number: TcpSeqNumber,
        (options, data): (&[u8], &[u8]),
    ) {
        let (from, to) = self.ends;
        let (source, destination) = (from.ip().to_canonical(), to.ip().to_canonical());
        let size = 20 + options.len();
        let packet = header(source, destination, IpProtocol::Tcp, size + data.len());
        world.inject(1 - self.node, ethernet, packet, |segment| {
            segment.fill(0);
            segment[20..size].copy_from_slice(options);
            segment[size..].copy_from_slice(data);
            segment[0..2].copy_from_slice(&from.port().to_be_bytes());
            segment[2..4].copy_from_slice(&to.port().to_be_bytes());
            segment[4..8].copy_from_slice(&number.0.to_be_bytes());
            segment[8..12].copy_from_slice(&self.acknowledged.0.to_be_bytes());
            segment[12] = u8::try_from(size * 4).unwrap();
            segment[13] = flags;
            segment[14..16].copy_from_slice(&self.window.to_be_bytes());
            TcpPacket::new_unchecked(segment).fill_checksum(&source.into(), &destination.into());
        });
    }

    /// Sends a range of a stream.
    pub(crate) fn send_piece(&self, world: &mut World, flags: u8, stream: &[u8], range: Range<usize>) {
        self.send(world, flags, self.first + range.start, (&[], &stream[range]));
    }

    /// Sends a whole stream, while the program of the host does not read.
    pub(crate) fn fill(&self, world: &mut World, stream: &[u8]) {
        for start in (0..stream.len()).step_by(SEGMENT) {
            self.send_piece(world, ACK, stream, start..stream.len().min(start + SEGMENT));
            self.poll(world);
        }
    }

    /// Polls only the host under test.
    pub(crate) fn poll(&self, world: &mut World) {
        world.now += MILLISECOND;
        world.wire.borrow_mut().now = world.now;
        world.nodes[self.node].poll(world.now);
    }
}
