//! Streams between a guest with its own TCP and peers of the host. Even if ends stall, segments are lost, or
//! connections end or are reset, the received bytes are the bytes that were sent.

use hermit_tcp::{Algorithm, Connection, Flags, Parameters, Pool, Segment, Seq, State};
use proptest::prelude::{Strategy, any};
use proptest::{collection, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::lab::{Lab, Received, Sent};
use crate::Readiness;

const HERE: &str = "10.0.2.15:4000";
const PEER: &str = "192.0.2.1:80";
const MS: u64 = 1_000_000;

/// The guest: a TCP connection, and the program that uses it.
struct Guest {
    connection: Connection,
    pool: Pool,
    sent: usize,
    received: Vec<u8>,
}

/// Step of a test.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The guest's program writes this number of bytes.
    GuestWrites(usize),
    /// The guest's program reads at most this number of bytes.
    GuestReads(usize),
    GuestCloses,
    /// This number of bytes arrives at the socket from the peer.
    PeerWrites(usize),
    PeerCloses,
    /// The socket takes this number of bytes more.
    PeerReads(usize),
    /// This number of frames for the guest is lost.
    GuestLoses(usize),
    /// This number of milliseconds passes.
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..200_000_usize).prop_map(Step::GuestWrites),
        4 => (1..200_000_usize).prop_map(Step::GuestReads),
        4 => (1..200_000_usize).prop_map(Step::PeerWrites),
        4 => (1..200_000_usize).prop_map(Step::PeerReads),
        1 => (1..4_usize).prop_map(Step::GuestLoses),
        3 => (1..3_000_u64).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(|is_guest| if is_guest { Step::GuestCloses } else { Step::PeerCloses }),
    ];
    collection::vec(step, 1..60)
}

/// Returns the byte of a stream at an offset.
fn byte(offset: usize) -> u8 {
    (offset ^ offset >> 8 ^ offset >> 16).to_le_bytes()[0]
}

fn bytes(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(byte).collect()
}

struct Pair {
    lab: Lab,
    guest: Guest,
    /// Number of bytes that the peer has sent, and true if it sends no more.
    peer_sent: usize,
    has_peer_ended: bool,
    has_guest_closed: bool,
    to_lose: usize,
}

impl Pair {
    /// A connection that the guest opens.
    fn new() -> Self {
        let mut lab = Lab::new(|_| {});
        lab.host.room = 0;
        let parameters = Parameters {
            iss: Seq(u32::MAX - 100_000),
            clock_offset: 0,
            mss: 1460,
            default_mss: 536,
            algorithm: Algorithm::Cubic,
            is_paced: false,
            receive_buffer: (64 << 10, 256 << 10),
            send_buffer: (64 << 10, 256 << 10),
            asks_for_ecn: false,
            has_options: true,
        };
        let connection = Connection::connect(parameters, 0);
        let guest = Guest { connection, pool: Pool::new(64 << 20), sent: 0, received: Vec::new() };
        let mut pair =
            Self { lab, guest, peer_sent: 0, has_peer_ended: false, has_guest_closed: false, to_lose: 0 };
        pair.exchange();
        pair.lab.event(0, Readiness::WRITABLE);
        pair.exchange();
        assert_eq!(pair.guest.connection.state(), State::Established);
        pair
    }

    /// Passes frames in both directions until there are none.
    fn exchange(&mut self) {
        while self.guest_sends() || self.network_sends() {}
    }

    fn guest_sends(&mut self) -> bool {
        let (guest, now) = (&mut self.guest, self.lab.host.now);
        let mut has_sent = false;
        while let Some(transmit) = guest.connection.next_segment(60_000, &mut guest.pool, now) {
            let header = transmit.header;
            let data: Vec<u8> = guest.connection.payload(&transmit).flatten().copied().collect();
            guest.connection.sent(&transmit, now);
            let segment = Sent {
                seq: header.seq.0,
                ack: header.ack.0,
                flags: header.flags,
                window: header.window,
                scale: header.options.window_scale,
                data,
                ..Sent::new(HERE, PEER)
            };
            self.lab.send(&segment);
            has_sent = true;
        }
        has_sent
    }

    /// Passes the next segment to the guest, or loses it. Returns false if there is none.
    fn network_sends(&mut self) -> bool {
        let Some(segment) = self.lab.segment() else { return false };
        if self.to_lose > 0 {
            self.to_lose -= 1;
        } else {
            self.guest_receives(&segment);
        }
        true
    }

    fn guest_receives(&mut self, segment: &Received) {
        let header = hermit_tcp::Header {
            seq: Seq(segment.seq),
            ack: Seq(segment.ack),
            flags: segment.flags,
            window: segment.window,
            urgent: 0,
            options: hermit_tcp::Options {
                mss: segment.mss,
                window_scale: segment.scale,
                ..hermit_tcp::Options::default()
            },
        };
        let segment = Segment { header, payload: &segment.data, is_marked: false };
        self.guest.connection.receive(&segment, &mut self.guest.pool, self.lab.host.now);
    }

    fn guest_reads(&mut self, max: usize) {
        let (mut left, received) = (max, &mut self.guest.received);
        let mut sink = |bytes: &[u8]| {
            let count = bytes.len().min(left);
            received.extend(&bytes[..count]);
            left -= count;
            count
        };
        self.guest.connection.read(false, &mut sink, &mut self.guest.pool, self.lab.host.now);
    }

