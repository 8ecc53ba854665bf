//! Samples of the rate at which data is delivered (draft-ietf-ccwg-bbr-06 §4.1), for algorithms that model
//! the path.
//!
//! Each range carries a [`Snapshot`] of the counters at the time when it was sent. When an acknowledgement
//! delivers the range, the difference of the counters is the number of bytes that were delivered in between,
//! which gives a rate. If the owner had nothing to send during this time, the path may be faster than the
//! rate: such samples are marked as application-limited.

use super::rack::is_sent_after;
use super::scoreboard::{SentRange, Snapshot};
use crate::congestion::{Lost, Sample, Window};
use crate::rtt::MICROSECOND;
use crate::seq::Seq;

/// Estimator of the delivery rate. Bytes are counted modulo 2^32, and compared as sequence numbers are.
#[derive(Debug)]
pub(super) struct DeliveryRate {
    /// Bytes delivered (C.delivered), and time of the last delivery (C.delivered_time).
    delivered: Seq,
    delivered_at: u64,
    /// Bytes that were marked as lost so far (C.lost).
    lost: u32,
    /// Time at which the newest delivered range was sent (C.first_send_time).
    first_sent_at: u64,
    /// Set if the owner had nothing to send. Samples count again when `delivered` exceeds this number
    /// (C.app_limited).
    app_limited: Option<Seq>,
    /// Newest range that the present acknowledgement delivers.
    newest: Option<SentRange>,
    has_sack: bool,
}

/// Returns the time from `earlier` to `later`, in microseconds.
fn microseconds(later: u64, earlier: u64) -> u32 {
    u32::try_from(later.saturating_sub(earlier) / MICROSECOND).unwrap_or(u32::MAX)
}

impl DeliveryRate {
    pub(super) const fn new(has_sack: bool, now: u64) -> Self {
        Self {
            delivered: Seq(0),
            delivered_at: now,
            lost: 0,
            first_sent_at: now,
            app_limited: None,
            newest: None,
            has_sack,
        }
    }

    /// True if the owner had nothing to send while the outstanding data was sent.
    pub(super) const fn is_app_limited(&self) -> bool {
        self.app_limited.is_some()
    }

    /// Records that the owner has nothing to send, or that the algorithm holds it back. `in_flight` bytes are
    /// in flight.
    pub(super) fn set_app_limited(&mut self, in_flight: u32) {
        self.app_limited = Some(self.delivered + in_flight);
    }

