//! Fuzz target: one end of a TCP connection, with segments of arbitrary fields, calls of its owner, and time.
//!
//! The script is both the peer and the owner. The numbers of a segment are mostly near the expected ones,
//! since arbitrary numbers would be dropped early. Each byte of a stream follows from its sequence number, so
//! that sent and received data can be checked without a copy of the stream. The pool is small, so that memory
//! runs out.

use hermit_tcp::{
    Algorithm, Connection, Flags, Header, KeepAlive, Options, Parameters, Pool, SackBlock, SackBlocks,
    Segment, Seq, State, Timestamp, Transmit,
};

use crate::{MILLISECOND, Script};

const ISS: Seq = Seq(u32::MAX - 3000);
const IRS: Seq = Seq(u32::MAX - 5000);

/// Limit of the pool in bytes: 24 chunks, so that it is exhausted.
const POOL: usize = 24 << 12;

/// Maximum number of segments that the connection may send in one step, and of timers that may expire at one
/// time.
const MAX_SEGMENTS: usize = 2000;
const MAX_TIMERS: usize = 100;

/// Returns the byte of a stream with a sequence number.
fn byte(seq: Seq) -> u8 {
    let [a, b, c, _] = seq.0.to_le_bytes();
    a ^ b ^ c
}

/// The connection, its owner and the network.
struct Owner {
    connection: Connection,
    pool: Pool,
    now: u64,
    /// Number of the next byte to be written, and of the next byte to be read.
    written: Seq,
    read: Seq,
    /// True while the device is full.
    is_held: bool,
}

