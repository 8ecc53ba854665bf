//! Detection of losses by time: RACK (RFC 8985 §6).

use super::DUPLICATE_THRESHOLD;
use super::scoreboard::{Scoreboard, SentRange};
use crate::rtt::RttEstimator;
use crate::seq::Seq;

/// Number of recoveries without D-SACK after which the reordering window shrinks again (RFC 8985 §6.2, step
/// 4).
const WINDOW_PERSISTENCE: u32 = 16;

/// State of RACK: the most recently sent range that has been delivered, and the observed reordering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq.
    newest: Option<(u64, Seq)>,
    /// RACK.rtt
    rtt: u64,
    /// RACK.fack: the highest delivered number.
    fack: Seq,
    has_reordering: bool,
    /// RACK.reo_wnd_mult: the reordering window in quarters of the minimum RTT.
    multiplier: u64,
    persistence: u32,
    /// RACK.dsack_round: further D-SACKs count after this is acknowledged.
    round: Option<Seq>,
}

impl Rack {
    pub(crate) const fn new(una: Seq) -> Self {
        Self {
            newest: None,
            rtt: 0,
            fack: una,
            has_reordering: false,
            multiplier: 1,
            persistence: 0,
            round: None,
        }
    }

    /// Skips to `next`: everything before it has been delivered without segments.
    pub(crate) const fn skip_to(&mut self, next: Seq) {
        (self.newest, self.fack, self.round) = (None, next, None);
    }

    /// Records that a range was delivered (steps 2 and 3). `is_original` is true if timestamps show that the
    /// first transmission of a retransmitted range was delivered.
    pub(crate) fn on_delivered(
        &mut self,
        range: &SentRange,
        is_original: bool,
        rtt: &RttEstimator,
        now: u64,
    ) {
        let sample = now.saturating_sub(range.sent_at);
        // The sample is too short for an answer to the retransmission.
        let is_ambiguous = is_original || rtt.min().is_some_and(|min| sample < min);
        if !(range.is_retransmitted && is_ambiguous) {
            if self.newest.is_none_or(|newest| is_sent_after((range.sent_at, range.end), newest)) {
                self.newest = Some((range.sent_at, range.end));
            }
            if self.newest == Some((range.sent_at, range.end)) {
                self.rtt = sample;
            }
        }
        if self.fack.is_before(range.end) {
            self.fack = range.end;
        } else if range.end.is_before(self.fack) && (is_original || !range.is_retransmitted) {
            self.has_reordering = true;
        }
    }

    /// Adapts the reordering window (step 4). A D-SACK shows that a segment was late and not lost.
    pub(crate) fn on_acknowledgement(&mut self, una: Seq, nxt: Seq, has_dsack: bool) {
        if self.round.is_some_and(|round| round.is_up_to(una)) {
            self.round = None;
        }
        if has_dsack && self.round.is_none() {
            self.round = Some(nxt);
            self.multiplier = (self.multiplier + 1).min(16);
            self.persistence = WINDOW_PERSISTENCE;
        }
    }

    /// Handles the end of a recovery.
    pub(crate) const fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.multiplier = 1;
        }
    }

    /// The reordering window, in nanoseconds.
    fn window(&self, board: &Scoreboard, rtt: &RttEstimator, mss: u32, is_recovering: bool) -> u64 {
        if !self.has_reordering && (is_recovering || board.sacked() >= DUPLICATE_THRESHOLD * mss) {
            return 0;
        }
        let quarter = rtt.min().unwrap_or(0) / 4;
        (self.multiplier * quarter).min(rtt.smoothed().unwrap_or(0))
    }

    /// Marks lost ranges (step 5). Returns the time at which, if nothing arrives before, all ranges that were
    /// sent before the newest delivered one are lost.
    pub(crate) fn detect_losses(
        &self,
        board: &mut Scoreboard,
        rtt: &RttEstimator,
        (mss, is_recovering): (u32, bool),
        now: u64,
        on_lost: impl FnMut(&SentRange),
    ) -> Option<u64> {
        let newest = self.newest?;
        let limit = self.rtt + self.window(board, rtt, mss, is_recovering);
        let mut next: Option<u64> = None;
        let is_lost = |range: &SentRange| {
            if !is_sent_after(newest, (range.sent_at, range.end)) {
                // All ranges after one that was sent for the first time were sent later.
                return range.is_retransmitted.then_some(false);
            }
            let lost_at = range.sent_at.saturating_add(limit);
            if lost_at <= now {
                return Some(true);
            }
            next = Some(next.map_or(lost_at, |next| next.max(lost_at)));
            Some(false)
        };
        board.mark_lost(is_lost, on_lost);
        next
    }

    /// Marks lost ranges when the retransmission timer expires (RFC 8985 §6.3): the first range, and all
    /// ranges whose acknowledgement should have arrived by now.
    pub(crate) fn on_timeout(
        &self,
        board: &mut Scoreboard,
        window: u64,
        now: u64,
        on_lost: impl FnMut(&SentRange),
    ) {
        let una = board.first().map(|range| range.start);
        let limit = self.rtt + window;
        let is_lost =
            |range: &SentRange| Some(Some(range.start) == una || range.sent_at.saturating_add(limit) <= now);
        board.mark_lost(is_lost, on_lost);
    }
}

/// True if `one` was sent after `other`. Each is the time at which a range was sent, and the number at its
/// end (RFC 8985 §6.1).
pub(super) const fn is_sent_after(one: (u64, Seq), other: (u64, Seq)) -> bool {
    one.0 > other.0 || one.0 == other.0 && other.1.is_before(one.1)
}
