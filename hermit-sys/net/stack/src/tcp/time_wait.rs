//! Connections in TIME-WAIT, which retransmit the last ACK if it was lost (RFC 9293 §3.6.1).
//!
//! After both ends have sent a FIN, a connection must be remembered for a minute: the peer may not have
//! received the last ACK, and old segments may still arrive. A full connection would take too much memory, so
//! only the fields of the last ACK are kept in a [`Record`]. A retransmitted FIN is answered with this ACK. A
//! SYN that is newer than the connection ends TIME-WAIT, and starts a new connection (RFC 6191). The number
//! of records is bounded: the oldest one is removed first.

use hermit_tcp::{Flags, Header, Options, Pool, Purpose, Seq, Timestamp};

use crate::collections::aging::Aging;
use crate::socket::address::Tuple;

/// Length of TIME-WAIT in nanoseconds: Linux's `TCP_TIMEWAIT_LEN`.
const TIME_WAIT: u64 = 60_000_000_000;

/// Minimum interval in nanoseconds between answers of a connection: Linux's `tcp_invalid_ratelimit`. Two
/// hosts whose records differ would otherwise answer each other without end.
const ANSWER_INTERVAL: u64 = 500_000_000;

/// Memory in bytes that is counted for a record and its entries in tables.
const SIZE: usize = 256;

/// Divisor of the memory for sockets: records take at most this part of it. When they exceed it, the oldest
/// one is removed. Linux scales `tcp_max_tw_buckets` with memory, too.
const SHARE: usize = 8;

/// Tick of the timestamp clock in nanoseconds.
const TICK: u64 = 1_000_000;

/// A connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    seq: Seq,
    /// Sequence number after the peer's FIN.
    ack: Seq,
    window: u16,
    /// Timestamps of the last ACK, sent when TIME-WAIT started.
    timestamp: Option<Timestamp>,
    /// True if `SO_REUSEADDR` is set.
    pub(crate) reuse: bool,
    /// Time in nanoseconds at which TIME-WAIT started.
    since: u64,
    answered: Option<u64>,
}

impl Record {
    /// Returns the last ACK, with the current timestamp.
    fn answer(&self, now: u64) -> Header {
        let age = now.saturating_sub(self.since) / TICK;
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

    /// True if a SYN is newer than the connection, by sequence number or timestamp (RFC 6191 §2).
    fn is_before(&self, syn: &Header) -> bool {
        let has_later_timestamp = match (self.timestamp, syn.options.timestamp) {
            (Some(last), Some(new)) => new.value.wrapping_sub(last.echo).cast_signed() > 0,
            _ => false,
        };
        has_later_timestamp || self.ack.is_before(syn.seq)
    }
}

/// Action for a segment of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send this answer.
    Answer(Header),
    /// Ignore the segment: it needs no answer, or the rate limit applies.
    Ignore,
    /// Remove the record: the SYN starts a new connection.
    Begin,
    /// Remove the record: the peer has sent a RST.
    Forget,
}

/// All connections in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct TimeWait {
    records: Aging<Tuple, Record>,
    /// Number of tables that share the memory.
    tables: usize,
}

impl TimeWait {
    /// Creates an empty table, one of `tables` that share the memory.
    pub(crate) const fn new(seed: u64, tables: usize) -> Self {
        Self { records: Aging::new(seed, TIME_WAIT), tables }
    }

    /// True if a tuple is in TIME-WAIT.
    pub(crate) fn contains(&self, tuple: &Tuple) -> bool {
        self.records.contains(tuple)
    }

    /// Adds a record with the last ACK; `false` without memory.
    pub(crate) fn insert(
        &mut self,
        tuple: Tuple,
        last: &Header,
        reuse: bool,
        pool: &mut Pool,
        now: u64,
    ) -> bool {
        let &Header { seq, ack, window, options: Options { timestamp, .. }, .. } = last;
        let record = Record { seq, ack, window, timestamp, reuse, since: now, answered: None };
        if !pool.charge(SIZE, Purpose::Connection) {
            return false;
        }
        let is_inserted = self.records.insert(tuple, record, now).is_ok();
        if !is_inserted {
            pool.refund(SIZE);
        }
        is_inserted
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, tuple: &Tuple, pool: &mut Pool) -> Option<Record> {
        self.records.remove(tuple).inspect(|_| pool.refund(SIZE))
    }

    /// Removes and returns a record that has expired, or that exceeds the share of the memory.
    pub(crate) fn expire(&mut self, pool: &mut Pool, now: u64) -> Option<(Tuple, Record)> {
        let deadline = self.records.deadline()?;
        let is_over = self.records.len() * SIZE * SHARE * self.tables > pool.limit();
        if deadline > now && !is_over {
            return None;
        }
        self.records.remove_oldest().inspect(|_| pool.refund(SIZE))
    }

    /// Memory in bytes that is counted for the records.
    #[cfg(test)]
    pub(crate) const fn memory(&self) -> usize {
        self.records.len() * SIZE
    }

