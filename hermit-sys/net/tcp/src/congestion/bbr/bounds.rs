//! Bounds of the bandwidth and of the bytes in flight, because of losses (§5.5.10).
//!
//! BBR has two kinds of bounds. The long-term bound is set when too much is lost while BBR probes for
//! bandwidth: it is the volume in flight at which the losses exceeded the threshold. The short-term bounds
//! are set at the end of a round with losses while BBR does not probe. They are reset before the next
//! probing. If the losses turn out to be spurious, the earlier bounds are restored.

use super::{Bbr, State, narrow};
use crate::congestion::{Lost, Sample, Window};
use crate::seq::Seq;

/// Multiplicative decrease by losses (BBR.Beta), 0.7.
const BETA: (u64, u64) = (7, 10);

/// Part of the bytes in flight that may be lost in a round, in percent (BBR.LossThresh).
const LOSS_THRESHOLD: u64 = 2;

/// Number of separate ranges that must be lost in a round to end Startup (BBRStartupFullLossCnt).
const STARTUP_LOSSES: u32 = 6;

/// Upper bounds. The maximum of the type means that there is no bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bound of the bytes in flight, set by losses while probing for bandwidth (BBR.inflight_longterm).
    pub(super) longterm: u32,
    /// Bounds of the bandwidth and of the bytes in flight, set by losses since the last probing
    /// (BBR.bw_shortterm, BBR.inflight_shortterm).
    pub(super) bandwidth: u64,
    pub(super) shortterm: u32,
}

impl Bounds {
    pub(super) const NONE: Self = Self { longterm: u32::MAX, bandwidth: u64::MAX, shortterm: u32::MAX };

    pub(super) const fn reset_shortterm(&mut self) {
        (self.bandwidth, self.shortterm) = (u64::MAX, u32::MAX);
    }

    /// Returns the looser bound of each kind.
    fn max(self, other: Self) -> Self {
        Self {
            longterm: self.longterm.max(other.longterm),
            bandwidth: self.bandwidth.max(other.bandwidth),
            shortterm: self.shortterm.max(other.shortterm),
        }
    }
}

/// Deliveries and losses of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossRound {
    /// Number of delivered bytes. The round ends when data is delivered that was sent after this number was
    /// reached (BBR.loss_round_delivered).
    end: Seq,
    /// True if the present acknowledgement ends the round.
    is_over: bool,
    has_loss: bool,
    /// Number of separate lost ranges, and the end of the last one.
    ranges: u32,
    last_end: Seq,
    /// Maximum rate, and bytes delivered in a round trip (BBR.bw_latest, BBR.inflight_latest).
    bandwidth: u64,
    delivered: u32,
}

impl LossRound {
    pub(super) const fn new() -> Self {
        Self {
            end: Seq(0),
            is_over: false,
            has_loss: false,
            ranges: 0,
            last_end: Seq(0),
            bandwidth: 0,
            delivered: 0,
        }
    }

    pub(super) fn on_sample(&mut self, sample: &Sample) {
        self.bandwidth = self.bandwidth.max(sample.rate);
        self.delivered = self.delivered.max(sample.delivered);
        self.is_over = self.end.is_up_to(sample.prior);
        if self.is_over {
            self.end = sample.total;
        }
    }

    /// Begins the next round, if this one is over.
    pub(super) const fn advance(&mut self, sample: &Sample) {
        if self.is_over {
            (self.bandwidth, self.delivered) = (sample.rate, sample.delivered);
            (self.has_loss, self.ranges) = (false, 0);
        }
    }

    /// Discards the losses and deliveries so far.
    pub(super) const fn reset(&mut self) {
        (self.has_loss, self.bandwidth, self.delivered) = (false, 0, 0);
    }

    fn on_lost(&mut self, lost: &Lost) {
        if !self.has_loss {
            (self.has_loss, self.end) = (true, lost.total);
        }
        if self.ranges == 0 || lost.start != self.last_end {
            self.ranges += 1;
        }
        self.last_end = lost.end;
    }
}

/// True if too much of the volume in flight was lost. Without SACK a single loss is too much, since no more
/// than one is known in a round trip.
pub(super) fn is_too_high(lost: u32, in_flight: u32, has_sack: bool) -> bool {
    u64::from(lost) * 100 > u64::from(in_flight) * LOSS_THRESHOLD || lost > 0 && !has_sack
}