    fn wait(&mut self, time: u64) {
        self.lab.pass(time);
        let (guest, now) = (&mut self.guest, self.lab.host.now);
        if guest.connection.deadline().is_some_and(|at| at <= now) {
            guest.connection.on_timer(&mut guest.pool, now);
        }
        self.exchange();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::GuestWrites(count) if !self.has_guest_closed => {
                let data = bytes(self.guest.sent, count);
                self.guest.sent += self.guest.connection.write(&data, &mut self.guest.pool);
            }
            Step::GuestReads(count) => self.guest_reads(count),
            Step::GuestCloses if !self.has_guest_closed => {
                self.has_guest_closed = true;
                self.guest.connection.close();
            }
            Step::PeerWrites(count) if !self.has_peer_ended => {
                self.lab.arrive(0, &bytes(self.peer_sent, count));
                self.peer_sent += count;
            }
            Step::PeerCloses if !self.has_peer_ended => {
                self.has_peer_ended = true;
                self.lab.hang_up(0);
            }
            Step::PeerReads(count) => self.peer_reads(count),
            Step::GuestLoses(count) => self.to_lose += count,
            Step::Wait(time) => self.wait(time * MS),
            _ => {}
        }
        self.exchange();
    }

    fn peer_reads(&mut self, count: usize) {
        self.lab.socket(0, |socket| socket.room = socket.room.saturating_add(count));
        self.lab.event(0, Readiness::WRITABLE);
    }

    fn is_finished(&self) -> bool {
        let is_sent =
            self.lab.socket(0, |socket| socket.sent.len() == self.guest.sent && socket.is_shut_down);
        is_sent && self.guest.received.len() == self.peer_sent && self.guest.connection.is_read_closed()
    }

    /// Both programs read everything and end.
    fn finish(&mut self) {
        self.step(Step::GuestCloses);
        self.step(Step::PeerCloses);
        self.peer_reads(usize::MAX);
        self.to_lose = 0;
        for _ in 0..2_000 {
            self.guest_reads(usize::MAX);
            self.exchange();
            if self.is_finished() {
                return;
            }
            self.wait(200 * MS);
        }
    }
}

proptest! {
    #[test]
    fn every_stream_arrives_whole(steps in steps()) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step);
            prop_assert!(pair.lab.socket(0, |socket| !socket.is_reset));
        }
        pair.finish();
        prop_assert_eq!(pair.guest.received.len(), pair.peer_sent);
        prop_assert!(pair.guest.received.iter().enumerate().all(|(at, &found)| found == byte(at)));
        let sent = pair.lab.socket(0, |socket| socket.sent.clone());
        prop_assert_eq!(sent.len(), pair.guest.sent);
        prop_assert!(sent.iter().enumerate().all(|(at, &found)| found == byte(at)));
        prop_assert!(pair.is_finished());
        pair.wait(1_000 * MS);
        prop_assert_eq!(pair.lab.network.flows(), (0, 0));
        prop_assert!(pair.lab.socket(0, |socket| socket.is_closed && !socket.is_reset));
    }

    #[test]
    fn reset_in_the_middle_ends_both_sides(steps in steps(), is_guest: bool) {
        let mut pair = Pair::new();
        // Without lost frames: a guest that has lost a segment may ignore a reset, because the reset's
        // sequence number is after the lost segment.
        for step in steps.into_iter().filter(|step| !matches!(step, Step::GuestLoses(_))) {
            pair.step(step);
        }
        // A guest that has ended sends no reset, while the peer may still have to read.
        let is_open = !matches!(pair.guest.connection.state(), State::TimeWait | State::Closed);
        if is_open && pair.lab.network.flows() == (1, 0) {
            if is_guest {
                pair.guest.connection.abort(&mut pair.guest.pool);
                pair.exchange();
            } else {
                pair.lab.socket(0, |socket| socket.error = Some(std::io::ErrorKind::ConnectionReset));
                pair.lab.event(0, Readiness::all());
                pair.exchange();
                prop_assert_eq!(pair.guest.connection.state(), State::Closed);
            }
            prop_assert_eq!(pair.lab.network.flows(), (0, 0));
            prop_assert_eq!(pair.lab.socket(0, |socket| (socket.is_reset, socket.is_closed)), (is_guest, true));
        }
        // Nothing remains that would send a frame or set a timer.
        prop_assert!(!pair.lab.network.has_output());
    }

    #[test]
    fn hostile_segments_make_no_flow_misbehave(
        segments in collection::vec((any::<u8>(), any::<i32>(), any::<i32>(), any::<u16>(), 0..3_000_usize), 0..40),
    ) {
        let mut lab = Lab::new(|_| {});
        lab.host.room = 5_000;
        let mut guest = lab.connect(HERE, PEER);
        lab.arrive(0, &[1; 5_000]);
        for (flags, seq, ack, window, length) in segments {
            // Near the valid numbers, most of the time.
            let near = |number: u32, offset: i32| {
                number.wrapping_add_signed(if offset % 3 == 0 { offset } else { offset % 3_000 })
            };
            let segment = Sent {
                seq: near(guest.seq, seq),
                ack: near(guest.ack, ack),
                flags: Flags::from_bits_retain(flags),
                window,
                data: vec![2; length],
                ..guest.clone()
            };
            lab.send(&segment);
            while let Some(received) = lab.segment() {
                guest.seq = received.ack;
            }
            lab.pass(700 * MS);
            prop_assert!(lab.socket(0, |socket| socket.sent.len() <= 5_000));
            prop_assert!(lab.network.flows().0 <= 2);
        }
    }
}
