//! Packet scripts in the manner of packetdrill.
//!
//! A line is a time in milliseconds and an event at this time:
//!
//! | | |
//! | --- | --- |
//! | `< FLAGS SEQ:END [ack N] [win N] [OPTIONS]` | a segment arrives |
//! | `> FLAGS SEQ:END [ack N] [win N] [OPTIONS]` | a segment was sent, then and not before |
//! | `write N`, `read N`, `close`, `abort` | the owner's calls |
//! | `hold`, `resume` | the device is full, and has room again |
//! | `orphan` | the connection has no owner any more |
//! | `nodelay`, `keepalive IDLE INTERVAL COUNT`, `usertimeout TIME` | options; times in ms |
//! | `state NAME` | the state is this |
//!
//! FLAGS are letters of `SAFRPEW` (`E` is ECE, `W` is CWR, `c` a mark of the IP header). Sequence numbers are
//! relative to the initial ones. OPTIONS are `mss N`, `wscale N`, `sackok`, `ts VALUE ECHO`, `sack START-END
//! ...`. Fields that an expected segment does not name are not compared, except for SACK blocks. Every sent
//! segment must be expected.

use core::str::SplitWhitespace;
use std::collections::VecDeque;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::network::byte;
use crate::connection::{Connection, Parameters};
use crate::rtt::MS;
use crate::segment::{Flags, Header, Options, SackBlock, Segment, Timestamp};
use crate::timers::KeepAlive;
use crate::{Algorithm, Pool, Seq};

const ISS: Seq = Seq(u32::MAX - 5000);
const IRS: Seq = Seq(77_000);

pub(super) struct Script {
    pub(super) connection: Option<Connection>,
    parameters: Parameters,
    pool: Pool,
    now: u64,
    sent: VecDeque<(u64, Header, u32)>,
    written: u64,
    is_held: bool,
}

/// A segment of a line.
#[derive(Debug, Default)]
struct Line {
    flags: Flags,
    is_marked: bool,
    start: u32,
    size: u32,
    ack: Option<u32>,
    window: Option<u16>,
    options: Options,
    has_timestamp: bool,
}

