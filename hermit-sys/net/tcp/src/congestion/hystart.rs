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

/// Maximum growth by one acknowledgement, in segments (`L` of RFC 9406 §4.3, which proposes 8 without pacing): what a receiver
/// that coalesces segments acknowledges at once, 64 KiB. Linux has no maximum.
const MAX_GROWTH: u32 = 45;

/// No measurement.
const NEVER: u64 = u64::MAX;

/// Slow start, and conservative slow start (CSS) after the RTT has grown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowStart {
    /// A round ends when this is acknowledged.
    round_end: Seq,
    last_round_min: u64,
    round_min: u64,
    samples: u32,
    /// Minimum RTT of the round in which CSS began, and rounds of CSS that have ended.
    css: Option<(u64, u32)>,
}

impl SlowStart {
    pub(crate) const fn new(nxt: Seq) -> Self {
        Self { round_end: nxt, last_round_min: NEVER, round_min: NEVER, samples: 0, css: None }
    }

    /// Lets the window grow by an acknowledgement.
    pub(crate) fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        if self.round_end.is_before(acked.una) {
            self.begin_round(acked.nxt, window);
        }
        let divisor = if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1 };
        let growth = acked.bytes.min(MAX_GROWTH * window.mss) / divisor;
        // Congestion avoidance grows behind the threshold.
        window.grow(growth.min(window.threshold.saturating_sub(window.size)));
        if let Some(rtt) = acked.rtt {
            self.add(rtt);
        }
    }

    fn add(&mut self, rtt: u64) {
        self.round_min = self.round_min.min(rtt);
        self.samples += 1;
        if self.samples < SAMPLES || self.round_min == NEVER || self.last_round_min == NEVER {
            return;
        }
        match self.css {
            Some((base, _)) if self.round_min < base => self.css = None,
            Some(_) => (),
            None => {
                let threshold =
                    (self.last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
                if self.round_min >= self.last_round_min.saturating_add(threshold) {
                    self.css = Some((self.round_min, 0));
                }
            }
        }
    }

    fn begin_round(&mut self, nxt: Seq, window: &mut Window) {
        if let Some((_, rounds)) = &mut self.css {
            *rounds += 1;
            if *rounds >= CSS_ROUNDS {
                window.threshold = window.size;
            }
        }
        (self.last_round_min, self.round_min, self.samples) = (self.round_min, NEVER, 0);
        self.round_end = nxt;
    }
}
