//! Tail loss probes (RFC 8985 §7): when the last segments of a flight are lost, no later segment shows the
//! loss. The acknowledgement of a probe does.

use super::{Acknowledgement, Phase, Recovery};
use crate::congestion::CongestionControl;
use crate::rtt::{MS, RttEstimator, SECOND};
use crate::seq::Seq;

/// Maximum time for which a peer may delay an acknowledgement (WCDelAckT, §7.2).
const MAX_ACK_DELAY: u64 = 200 * MS;

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// TLP.end_seq: SND.NXT when it was sent.
    end: Seq,
    is_retransmission: bool,
    is_second: bool,
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
    /// True if the timer may send a probe (§7.2). RFC 8985 sends a single probe, and QUIC one probe after the
    /// other (RFC 9002 §6.2). This sender sends up to two, if there is time before the timeout.
    pub(super) fn may_probe(&self) -> bool {
        let is_open = matches!(self.phase, Phase::Open | Phase::Reduction { .. });
        self.has_sack
            && is_open
            && self.probe.is_none_or(|probe| !probe.is_second)
            && self.board.sacked() == 0
    }

    /// True if the timer may retransmit the first segment again. RFC 8985 does not probe during a recovery,
    /// so that the loss of a retransmission at the end of a flight takes a timeout. Like QUIC (RFC 9002
    /// §6.2), this sender probes there, too, once after each delivery of data. The peer has a gap, and so
    /// does not delay its acknowledgements.
    pub(super) const fn may_repeat(&self) -> bool {
        let is_repairing = matches!(self.phase, Phase::Recovery { .. } | Phase::Loss { .. });
        self.has_sack && is_repairing && self.may_repeat && self.board.sacked() > 0
    }

    /// Retransmits the first segment again, even if the window is full.
    pub(super) fn repeat_first(&mut self, now: u64) {
        self.may_repeat = false;
        if self.board.mark_first_lost(self.window.mss) > 0 {
            self.note_first_lost(now);
        }
        self.window.size = self.window.size.max(self.in_flight().saturating_add(self.window.mss));
    }

    /// Last bytes that were sent, at most `max`. A probe retransmits them if there is no new data (§7.3).
    pub(crate) fn probe_range(&self, max: u32) -> Option<(Seq, u32)> {
        let last = self.board.last()?;
        let size = last.size().min(max);
        Some((last.end - size, size))
    }

    /// True if a probe is unanswered.
    pub(crate) const fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Records that a probe was sent.
    pub(crate) fn on_probe_sent(&mut self, is_retransmission: bool, now: u64) {
        let first = self.probe.is_none();
        let is_retransmission = is_retransmission && self.probe.is_none_or(|probe| probe.is_retransmission);
        self.probe = Some(Probe { end: self.nxt(), is_retransmission, is_second: !first });
        if first {
            self.timer_start = now;
        }
    }

    /// Uses an acknowledgement to find out if the probe has repaired a loss (§7.4.2). If it has, reduces the
    /// window, since congestion caused this loss, too.
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
                // The loss is repaired already. There is no recovery in which acknowledgements could spread
                // the reduction.
                self.control.on_recovered(&mut self.window);
                self.phase = Phase::Open;
            }
        }
    }
}
