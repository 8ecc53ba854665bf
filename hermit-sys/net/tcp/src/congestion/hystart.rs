//! Slow start that ends before a queue overflows: HyStart++ (RFC 9406).

use super::{Acked, Window};
use crate::rtt::MS;
use crate::seq::Seq;

// RFC 9406 §4.3.
const MIN_RTT_THRESHOLD: u64 = 4 * MS;
const MAX_RTT_THRESHOLD: u64 = 16 * MS;
const MIN_RTT_DIVISOR: u64 = 8;
const SAMPLES: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;

/// Maximum growth by one acknowledgement, in segments (`L` of RFC 9406 §4.3, which proposes 8 without
/// pacing). A receiver that coalesces segments acknowledges that many, 64 KiB, at once. Linux has no maximum.
const MAX_GROWTH: u32 = 45;

/// No measurement.
const NEVER: u64 = u64::MAX;

/// Slow start, and conservative slow start (CSS) after the RTT has grown.
///
/// RFC 9406 compares the minimum RTTs of whole rounds. In the round in which a queue begins to grow, the
/// first samples are still low, and the window doubles once more. Here the minimum of a part of a round is
/// compared. A part has at least [`SAMPLES`] samples and lasts an eighth of the RTT, so that a single delayed
/// burst does not count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowStart {
    /// The round ends when this number is acknowledged.
    round_end: Seq,
    last_round_min: u64,
    round_min: u64,
    /// Minimum RTT and number of samples of a part of the round, and its start.
    part_min: u64,
    samples: u32,
    part_start: u64,
    /// Minimum RTT of the part in which CSS began, and number of rounds of CSS that have ended.
    css: Option<(u64, u32)>,
}

impl SlowStart {
    pub(crate) const fn new(nxt: Seq) -> Self {
        Self {
            round_end: nxt,
            last_round_min: NEVER,
            round_min: NEVER,
            part_min: NEVER,
            samples: 0,
            part_start: 0,
            css: None,
        }
    }

    /// Lets the window grow by an acknowledgement.
    pub(crate) fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        if self.round_end.is_before(acked.una) {
            self.begin_round(acked, window);
        }
        let divisor = if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1 };
        let growth = acked.bytes.min(MAX_GROWTH * window.mss) / divisor;
        // Growth beyond the threshold is up to congestion avoidance.
        window.grow(growth.min(window.threshold.saturating_sub(window.size)));
        if let Some(rtt) = acked.rtt {
            self.add(rtt, window, acked.now);
        }
    }

    fn add(&mut self, rtt: u64, window: &mut Window, now: u64) {
        (self.round_min, self.part_min) = (self.round_min.min(rtt), self.part_min.min(rtt));
        self.samples += 1;
        let is_long = now.saturating_sub(self.part_start) >= self.last_round_min / MIN_RTT_DIVISOR;
        if self.samples < SAMPLES || !is_long || self.last_round_min == NEVER {
            return;
        }
        self.judge(self.part_min, window);
        self.begin_part(now);
    }

    /// Compares the minimum RTT of a part of a round with that of the last round.
    fn judge(&mut self, min: u64, window: &mut Window) {
        let threshold = (self.last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
        match self.css {
            Some((base, _)) if min < base => self.css = None,
            // The RTT has grown by the threshold once more: this is a queue, not chance. The remaining rounds
            // of CSS would fill it.
            Some((base, _)) if min >= base.saturating_add(threshold) => window.threshold = window.size,
            None if min >= self.last_round_min.saturating_add(threshold) => self.css = Some((min, 0)),
            Some(_) | None => (),
        }
    }

    const fn begin_part(&mut self, now: u64) {
        (self.part_min, self.samples, self.part_start) = (NEVER, 0, now);
    }

    fn begin_round(&mut self, acked: &Acked, window: &mut Window) {
        if let Some((_, rounds)) = &mut self.css {
            *rounds += 1;
            if *rounds >= CSS_ROUNDS {
                window.threshold = window.size;
            }
        }
        (self.last_round_min, self.round_min) = (self.round_min, NEVER);
        self.round_end = acked.nxt;
        self.begin_part(acked.now);
    }
}
