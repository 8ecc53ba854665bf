//! Segments at the edge of the receive window, and beyond.
//!
//! The tests send a connection segments that a correct peer would not send: data after the window, data after
//! a FIN, and answers to a SYN that was not sent. A property test combines such segments with calls of the
//! program. The test compares the bytes that the program reads with the bytes that were sent within the
//! window.

use crate::socket::buffers::LARGEST;
use crate::testing::peer::{ACK, FIN, OPTIONS, Peer, SEGMENT, SYN};
use crate::testing::{World, pattern, v4};
use crate::{OptionName, Shutdown, SocketId, SocketOption};
use core::net::SocketAddr;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};
use smoltcp::wire::TcpSeqNumber;
use std::vec::Vec;

/// Capacity in bytes of a receive buffer.
const CAPACITY: usize = LARGEST;

/// Bounds of the other capacities, which are powers of two.
const SOME: u32 = if cfg!(miri) { 16_384 } else { 65_536 };
const MOST: u32 = if cfg!(miri) { 30_000 } else { 80_000 };

#[test]
fn server_drops_data_beyond_the_window() {
    let (mut world, _, server) = World::pair();
    let peer = Peer::of(&mut world, 1, server);
    let stream = pattern(CAPACITY + SEGMENT);
    peer.send_piece(&mut world, ACK, &stream, CAPACITY..CAPACITY + SEGMENT);
    peer.fill(&mut world, &stream[..CAPACITY]);
    assert!(world.receive(1, server).unwrap() == stream[..CAPACITY]);
}

#[test]
fn client_drops_data_beyond_the_window() {
    let (mut world, ..) = World::pair();
    let client = world.start(0, SocketAddr::new(v4(1), 81));
    world.nodes[0].poll(world.now);
    let ends = (SocketAddr::new(v4(1), 81), world.nodes[0].local(client).unwrap());
    let slot = world.nodes[0].layers.tcp.slot(client.key()).unwrap();
    let (acknowledged, _) = world.nodes[0].layers.tcp.connection(slot).unwrap().numbers();
    let peer = Peer { node: 0, ends, first: TcpSeqNumber(-1), acknowledged, window: 1000 };
    let stream = pattern(CAPACITY + SEGMENT);
    peer.send(&mut world, SYN | ACK, peer.first - 1, (&OPTIONS, &[]));
    peer.send_piece(&mut world, ACK, &stream, CAPACITY..CAPACITY + SEGMENT);
    peer.poll(&mut world);
    peer.fill(&mut world, &stream[..CAPACITY]);
    assert!(world.receive(0, client).unwrap() == stream[..CAPACITY]);
}

/// After the FIN of a full connection, the window ends one byte after `RCV.NXT` for a moment. A segment that
/// is half of the sequence space ahead appears to be within it.
#[test]
fn data_after_fin_is_dropped() {
    let (mut world, _, server) = World::pair();
    let peer = Peer::of(&mut world, 1, server);
    let stream = pattern(CAPACITY);
    peer.fill(&mut world, &stream);
    peer.send(&mut world, FIN | ACK, peer.first + CAPACITY, (&[], &[]));
    let far = peer.first + CAPACITY + 1 + usize::try_from(i32::MAX).unwrap();
    peer.send(&mut world, ACK, far, (&[], &[1; 100]));
    peer.poll(&mut world);
    peer.send(&mut world, ACK, peer.first + CAPACITY + 1, (&[], &[1; 100]));
    assert!(world.receive(1, server).unwrap() == stream);
    peer.poll(&mut world);
    peer.send(&mut world, ACK, peer.first + CAPACITY + 1, (&[], &[1; 100]));
    peer.poll(&mut world);
    assert_eq!(world.receive(1, server), Ok(Vec::new()));
}

/// The SYN waits for neighbor resolution; until it is sent, no segment can answer it.
#[test]
fn segment_before_the_syn_is_sent_is_no_answer() {
    let mut world = World::new(2);
    let client = world.start(0, SocketAddr::new(v4(1), 81));
    let ends = (SocketAddr::new(v4(1), 81), world.nodes[0].local(client).unwrap());
    let peer = Peer { node: 0, ends, first: TcpSeqNumber(1), acknowledged: TcpSeqNumber(1), window: 1000 };
    peer.poll(&mut world);
    for flags in [SYN, ACK, SYN | ACK, ACK] {
        peer.send(&mut world, flags, peer.first, (&[], &[]));
        peer.poll(&mut world);
    }
    assert!(!world.readiness(0, client).write);
}

