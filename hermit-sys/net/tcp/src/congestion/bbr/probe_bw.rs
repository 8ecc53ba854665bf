//! The cycle that probes for bandwidth (§5.3.3): Down, Cruise, Refill, Up.
//!
//! Most of the time BBR sends at the estimated bandwidth (Cruise). After a few seconds it fills the path
//! (Refill), and then sends faster than the path delivered so far, to find out if there is more bandwidth
//! (Up). The probing ends when the path is full or too much is lost. The queue that it has built then drains
//! (Down). Acknowledgements are a round trip late, so [`Feedback`] records the phase in which the
//! acknowledged data was sent.

use super::bounds::is_too_high;
use super::{Bbr, MIN_WINDOW, State};
use crate::congestion::{Acked, Sample, Window};
use crate::rtt::SECOND;

/// Part of the long-term bound that is left to other flows, in percent (BBR.Headroom).
const HEADROOM: u32 = 15;

/// Minimum time between two probings, and maximum of the random time that is added. The next probing begins
/// earlier if as many rounds have passed as Reno needs to grow by the segments in flight, or `MAX_ROUNDS`
/// (§5.3.3.8).
const MIN_WAIT: u64 = 2 * SECOND;
const RANDOM_WAIT: u32 = 1_000_000_000;
const MAX_ROUNDS: u64 = 63;

/// Phase of a probing in which the acknowledged data was sent (BBR.ack_phase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feedback {
    /// Outside of a probing.
    None,
    /// Before Up.
    Starting,
    /// In Up.
    Running,
    /// Before the probing ended.
    Stopping,
}

/// State of the cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) feedback: Feedback,
    /// True if losses concern data that was sent while probing (BBR.is_bw_probe_sample).
    pub(super) is_sample: bool,
    /// True if the last probing lost too much (BBR.prev_probe_too_high). The present probing then ends at the
    /// same volume in flight (BBR.prev_probe_precautionary).
    pub(super) was_too_high: bool,
    is_precautionary: bool,
    /// Bytes acknowledged since the long-term bound last grew, number of such bytes for each segment of
    /// growth, and number of rounds in which it grew.
    acked: u32,
    acked_per_segment: u32,
    growth_rounds: u32,
    /// Rounds since the last probing, time at which it ended, and longest time until the next one begins.
    rounds: u32,
    started_at: u64,
    wait: u64,
    random: u32,
}

impl Cycle {
    pub(super) const fn new(seed: u32) -> Self {
        Self {
            feedback: Feedback::None,
            is_sample: false,
            was_too_high: false,
            is_precautionary: false,
            acked: 0,
            acked_per_segment: u32::MAX,
            growth_rounds: 0,
            rounds: 0,
            started_at: 0,
            wait: 0,
            // Not 0: the generator would stay at 0.
            random: seed | 1,
        }
    }

    /// Returns the next number of a generator (xorshift). The number need not be secret: only flows must
    /// differ.
    const fn next_random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }

    fn pick_wait(&mut self) {
        self.rounds = self.next_random() & 1;
        self.wait = MIN_WAIT + u64::from(self.next_random() % RANDOM_WAIT);
    }
}

impl Bbr {
    /// Ends the probing, and drains the queue that it has made.
    pub(super) fn start_down(&mut self, now: u64) {
        self.losses.reset();
        self.cycle.acked_per_segment = u32::MAX;
        self.cycle.pick_wait();
        self.cycle.started_at = now;
        self.cycle.feedback = Feedback::Stopping;
        self.rounds.restart();
        self.state = State::Down;
    }

    /// Fills the path before probing, and drops the short-term bounds.
    pub(super) const fn start_refill(&mut self) {
        self.bounds.reset_shortterm();
        (self.cycle.growth_rounds, self.cycle.acked) = (0, 0);
        self.cycle.is_precautionary = false;
        self.cycle.feedback = Feedback::None;
        self.rounds.restart();
        self.state = State::Refill;
    }

    fn start_up(&mut self, window: &Window, rate: u64) {
        self.cycle.is_sample = true;
        self.cycle.feedback = Feedback::Starting;
        self.rounds.restart();
        self.full_pipe.reset(rate);
        self.state = State::Up;
        self.raise_slope(window);
    }