/// Returns the bytes in flight when losses exceeded the threshold. This point may be within a range that was
/// sent at once (InflightAtLoss).
fn inflight_at_loss(lost: &Lost) -> u32 {
    let size = lost.end.since(lost.start);
    let before = u64::from(lost.sent_in_flight.saturating_sub(size));
    let lost_before = u64::from(lost.lost.saturating_sub(size));
    let prefix = (before * LOSS_THRESHOLD).saturating_sub(lost_before * 100) / (100 - LOSS_THRESHOLD);
    narrow(before + prefix)
}

/// Returns a value reduced by losses.
const fn decreased(value: u64) -> u64 {
    value / BETA.1 * BETA.0
}

impl Bbr {
    /// Handles the loss of a range.
    pub(super) fn note_lost(&mut self, window: &Window, lost: &Lost) {
        self.rounds.total = lost.total;
        if !self.losses.has_loss {
            self.undo = (None, self.bounds);
        }
        self.losses.on_lost(lost);
        let is_too_high = is_too_high(lost.lost, lost.sent_in_flight, lost.has_sack);
        if !self.cycle.is_sample || !is_too_high {
            return;
        }
        // A probing sets the bound at most once.
        (self.cycle.is_sample, self.cycle.was_too_high) = (false, true);
        if !lost.is_app_limited {
            let min = narrow(decreased(self.target(window)));
            self.bounds.longterm = inflight_at_loss(lost).max(min);
        }
        if self.state == State::Up {
            self.undo.0 = Some(State::Up);
            self.start_down(lost.now);
        }
    }

    /// Lowers the short-term bounds to the delivered rate and volume, at the end of a round with losses.
    /// Unchanged while BBR probes for bandwidth.
    pub(super) fn adapt_shortterm(&mut self, window: &Window) {
        if !self.losses.is_over || !self.losses.has_loss || self.state.is_accelerating() {
            return;
        }
        let (bounds, losses) = (&mut self.bounds, &self.losses);
        if bounds.bandwidth == u64::MAX {
            bounds.bandwidth = self.max_bandwidth.get();
        }
        if bounds.shortterm == u32::MAX {
            bounds.shortterm = window.size;
        }
        bounds.bandwidth = losses.bandwidth.max(decreased(bounds.bandwidth));
        bounds.shortterm = losses.delivered.max(narrow(decreased(bounds.shortterm.into())));
    }

    /// True if losses show that Startup has filled the path (§5.3.1.3).
    pub(super) fn is_startup_lossy(&self, sample: &Sample) -> bool {
        let is_enough = self.losses.ranges >= STARTUP_LOSSES || self.losses.has_loss && !sample.has_sack;
        self.losses.is_over
            && sample.is_recovering
            && is_enough
            && is_too_high(sample.lost, sample.sent_in_flight, sample.has_sack)
    }

    /// Ends Startup because of losses. The path holds at least the bytes that were delivered in a round trip.
    pub(super) fn bound_startup(&mut self) {
        self.undo.0 = Some(State::Startup);
        self.full_pipe.was_full = true;
        self.bounds.longterm = narrow(self.bdp(self.bandwidth(), 100)).max(self.losses.delivered);
    }

    /// Restores the state before spurious losses. The bounds are not tighter than before, and a probing that
    /// the losses ended begins again (§5.5.11).
    pub(in super::super) fn undo_losses(&mut self) {
        self.losses.has_loss = false;
        self.full_pipe.reset(0);
        self.bounds = self.bounds.max(self.undo.1);
        let state = self.undo.0.take().filter(|&state| state != self.state);
        let may_change = self.state != State::ProbeRtt;
        match state {
            Some(State::Startup) => {
                self.full_pipe.was_full = false;
                if may_change {
                    self.state = State::Startup;
                }
            }
            Some(_) if may_change => self.start_refill(),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{inflight_at_loss, is_too_high};
    use crate::congestion::Lost;
    use crate::seq::Seq;

    #[test]
    fn two_percent_of_what_was_in_flight_may_be_lost() {
        assert!(!is_too_high(2000, 100_000, true) && is_too_high(2001, 100_000, true));
        assert!(!is_too_high(0, 0, false) && is_too_high(1, 100_000, false));
    }

    #[test]
    fn losses_exceed_the_threshold_within_a_burst() {
        let lost = |size, lost, sent_in_flight| Lost {
            start: Seq(0),
            end: Seq(size),
            total: Seq(0),
            lost,
            sent_in_flight,
            is_app_limited: false,
            has_sack: true,
            now: 0,
        };
        // 1 kB of 98 kB was lost before. With 980 bytes more, 2 % of the bytes in flight are lost.
        assert_eq!(inflight_at_loss(&lost(10_000, 10_980, 108_000)), 99_000);
        assert_eq!(inflight_at_loss(&lost(10_000, 30_000, 108_000)), 98_000);
    }
}
