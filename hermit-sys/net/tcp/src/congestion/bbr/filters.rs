//! Measurements of BBR: rounds, bandwidth, full pipe and aggregation.
//!
//! Each acknowledgement brings a [`Sample`]. [`Rounds`] counts round trips by packets: a round ends when data
//! is delivered that was sent after the start of the round. [`MaxBandwidth`] is the maximum of the delivery
//! rate over two cycles of probing. [`FullPipe`] finds out that this rate no longer grows. [`Aggregation`]
//! measures how many bytes are acknowledged in a burst, so that the window has room for them.

use super::volume;
use crate::congestion::Sample;
use crate::seq::Seq;

/// Growth of the bandwidth in a round, in percent of the earlier bandwidth, and number of rounds with less
/// growth after which the path is full (§5.3.1.2).
const GROWTH: u64 = 125;
const FLAT_ROUNDS: u32 = 3;

/// Number of rounds of a slot. Aggregation is the maximum over two slots (BBR.ExtraAckedFilterLen). A slot
/// has one round until the path is known to be full (§5.5.9).
const SLOT_ROUNDS: u32 = 5;

/// Round trips by packets (§5.5.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// Bytes delivered so far. The round ends when data is delivered that was sent after `end` bytes were
    /// delivered.
    pub(super) total: Seq,
    end: Seq,
    /// Bytes delivered so far, at most `u32::MAX`. `total` wraps instead.
    pub(super) delivered: u32,
    pub(super) count: u32,
    /// True if the present acknowledgement begins a round.
    pub(super) is_start: bool,
}

impl Rounds {
    pub(super) const fn new() -> Self {
        Self { total: Seq(0), end: Seq(0), delivered: 0, count: 0, is_start: false }
    }

    pub(super) fn on_sample(&mut self, sample: &Sample) {
        self.delivered = self.delivered.saturating_add(sample.total.since(self.total));
        self.total = sample.total;
        self.is_start = self.end.is_up_to(sample.prior);
        if self.is_start {
            self.restart();
            self.count = self.count.wrapping_add(1);
        }
    }

    /// Begins a round, which ends when data is delivered that will be sent after this call.
    pub(super) const fn restart(&mut self) {
        self.end = self.total;
    }
}

/// Maximum rate of the present and the previous cycle (§5.5.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBandwidth {
    present: u64,
    last: u64,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> u64 {
        self.present.max(self.last)
    }

    /// Adds a sample. A rate that the owner limited counts only if it exceeds the maximum.
    pub(super) fn on_sample(&mut self, sample: &Sample) {
        if !sample.is_app_limited || sample.rate >= self.get() {
            self.present = self.present.max(sample.rate);
        }
    }

    /// Begins a cycle. A cycle without a rate is ignored.
    pub(super) const fn advance(&mut self) {
        if self.present > 0 {
            (self.last, self.present) = (self.present, 0);
        }
    }
}

/// Detector of a full path: counts the rounds in which the rate does not grow (§5.3.1.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    base: u64,
    flat_rounds: u32,
    /// True if the path was found to be full since the last [`reset`](Self::reset) (BBR.full_bw_now), and
    /// true if it ever was (BBR.full_bw_reached).
    pub(super) is_full: bool,
    pub(super) was_full: bool,
}

impl FullPipe {
    /// Restarts the detection. The rate must then grow compared with `base`.
    pub(super) const fn reset(&mut self, base: u64) {
        (self.base, self.flat_rounds, self.is_full) = (base, 0, false);
    }

    pub(super) const fn on_sample(&mut self, sample: &Sample, is_round_start: bool) {
        if self.is_full || !is_round_start || sample.is_app_limited {
            return;
        }
        if sample.rate >= self.base * GROWTH / 100 {
            return self.reset(sample.rate);
        }
        self.flat_rounds += 1;
        self.is_full = self.flat_rounds >= FLAT_ROUNDS;
        self.was_full |= self.is_full;
    }
}

/// Estimator of aggregation: how many more bytes are acknowledged at once than the bandwidth delivers.
/// Receivers and devices coalesce segments or acknowledgements (§5.5.9).
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    /// Start of the interval in which acknowledged bytes are compared with the bandwidth, and their number.
    since: u64,
    acked: u64,
    /// Maximum of the present and the previous slot of rounds, and the round in which the present one began.
    present: u32,
    last: u32,
    slot_start: u32,
}