    /// Returns the action for a segment of `size` sequence numbers; `None` if its tuple is not in TIME-WAIT.
    pub(crate) fn judge(&mut self, tuple: &Tuple, segment: &Header, size: u32, now: u64) -> Option<Verdict> {
        let record = self.records.get_mut(tuple)?;
        let flags = segment.flags;
        let is_next = segment.seq == record.ack;
        let is_bare = size == 0 && !flags.contains(Flags::RST);
        let is_syn = flags & (Flags::SYN | Flags::ACK | Flags::RST) == Flags::SYN;
        let is_early = record.answered.is_some_and(|then| now.saturating_sub(then) < ANSWER_INTERVAL);
        Some(if flags.contains(Flags::RST) && is_next {
            // As Linux does, without net.ipv4.tcp_rfc1337.
            Verdict::Forget
        } else if is_syn && record.is_before(segment) {
            Verdict::Begin
        } else if is_bare && is_next || is_early && !is_syn {
            // SYNs are not rate-limited: a peer that starts a new connection needs the ACK, and answers it
            // with a RST.
            Verdict::Ignore
        } else {
            record.answered = Some(now);
            Verdict::Answer(record.answer(now))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER_INTERVAL, SHARE, SIZE, TICK, TIME_WAIT, TimeWait, Verdict};
    use crate::socket::address::{Endpoint, Tuple};
    use core::net::IpAddr;
    use hermit_tcp::{Flags, Header, Options, Pool, Seq, Timestamp};

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

    /// Action for a segment of this port.
    fn judge(waiting: &mut TimeWait, port: u16, header: &Header, now: u64) -> Verdict {
        let size = u32::from(header.flags.intersects(Flags::SYN | Flags::FIN));
        waiting.judge(&tuple(port), header, size, now).unwrap()
    }

    #[test]
    fn time_wait_answers_old_segments_and_admits_new_syns() {
        let mut waiting = TimeWait::new(1, 1);
        let pool = &mut Pool::new(1 << 20);
        assert!(waiting.insert(tuple(1), &answer(), true, pool, 0));
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
    fn time_wait_answers_are_rate_limited() {
        let mut waiting = TimeWait::new(1, 1);
        let pool = &mut Pool::new(1 << 20);
        assert!(
            waiting.insert(tuple(1), &answer(), true, pool, 0)
                && waiting.insert(tuple(2), &answer(), true, pool, 0)
        );
        let mut judge = |port, flags, now| judge(&mut waiting, port, &segment(99, flags), now);
        assert_eq!(judge(1, Flags::ACK, 7), Verdict::Answer(answer()));
        assert_eq!(judge(1, Flags::ACK, 6 + ANSWER_INTERVAL), Verdict::Ignore);
        assert_eq!(judge(2, Flags::ACK, 6 + ANSWER_INTERVAL), Verdict::Answer(answer()));
        assert_eq!(judge(1, Flags::ACK, 7 + ANSWER_INTERVAL), Verdict::Answer(answer()));
        // A SYN is not rate-limited.
        assert_eq!(judge(1, Flags::SYN, 8 + ANSWER_INTERVAL), Verdict::Answer(answer()));
    }

    #[test]
    fn newer_timestamp_starts_a_new_connection() {
        let mut waiting = TimeWait::new(1, 1);
        let pool = &mut Pool::new(1 << 20);
        let with = |header: Header, value, echo| Header {
            options: Options { timestamp: Some(Timestamp { value, echo }), ..Options::default() },
            ..header
        };
        assert!(waiting.insert(tuple(1), &with(answer(), 1000, 50), true, pool, 0));
        let syn = segment(7, Flags::SYN);
        let late = with(answer(), 1003, 50);
        assert_eq!(judge(&mut waiting, 1, &with(syn, 50, 0), 3 * TICK), Verdict::Answer(late));
        assert_eq!(judge(&mut waiting, 1, &with(syn, 51, 0), 4 * TICK), Verdict::Begin);
    }

    #[test]
    fn records_expire_after_60_s() {
        let mut waiting = TimeWait::new(1, 1);
        let pool = &mut Pool::new(1 << 20);
        assert!(waiting.insert(tuple(1), &answer(), true, pool, 0));
        assert!(waiting.remove(&tuple(1), pool).is_some());
        assert!(waiting.insert(tuple(1), &answer(), false, pool, 10));
        assert!(waiting.expire(pool, TIME_WAIT).is_none() && waiting.contains(&tuple(1)));
        assert_eq!(pool.used(), SIZE);
        assert!(waiting.expire(pool, TIME_WAIT + 10).is_some_and(|(_, record)| !record.reuse));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn records_take_a_share_of_the_memory() {
        let pool = &mut Pool::new(if cfg!(miri) { 1 << 20 } else { 64 << 20 });
        let most = pool.limit() / SHARE / SIZE;
        let mut waiting = TimeWait::new(1, 1);
        // The first half of the records is removed early, and leaves nothing in the list.
        for number in 0..2 * most {
            let tuple = numbered(number);
            assert!(waiting.insert(tuple, &answer(), true, pool, 0) && waiting.expire(pool, 0).is_none());
            if number < most {
                waiting.remove(&tuple, pool);
            }
        }
        assert_eq!((waiting.records.len(), pool.used()), (most, most * SIZE));
        assert!(waiting.insert(numbered(0), &answer(), true, pool, 0));
        assert_eq!(waiting.expire(pool, 0).map(|(tuple, _)| tuple), Some(numbered(most)));
        assert!(waiting.expire(pool, 0).is_none());
        // Two tables have half of the memory each.
        waiting.tables = 2;
        while waiting.expire(pool, 0).is_some() {}
        assert_eq!(waiting.memory(), pool.limit() / SHARE / 2);
    }

    fn numbered(number: usize) -> Tuple {
        let [.., a, b, c, d] = number.to_be_bytes();
        Tuple { remote: Endpoint::new([10, 0, a, b].into(), u16::from_be_bytes([c, d])), ..tuple(0) }
    }
}
