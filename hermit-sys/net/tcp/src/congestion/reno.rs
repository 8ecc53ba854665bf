//! Reno (RFC 5681).

use super::hystart::SlowStart;
use super::{Acked, CongestionControl, Window};
use crate::seq::Seq;

/// The state of Reno.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reno {
    slow_start: SlowStart,
    /// Bytes acknowledged since the window last grew by a segment.
    acked: u32,
}

impl Reno {
    pub(crate) const fn new(nxt: Seq) -> Self {
        Self { slow_start: SlowStart::new(nxt), acked: 0 }
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        if window.is_slow_start() {
            return self.slow_start.on_ack(window, acked);
        }
        // Appropriate byte counting (RFC 3465 §2.1).
        self.acked = self.acked.saturating_add(acked.bytes);
        if self.acked >= window.size {
            self.acked -= window.size;
            window.grow(window.mss);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: u64) -> u32 {
        self.acked = 0;
        window.at_least_min(u64::from(window.size) / 2)
    }

    fn on_idle(&mut self, _since: u64, _now: u64) {}
}