    /// Continues the cycle.
    pub(super) fn update_cycle(&mut self, window: &Window, acked: &Acked, sample: &Sample) {
        if self.rounds.is_start {
            self.cycle.rounds = self.cycle.rounds.saturating_add(1);
        }
        if !self.full_pipe.was_full || self.update_feedback(sample) {
            return;
        }
        self.raise_longterm(window, acked.bytes, sample);
        let (state, now) = (self.state, acked.now);
        match state {
            State::Down | State::Cruise if self.is_time_to_probe(window, now) => self.start_refill(),
            State::Down if self.is_drained(window, sample) => self.state = State::Cruise,
            State::Refill if self.rounds.is_start => self.start_up(window, sample.rate),
            State::Up if self.is_time_to_end(window, sample) => {
                self.cycle.was_too_high = false;
                self.start_down(now);
            }
            _ => (),
        }
    }

    /// Updates the phase of the acknowledged data. Returns true if the next probing begins at once, because
    /// the last one was precautionary and lost little.
    fn update_feedback(&mut self, sample: &Sample) -> bool {
        if !self.rounds.is_start {
            return false;
        }
        match self.cycle.feedback {
            Feedback::None | Feedback::Running => return false,
            Feedback::Starting => {
                self.cycle.feedback = Feedback::Running;
                return false;
            }
            Feedback::Stopping => (),
        }
        self.cycle.is_sample = false;
        self.cycle.feedback = Feedback::None;
        if !self.state.is_probe_bw() {
            return false;
        }
        if !sample.is_app_limited {
            self.max_bandwidth.advance();
        }
        let is_next = self.cycle.is_precautionary && !self.cycle.was_too_high;
        if is_next {
            self.start_refill();
        }
        is_next
    }

    /// Raises the long-term bound to a volume in flight with few losses, and beyond it while probing.
    fn raise_longterm(&mut self, window: &Window, bytes: u32, sample: &Sample) {
        if self.bounds.longterm == u32::MAX
            || is_too_high(sample.lost, sample.sent_in_flight, sample.has_sack)
        {
            return;
        }
        self.bounds.longterm = self.bounds.longterm.max(sample.sent_in_flight);
        if self.state != State::Up || !sample.is_window_limited || window.size < self.bounds.longterm {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.acked = cycle.acked.saturating_add(bytes);
        let segments = cycle.acked / cycle.acked_per_segment;
        cycle.acked %= cycle.acked_per_segment;
        self.bounds.longterm = self.bounds.longterm.saturating_add(segments.saturating_mul(window.mss));
        if self.rounds.is_start {
            self.raise_slope(window);
        }
    }

    /// Doubles the number of segments by which the long-term bound grows in a round.
    fn raise_slope(&mut self, window: &Window) {
        let cycle = &mut self.cycle;
        cycle.acked_per_segment = (window.size >> cycle.growth_rounds).max(window.mss).max(1);
        cycle.growth_rounds = (cycle.growth_rounds + 1).min(30);
    }

    /// True if it is time to probe for bandwidth: after a few seconds, or after as many rounds as Reno needs
    /// to grow by the segments in flight.
    fn is_time_to_probe(&self, window: &Window, now: u64) -> bool {
        let segments = self.target(window) / u64::from(window.mss.max(1));
        now > self.cycle.started_at + self.cycle.wait
            || u64::from(self.cycle.rounds) >= segments.min(MAX_ROUNDS)
    }

    /// True if the bytes in flight fit into the path and leave headroom to other flows.
    fn is_drained(&self, window: &Window, sample: &Sample) -> bool {
        let bdp = self.bdp(self.max_bandwidth.get(), 100);
        sample.in_flight <= self.longterm_with_headroom(window.mss)
            && sample.in_flight <= self.quantized(bdp, window.mss)
    }

    /// True if a probing is over: the path is full, or as much is in flight as in an earlier probing that
    /// lost too much.
    fn is_time_to_end(&mut self, window: &Window, sample: &Sample) -> bool {
        if self.cycle.was_too_high && sample.in_flight >= self.bounds.longterm {
            self.cycle.is_precautionary = true;
            return true;
        }
        if sample.is_window_limited && window.size >= self.bounds.longterm {
            self.full_pipe.reset(sample.rate);
            return false;
        }
        self.full_pipe.is_full
    }

    /// Long-term bound without the headroom for other flows.
    pub(super) fn longterm_with_headroom(&self, mss: u32) -> u32 {
        let bound = self.bounds.longterm;
        if bound == u32::MAX {
            return bound;
        }
        let headroom = (bound / 100 * HEADROOM).max(mss);
        bound.saturating_sub(headroom).max(MIN_WINDOW * mss)
    }
}
