//! Connections in TIME-WAIT, remembered in case their last acknowledgement was lost (RFC 9293 §3.6.1).
//!
//! Of each only that acknowledgement is kept: the rest of the connection has been freed.

use alloc::collections::VecDeque;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hermit_tcp::{Flags, Header, Options, Seq, Timestamp};

use crate::address::Tuple;

/// How long a connection is in TIME-WAIT, in nanoseconds: Linux's `TCP_TIMEWAIT_LEN`.
const TIME_WAIT: u64 = 60_000_000_000;

/// Minimum time in nanoseconds between answers of a connection: Linux's `tcp_invalid_ratelimit`. Two hosts that remember
/// the connection in different ways would answer each other for ever.
const ANSWER_INTERVAL: u64 = 500_000_000;

/// Maximum number of connections; the oldest is forgotten first.
const MAX_RECORDS: usize = 8192;

/// The interval of the timestamp clock, in nanoseconds.
const TICK: u64 = 1_000_000;

/// A connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    seq: Seq,
    /// The number behind the peer's FIN.
    ack: Seq,
    window: u16,
    /// Timestamps of the last acknowledgement, which was sent at the beginning.
    timestamp: Option<Timestamp>,
    /// Whether its port is shared.
    pub(crate) reuse: bool,
    expires: u64,
    answered: Option<u64>,
}

impl Record {
    /// The last acknowledgement, as it is sent now.
    fn answer(&self, now: u64) -> Header {
        let age = now.saturating_sub(self.expires.saturating_sub(TIME_WAIT)) / TICK;
        let age = u32::try_from(age).unwrap_or(u32::MAX);
        let timestamp = self
            .timestamp
            .map(|timestamp| Timestamp { value: timestamp.value.wrapping_add(age), ..timestamp });
        Header {
            seq: self.seq,
            ack: self.ack,
            flags: Flags::ACK,
            window: self.window,
            options: Options { timestamp, ..Options::default() },
            ..Header::default()
        }
    }

    /// Whether a SYN is later than the connection, by its number or its timestamp (RFC 6191 §2).
    fn is_before(&self, syn: &Header) -> bool {
        let has_later_timestamp = match (self.timestamp, syn.options.timestamp) {
            (Some(last), Some(new)) => new.value.wrapping_sub(last.echo).cast_signed() > 0,
            _ => false,
        };
        has_later_timestamp || self.ack.is_before(syn.seq)
    }
}

/// What is to be done about a segment of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is answered so.
    Answer(Header),
    /// It says nothing new, or another one was answered just now.
    Ignore,
    /// It begins another connection: the record goes.
    Begin,
    /// The peer has forgotten the connection: the record goes.
    Forget,
}

/// All connections in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct TimeWait {
    records: HashMap<Tuple, Record, FixedState>,
    /// In the order in which they expire. Some may be gone already.
    order: VecDeque<(u64, Tuple)>,
}

