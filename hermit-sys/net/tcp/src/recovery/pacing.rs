//! Pacing, as in Linux: a window of data leaves over a round trip instead of at once, so that it fits into
//! short queues.

use crate::congestion::Window;
use crate::rtt::{MS, RttEstimator, SECOND};

/// Pacing rate, in percent of a congestion window per round trip: in the first half of slow start, and
/// afterwards. The pacing rate must exceed the rate that the window permits, or it would limit throughput.
const SLOW_START: u64 = 200;
const AVOIDANCE: u64 = 120;

/// If the minimum RTT is below this time, nothing is paced, since the timer would cost more than the burst.
/// The smoothed RTT is not used, because on a connection with little data it is mostly the delay of
/// acknowledgements.
const MIN_RTT: u64 = MS;

/// Size of a burst: the data that leaves in `BURST` nanoseconds, but at least `MIN_BURST` segments. Shorter
/// bursts take more timers, and delay the acknowledgements that show a loss.
const BURST: u64 = MS;
const MIN_BURST: u64 = 4;

/// Maximum size in bytes of a burst, for an algorithm with a rate of its own: the size that a device cuts
/// into segments (TSO).
const MAX_BURST: u64 = 64 << 10;

/// State of pacing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Time at which everything sent would have left at the pacing rate.
    left_at: u64,
    /// True if nothing is sent until `left_at`.
    is_waiting: bool,
    /// True if there was data to be sent during the pause.
    has_blocked: bool,
    /// Remaining bytes of the initial window, which is not paced.
    initial: u32,
}

impl Pacer {
    pub(super) fn new(mss: u32) -> Self {
        Self { left_at: 0, is_waiting: false, has_blocked: false, initial: Window::initial(mss) }
    }

    /// True if data may be sent now; if not, [`deadline`](Self::deadline) is the end of the pause.
    pub(super) const fn permits(&mut self, now: u64) -> bool {
        self.on_timer(now);
        self.has_blocked = self.is_waiting;
        !self.is_waiting
    }

    /// End of the pause, if data had to wait.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.has_blocked.then_some(self.left_at)
    }

    /// Ends the pause if it is over.
    pub(super) const fn on_timer(&mut self, now: u64) {
        if self.left_at <= now {
            (self.is_waiting, self.has_blocked) = (false, false);
        }
    }

    /// Records that `size` bytes were sent. `in_flight` bytes are in flight.
    pub(super) fn on_sent(
        &mut self,
        size: u32,
        window: &Window,
        in_flight: u32,
        rtt: &RttEstimator,
        now: u64,
    ) {
        if self.is_initial(size) {
            return;
        }
        let Some(rtt) = rtt.smoothed().filter(|_| rtt.min() >= Some(MIN_RTT)) else { return };
        let percent = if window.size < window.threshold / 2 { SLOW_START } else { AVOIDANCE };
        let volume = u64::from(window.size.max(in_flight).max(1)) * percent / 100;
        let time = |bytes: u64| bytes.saturating_mul(rtt) / volume.max(1);
        self.left_at = self.left_at.max(now).saturating_add(time(size.into()));
        let burst = BURST.max(time(MIN_BURST * u64::from(window.mss)));
        self.is_waiting = self.left_at - now >= burst;
    }

    /// Records that `size` bytes were sent, with an algorithm that has a rate of `rate` bytes per second. The
    /// RTT is then not used.
    pub(super) fn on_sent_at(&mut self, size: u32, rate: u64, mss: u32, now: u64) {
        if self.is_initial(size) {
            return;
        }
        let time = |bytes: u64| bytes * SECOND / rate.max(1);
        let size_time = time(size.into());
        // A timer that was late does not lower the rate.
        let late = now.saturating_sub(self.left_at).min(size_time / 2);
        self.left_at = (self.left_at.max(now) - late).saturating_add(size_time);
        let burst = BURST.min(time(MAX_BURST)).max(time(MIN_BURST * u64::from(mss)));
        self.is_waiting = self.left_at >= now.saturating_add(burst);
    }

    /// True if `size` bytes belong to the initial window.
    const fn is_initial(&mut self, size: u32) -> bool {
        let is_initial = self.initial > 0;
        self.initial = self.initial.saturating_sub(size);
        is_initial
    }
}

