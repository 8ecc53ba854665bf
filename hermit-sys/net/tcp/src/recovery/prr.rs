//! Rate at which data is sent during a recovery: Proportional Rate Reduction (RFC 6937).

/// Bytes delivered and sent since the recovery began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    /// RecoverFS: the bytes in flight at the start.
    start_flight: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    pub(crate) fn new(in_flight: u32) -> Self {
        Self { start_flight: u64::from(in_flight.max(1)), delivered: 0, out: 0 }
    }

    /// Records that `size` bytes were sent.
    pub(crate) fn on_sent(&mut self, size: u32) {
        self.out += u64::from(size);
    }

    /// Returns the congestion window after an acknowledgement. `is_progress` is true if SND.UNA advanced and
    /// nothing more was lost, so that slow start is safe (PRR-SSRB). RFC 6937 adds one segment for each
    /// acknowledgement. Here the delivered bytes are added, since an acknowledgement may cover many segments.
    pub(crate) fn on_ack(
        &mut self,
        delivered: u32,
        in_flight: u32,
        (threshold, mss): (u32, u32),
        is_progress: bool,
    ) -> u32 {
        self.delivered += u64::from(delivered);
        let threshold_wide = u64::from(threshold);
        let room = if in_flight > threshold {
            (self.delivered * threshold_wide).div_ceil(self.start_flight).saturating_sub(self.out)
        } else {
            let conservative = self.delivered.saturating_sub(self.out).max(u64::from(delivered));
            let slow_start = u64::from(delivered.max(mss));
            let bound = if is_progress { conservative + slow_start } else { conservative };
            bound.min(u64::from(threshold - in_flight))
        };
        // The first retransmission must not wait.
        let room = if self.out == 0 { room.max(u64::from(mss)) } else { room };
        in_flight.saturating_add(u32::try_from(room).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Prr;

    #[test]
    fn window_shrinks_in_proportion_to_what_is_delivered() {
        let mut prr = Prr::new(10_000);
        let (mut in_flight, mut sent) = (9000, 0);
        // Nine segments are acknowledged, and half of this number is sent.
        for _ in 0..9 {
            in_flight -= 1000;
            let window = prr.on_ack(1000, in_flight, (5000, 1000), false);
            while in_flight + 1000 <= window {
                in_flight += 1000;
                prr.on_sent(1000);
                sent += 1;
            }
        }
        assert_eq!((in_flight, sent), (5000, 5));
    }

    #[test]
    fn after_heavy_loss_it_grows_to_the_threshold() {
        let mut prr = Prr::new(20_000);
        assert_eq!(prr.on_ack(1000, 1000, (10_000, 1000), true), 3000);
        prr.on_sent(2000);
        assert_eq!(prr.on_ack(2000, 1000, (10_000, 1000), false), 3000);
        prr.on_sent(2000);
        assert_eq!(prr.on_ack(9000, 9500, (10_000, 1000), true), 10_000);
    }
}
