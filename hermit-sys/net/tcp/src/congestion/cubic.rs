//! CUBIC (RFC 9438), in integers: windows in bytes, times in milliseconds.
//!
//! After a loss, the window is a cubic function of the time. W_max is the window at the time of the loss. The
//! function grows fast at first, is flat around W_max, and then grows faster and faster to find more room. It
//! reaches W_max at the time K. While Reno would have a larger window, as with short round trips, the window
//! is Reno's (§4.3). An acknowledgement lets the window grow by fractions of a byte. `Epoch` keeps the
//! remainders of these divisions.

use super::hystart::SlowStart;
use super::{Acked, CongestionControl, MAX_WINDOW, Window};
use crate::rtt::MS;
use crate::seq::Seq;

/// beta_cubic, 0.7 (RFC 9438 §4.6).
const BETA: (u64, u64) = (7, 10);

/// C, 0.4 segments per cubic second (§5.1). Times are in milliseconds, so their cube is also divided by 10^9.
const C: (u64, u64) = (4, 10_000_000_000);

/// alpha_cubic: 3 (1 - beta) / (1 + beta) (§4.3).
const ALPHA: (u64, u64) = (9, 17);

/// Maximum distance from K at which the curve is computed, in ms: the cube stays below 2^50.
const MAX_DISTANCE: u64 = 100_000;

/// An epoch of congestion avoidance, from one loss to the next.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: u64,
    /// K, in ms: the time at which the curve reaches `w_max`.
    k: u64,
    /// Window that Reno would have, and the remainder of its growth, in bytes times the window.
    reno: u64,
    reno_acked: u64,
    /// Remainder of the window's growth, in bytes times the window.
    growth: u64,
}

/// The state of CUBIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cubic {
    slow_start: SlowStart,
    /// W_max: the window at which the curve is flat.
    w_max: u64,
    /// Window before the last reduction (cwnd_prior).
    prior: u64,
    epoch: Option<Epoch>,
}

impl Cubic {
    pub(crate) const fn new(nxt: Seq) -> Self {
        Self { slow_start: SlowStart::new(nxt), w_max: 0, prior: 0, epoch: None }
    }

    /// Returns a new epoch, with which congestion avoidance begins after slow start or a loss (§4.2, §4.10).
    fn begin(&mut self, window: &Window, now: u64) -> Epoch {
        let size = u64::from(window.size);
        if self.w_max < size {
            self.w_max = size;
        }
        let k = cube_root((self.w_max - size) * (C.1 / C.0) / u64::from(window.mss));
        Epoch { start: now, k, reno: size, reno_acked: 0, growth: 0 }
    }

    /// Returns W_cubic (§4.2), `time` ms after the start of the epoch.
    fn curve(&self, epoch: &Epoch, time: u64, mss: u32) -> u64 {
        let distance = time.abs_diff(epoch.k).min(MAX_DISTANCE);
        let offset = (distance * distance * distance / 1000 * C.0 * u64::from(mss)) / (C.1 / 1000);
        if time < epoch.k { self.w_max.saturating_sub(offset) } else { self.w_max + offset }
    }

    fn avoid_congestion(&mut self, window: &mut Window, acked: &Acked) {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(window, acked.now),
        };
        let (size, bytes) = (u64::from(window.size), u64::from(acked.bytes));
        let (time, rtt) = (acked.now.saturating_sub(epoch.start) / MS, acked.smoothed_rtt / MS);
        // Once Reno's window has reached the window before the loss, alpha is 1: Reno's own growth (§4.3).
        let alpha = if epoch.reno >= self.prior { (1, 1) } else { ALPHA };
        epoch.reno_acked += bytes * u64::from(window.mss) * alpha.0 / alpha.1;
        epoch.reno += epoch.reno_acked / size;
        epoch.reno_acked %= size;
        // In a round trip the window grows to the value of the curve at its end (§4.4, §4.5), at most by
        // half.
        let target = self.curve(&epoch, time + rtt, window.mss).clamp(size, size + size / 2);
        epoch.growth += (target - size) * bytes;
        let growth = epoch.growth / size;
        epoch.growth %= size;
        // Reno-friendly region (§4.3).
        let grown = if self.curve(&epoch, time, window.mss) < epoch.reno {
            epoch.reno.max(size)
        } else {
            size + growth
        };
        window.size = u32::try_from(grown).unwrap_or(MAX_WINDOW).min(MAX_WINDOW);
        self.epoch = Some(epoch);
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        if window.is_slow_start() {
            self.slow_start.on_ack(window, acked);
        } else {
            self.avoid_congestion(window, acked);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: u64) -> u32 {
        let size = u64::from(window.size);
        // Fast convergence (§4.7): there is less room than before, so this flow leaves a part of it to
        // others.
        self.w_max = if size < self.w_max { size * (BETA.1 + BETA.0) / (2 * BETA.1) } else { size };
        self.prior = size;
        self.epoch = None;
        window.at_least_min(size * BETA.0 / BETA.1)
    }

