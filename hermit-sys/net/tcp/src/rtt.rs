//! The round-trip time and the retransmission timeout (RFC 6298).

/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Nanoseconds of a microsecond.
pub(crate) const MICROSECOND: u64 = 1000;

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1000 * MS;

/// RTO before the first measurement (RFC 6298 §2.1).
const INITIAL_RTO: u64 = SECOND;

/// Minimum difference of the RTO and the smoothed RTT: Linux's `TCP_RTO_MIN`. This difference suffices, since
/// peers delay acknowledgements by at most 200 ms. RFC 6298 §2.4 asks for an RTO of at least 1 s.
const MIN_VARIANCE: u64 = 200 * MS;

/// Maximum RTO: Linux's `TCP_RTO_MAX`.
const MAX_RTO: u64 = 120 * SECOND;

/// Lifetime of a minimum RTT. RACK needs a minimum that follows changes of the path (RFC 8985 §6.2).
const MIN_RTT_PERIOD: u64 = 60 * SECOND;

/// Estimator of the round-trip time. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttEstimator {
    smoothed: Option<u64>,
    variance: u64,
    /// Minimum of the present period, and of the previous one.
    min: u64,
    min_before: u64,
    period_start: u64,
    /// Number of times that the RTO has been doubled.
    backoff: u32,
}

impl RttEstimator {
    pub(crate) const fn new(now: u64) -> Self {
        let never = u64::MAX;
        Self { smoothed: None, variance: 0, min: never, min_before: never, period_start: now, backoff: 0 }
    }

    /// Adds the measurement of a segment that was sent only once (RFC 6298 §2.2, §2.3; Karn's algorithm, §3).
    pub(crate) fn add(&mut self, rtt: u64, now: u64) {
        if now.saturating_sub(self.period_start) > MIN_RTT_PERIOD {
            (self.min_before, self.min, self.period_start) = (self.min, u64::MAX, now);
        }
        self.min = self.min.min(rtt);
        match self.smoothed {
            None => (self.smoothed, self.variance) = (Some(rtt), rtt / 2),
            Some(smoothed) => {
                self.variance = (3 * self.variance + smoothed.abs_diff(rtt)) / 4;
                self.smoothed = Some((7 * smoothed + rtt) / 8);
            }
        }
        self.backoff = 0;
    }

    /// Smoothed RTT; `None` before the first measurement.
    pub(crate) const fn smoothed(&self) -> Option<u64> {
        self.smoothed
    }

    /// Minimum RTT of the last one to two minutes; `None` without a measurement.
    pub(crate) fn min(&self) -> Option<u64> {
        Some(self.min.min(self.min_before)).filter(|&min| min != u64::MAX)
    }

    /// Retransmission timeout, doubled for each time it expired.
    pub(crate) fn rto(&self) -> u64 {
        let base = match self.smoothed {
            None => INITIAL_RTO,
            Some(smoothed) => smoothed.saturating_add(MIN_VARIANCE.max(4 * self.variance)),
        };
        base.checked_shl(self.backoff.min(20)).unwrap_or(MAX_RTO).min(MAX_RTO)
    }

    /// Doubles the RTO (RFC 6298 §5.5).
    pub(crate) const fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Number of times that the RTO has been doubled since the last progress.
    pub(crate) const fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Ends the doubling, because new data has been acknowledged or the window has opened.
    pub(crate) const fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{INITIAL_RTO, MAX_RTO, MS, RttEstimator, SECOND};

    #[test]
    fn rto_follows_rfc_6298() {
        let mut rtt = RttEstimator::new(0);
        assert_eq!((rtt.rto(), rtt.min()), (INITIAL_RTO, None));
        rtt.add(100 * MS, 0);
        assert_eq!((rtt.smoothed(), rtt.rto()), (Some(100 * MS), 300 * MS));
        rtt.add(180 * MS, 0);
        // 7/8 of 100 and 1/8 of 180; 3/4 of 50 and 1/4 of 80.
        assert_eq!((rtt.smoothed(), rtt.rto()), (Some(110 * MS), 340 * MS));
        rtt.back_off();
        assert_eq!(rtt.rto(), 680 * MS);
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), MAX_RTO);
        rtt.add(110 * MS, 0);
        assert!(rtt.rto() < SECOND);
    }

    #[test]
    fn minimum_expires() {
        let mut rtt = RttEstimator::new(0);
        rtt.add(10 * MS, 0);
        rtt.add(50 * MS, 30 * SECOND);
        assert_eq!(rtt.min(), Some(10 * MS));
        rtt.add(50 * MS, 61 * SECOND);
        assert_eq!(rtt.min(), Some(10 * MS));
        rtt.add(60 * MS, 122 * SECOND);
        assert_eq!(rtt.min(), Some(50 * MS));
    }
}