fn number<T: core::str::FromStr>(word: Option<&str>) -> T {
    let word = word.unwrap_or_else(|| panic!("a number is missing"));
    word.parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

fn flags(word: &str) -> (Flags, bool) {
    let mut flags = Flags::empty();
    for letter in word.chars() {
        flags |= match letter {
            'S' => Flags::SYN,
            'A' => Flags::ACK,
            'F' => Flags::FIN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            'c' => Flags::empty(),
            _ => panic!("no flag: {letter}"),
        };
    }
    (flags, word.contains('c'))
}

/// Parses a SACK block `START-END`. The numbers are relative to `first`, the initial number of the end that
/// receives the block.
fn block(word: &str, first: Seq) -> SackBlock {
    let (start, end) = word.split_once('-').unwrap();
    SackBlock { start: first + number(Some(start)), end: first + number(Some(end)) }
}

/// Parses the segment of a line. The SACK blocks report data of the end with the initial number `own`.
fn parse(words: &mut SplitWhitespace<'_>, own: Seq) -> Line {
    let mut line = Line::default();
    (line.flags, line.is_marked) = flags(words.next().unwrap());
    let (start, end) = words.next().and_then(|range| range.split_once(':')).unwrap();
    line.start = number(Some(start));
    line.size = number::<u32>(Some(end)) - line.start;
    while let Some(word) = words.next() {
        match word {
            "ack" => line.ack = Some(number(words.next())),
            "win" => line.window = Some(number(words.next())),
            "mss" => line.options.mss = Some(number(words.next())),
            "wscale" => line.options.window_scale = Some(number(words.next())),
            "sackok" => line.options.sack_permitted = true,
            "ts" => {
                let (value, echo) = (number(words.next()), number(words.next()));
                line.options.timestamp = Some(Timestamp { value, echo });
                line.has_timestamp = true;
            }
            "sack" => (),
            range => line.options.sack.push(block(range, own)),
        }
    }
    line
}

impl Script {
    pub(super) fn new() -> Self {
        let parameters = Parameters {
            iss: ISS,
            clock_offset: 0,
            mss: 1000,
            default_mss: 536,
            algorithm: Algorithm::Reno,
            is_paced: false,
            receive_buffer: (64_000, 64_000),
            send_buffer: (1_000_000, 1_000_000),
            asks_for_ecn: false,
            has_options: true,
        };
        Self {
            connection: None,
            parameters,
            pool: Pool::new(16 << 20),
            now: 0,
            sent: VecDeque::new(),
            written: 0,
            is_held: false,
        }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Parameters)) -> Self {
        change(&mut self.parameters);
        self
    }

    /// The initial sequence number.
    pub(super) const fn iss(&self) -> Seq {
        self.parameters.iss
    }

    /// Limits the memory for data to `limit` bytes.
    pub(super) fn with_memory(mut self, limit: usize) -> Self {
        self.pool = Pool::new(limit);
        self
    }

    /// Runs the lines of a script.
    pub(super) fn run(mut self, script: &str) -> Self {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let at = number::<u64>(words.next()) * MS;
            self.advance(at, line);
            let word = words.next().unwrap();
            if word == ">" {
                let expected = parse(&mut words, IRS);
                self.expect(at, &expected, line);
                continue;
            }
            assert!(word == "state" || self.sent.is_empty(), "before `{line}`: {}", self.describe());
            self.step(word, &mut words);
            self.collect();
        }
        assert!(self.sent.is_empty(), "at the end: {}", self.describe());
        self
    }

    fn step(&mut self, word: &str, words: &mut SplitWhitespace<'_>) {
        let now = self.now;
        if word == "connect" {
            self.connection = Some(Connection::connect(self.parameters, now));
            return;
        }
        if matches!(word, "hold" | "resume") {
            self.is_held = word == "hold";
            return;
        }
        if word == "<" {
            return self.receive(&parse(words, ISS));
        }
        let connection = self.connection.as_mut().unwrap();
        match word {
            "write" => {
                let size: u64 = number(words.next());
                let bytes: Vec<u8> = (self.written..self.written + size).map(byte).collect();
                assert_eq!(connection.write(&bytes, &mut self.pool), bytes.len());
                self.written += size;
            }
            "read" => {
                let mut left: usize = number(words.next());
                let mut sink = |piece: &[u8]| {
                    let size = piece.len().min(left);
                    left -= size;
                    size
                };
                connection.read(false, &mut sink, &mut self.pool, now);
                assert_eq!(left, 0);
            }
            "close" => connection.close(),
            "abort" => connection.abort(&mut self.pool),
            "nodelay" => connection.options().no_delay = true,
            "orphan" => connection.set_orphan(now),
            "usertimeout" => connection.set_user_timeout(Some(number::<u64>(words.next()) * MS)),
            "keepalive" => {
                let (idle, interval) = (number::<u64>(words.next()) * MS, number::<u64>(words.next()) * MS);
                connection.set_keep_alive(Some(KeepAlive { idle, interval, count: number(words.next()) }));
            }
            "state" => {
                assert_eq!(format!("{:?}", connection.state()), words.next().unwrap(), "at {} ms", now / MS);
            }
            word => panic!("unknown: {word}"),
        }
    }

    fn receive(&mut self, line: &Line) {
        let header = Header {
            seq: IRS + line.start,
            ack: line.ack.map_or(Seq(0), |ack| ISS + ack),
            flags: line.flags,
            window: line.window.unwrap_or(u16::MAX),
            urgent: 0,
            options: line.options,
        };
        let data = line.size
            - u32::from(header.flags.contains(Flags::SYN))
            - u32::from(header.flags.contains(Flags::FIN));
        let payload: Vec<u8> = (0..u64::from(data)).map(|at| byte(u64::from(line.start) + at)).collect();
        let segment = Segment { header, payload: &payload, is_marked: line.is_marked };
        match &mut self.connection {
            Some(connection) => drop(connection.receive(&segment, &mut self.pool, self.now)),
            None => self.connection = Some(Connection::accept(self.parameters, &segment, self.now)),
        }
    }

    /// Advances the time, and handles the deadlines until then. A deadline that waits for the device stays
    /// due, so the timers are then checked every millisecond.
    fn advance(&mut self, at: u64, line: &str) {
        assert!(at >= self.now, "{line}");
        while let Some(connection) = &mut self.connection {
            let is_waiting = |deadline: u64| self.is_held && deadline <= self.now;
            let next = |deadline| if is_waiting(deadline) { self.now + MS } else { deadline };
            let Some(next) = connection.deadline().map(next).filter(|&next| next <= at) else { break };
            self.now = self.now.max(next);
            connection.on_timer(&mut self.pool, self.now);
            let before = self.sent.len();
            self.collect();
            assert!(self.sent.len() < before + 1000, "{line}");
        }
        self.now = at;
    }

    /// Takes the segments that the connection sends now.
    fn collect(&mut self) {
        let Some(connection) = self.connection.as_mut().filter(|_| !self.is_held) else { return };
        while let Some(transmit) = connection.next_segment(1000, &mut self.pool, self.now) {
            connection.sent(&transmit, self.now);
            self.sent.push_back((self.now, transmit.header, transmit.size()));
        }
    }

    fn expect(&mut self, at: u64, expected: &Line, line: &str) {
        let Some((time, header, data)) = self.sent.pop_front() else { panic!("nothing was sent: `{line}`") };
        let size = data
            + u32::from(header.flags.contains(Flags::SYN))
            + u32::from(header.flags.contains(Flags::FIN));
        let found = (time, header.flags - Flags::PSH, header.seq, size);
        let wanted = (at, expected.flags - Flags::PSH, ISS + expected.start, expected.size);
        let text = describe(&(time, header, data));
        assert_eq!(found, wanted, "`{line}`, but {text}");
        if let Some(ack) = expected.ack {
            assert_eq!(header.ack, IRS + ack, "`{line}`, but {text}");
        }
        if let Some(window) = expected.window {
            assert_eq!(header.window, window, "`{line}`, but {text}");
        }
        assert_eq!(header.options.sack, expected.options.sack, "`{line}`, but {text}");
        if header.flags.contains(Flags::SYN) {
            let options = |options: &Options| (options.mss, options.window_scale, options.sack_permitted);
            assert_eq!(options(&header.options), options(&expected.options), "`{line}`");
        }
        if expected.has_timestamp {
            assert_eq!(header.options.timestamp, expected.options.timestamp, "`{line}`");
        }
    }

    fn describe(&self) -> String {
        self.sent.iter().map(|sent| describe(sent) + "; ").collect()
    }
}

fn describe((time, header, data): &(u64, Header, u32)) -> String {
    let start = header.seq.0.wrapping_sub(ISS.0);
    let ack = header.ack.0.wrapping_sub(IRS.0);
    let sack: Vec<_> = header
        .options
        .sack
        .as_slice()
        .iter()
        .map(|block| (block.start.since(IRS), block.end.since(IRS)))
        .collect();
    format!(
        "{}.{:03} > {:?} {start}+{data} ack {ack} win {} {sack:?}",
        time / MS,
        time % MS / 1000,
        header.flags,
        header.window
    )
}