impl Script<'_> {
    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn number(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    /// Returns a number that is mostly at or near `base`.
    fn seq(&mut self, base: Seq) -> Seq {
        match self.byte() {
            0..=99 => base,
            100..=159 => base + u32::from(self.word()),
            160..=219 => base - u32::from(self.word()),
            220..=239 => base + u32::from(self.byte()),
            _ => Seq(self.number()),
        }
    }

    fn parameters(&mut self) -> Parameters {
        let size = 1 + u32::from(self.word());
        let largest = size << (self.byte() % 7);
        Parameters {
            iss: ISS,
            clock_offset: self.number(),
            mss: self.word().max(88),
            default_mss: 536,
            algorithm: [Algorithm::Cubic, Algorithm::Reno, Algorithm::Unlimited, Algorithm::Bbr]
                [usize::from(self.byte() % 4)],
            is_paced: self.byte().is_multiple_of(2),
            receive_buffer: (size, largest),
            send_buffer: (size, largest),
            asks_for_ecn: self.byte().is_multiple_of(2),
            has_options: !self.byte().is_multiple_of(4),
        }
    }

    fn options(&mut self, (next, sent): (Seq, Seq)) -> Options {
        let which = self.byte();
        let mut sack = SackBlocks::default();
        for _ in 0..which & 3 {
            let start = self.seq(sent);
            sack.push(SackBlock { start, end: self.seq(if which & 4 == 0 { start } else { next }) });
        }
        Options {
            mss: (which & 8 != 0).then(|| self.word()),
            window_scale: (which & 16 != 0).then(|| self.byte()),
            sack_permitted: which & 32 != 0,
            timestamp: (which & 64 != 0).then(|| Timestamp { value: self.number(), echo: self.number() }),
            sack,
        }
    }

    /// Calls `take` with a segment whose numbers are mostly near the expected ones.
    fn segment<R>(&mut self, next: Seq, sent: Seq, take: impl FnOnce(&Segment<'_>) -> R) -> R {
        let flags = match self.byte() {
            0..=199 => Flags::ACK,
            200..=229 => Flags::ACK | Flags::FIN,
            _ => Flags::from_bits_retain(self.byte()),
        };
        let header = Header {
            seq: self.seq(next),
            ack: self.seq(sent),
            flags,
            window: self.word(),
            urgent: self.word(),
            options: self.options((next, sent)),
        };
        let first = header.seq + u32::from(flags.contains(Flags::SYN));
        let size = u32::from(self.word() % 9000);
        let payload: Vec<u8> = (0..size).map(|offset| byte(first + offset)).collect();
        take(&Segment { header, payload: &payload, is_marked: self.byte().is_multiple_of(8) })
    }
}

impl Owner {
    fn new(script: &mut Script<'_>) -> Self {
        let (parameters, now) = (script.parameters(), 0);
        let connection = if script.byte().is_multiple_of(2) {
            Connection::connect(parameters, now)
        } else {
            let options = script.options((IRS + 1, ISS));
            let header =
                Header { seq: IRS, flags: Flags::SYN, window: script.word(), options, ..Header::default() };
            Connection::accept(parameters, &Segment { header, payload: &[], is_marked: false }, now)
        };
        let read = connection.receive_next();
        Self { connection, pool: Pool::new(POOL), now, written: ISS + 1, read, is_held: false }
    }

    fn receive(&mut self, script: &mut Script<'_>) {
        let Self { connection, pool, now, .. } = self;
        let (next, sent) = (connection.receive_next(), connection.send_next());
        let was_connecting = connection.state() == State::SynSent;
        script.segment(next, sent, |segment| {
            let _ = connection.is_answered_by_reset(&segment.header);
            connection.receive(segment, pool, *now);
        });
        if was_connecting {
            self.read = connection.receive_next();
        } else {
            assert!(next.is_up_to(connection.receive_next()), "RCV.NXT went back");
        }
        assert_eq!(connection.send_next(), sent, "a received segment has sent something");
    }

    fn write(&mut self, size: u32) {
        let bytes: Vec<u8> = (0..size).map(|offset| byte(self.written + offset)).collect();
        let written = self.connection.write(&bytes, &mut self.pool);
        self.written = self.written + u32::try_from(written).expect("at most 64 KiB");
    }

    fn read(&mut self, mut left: usize, peek: bool) {
        let mut at = self.read;
        let mut sink = |piece: &[u8]| {
            let size = piece.len().min(left);
            left -= size;
            for &value in &piece[..size] {
                assert_eq!(value, byte(at), "read at {at:?}");
                at = at + 1;
            }
            size
        };
        self.connection.read(peek, &mut sink, &mut self.pool, self.now);
        if !peek {
            self.read = at;
        }
    }

    /// Sends all that may be sent, in segments of at most `max` bytes.
    fn send(&mut self, max: u32) {
        for _ in 0..MAX_SEGMENTS {
            if self.is_held || !self.connection.may_send(self.now) {
                return;
            }
            let Some(transmit) = self.connection.next_segment(max, &mut self.pool, self.now) else { return };
            self.check(&transmit, max);
            let before = self.connection.send_next();
            self.connection.sent(&transmit, self.now);
            let after = self.connection.send_next();
            assert!(before.is_up_to(after) && after.since(before) <= transmit.size() + 1, "SND.NXT");
        }
        panic!("{MAX_SEGMENTS} segments without anything received");
    }

    fn check(&self, transmit: &Transmit, max: u32) {
        let header = &transmit.header;
        assert!(transmit.size() <= max.max(transmit.mss), "{transmit:?}");
        // A window probe has an arbitrary byte in place of an acknowledged one.
        let acknowledged = self.written - self.connection.unacknowledged().0;
        let is_probe = transmit.size() == 1 && header.seq + 1 == acknowledged;
        let data = self.connection.payload(transmit).flatten();
        let count = (0..).zip(data).inspect(|&(offset, &value)| {
            assert!(is_probe || value == byte(header.seq + offset), "sent at {:?} + {offset}", header.seq);
        });
        assert_eq!(u32::try_from(count.count()), Ok(transmit.size()));
        let end = header.seq + transmit.size();
        assert!(end.is_up_to(self.written) || transmit.size() == 0, "what was not written");
    }

    /// Advances the time, and handles the deadlines until then.
    fn wait(&mut self, until: u64, max: u32) {
        let mut count = 0;
        while let Some(deadline) = self.connection.deadline().filter(|&deadline| deadline <= until) {
            count = if deadline > self.now { 0 } else { count + 1 };
            if self.is_held && count > 1 {
                break;
            }
            assert!(count < MAX_TIMERS, "nothing is done at the deadline in {:?}", self.connection);
            self.now = self.now.max(deadline);
            self.connection.on_timer(&mut self.pool, self.now);
            self.send(max);
        }
        self.now = until;
    }

    fn set(&mut self, script: &mut Script<'_>) {
        let (connection, now) = (&mut self.connection, self.now);
        match script.byte() % 12 {
            0 => connection.options().no_delay ^= true,
            1 => connection.options().cork ^= true,
            2 => connection.set_quick_ack(script.byte().is_multiple_of(2)),
            3 => {
                // A user timeout replaces the limit on the number of probes. The option's minimum is one
                // second.
                let [idle, interval] = [(); 2].map(|()| u64::from(script.byte().max(1)) * 1000 * MILLISECOND);
                let count = u32::from(script.byte());
                connection.set_keep_alive(Some(KeepAlive { idle, interval, count }));
            }
            4 => connection.set_user_timeout(Some(u64::from(script.word()) * MILLISECOND)),
            5 => connection.set_orphan(now),
            6 => connection.set_send_buffer(u32::from(script.word())),
            7 => connection.set_receive_buffer(u32::from(script.word())),
            8 => connection.set_mss(script.word()),
            9 => connection.reduce_mss(script.word()),
            10 => connection.on_unreachable(now),
            _ => connection.repeat_syn(now),
        }
    }

    fn assert_sane(&self) {
        let (connection, pool) = (&self.connection, &self.pool);
        assert!(pool.used() <= pool.limit());
        assert_eq!(
            self.read + connection.readable(),
            connection.receive_next() - u32::from(connection.is_read_closed())
        );
        let _ = (
            connection.writable(),
            connection.is_roomy(),
            connection.is_held_back(),
            connection.unacknowledged(),
        );
    }
}

/// Runs `data` as a script.
///
/// # Panics
///
/// Only if the state machine has a bug.
pub fn connection(data: &[u8]) {
    let mut script = Script(data);
    let mut owner = Owner::new(&mut script);
    while !script.0.is_empty() {
        let command = script.byte();
        let max = if command & 0x80 == 0 { 0 } else { 65_000 };
        match command & 15 {
            0..=6 => owner.receive(&mut script),
            7 => owner.write(u32::from(script.word())),
            8 => owner.read(usize::from(script.word()), command & 0x40 != 0),
            9 | 10 => owner.wait(owner.now + u64::from(script.byte()) * MILLISECOND, max),
            11 => owner.wait(owner.now + u64::from(script.byte()) * 1000 * MILLISECOND, max),
            12 => owner.set(&mut script),
            13 => owner.is_held ^= true,
            14 if command & 0x70 == 0x70 => owner.connection.abort(&mut owner.pool),
            14 => owner.connection.close(),
            _ => (),
        }
        owner.send(max);
        owner.assert_sane();
    }
    owner.connection.release(&mut owner.pool);
    assert_eq!(owner.pool.used(), 0);
}