/// Windows are advertised in multiples of a power of two. The advertised window of a nearly full buffer does
/// not shrink.
#[test]
fn advertised_window_and_fin_behind_it_are_accepted() {
    let (mut world, _, server) = World::pair();
    let peer = Peer::of(&mut world, 1, server);
    let stream = pattern(CAPACITY);
    let last = CAPACITY - 1448..CAPACITY;
    peer.fill(&mut world, &stream[..last.start]);
    (0..10).for_each(|_| peer.poll(&mut world));
    peer.send_piece(&mut world, FIN | ACK, &stream, last);
    peer.poll(&mut world);
    assert!(world.receive(1, server).unwrap() == stream);
    assert_eq!(world.receive(1, server), Ok(Vec::new()));
}

/// Start of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Accepted,
    HalfOpen,
    /// Active open: the SYN has been sent.
    Asking,
    /// Active open: the SYN will be sent.
    Unasked,
}

/// A segment: base and offset of its sequence number, its size, its acknowledgement, and the action after it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    flags: u8,
    from: From,
    ahead: i32,
    size: usize,
    acknowledged: i32,
    then: Then,
}

#[derive(Clone, Copy, Debug)]
enum From {
    Next,
    First,
    /// Right edge of the window.
    Edge,
    /// Right edge if the window of the SYN were scaled.
    Scaled,
    /// Half of the sequence space.
    Far,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Poll,
    Read,
    Write,
    End,
}

fn piece() -> impl Strategy<Value = Piece> {
    let flags =
        prop_oneof![8 => Just(ACK), 3 => Just(FIN | ACK), 2 => Just(SYN), 2 => Just(SYN | ACK), 1 => Just(4)];
    let from = prop_oneof![
        6 => Just(From::Next),
        1 => Just(From::First),
        2 => Just(From::Edge),
        1 => Just(From::Scaled),
        1 => Just(From::Far),
    ];
    let ahead = prop_oneof![6 => Just(0), 2 => -2..3, 1 => -3000..3000];
    let size = prop_oneof![2 => Just(0), 1 => Just(1), 4 => Just(SEGMENT), 2 => 0..SEGMENT];
    let acknowledged = prop_oneof![8 => Just(0), 1 => -2..3];
    let then = prop_oneof![
        6 => Just(Then::Nothing),
        3 => Just(Then::Poll),
        1 => Just(Then::Read),
        1 => Just(Then::Write),
        1 => Just(Then::End),
    ];
    (flags, from, ahead, size, acknowledged, then).prop_map(
        |(flags, from, ahead, size, acknowledged, then)| Piece {
            flags,
            from,
            ahead,
            size,
            acknowledged,
            then,
        },
    )
}

/// A connection under test.
struct Victim {
    world: World,
    peer: Peer,
    listener: SocketId,
    socket: Option<SocketId>,
    capacity: u32,
    /// Number of bytes received in order, and of bytes read.
    next: u32,
    read: u32,
    /// FINs that the peer has sent.
    ends: Vec<u32>,
}

/// Returns the byte at an offset of the stream.
fn byte(place: u32) -> u8 {
    u8::try_from(place % 251).unwrap()
}

impl Victim {
    fn new(start: Start, capacity: u32) -> Self {
        let mut world = World::new(2);
        let listener = world.listen(0, 80, 8);
        let buffer = SocketOption::new(OptionName::ReceiveBuffer, capacity);
        world.nodes[0].set_option(listener, buffer).unwrap();
        let to = SocketAddr::new(v4(0), 80);
        let accepted = (start != Start::Unasked).then(|| world.connect(1, to, (0, listener)).1);
        let mut peer = match accepted {
            Some(server) => Peer::of(&mut world, 0, server),
            None => {
                let none = TcpSeqNumber(0);
                Peer { node: 0, ends: (to, to), first: none, acknowledged: none, window: 1000 }
            }
        };
        let socket = match start {
            Start::Accepted => accepted,
            Start::HalfOpen => None,
            Start::Asking | Start::Unasked => {
                let client = world.socket(0, crate::Family::V4, crate::Kind::Stream);
                world.nodes[0].set_option(client, buffer).unwrap();
                let _ = world.nodes[0].connect(client, SocketAddr::new(v4(1), 81));
                Some(client)
            }
        };
        if start != Start::Accepted {
            // Sequence numbers wrap.
            peer.first = TcpSeqNumber(i32::MAX - 5000);
            let own = socket.map_or(to, |client| world.nodes[0].local(client).unwrap());
            peer.ends = (SocketAddr::new(v4(1), 81), own);
        }
        let mut victim = Self { world, peer, listener, socket, capacity, next: 0, read: 0, ends: Vec::new() };
        if start == Start::HalfOpen {
            victim.peer.send(&mut victim.world, SYN, victim.peer.first - 1, (&OPTIONS, &[]));
        }
        victim.peer.poll(&mut victim.world);
        victim
    }

