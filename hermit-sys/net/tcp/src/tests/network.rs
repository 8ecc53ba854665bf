//! Two ends and the network between them, in virtual time.
//!
//! Each [`End`] is a connection with a program that writes, reads and closes. Segments travel along a
//! [`Path`] with delay, loss, duplication, reordering, a limited rate and a queue. The simulation is an event
//! loop: it advances the time to the next arrival or deadline. All random numbers come from a seed, so a
//! failure can be repeated.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::vec::Vec;

use crate::connection::{Connection, Parameters, State};
use crate::rtt::{MS, SECOND};
use crate::segment::{Header, Segment};
use crate::{Algorithm, Pool, Seq};

/// A generator of random numbers (SplitMix64). A test can be repeated with the same seed.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns true with a probability of `count` in 10,000.
    pub(super) fn happens(&mut self, count: u64) -> bool {
        self.below(10_000) < count
    }
}

/// A direction of the network. Probabilities are in 10,000ths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) delay: u64,
    /// Maximum of an additional random delay, which reorders segments.
    pub(super) jitter: u64,
    pub(super) loss: u64,
    /// Probability that a segment is 2 ms late, after others.
    pub(super) late: u64,
    pub(super) duplication: u64,
    /// Nanoseconds per byte, and maximum number of bytes that wait for the link. Segments beyond it are
    /// dropped.
    pub(super) ns_per_byte: u64,
    pub(super) queue: u64,
    /// True if segments are marked instead of dropped when the queue is half full.
    pub(super) marks: bool,
}

impl Path {
    /// Returns the delay of a segment after its transmission.
    fn delay_of_one(&self, random: &mut Random) -> u64 {
        let is_late = self.late > 0 && random.happens(self.late);
        self.delay + random.below(self.jitter) + if is_late { 2 * MS } else { 0 }
    }

    pub(super) const IDEAL: Self = Self {
        delay: 10 * MS,
        jitter: 0,
        loss: 0,
        late: 0,
        duplication: 0,
        ns_per_byte: 0,
        queue: 0,
        marks: false,
    };
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    at: u64,
    order: u64,
    packet: usize,
}

#[derive(Clone, Debug)]
struct Packet {
    to: usize,
    header: Header,
    payload: Vec<u8>,
    is_marked: bool,
}

/// One of the two ends, and its program, which sends `total` bytes and then closes.
pub(super) struct End {
    pub(super) connection: Option<Connection>,
    parameters: Parameters,
    pub(super) pool: Pool,
    pub(super) total: u64,
    pub(super) written: u64,
    pub(super) received: u64,
    /// Maximum number of bytes that the program reads in a millisecond; 0 means no limit.
    pub(super) read_rate: u64,
    /// Time at which the program begins to read.
    pub(super) reads_from: u64,
    read_at: u64,
    /// Time at which the link of this end has sent all segments that wait for it. Several networks may share
    /// a link.
    pub(super) busy_until: Rc<Cell<u64>>,
    pub(super) sent_segments: u64,
    pub(super) sent_bytes: u64,
    pub(super) has_finished: bool,
}

pub(super) struct Network {
    pub(super) ends: [End; 2],
    pub(super) paths: [Path; 2],
    pub(super) now: u64,
    random: Random,
    packets: Vec<Option<Packet>>,
    queue: BinaryHeap<Reverse<InFlight>>,
    order: u64,
    /// Segments of each end that are dropped, for scripts: their numbers, counted from 0.
    pub(super) drops: [Vec<u64>; 2],
}

/// Returns the byte of a stream at an offset.
pub(super) fn byte(offset: u64) -> u8 {
    u8::try_from((offset ^ offset >> 8 ^ offset >> 16) & 0xff).unwrap()
}

pub(super) fn parameters(random: &mut Random) -> Parameters {
    Parameters {
        iss: Seq(u32::try_from(random.next() >> 32).unwrap()),
        clock_offset: u32::try_from(random.next() >> 32).unwrap(),
        mss: 1460,
        default_mss: 536,
        algorithm: Algorithm::Cubic,
        is_paced: true,
        receive_buffer: (128 << 10, 4 << 20),
        send_buffer: (64 << 10, 4 << 20),
        asks_for_ecn: false,
        has_options: true,
    }
}

impl Network {
    pub(super) fn new(seed: u64, paths: [Path; 2], totals: [u64; 2]) -> Self {
        Self::with(seed, paths, totals, |_| ())
    }

    pub(super) fn with(
        seed: u64,
        paths: [Path; 2],
        totals: [u64; 2],
        change: impl Fn(&mut Parameters),
    ) -> Self {
        let mut random = Random(seed);
        let mut end = |total| {
            let mut parameters = parameters(&mut random);
            change(&mut parameters);
            End {
                connection: None,
                parameters,
                pool: Pool::new(64 << 20),
                total,
                written: 0,
                received: 0,
                read_rate: 0,
                reads_from: 0,
                read_at: 0,
                busy_until: Rc::default(),
                sent_segments: 0,
                sent_bytes: 0,
                has_finished: false,
            }
        };
        let mut ends = totals.map(&mut end);
        ends[0].connection = Some(Connection::connect(ends[0].parameters, 0));
        Self {
            ends,
            paths,
            now: 0,
            random,
            packets: Vec::new(),
            queue: BinaryHeap::new(),
            order: 0,
            drops: [Vec::new(), Vec::new()],
        }
    }

    /// Runs until both ends are closed or in TIME-WAIT, or until `limit`. Returns true if all data has
    /// arrived.
    pub(super) fn run(&mut self, limit: u64) -> bool {
        loop {
            self.serve_ends();
            if self.is_done() {
                return true;
            }
            let Some(next) = self.next().filter(|&next| next <= limit) else {
                return false;
            };
            self.advance(next);
        }
    }