impl Aggregation {
    pub(super) const fn new(now: u64) -> Self {
        Self { since: now, acked: 0, present: 0, last: 0, slot_start: 0 }
    }

    /// BBR.extra_acked
    pub(super) fn get(&self) -> u32 {
        self.present.max(self.last)
    }

    /// Restarts the interval: nothing was in flight until now.
    pub(super) const fn restart(&mut self, now: u64) {
        (self.since, self.acked) = (now, 0);
    }

    /// Adds `bytes` that are acknowledged in a round, at a bandwidth of `rate` and a window of `max`.
    pub(super) fn on_ack(
        &mut self,
        bytes: u32,
        rate: u64,
        max: u32,
        (round, was_full): (u32, bool),
        now: u64,
    ) {
        let mut expected = volume(rate, now.saturating_sub(self.since));
        if self.acked <= expected {
            self.restart(now);
            expected = 0;
        }
        self.acked += u64::from(bytes);
        let slot = if was_full { SLOT_ROUNDS } else { 1 };
        if round.wrapping_sub(self.slot_start) >= slot {
            (self.last, self.present, self.slot_start) = (self.present, 0, round);
        }
        let extra = u32::try_from(self.acked - expected).unwrap_or(max).min(max);
        self.present = self.present.max(extra);
    }
}

#[cfg(test)]
mod tests {
    use super::{Aggregation, FullPipe, MaxBandwidth, Rounds};
    use crate::congestion::Sample;
    use crate::congestion::bbr::tests::sample;
    use crate::rtt::MS;
    use crate::seq::Seq;

    #[test]
    fn rounds_end_with_what_was_sent_after_their_start() {
        let mut rounds = Rounds::new();
        let mut start = |prior, total| {
            rounds.on_sample(&Sample { prior: Seq(prior), total: Seq(total), ..sample(0) });
            (rounds.is_start, rounds.count)
        };
        assert_eq!(start(0, 1000), (true, 1));
        assert_eq!(start(0, 2000), (false, 1));
        assert_eq!(start(999, 3000), (false, 1));
        assert_eq!(start(1000, 4000), (true, 2));
        assert_eq!(start(3999, 5000), (false, 2));
    }

    #[test]
    fn maximum_is_of_two_cycles() {
        let mut max = MaxBandwidth::default();
        let limited = |rate| Sample { is_app_limited: true, ..sample(rate) };
        max.on_sample(&sample(100));
        max.on_sample(&sample(80));
        max.on_sample(&limited(90));
        assert_eq!(max.get(), 100);
        max.on_sample(&limited(110));
        max.advance();
        max.advance();
        assert_eq!(max.get(), 110);
        max.on_sample(&sample(50));
        assert_eq!(max.get(), 110);
        max.advance();
        assert_eq!(max.get(), 50);
    }

    #[test]
    fn pipe_is_full_after_three_rounds_without_growth() {
        let mut pipe = FullPipe::default();
        let mut full = |rate, is_round_start| {
            pipe.on_sample(&sample(rate), is_round_start);
            pipe.is_full
        };
        assert!(![100, 200, 249, 249].into_iter().any(|rate| full(rate, true)));
        assert!(!full(249, false) && !full(250, true));
        assert!(!full(300, true) && !full(300, true) && full(300, true));
        pipe.reset(300);
        pipe.on_sample(&Sample { is_app_limited: true, ..sample(300) }, true);
        assert!(!pipe.is_full && pipe.was_full && pipe.flat_rounds == 0);
    }

    #[test]
    fn aggregation_is_what_exceeds_the_bandwidth() {
        let mut aggregation = Aggregation::new(0);
        // 1 MB/s, acknowledged every 10 ms: 10 kB each.
        let mut ack = |round, now| {
            aggregation.on_ack(10_000, 1_000_000, 1 << 20, (round, true), now * MS);
            aggregation.get()
        };
        assert_eq!((ack(0, 10), ack(0, 20)), (10_000, 10_000));
        // The next two come at once, early.
        assert_eq!((ack(0, 22), ack(0, 22)), (18_000, 28_000));
        // It is forgotten when two slots of five rounds are over.
        assert_eq!((ack(5, 60), ack(9, 70), ack(10, 80)), (28_000, 28_000, 10_000));
    }
}