    /// Sends a segment.
    fn take(&mut self, piece: Piece) {
        let is_first = piece.flags & SYN != 0;
        let from = match piece.from {
            From::Next => self.next,
            From::First => 0,
            From::Edge => self.read + self.capacity,
            From::Scaled => 2 * self.capacity,
            From::Far => 1 << 31,
        };
        let start = if is_first { u32::MAX } else { from.wrapping_add_signed(piece.ahead) };
        let connection = self.world.nodes[0].layers.tcp.connection_from(self.peer.ends.0.port());
        if let Some((next, _)) = connection.map(|connection| connection.numbers()) {
            self.peer.acknowledged = TcpSeqNumber(next.0.wrapping_add(piece.acknowledged));
        }
        let size = u32::try_from(piece.size).unwrap();
        let data: Vec<_> = (0..size).map(|place| byte(start.wrapping_add(place))).collect();
        let number = TcpSeqNumber(self.peer.first.0.wrapping_add_unsigned(start));
        let options: &[u8] = if is_first { &OPTIONS } else { &[] };
        self.peer.send(&mut self.world, piece.flags, number, (options, &data));
        let end = start.wrapping_add(size);
        if piece.flags & FIN != 0 {
            self.ends.push(end);
        }
        if (start..end).contains(&self.next) {
            self.next = end.min(self.read + self.capacity);
        }
    }

    /// Performs the action after a segment. Returns the bytes that were read, if any; they are empty after
    /// the FIN.
    fn act(&mut self, then: Then) -> Option<Vec<u8>> {
        if then != Then::Nothing {
            self.peer.poll(&mut self.world);
        }
        self.socket =
            self.socket.or_else(|| self.world.nodes[0].accept(self.listener, 5).ok().map(|(id, _)| id));
        let socket = self.socket?;
        match then {
            Then::Nothing | Then::Poll => None,
            Then::Read => {
                let slot = self.world.nodes[0].layers.tcp.slot(socket.key()).ok()?;
                let has_ended = self.world.nodes[0].layers.tcp.connection(slot)?.tcp.is_read_closed();
                self.world.receive(0, socket).ok().filter(|bytes| has_ended || !bytes.is_empty())
            }
            Then::Write => {
                let _ = self.world.nodes[0].send(socket, &[1; 100], None);
                None
            }
            Then::End => {
                let _ = self.world.nodes[0].shutdown(socket, Shutdown::Write);
                None
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 100 }, ..ProptestConfig::default() })]

    #[test]
    fn segments_at_the_window_edge_do_no_harm(
        start in prop_oneof![
            Just(Start::Accepted), Just(Start::HalfOpen), Just(Start::Asking), Just(Start::Unasked)
        ],
        capacity in prop_oneof![Just(4096_u32), Just(SOME), 4096..MOST],
        fills: bool,
        pieces in vec(piece(), 1..if cfg!(miri) { 15 } else { 100 }),
    ) {
        let mut victim = Victim::new(start, capacity);
        if fills {
            if start != Start::Accepted {
                let flags = if start == Start::HalfOpen { ACK } else { SYN | ACK };
                let first = Piece { flags, from: From::Next, ahead: 0, size: 0, acknowledged: 0, then: Then::Poll };
                victim.take(first);
                let _ = victim.act(first.then);
            }
            let size = usize::try_from(capacity / 40).unwrap().min(SEGMENT);
            for _ in 0..capacity / u32::try_from(size).unwrap() {
                victim.take(Piece {
                    flags: ACK, from: From::Next, ahead: 0, size, acknowledged: 0, then: Then::Nothing,
                });
            }
        }
        for piece in pieces {
            victim.take(piece);
            if let Some(bytes) = victim.act(piece.then) {
                let before = victim.read;
                for byte_read in &bytes {
                    prop_assert_eq!(*byte_read, byte(victim.read));
                    victim.read += 1;
                }
                prop_assert!(before != victim.read || victim.ends.contains(&before));
            }
        }
    }
}
