//! Tail loss probes (RFC 8985 §7): when the last segments of a flight are lost, nothing behind them shows it.

use super::{Acknowledgement, Phase, Recovery};
use crate::rtt::{MS, RttEstimator, SECOND};
use crate::seq::Seq;

/// Time for which a peer may delay an acknowledgement (WCDelAckT, §7.2).
const MAX_ACK_DELAY: u64 = 200 * MS;

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// TLP.end_seq: SND.NXT when it was sent.
    end: Seq,
    is_retransmission: bool,
}

/// Time without an acknowledgement after which a probe is sent (PTO, §7.2).
pub(super) fn interval(rtt: &RttEstimator, is_single: bool) -> u64 {
    match rtt.smoothed() {
        Some(smoothed) if is_single => 2 * smoothed + MAX_ACK_DELAY,
        Some(smoothed) => 2 * smoothed + 2 * MS,
        None => SECOND,
    }
}

impl Recovery {
    /// Whether the timer is to send a probe (§7.2).
    pub(super) fn may_probe(&self) -> bool {
        self.has_sack && self.phase == Phase::Open && self.probe.is_none() && self.board.sacked() == 0
    }

    /// The last bytes that were sent, at most `max`: what a probe retransmits without new data (§7.3).
    pub(crate) fn probe_range(&self, max: u32) -> Option<(Seq, u32)> {
        let last = self.board.last()?;
        let size = last.size().min(max);
        Some((last.end - size, size))
    }

    /// A probe was sent.
    pub(crate) fn on_probe_sent(&mut self, is_retransmission: bool, now: u64) {
        self.probe = Some(Probe { end: self.nxt(), is_retransmission });
        self.timer_start = now;
    }

    /// Finds out by an acknowledgement whether the probe has repaired a loss (§7.4.2). Then the window is reduced, since the
    /// loss was by congestion as any other.
    pub(super) fn conclude_probe(&mut self, ack: &Acknowledgement<'_>, advance: u32, is_duplicate: bool) {
        let Some(probe) = self.probe else { return };
        if self.una().is_before(probe.end) {
            return;
        }
        let is_repeated = ack.dsack.is_some() || is_duplicate || advance == 0 && ack.is_bare;
        if !probe.is_retransmission || is_repeated {
            self.probe = None;
        } else if probe.end.is_before(self.una()) {
            self.probe = None;
            if self.phase == Phase::Open {
                self.on_mark(ack.now);
                // All that was lost is repaired: there is no recovery whose acknowledgements would pace the reduction.
                (self.window.size, self.phase) = (self.window.threshold, Phase::Open);
            }
        }
    }
}