impl TimeWait {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { records: HashMap::with_hasher(FixedState::with_seed(seed)), order: VecDeque::new() }
    }

    /// Whether the ends of a connection are remembered.
    pub(crate) fn contains(&self, tuple: &Tuple) -> bool {
        self.records.contains_key(tuple)
    }

    /// Remembers a connection with its last acknowledgement; `false` without memory.
    pub(crate) fn insert(&mut self, tuple: Tuple, last: &Header, reuse: bool, now: u64) -> bool {
        if self.records.try_reserve(1).is_err() || self.order.try_reserve(1).is_err() {
            return false;
        }
        let expires = now.saturating_add(TIME_WAIT);
        let &Header { seq, ack, window, options: Options { timestamp, .. }, .. } = last;
        self.records.insert(tuple, Record { seq, ack, window, timestamp, reuse, expires, answered: None });
        self.order.push_back((expires, tuple));
        true
    }

    /// Forgets a connection.
    pub(crate) fn remove(&mut self, tuple: &Tuple) -> Option<Record> {
        self.records.remove(tuple)
    }

    /// Forgets one whose time is over, or for which there is no more room, and returns it.
    pub(crate) fn expire(&mut self, now: u64) -> Option<(Tuple, Record)> {
        while let Some(&(expires, tuple)) = self.order.front() {
            if expires > now && self.order.len() <= MAX_RECORDS {
                return None;
            }
            self.order.pop_front();
            // One of the same ends may have come later.
            if self.records.get(&tuple).is_some_and(|record| record.expires == expires) {
                return self.records.remove(&tuple).map(|record| (tuple, record));
            }
        }
        None
    }

    /// What to do about a segment of `size` sequence numbers; `None`: its connection is not in TIME-WAIT.
    pub(crate) fn judge(&mut self, tuple: &Tuple, segment: &Header, size: u32, now: u64) -> Option<Verdict> {
        let record = self.records.get_mut(tuple)?;
        let flags = segment.flags;
        let is_next = segment.seq == record.ack;
        let is_bare = size == 0 && !flags.contains(Flags::RST);
        let is_syn = flags & (Flags::SYN | Flags::ACK | Flags::RST) == Flags::SYN;
        let is_early = record.answered.is_some_and(|then| now.saturating_sub(then) < ANSWER_INTERVAL);
        Some(if flags.contains(Flags::RST) && is_next {
            // As Linux does, unless told otherwise (net.ipv4.tcp_rfc1337).
            Verdict::Forget
        } else if is_syn && record.is_before(segment) {
            Verdict::Begin
        } else if is_bare && is_next || is_early && !is_syn {
            // A peer that begins another connection waits for the answer, and resets what is remembered here.
            Verdict::Ignore
        } else {
            record.answered = Some(now);
            Verdict::Answer(record.answer(now))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_INTERVAL, MAX_RECORDS, TICK, TIME_WAIT, TimeWait, Verdict};
    use crate::address::{Endpoint, Tuple};
    use core::net::IpAddr;
    use hermit_tcp::{Flags, Header, Options, Seq, Timestamp};

    const HERE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

    fn answer() -> Header {
        Header { seq: Seq(5), ack: Seq(100), flags: Flags::ACK, window: 9, ..Header::default() }
    }

    fn tuple(port: u16) -> Tuple {
        Tuple { local: Endpoint::new(HERE, 80), remote: Endpoint::new(HERE, port) }
    }

    fn segment(seq: u32, flags: Flags) -> Header {
        Header { seq: Seq(seq), flags, ..Header::default() }
    }

    /// What is done about a segment.
    fn judge(waiting: &mut TimeWait, port: u16, header: &Header, now: u64) -> Verdict {
        let size = u32::from(header.flags.intersects(Flags::SYN | Flags::FIN));
        waiting.judge(&tuple(port), header, size, now).unwrap()
    }

    #[test]
    fn segments_of_the_past_are_answered_and_new_connections_begin() {
        let mut waiting = TimeWait::new(1);
        assert!(waiting.insert(tuple(1), &answer(), true, 0));
        let rows = [
            (99, Flags::FIN, Verdict::Answer(answer())),
            (101, Flags::SYN, Verdict::Begin),
            (99, Flags::SYN, Verdict::Answer(answer())),
            (100, Flags::RST, Verdict::Forget),
            (7, Flags::RST, Verdict::Answer(answer())),
            (100, Flags::ACK, Verdict::Ignore),
            (100, Flags::FIN, Verdict::Answer(answer())),
        ];
        for ((seq, flags, expected), round) in rows.into_iter().zip(1..) {
            let now = round * ANSWER_INTERVAL;
            assert_eq!(judge(&mut waiting, 1, &segment(seq, flags), now), expected, "{seq} {flags:?}");
        }
    }

    #[test]
    fn the_past_is_answered_twice_a_second() {
        let mut waiting = TimeWait::new(1);
        assert!(waiting.insert(tuple(1), &answer(), true, 0) && waiting.insert(tuple(2), &answer(), true, 0));
        let mut judge = |port, flags, now| judge(&mut waiting, port, &segment(99, flags), now);
        assert_eq!(judge(1, Flags::ACK, 7), Verdict::Answer(answer()));
        assert_eq!(judge(1, Flags::ACK, 6 + ANSWER_INTERVAL), Verdict::Ignore);
        assert_eq!(judge(2, Flags::ACK, 6 + ANSWER_INTERVAL), Verdict::Answer(answer()));
        assert_eq!(judge(1, Flags::ACK, 7 + ANSWER_INTERVAL), Verdict::Answer(answer()));
        // A peer that wants to begin again does not wait.
        assert_eq!(judge(1, Flags::SYN, 8 + ANSWER_INTERVAL), Verdict::Answer(answer()));
    }

    #[test]
    fn a_later_timestamp_begins_another_connection() {
        let mut waiting = TimeWait::new(1);
        let with = |header: Header, value, echo| Header {
            options: Options { timestamp: Some(Timestamp { value, echo }), ..Options::default() },
            ..header
        };
        assert!(waiting.insert(tuple(1), &with(answer(), 1000, 50), true, 0));
        let syn = segment(7, Flags::SYN);
        let late = with(answer(), 1003, 50);
        assert_eq!(judge(&mut waiting, 1, &with(syn, 50, 0), 3 * TICK), Verdict::Answer(late));
        assert_eq!(judge(&mut waiting, 1, &with(syn, 51, 0), 4 * TICK), Verdict::Begin);
    }

    #[test]
    fn records_expire_and_are_bounded() {
        let mut waiting = TimeWait::new(1);
        assert!(waiting.insert(tuple(1), &answer(), true, 0));
        assert!(waiting.remove(&tuple(1)).is_some());
        assert!(waiting.insert(tuple(1), &answer(), false, 10));
        assert!(waiting.expire(TIME_WAIT).is_none() && waiting.contains(&tuple(1)));
        assert!(waiting.expire(TIME_WAIT + 10).is_some_and(|(_, record)| !record.reuse));
        for port in 0..=u16::try_from(MAX_RECORDS).unwrap() {
            assert!(waiting.expire(0).is_none());
            assert!(waiting.insert(tuple(port), &answer(), true, 0));
        }
        assert_eq!(waiting.expire(0).map(|(tuple, _)| tuple.remote.port), Some(0));
        assert!(waiting.expire(0).is_none());
    }
}
