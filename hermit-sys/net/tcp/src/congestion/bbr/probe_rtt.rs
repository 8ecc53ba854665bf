//! The minimum RTT, and the state in which little is in flight so that it can be measured (§5.3.4).

use super::probe_bw::Feedback;
use super::{Bbr, MIN_WINDOW, State, narrow};
use crate::congestion::{Sample, Window};
use crate::rtt::{MS, SECOND};

/// Lifetime of a minimum (BBR.MinRTTFilterLen), and time after which it is measured again
/// (BBR.ProbeRTTInterval).
const PERIOD: u64 = 10 * SECOND;
const PROBE_INTERVAL: u64 = 5 * SECOND;

/// Time for which little is in flight (BBR.ProbeRTTDuration).
const DURATION: u64 = 200 * MS;

/// Windowed minimum of the RTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    /// `u64::MAX`: not known.
    min: u64,
    min_at: u64,
    /// Minimum since the last measurement.
    recent: u64,
    recent_at: u64,
    /// True if the minimum must be measured again.
    is_due: bool,
    /// End of a measurement, set as soon as little is in flight, and true if a round has passed since then.
    until: Option<u64>,
    has_round: bool,
}

impl MinRtt {
    pub(super) fn new(rtt: Option<u64>, now: u64) -> Self {
        let min = rtt.unwrap_or(u64::MAX);
        Self {
            min,
            min_at: now,
            recent: u64::MAX,
            recent_at: now,
            is_due: false,
            until: None,
            has_round: false,
        }
    }

    pub(super) fn get(&self) -> Option<u64> {
        Some(self.min).filter(|&min| min != u64::MAX)
    }

    pub(super) fn on_sample(&mut self, sample: &Sample, now: u64) {
        self.is_due = now > self.recent_at + PROBE_INTERVAL;
        if let Some(rtt) = sample.rtt.filter(|&rtt| rtt < self.recent || self.is_due) {
            (self.recent, self.recent_at) = (rtt, now);
        }
        if self.recent < self.min || now > self.min_at + PERIOD {
            (self.min, self.min_at) = (self.recent, self.recent_at);
        }
    }
}

impl Bbr {
    /// Begins, continues or ends the measurement of the minimum RTT.
    pub(super) fn check_probe_rtt(&mut self, window: &mut Window, sample: &Sample, now: u64) {
        if self.state != State::ProbeRtt && self.min_rtt.is_due && !self.is_restarting {
            let prior = if sample.is_recovering { self.prior_window } else { 0 };
            self.prior_window = prior.max(window.size);
            self.min_rtt.until = None;
            self.cycle.feedback = Feedback::Stopping;
            self.rounds.restart();
            self.state = State::ProbeRtt;
        }
        if self.state == State::ProbeRtt {
            self.probe_rtt(window, sample, now);
        }
        self.is_restarting = false;
    }

    fn probe_rtt(&mut self, window: &mut Window, sample: &Sample, now: u64) {
        if self.min_rtt.until.is_none() {
            if sample.in_flight <= self.probe_rtt_window(window.mss) {
                (self.min_rtt.until, self.min_rtt.has_round) = (Some(now + DURATION), false);
                self.rounds.restart();
            }
            return;
        }
        self.min_rtt.has_round |= self.rounds.is_start;
        if self.min_rtt.has_round {
            self.end_probe_rtt(window, now);
        }
    }

    /// Ends the measurement, if it has taken long enough.
    pub(super) fn end_probe_rtt(&mut self, window: &mut Window, now: u64) {
        if self.min_rtt.until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.recent_at = now;
        window.size = window.size.max(self.prior_window);
        self.bounds.reset_shortterm();
        self.state = State::Startup;
        if self.full_pipe.was_full {
            self.start_down(now);
            self.state = State::Cruise;
        }
    }

    /// Window of the measurement: half of the BDP.
    pub(super) fn probe_rtt_window(&self, mss: u32) -> u32 {
        let half = self.bdp(self.bandwidth(), State::ProbeRtt.window_gain());
        narrow(half).max(MIN_WINDOW * mss)
    }
}
