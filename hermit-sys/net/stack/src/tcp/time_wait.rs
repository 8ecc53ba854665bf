//! Connections that are over, remembered in case their last acknowledgement was lost (RFC 9293, section 3.6.1).
//!
//! They have no buffers any more: smoltcp's socket is used for another connection meanwhile.

use alloc::collections::VecDeque;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use smoltcp::wire::TcpPacket;

use crate::address::Tuple;
use crate::wire::emit::Acknowledgement;

/// How long one is remembered: Linux's `TCP_TIMEWAIT_LEN`.
const MEMORY: u64 = 60_000_000_000;

/// How often the segments of one are answered at most: Linux's `tcp_invalid_ratelimit`. Where the peer remembers the connection
/// in another way, the two would answer each other for ever.
const PAUSE: u64 = 500_000_000;

/// Most that are remembered; the oldest is forgotten first.
const MAX_RECORDS: usize = 8192;

/// A connection that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// What is answered to a segment that comes again.
    pub(crate) answer: Acknowledgement,
    /// Whether its port is shared.
    pub(crate) reuse: bool,
    expires: u64,
    /// When a segment was last answered.
    answered: Option<u64>,
}

/// What a segment for a remembered connection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is answered so.
    Answer(Acknowledgement),
    /// It says nothing new, or was answered just now.
    Ignore,
    /// It begins another connection: the record goes.
    Begin,
    /// The peer knows nothing of it: the record goes.
    Forget,
}

/// All records.
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

    /// Remembers a connection; `false` if there is no memory to.
    pub(crate) fn insert(&mut self, tuple: Tuple, answer: Acknowledgement, reuse: bool, now: u64) -> bool {
        if self.records.try_reserve(1).is_err() || self.order.try_reserve(1).is_err() {
            return false;
        }
        let expires = now.saturating_add(MEMORY);
        self.records.insert(tuple, Record { answer, reuse, expires, answered: None });
        self.order.push_back((expires, tuple));
        true
    }

    /// Forgets a connection.
    pub(crate) fn remove(&mut self, tuple: &Tuple) -> Option<Record> {
        self.records.remove(tuple)
    }

    /// Forgets one whose time has come, or for which there is no more room, and says whose it was.
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

    /// What to do about a segment.
    pub(crate) fn judge(&mut self, tuple: &Tuple, segment: &TcpPacket<&[u8]>, now: u64) -> Option<Verdict> {
        let record = self.records.get_mut(tuple)?;
        let expected = record.answer.acknowledged;
        let is_next = segment.seq_number() == expected;
        let is_bare = segment.segment_len() == 0 && !segment.rst();
        let is_first = segment.syn() && !segment.ack() && !segment.rst();
        let is_early = record.answered.is_some_and(|then| now.saturating_sub(then) < PAUSE);
        Some(if segment.rst() && is_next {
            // As Linux does, unless told otherwise (net.ipv4.tcp_rfc1337).
            Verdict::Forget
        } else if is_first && segment.seq_number() > expected {
            Verdict::Begin
        } else if is_bare && is_next || is_early && !is_first {
            // Whoever begins another connection is waiting for the answer, and resets what is remembered here.
            Verdict::Ignore
        } else {
            record.answered = Some(now);
            Verdict::Answer(record.answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_RECORDS, MEMORY, PAUSE, TimeWait, Verdict};
    use crate::address::{Endpoint, Tuple};
    use crate::wire::emit::Acknowledgement;
    use core::net::IpAddr;
    use smoltcp::wire::{TcpPacket, TcpSeqNumber};

    const HERE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);
    const ANSWER: Acknowledgement =
        Acknowledgement { sequence: TcpSeqNumber(5), acknowledged: TcpSeqNumber(100), window: 9 };

    fn tuple(port: u16) -> Tuple {
        Tuple { local: Endpoint::new(HERE, 80), remote: Endpoint::new(HERE, port) }
    }

    fn segment(sequence: i32, set: impl Fn(&mut TcpPacket<&mut [u8]>)) -> [u8; 20] {
        let mut bytes = [0; 20];
        let mut packet = TcpPacket::new_unchecked(&mut bytes[..]);
        packet.set_header_len(20);
        packet.set_seq_number(TcpSeqNumber(sequence));
        set(&mut packet);
        bytes
    }

    #[test]
    fn segments_of_the_past_are_answered_and_new_connections_begin() {
        let mut waiting = TimeWait::new(1);
        assert!(waiting.insert(tuple(1), ANSWER, true, 0));
        let mut now = 0;
        let mut judge = |bytes: [u8; 20]| {
            now += PAUSE;
            waiting.judge(&tuple(1), &TcpPacket::new_unchecked(&bytes[..]), now).unwrap()
        };
        assert_eq!(judge(segment(99, |packet| packet.set_fin(true))), Verdict::Answer(ANSWER));
        assert_eq!(judge(segment(101, |packet| packet.set_syn(true))), Verdict::Begin);
        assert_eq!(judge(segment(99, |packet| packet.set_syn(true))), Verdict::Answer(ANSWER));
        assert_eq!(judge(segment(100, |packet| packet.set_rst(true))), Verdict::Forget);
        assert_eq!(judge(segment(7, |packet| packet.set_rst(true))), Verdict::Answer(ANSWER));
        assert_eq!(judge(segment(100, |packet| packet.set_ack(true))), Verdict::Ignore);
        assert_eq!(judge(segment(100, |packet| packet.set_fin(true))), Verdict::Answer(ANSWER));
    }

    #[test]
    fn the_past_is_answered_twice_a_second() {
        let mut waiting = TimeWait::new(1);
        assert!(waiting.insert(tuple(1), ANSWER, true, 0) && waiting.insert(tuple(2), ANSWER, true, 0));
        let mut judge = |port, is_first, now| {
            let bytes = segment(99, |packet| packet.set_syn(is_first));
            waiting.judge(&tuple(port), &TcpPacket::new_unchecked(&bytes[..]), now).unwrap()
        };
        assert_eq!(judge(1, false, 7), Verdict::Answer(ANSWER));
        assert_eq!(judge(1, false, 6 + PAUSE), Verdict::Ignore);
        assert_eq!(judge(2, false, 6 + PAUSE), Verdict::Answer(ANSWER));
        assert_eq!(judge(1, false, 7 + PAUSE), Verdict::Answer(ANSWER));
        // Whoever wants to begin again does not wait.
        assert_eq!(judge(1, true, 8 + PAUSE), Verdict::Answer(ANSWER));
    }

    #[test]
    fn records_expire_and_are_bounded() {
        let mut waiting = TimeWait::new(1);
        assert!(waiting.insert(tuple(1), ANSWER, true, 0));
        assert!(waiting.remove(&tuple(1)).is_some());
        assert!(waiting.insert(tuple(1), ANSWER, false, 10));
        assert!(waiting.expire(MEMORY).is_none() && waiting.contains(&tuple(1)));
        assert!(waiting.expire(MEMORY + 10).is_some_and(|(_, record)| !record.reuse));
        for port in 0..=u16::try_from(MAX_RECORDS).unwrap() {
            assert!(waiting.expire(0).is_none());
            assert!(waiting.insert(tuple(port), ANSWER, true, 0));
        }
        assert_eq!(waiting.expire(0).map(|(tuple, _)| tuple.remote.port), Some(0));
        assert!(waiting.expire(0).is_none());
    }
}