#[cfg(test)]
mod tests {
    use super::{MIN_RTT, Pacer};
    use crate::congestion::{MAX_WINDOW, Window};
    use crate::rtt::{MICROSECOND, MS, RttEstimator};

    fn estimator(rtts: &[u64]) -> RttEstimator {
        let mut estimator = RttEstimator::new(0);
        rtts.iter().for_each(|&rtt| estimator.add(rtt, 0));
        estimator
    }

    /// Number of segments of a burst, and length of the pause after it.
    fn burst(size: u32, threshold: u32, rtts: &[u64]) -> (u32, Option<u64>) {
        let (window, rtt) = (Window { size, threshold, mss: 1000 }, estimator(rtts));
        let mut pacer = Pacer::new(1000);
        pacer.on_sent(10_000, &window, 10_000, &rtt, 0);
        let mut count = 0;
        while count < 1000 && pacer.permits(7 * MS) {
            pacer.on_sent(1000, &window, 0, &rtt, 7 * MS);
            count += 1;
        }
        (count, pacer.deadline().map(|deadline| deadline - 7 * MS))
    }

    #[test]
    fn rate_is_twice_the_window_in_slow_start_and_a_fifth_more_behind() {
        assert_eq!(burst(100_000, MAX_WINDOW, &[100 * MS]), (4, Some(2 * MS)));
        assert_eq!(burst(100_000, 100_000, &[120 * MS]), (4, Some(4 * MS)));
        // 12 segments in a millisecond, of 83.333 us each.
        let (count, pause) = burst(1_000_000, 0, &[100 * MS]);
        assert_eq!((count, pause.map(|pause| pause / 100_000)), (13, Some(10)));
    }

    /// Number of segments of a burst at a rate, and length of the pause after it in microseconds.
    fn burst_at(rate: u64) -> (u32, u64) {
        let mut pacer = Pacer::new(0);
        let mut count = 0;
        while pacer.permits(7 * MS) {
            pacer.on_sent_at(1000, rate, 1000, 7 * MS);
            count += 1;
        }
        (count, (pacer.deadline().unwrap() - 7 * MS) / MICROSECOND)
    }

    /// The pacer allows half a segment more, because its first call counts as late.
    #[test]
    fn burst_of_a_rate_has_a_millisecond_but_4_segments_and_at_most_64_kib() {
        assert_eq!(burst_at(100_000), (5, 45_000));
        assert_eq!(burst_at(20_000_000), (21, 1025));
        assert_eq!(burst_at(1_000_000_000), (67, 66));
    }

    #[test]
    fn late_timer_does_not_lower_the_rate() {
        let mut pacer = Pacer::new(0);
        (0..4).for_each(|_| pacer.on_sent_at(1000, 1_000_000, 1000, 0));
        assert!(!pacer.permits(0));
        assert_eq!(pacer.deadline(), Some(4 * MS));
        assert!(pacer.permits(4 * MS + MS / 4));
        (0..5).for_each(|_| pacer.on_sent_at(1000, 1_000_000, 1000, 4 * MS + MS / 4));
        assert!(!pacer.permits(4 * MS + MS / 4));
        assert_eq!(pacer.deadline(), Some(9 * MS));
    }

    #[test]
    fn short_round_trips_are_not_paced() {
        assert_eq!(burst(100_000, 0, &[MIN_RTT - 1, 40 * MS, 40 * MS]), (1000, None));
        assert!(burst(100_000, 0, &[MIN_RTT, 40 * MS, 40 * MS]).1.is_some());
    }

    #[test]
    fn pause_ends_whether_or_not_there_is_data() {
        let window = Window { size: 10_000, threshold: 0, mss: 1000 };
        let mut pacer = Pacer::new(0);
        pacer.on_sent(9000, &window, 0, &estimator(&[120 * MS]), 0);
        assert_eq!(pacer.deadline(), None);
        assert!(!pacer.permits(0));
        assert_eq!(pacer.deadline(), Some(90 * MS));
        pacer.on_timer(90 * MS);
        assert_eq!(pacer.deadline(), None);
        assert!(pacer.permits(90 * MS));
    }
}
