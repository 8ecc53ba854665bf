//! When data is acknowledged: at once, or with what is sent next (RFC 9293 §3.8.6.3, RFC 5681 §4.2).

use crate::rtt::MS;
use crate::segment::SackBlock;
use crate::seq::Seq;

/// Delay of an acknowledgement: Linux's `TCP_DELACK_MIN`.
const DELAY: u64 = 40 * MS;

/// Full-sized segments that may wait for one acknowledgement when data flows, and how long they do. RFC 9293
/// has two, but much of the work of a transfer is in them, and receivers have long been stretching that,
/// since devices join segments. A sender with a small window waits for each acknowledgement: with 5 ms a flow
/// over 20 ms and 1 % loss had 3 % less throughput, and 8 % less with pacing.
const MAX_STRETCH: u32 = 8;
const STRETCH_DELAY: u64 = MS;

/// Bytes that have flowed for each byte that waits; and the part of the receive buffer that waits at most: a
/// peer that begins, or has lost something, sends little before it waits.
const FLOW_SHARE: u32 = 16;
const BUFFER_SHARE: u32 = 8;

/// The part of the receive buffer that is acknowledged at once, however large segments are.
const WINDOW_SHARE: u32 = 4;

/// Full-sized segments at the start that are acknowledged one by one, since the peer's slow start waits for
/// each: Linux's `TCP_MAX_QUICKACKS`.
const QUICK_ACKS: u8 = 16;

/// Minimum time between answers to segments that are not acceptable: Linux's `tcp_invalid_ratelimit`.
const CHALLENGE_INTERVAL: u64 = 500 * MS;

/// What is to be acknowledged.
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

    /// Asks for an acknowledgement that waits at once.
    pub(crate) const fn hasten(&mut self) {
        self.is_due |= self.deadline.is_some();
    }

    /// A gap or a duplicate is reported at once (RFC 5681 §4.2). The peer's window is small then, and the
    /// next segments are acknowledged one by one, as in Linux after duplicates.
    pub(crate) const fn on_disorder(&mut self) {
        (self.flowed, self.quick) = (0, QUICK_ACKS);
        self.is_due = true;
    }

    /// Data has arrived in order: every second full-sized segment is acknowledged at once, fewer when data
    /// flows; the rest after a delay. `limit` is the size of the receive buffer.
    pub(crate) fn on_data(&mut self, size: u32, mss: u32, limit: u32, now: u64) {
        self.pending = self.pending.saturating_add(size);
        self.flowed = self.flowed.saturating_add(size);
        // Segments within a host are as large as the window, which must open again.
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

    /// A segment that is not acceptable is answered, but not too often (RFC 5961 §7).
    pub(crate) fn challenge(&mut self, now: u64) {
        let is_early = self.challenged_at.is_some_and(|at| now.saturating_sub(at) < CHALLENGE_INTERVAL);
        if !is_early {
            self.challenged_at = Some(now);
            self.is_due = true;
        }
    }

    /// Whether an acknowledgement is to be sent without data.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.is_due || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// When an acknowledgement that waits is sent.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        if self.is_due { Some(0) } else { self.deadline }
    }

    /// A segment was sent, which acknowledges everything.
    pub(crate) const fn on_sent(&mut self, next: Seq) {
        (self.pending, self.deadline, self.is_due, self.dsack) = (0, None, false, None);
        self.last = next;
    }
}