    fn on_idle(&mut self, since: u64, now: u64) {
        // The curve does not go on while nothing is sent (§5.8).
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + now.saturating_sub(since.max(epoch.start))).min(now);
        }
    }
}

/// Returns the largest number whose cube is not above `value`.
fn cube_root(value: u64) -> u64 {
    let (mut low, mut high) = (0, 2_642_245_u64);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle * middle * middle <= value { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::{Cubic, cube_root};
    use crate::congestion::{Acked, CongestionControl, Window};
    use crate::rtt::{MS, SECOND};
    use crate::seq::Seq;

    const MSS: u32 = 1000;

    /// Acknowledges a window in each round trip; returns the window after `rounds`.
    fn run(cubic: &mut Cubic, window: &mut Window, rounds: u64, rtt: u64, now: &mut u64) -> u32 {
        for _ in 0..rounds {
            let size = window.size;
            *now += rtt;
            for _ in 0..size / MSS {
                let acked = Acked {
                    bytes: MSS,
                    una: Seq(0),
                    nxt: Seq(0),
                    rtt: Some(rtt),
                    smoothed_rtt: rtt,
                    sample: None,
                    now: *now,
                };
                cubic.on_ack(window, &acked);
            }
        }
        window.size
    }

    #[test]
    fn roots_are_rounded_down() {
        for (value, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (u64::MAX, 2_642_245)] {
            assert_eq!(cube_root(value), root);
        }
    }

    #[test]
    fn window_returns_to_w_max_at_k_and_goes_beyond() {
        let mut cubic = Cubic::new(Seq(0));
        let mut window = Window { size: 1_000_000, threshold: 0, mss: MSS };
        window.size = cubic.on_congestion(&window, 0);
        window.threshold = window.size;
        assert_eq!(window.size, 700_000);
        // K is the cube root of 300 / 0.4: 9.086 s.
        let mut now = 0;
        let early = run(&mut cubic, &mut window, 45, 100 * MS, &mut now);
        assert!((950_000..970_000).contains(&early), "{early}");
        let at_k = run(&mut cubic, &mut window, 45, 100 * MS, &mut now);
        assert!((995_000..1_001_000).contains(&at_k), "{at_k}");
        let late = run(&mut cubic, &mut window, 90, 100 * MS, &mut now);
        assert!((1_200_000..1_400_000).contains(&late), "{late}");
        assert!(now == 18 * SECOND);
    }

    #[test]
    fn short_round_trips_grow_as_reno_does() {
        let mut cubic = Cubic::new(Seq(0));
        let mut window = Window { size: 20_000, threshold: 0, mss: MSS };
        window.size = cubic.on_congestion(&window, 0);
        window.threshold = 0;
        let mut now = 0;
        let grown = run(&mut cubic, &mut window, 40, MS, &mut now);
        // 9/17 of a segment in a round trip up to the window before, then one.
        assert!((46_000..50_000).contains(&grown), "{grown}");
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut cubic = Cubic::new(Seq(0));
        let mut window = Window { size: 1_000_000, threshold: 0, mss: MSS };
        window.size = cubic.on_congestion(&window, 0);
        window.threshold = 0;
        let mut now = 0;
        let before = run(&mut cubic, &mut window, 10, 100 * MS, &mut now);
        cubic.on_idle(now, now + 60 * SECOND);
        now += 60 * SECOND;
        let after = run(&mut cubic, &mut window, 1, 100 * MS, &mut now);
        assert!(after - before < 40_000, "{before} {after}");
    }
}
