//! Use of the congestion window: a window that is not used does not grow (RFC 7661 §4.2, RFC 9438 §4.2).

use crate::seq::Seq;

/// Use of the congestion window during a window of data, as in Linux (`tcp_cwnd_validate`). It is not
/// evaluated with each acknowledgement, since several acknowledgements are processed before the device takes
/// the next segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// True if the window held data back.
    is_limited: bool,
    /// Maximum number of bytes in flight.
    max_flight: u32,
    /// The values are valid until this number is acknowledged.
    end: Seq,
}

impl Usage {
    pub(super) const fn new(una: Seq) -> Self {
        Self { is_limited: false, max_flight: 0, end: una }
    }

    /// Records that data was sent, or held back by the window. `in_flight` bytes are in flight.
    pub(super) const fn note(&mut self, is_limited: bool, in_flight: u32, (una, nxt): (Seq, Seq)) {
        let is_over = self.end.is_up_to(una);
        if is_over || is_limited || !self.is_limited && in_flight > self.max_flight {
            *self = Self { is_limited, max_flight: in_flight, end: nxt };
        }
    }

    /// True if the window held data back.
    pub(super) const fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// True if a congestion window of `size` bytes may grow. In slow start half of it must be used, since
    /// slow start doubles it.
    pub(super) const fn permits_growth(&self, size: u32, is_slow_start: bool) -> bool {
        self.is_limited || is_slow_start && size / 2 < self.max_flight
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;
    use crate::seq::Seq;

    #[test]
    fn limit_counts_until_the_window_of_data_is_acknowledged() {
        let mut usage = Usage::new(Seq(0));
        usage.note(true, 10_000, (Seq(0), Seq(10_000)));
        usage.note(false, 5000, (Seq(5000), Seq(10_000)));
        assert!(usage.permits_growth(20_000, false));
        usage.note(false, 1000, (Seq(10_000), Seq(11_000)));
        assert!(!usage.permits_growth(20_000, false) && !usage.permits_growth(20_000, true));
    }

    #[test]
    fn slow_start_needs_half_of_the_window() {
        let mut usage = Usage::new(Seq(0));
        usage.note(false, 6000, (Seq(0), Seq(6000)));
        usage.note(false, 1000, (Seq(5000), Seq(6000)));
        assert!(usage.permits_growth(11_999, true) && !usage.permits_growth(12_000, true));
        assert!(!usage.permits_growth(10_000, false));
    }
}