    /// Records that `size` bytes are sent while `in_flight` others are in flight. Returns the snapshot for
    /// the range.
    pub(super) fn on_sent(&mut self, size: u32, in_flight: u32, now: u64) -> Snapshot {
        if in_flight == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            lost: self.lost,
            in_flight: in_flight.saturating_add(size),
            since_delivery: microseconds(now, self.delivered_at),
            since_first_sent: microseconds(now, self.first_sent_at),
            is_app_limited: self.is_app_limited(),
        }
    }

    /// Records that an acknowledgement delivers a range.
    pub(super) fn on_delivered(&mut self, range: &SentRange, now: u64) {
        self.delivered = self.delivered + range.size();
        self.delivered_at = now;
        let is_newer =
            |newest: &SentRange| is_sent_after((range.sent_at, range.end), (newest.sent_at, newest.end));
        if self.newest.as_ref().is_none_or(is_newer) {
            self.newest = Some(*range);
            self.first_sent_at = range.sent_at;
        }
    }

    /// Records that a range was marked as lost; returns the report for the algorithm.
    pub(super) fn on_lost(&mut self, range: &SentRange, now: u64) -> Lost {
        self.lost = self.lost.wrapping_add(range.size());
        let snapshot = &range.snapshot;
        Lost {
            start: range.start,
            end: range.end,
            total: self.delivered,
            lost: self.lost.wrapping_sub(snapshot.lost),
            sent_in_flight: snapshot.in_flight,
            is_app_limited: snapshot.is_app_limited,
            has_sack: self.has_sack,
            now,
        }
    }

    /// Returns the loss as which an ECN mark counts: one segment of a full window.
    pub(super) const fn mark(&self, una: Seq, window: &Window, now: u64) -> Lost {
        Lost {
            start: una,
            end: una,
            total: self.delivered,
            lost: window.mss,
            sent_in_flight: window.size,
            is_app_limited: self.is_app_limited(),
            has_sack: self.has_sack,
            now,
        }
    }

    /// Takes the sample of the present acknowledgement; `None` if it delivers nothing. `in_flight` bytes are
    /// in flight after it.
    pub(super) fn take_sample(&mut self, min_rtt: Option<u64>, in_flight: u32, now: u64) -> Option<Sample> {
        if self.app_limited.is_some_and(|until| until.is_before(self.delivered)) {
            self.app_limited = None;
        }
        let newest = self.newest.take()?;
        let snapshot = &newest.snapshot;
        let delivered = self.delivered.since(snapshot.delivered);
        // The longer one of the intervals in which the data was sent and acknowledged. The network delivers
        // no faster than either of them.
        let acked_in = microseconds(now, newest.sent_at).saturating_add(snapshot.since_delivery);
        let interval = u64::from(acked_in.max(snapshot.since_first_sent));
        // If the first transmission of a retransmitted range was delivered, the interval is too short.
        let is_plausible = interval >= min_rtt.unwrap_or(0) / MICROSECOND;
        let rate = u64::from(delivered) * 1_000_000 / interval.max(1);
        Some(Sample {
            total: self.delivered,
            prior: snapshot.delivered,
            delivered,
            rate: if is_plausible { rate } else { 0 },
            rtt: (!newest.is_retransmitted).then(|| now.saturating_sub(newest.sent_at)),
            lost: self.lost.wrapping_sub(snapshot.lost),
            sent_in_flight: snapshot.in_flight,
            in_flight,
            is_window_limited: false,
            is_recovering: false,
            is_app_limited: snapshot.is_app_limited,
            has_sack: self.has_sack,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DeliveryRate;
    use crate::congestion::Sample;
    use crate::recovery::scoreboard::{RangeState, SentRange, Snapshot};
    use crate::rtt::MS;
    use crate::seq::Seq;

    const KB: u32 = 1000;

    fn range(start: u32, snapshot: Snapshot, sent_at: u64) -> SentRange {
        let state = RangeState::InFlight;
        let (start, end) = (Seq(start), Seq(start + 10 * KB));
        let (is_retransmitted, has_tail, segment) = (false, false, KB);
        SentRange { start, end, sent_at, state, is_retransmitted, has_tail, segment, snapshot }
    }

    /// Sends 10 kB at each of `times`, in ms, and acknowledges them at `acks`; returns the last sample.
    fn run(times: &[u64], acks: &[u64]) -> Sample {
        let mut rate = DeliveryRate::new(true, 0);
        let (mut in_flight, mut ranges) = (0, std::vec::Vec::new());
        for &time in times {
            ranges.push(range(in_flight, rate.on_sent(10 * KB, in_flight, time * MS), time * MS));
            in_flight += 10 * KB;
        }
        let mut sample = None;
        for (range, &ack) in ranges.iter().zip(acks) {
            rate.on_delivered(range, ack * MS);
            in_flight -= 10 * KB;
            sample = rate.take_sample(Some(10 * MS), in_flight, ack * MS);
        }
        sample.unwrap()
    }

    #[test]
    fn rate_is_of_the_longer_interval() {
        // First the interval of the acknowledgements is the longer one, then that of the transmissions.
        assert_eq!(run(&[0, 4, 8], &[20, 24, 28]).rate, 30_000 * 1000 / 28);
        assert_eq!(run(&[0, 20, 40], &[60, 60, 60]).rate, 30_000 * 1000 / 60);
        let sample = run(&[0, 4, 8], &[20, 24, 28]);
        assert_eq!((sample.delivered, sample.rtt, sample.sent_in_flight), (30 * KB, Some(20 * MS), 30 * KB));
    }

    #[test]
    fn interval_begins_with_the_delivery_before_the_range_was_sent() {
        let mut rate = DeliveryRate::new(true, 0);
        let first = range(0, rate.on_sent(10 * KB, 0, 0), 0);
        let second = range(10 * KB, rate.on_sent(10 * KB, 10 * KB, 0), 0);
        rate.on_delivered(&first, 20 * MS);
        rate.take_sample(None, 10 * KB, 20 * MS);
        let third = range(20 * KB, rate.on_sent(10 * KB, 10 * KB, 25 * MS), 25 * MS);
        rate.on_delivered(&second, 30 * MS);
        rate.on_delivered(&third, 60 * MS);
        let sample = rate.take_sample(None, 0, 60 * MS).unwrap();
        assert_eq!((sample.delivered, sample.rate), (20 * KB, 20_000 * 1000 / 40));
        assert_eq!((sample.prior, sample.total), (Seq(10 * KB), Seq(30 * KB)));
    }

    #[test]
    fn interval_below_the_minimum_rtt_has_no_rate() {
        let mut rate = DeliveryRate::new(true, 0);
        let sent = range(0, rate.on_sent(10 * KB, 0, 0), 0);
        rate.on_delivered(&sent, 5 * MS);
        assert_eq!(rate.take_sample(Some(10 * MS), 0, 5 * MS).unwrap().rate, 0);
        assert!(rate.take_sample(Some(10 * MS), 0, 5 * MS).is_none());
    }

    #[test]
    fn samples_are_app_limited_until_what_was_in_flight_is_delivered() {
        let mut rate = DeliveryRate::new(true, 0);
        let first = range(0, rate.on_sent(10 * KB, 0, 0), 0);
        rate.set_app_limited(10 * KB);
        let second = range(10 * KB, rate.on_sent(10 * KB, 10 * KB, MS), MS);
        let mut deliver = |range: &SentRange| {
            rate.on_delivered(range, 20 * MS);
            rate.take_sample(None, 0, 20 * MS).unwrap().is_app_limited
        };
        assert_eq!((deliver(&first), deliver(&second)), (false, true));
        assert!(!rate.is_app_limited());
    }

    #[test]
    fn losses_count_from_the_sending() {
        let mut rate = DeliveryRate::new(true, 0);
        let first = range(0, rate.on_sent(10 * KB, 0, 0), 0);
        let lost = rate.on_lost(&first, 20 * MS);
        assert_eq!((lost.lost, lost.sent_in_flight), (10 * KB, 10 * KB));
        let second = range(10 * KB, rate.on_sent(10 * KB, 0, 20 * MS), 20 * MS);
        rate.on_delivered(&second, 40 * MS);
        assert_eq!(rate.take_sample(None, 0, 40 * MS).unwrap().lost, 0);
    }
}