    /// Runs both ends until they wait.
    pub(super) fn serve_ends(&mut self) {
        for end in 0..2 {
            self.serve(end);
        }
    }

    /// Time of the next event.
    pub(super) fn next(&self) -> Option<u64> {
        let timers = self.ends.iter().filter_map(|end| end.next(self.now));
        let arrival = self.queue.peek().map(|Reverse(first)| first.at);
        timers.chain(arrival).min().map(|next| next.max(self.now))
    }

    /// Advances the time, delivers the segments that have arrived, and runs timers.
    pub(super) fn advance(&mut self, now: u64) {
        self.now = now;
        while self.queue.peek().is_some_and(|Reverse(first)| first.at <= now) {
            let Reverse(first) = self.queue.pop().unwrap();
            let packet = self.packets[first.packet].take().unwrap();
            self.deliver(&packet);
        }
        self.run_timers();
    }

    fn run_timers(&mut self) {
        let now = self.now;
        for end in &mut self.ends {
            let Some(connection) = &mut end.connection else { continue };
            if connection.deadline().is_some_and(|deadline| deadline <= now) {
                connection.on_timer(&mut end.pool, now);
            }
        }
    }

    pub(super) fn is_done(&self) -> bool {
        let is_over = |end: &End| {
            end.connection
                .as_ref()
                .is_some_and(|connection| matches!(connection.state(), State::TimeWait | State::Closed))
        };
        self.ends.iter().all(|end| is_over(end) || end.has_finished)
            && self.ends[0].received == self.ends[1].total
            && self.ends[1].received == self.ends[0].total
    }

    fn deliver(&mut self, packet: &Packet) {
        let now = self.now;
        let end = &mut self.ends[packet.to];
        let segment =
            Segment { header: packet.header, payload: &packet.payload, is_marked: packet.is_marked };
        match &mut end.connection {
            Some(connection) => drop(connection.receive(&segment, &mut end.pool, now)),
            None => end.connection = Some(Connection::accept(end.parameters, &segment, now)),
        }
    }

    /// Runs the program of an end, and sends the segments of its connection.
    fn serve(&mut self, index: usize) {
        let now = self.now;
        let end = &mut self.ends[index];
        if end.connection.is_none() {
            return;
        }
        end.work(now);
        loop {
            let Some(connection) = &mut end.connection else { return };
            let Some(transmit) = connection.next_segment(1460, &mut end.pool, now) else { break };
            let payload = connection.payload(&transmit).flatten().copied().collect::<Vec<u8>>();
            assert_eq!(payload.len(), transmit.size() as usize);
            connection.sent(&transmit, now);
            let number = end.sent_segments;
            end.sent_segments += 1;
            end.sent_bytes += payload.len() as u64;
            let path = self.paths[index];
            let size = payload.len() as u64 + 60;
            let waiting = end.busy_until.get().saturating_sub(now);
            let backlog = waiting.checked_div(path.ns_per_byte).unwrap_or(0);
            let is_dropped = self.drops[index].contains(&number)
                || self.random.happens(path.loss)
                || path.queue > 0 && backlog + size > path.queue;
            if is_dropped {
                continue;
            }
            let is_marked = path.marks && transmit.is_ecn_capable && backlog > path.queue / 2;
            end.busy_until.set(now.max(end.busy_until.get()) + size * path.ns_per_byte);
            let copies = if self.random.happens(path.duplication) { 2 } else { 1 };
            let packet = Packet { to: 1 - index, header: transmit.header, payload, is_marked };
            for _ in 0..copies {
                let at = end.busy_until.get() + path.delay_of_one(&mut self.random);
                self.order += 1;
                self.queue.push(Reverse(InFlight { at, order: self.order, packet: self.packets.len() }));
                self.packets.push(Some(packet.clone()));
            }
        }
    }
}

impl End {
    fn work(&mut self, now: u64) {
        let Some(connection) = &mut self.connection else { return };
        while self.written < self.total && connection.writable() > 0 {
            let size = (self.total - self.written).min(u64::from(connection.writable())).min(16 << 10);
            let bytes: Vec<u8> = (self.written..self.written + size).map(byte).collect();
            let written = connection.write(&bytes, &mut self.pool);
            self.written += written as u64;
            if written == 0 {
                break;
            }
        }
        let is_established = !matches!(connection.state(), State::SynSent | State::SynReceived);
        if self.written == self.total && is_established && !self.has_finished {
            connection.close();
            self.has_finished = true;
        }
        if now < self.reads_from {
            return;
        }
        let mut left = u64::MAX;
        if self.read_rate > 0 {
            if now < self.read_at + MS {
                return;
            }
            (left, self.read_at) = (self.read_rate, now);
        }
        let received = &mut self.received;
        connection.read(
            false,
            &mut |piece| {
                let size = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                for &value in &piece[..size] {
                    assert_eq!(value, byte(*received), "at {received}");
                    *received += 1;
                }
                left -= size as u64;
                size
            },
            &mut self.pool,
            now,
        );
    }

    /// Time at which the end has something to do.
    fn next(&self, now: u64) -> Option<u64> {
        let connection = self.connection.as_ref()?;
        let is_slow = self.read_rate > 0 || now < self.reads_from;
        let reads = is_slow && connection.readable() > 0;
        let read_at = reads.then_some((self.read_at + MS).max(self.reads_from));
        connection.deadline().into_iter().chain(read_at).min().map(|next| next.max(now))
    }
}

/// Bytes per second.
pub(super) fn rate(bytes: u64, time: u64) -> u64 {
    bytes * SECOND / time.max(1)
}
