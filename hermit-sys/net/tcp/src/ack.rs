//! Delayed acknowledgements: data is acknowledged at once, after a delay, or with the next data segment (RFC
//! 9293 §3.8.6.3, RFC 5681 §4.2).

use crate::rtt::MS;
use crate::segment::SackBlock;
use crate::seq::Seq;

/// Delay of an acknowledgement: Linux's `TCP_DELACK_MIN`.
const DELAY: u64 = 40 * MS;

/// Maximum number of full-sized segments per acknowledgement while data flows, and the delay of such a
/// stretched acknowledgement. RFC 9293 asks for an acknowledgement after every second segment, but so many
/// cost much of the CPU time of a transfer. Receivers have long sent fewer, since devices coalesce segments.
/// The delay is short, because a sender with a small window waits for each acknowledgement.
const MAX_STRETCH: u32 = 8;
const STRETCH_DELAY: u64 = MS;

/// Divisors for further bounds of a stretched acknowledgement: a sixteenth of the bytes that have flowed, and
/// an eighth of the receive buffer. A peer that begins, or has just lost a segment, has a small window and
/// soon waits.
const FLOW_SHARE: u32 = 16;
const BUFFER_SHARE: u32 = 8;

/// Divisor of the receive buffer: this part of it is acknowledged at once, even if it is less than two
/// segments.
const WINDOW_SHARE: u32 = 4;

/// Number of full-sized segments at the start that are acknowledged one by one, since the peer's slow start
/// waits for each acknowledgement: Linux's `TCP_MAX_QUICKACKS`.
const QUICK_ACKS: u8 = 16;

/// Minimum time between answers to segments that are not acceptable: Linux's `tcp_invalid_ratelimit`.
const CHALLENGE_INTERVAL: u64 = 500 * MS;

/// State of the acknowledgements that a connection sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckState {
    /// Bytes in order since the last acknowledgement.
    pending: u32,
    /// Bytes in order since the last gap or duplicate.
    flowed: u32,
    deadline: Option<u64>,
    is_due: bool,
    quick: u8,
    /// Duplicate data to be reported by the next acknowledgement (RFC 2883).
    pub(crate) dsack: Option<SackBlock>,
    /// RCV.NXT of the last acknowledgement.
    pub(crate) last: Seq,
    challenged_at: Option<u64>,
    /// `TCP_QUICKACK`: acknowledgements are not delayed.
    pub(crate) is_quick_forced: bool,
}

impl AckState {
    pub(crate) const fn new(next: Seq, is_quick_forced: bool) -> Self {
        Self {
            pending: 0,
            flowed: 0,
            deadline: None,
            is_due: false,
            quick: QUICK_ACKS,
            dsack: None,
            last: next,
            challenged_at: None,
            is_quick_forced,
        }
    }

    /// Asks for an acknowledgement at once.
    pub(crate) const fn set_due(&mut self) {
        self.is_due = true;
    }

    /// Makes a delayed acknowledgement due at once.
    pub(crate) const fn hasten(&mut self) {
        self.is_due |= self.deadline.is_some();
    }

    /// Reports a gap or a duplicate at once (RFC 5681 §4.2). The peer's window is small then, so the next
    /// segments are acknowledged one by one, as in Linux after duplicates.
    pub(crate) const fn on_disorder(&mut self) {
        (self.flowed, self.quick) = (0, QUICK_ACKS);
        self.is_due = true;
    }

    /// Handles data that has arrived in order. Every second full-sized segment is acknowledged at once, or
    /// fewer of them while data flows. Other data is acknowledged after a delay. `limit` is the size of the
    /// receive buffer.
    pub(crate) fn on_data(&mut self, size: u32, mss: u32, limit: u32, now: u64) {
        self.pending = self.pending.saturating_add(size);
        self.flowed = self.flowed.saturating_add(size);
        // On loopback a segment may be as large as the window. The peer then waits for each acknowledgement.
        let two = (2 * mss).min(limit / WINDOW_SHARE);
        let stretch = (MAX_STRETCH * mss).min(limit / BUFFER_SHARE).min(self.flowed / FLOW_SHARE);
        let is_full = size >= mss;
        if self.is_quick_forced || self.pending >= stretch.max(two) || is_full && self.quick > 0 {
            self.quick = self.quick.saturating_sub(1);
            self.is_due = true;
            return;
        }
        let delay = if self.pending >= two { STRETCH_DELAY } else { DELAY };
        let deadline = now.saturating_add(delay);
        self.deadline = Some(self.deadline.map_or(deadline, |known| known.min(deadline)));
    }

    /// Answers a segment that is not acceptable, but not too often (RFC 5961 §7).
    pub(crate) fn challenge(&mut self, now: u64) {
        let is_early = self.challenged_at.is_some_and(|at| now.saturating_sub(at) < CHALLENGE_INTERVAL);
        if !is_early {
            self.challenged_at = Some(now);
            self.is_due = true;
        }
    }

    /// True if an acknowledgement must be sent now, even without data.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.is_due || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Time at which the delayed acknowledgement must be sent; 0 if it is due already.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        if self.is_due { Some(0) } else { self.deadline }
    }

    /// Records that a segment was sent: each one acknowledges all data received so far.
    pub(crate) const fn on_sent(&mut self, next: Seq) {
        (self.pending, self.deadline, self.is_due, self.dsack) = (0, None, false, None);
        self.last = next;
    }
}
