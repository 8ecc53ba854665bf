//! BBR, version 3 (draft-ietf-ccwg-bbr-06, whose sections are cited).
//!
//! BBR has a model of the path: the rate at which it delivers (bandwidth) and its minimum RTT. Their product
//! is the volume that the path holds without a queue (bandwidth-delay product, BDP). The pacing rate is about
//! the bandwidth, and the window a multiple of the BDP. A loss does not reduce the window itself, but bounds
//! the model. BBR measures the bandwidth by sending faster for a short time, and the RTT by keeping little in
//! flight for a short time: see `State`.
//!
//! | module | what |
//! | --- | --- |
//! | `filters` | rounds, maximum bandwidth, whether the path is full, aggregation |
//! | `bounds` | bounds by losses |
//! | `probe_bw` | the cycle that probes for bandwidth |
//! | `probe_rtt` | the minimum RTT and how it is measured |
//!
//! In integers: rates in bytes per second, volumes in bytes, gains in percent, times in nanoseconds.

mod bounds;
mod filters;
mod probe_bw;
mod probe_rtt;
#[cfg(test)]
mod tests;

use bounds::{Bounds, LossRound};
use filters::{Aggregation, FullPipe, MaxBandwidth, Rounds};
use probe_bw::Cycle;
use probe_rtt::MinRtt;

use super::{Acked, CongestionControl, Lost, MAX_WINDOW, Sample, Window};
use crate::rtt::{MICROSECOND, MS, SECOND};
use crate::seq::Seq;

/// Minimum window, in segments (BBR.MinPipeCwnd).
const MIN_WINDOW: u32 = 4;

/// Part of the bandwidth at which data leaves, in percent (BBR.PacingMarginPercent is 1).
const PACING_SHARE: u64 = 99;

/// Minimum pacing rate, so that a low bandwidth does not lead to a pause of minutes.
const MIN_RATE: u64 = 4096;

/// Maximum number of rounds in which the queue of Startup drains (§5.3.2).
const DRAIN_ROUNDS: u32 = 3;

/// Maximum size of a burst, and minimum number of bursts in flight, since hosts coalesce segments (§5.5.8,
/// §5.6.3).
const MAX_QUANTUM: u64 = 64 << 10;
const QUANTA: u64 = 3;

/// State of BBR's state machine (§5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Doubles the rate in each round, until the path is full.
    Startup,
    /// Drains the queue of Startup.
    Drain,
    /// ProbeBW: drains the queue that probing has made.
    Down,
    /// ProbeBW: sends as fast as the path delivers.
    Cruise,
    /// ProbeBW: fills the path.
    Refill,
    /// ProbeBW: sends faster than the path delivered so far.
    Up,
    /// Has little in flight to measure the RTT.
    ProbeRtt,
}

impl State {
    /// Pacing rate, in percent of the bandwidth (§5.6.1).
    const fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    /// Window, in percent of the BDP.
    const fn window_gain(self) -> u64 {
        match self {
            Self::Up => 225,
            Self::ProbeRtt => 50,
            _ => 200,
        }
    }

    const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// True if losses are attributed to the probing of this state (IsProbingBW).
    const fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// State of a connection's BBR.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bbr {
    state: State,
    rounds: Rounds,
    max_bandwidth: MaxBandwidth,
    full_pipe: FullPipe,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    losses: LossRound,
    bounds: Bounds,
    cycle: Cycle,
    pacing_rate: u64,
    /// Round in which Drain began.
    drain_start: u32,
    /// Window before a recovery or ProbeRTT.
    prior_window: u32,
    /// True if nothing was in flight when data was last sent (BBR.idle_restart).
    is_restarting: bool,
    /// State that losses have ended, and the bounds before these losses, to be restored if the losses were
    /// spurious (BBR.undo_state and others).
    undo: (Option<State>, Bounds),
}

impl Bbr {
    pub(crate) fn new(nxt: Seq, window: &Window, rtt: Option<u64>, now: u64) -> Self {
        let state = State::Startup;
        let rate = u64::from(window.size) * SECOND / rtt.unwrap_or(MS).max(MICROSECOND);
        Self {
            state,
            rounds: Rounds::new(),
            max_bandwidth: MaxBandwidth::default(),
            full_pipe: FullPipe::default(),
            min_rtt: MinRtt::new(rtt, now),
            aggregation: Aggregation::new(now),
            losses: LossRound::new(),
            bounds: Bounds::NONE,
            cycle: Cycle::new(nxt.0),
            pacing_rate: rate * state.pacing_gain() / 100,
            drain_start: 0,
            prior_window: 0,
            is_restarting: false,
            undo: (None, Bounds::NONE),
        }
    }

    /// Estimated bandwidth, within its bound (BBR.bw).
    fn bandwidth(&self) -> u64 {
        self.max_bandwidth.get().min(self.bounds.bandwidth)
    }

    /// BDP at a rate, times a gain in percent (BDPMultiple); 0 while the RTT is unknown.
    fn bdp(&self, rate: u64, gain: u64) -> u64 {
        self.min_rtt.get().map_or(0, |rtt| volume(rate, rtt) * gain / 100)
    }

    /// Target of the bytes in flight: the BDP, unless losses have reduced the window (TargetInflight).
    fn target(&self, window: &Window) -> u64 {
        self.bdp(self.bandwidth(), 100).min(window.size.into())
    }

    /// Raises a volume to the minimum for hosts that coalesce segments (QuantizationBudget).
    fn quantized(&self, volume: u64, mss: u32) -> u32 {
        let mss = u64::from(mss);
        let quantum = (self.pacing_rate / 1000).min(MAX_QUANTUM).max(2 * mss);
        let probing = if self.state == State::Up { 2 * mss } else { 0 };
        let volume = volume.max(QUANTA * quantum).max(u64::from(MIN_WINDOW) * mss) + probing;
        narrow(volume).min(MAX_WINDOW)
    }

    /// Ends Startup and Drain (§5.3.1, §5.3.2).
    fn check_startup(&mut self, window: &Window, acked: &Acked, sample: &Sample) {
        if self.state == State::Startup {
            if self.is_startup_lossy(sample) {
                self.bound_startup();
            }
            if self.full_pipe.was_full {
                (self.state, self.drain_start) = (State::Drain, self.rounds.count);
            }
        }
        if self.state == State::Drain {
            let bdp = self.bdp(self.bandwidth(), 100);
            let is_over = self.rounds.count.wrapping_sub(self.drain_start) > DRAIN_ROUNDS;
            if is_over || sample.in_flight <= self.quantized(bdp, window.mss) {
                self.start_down(acked.now);
            }
        }
    }

    /// Sets the pacing rate. The rate does not fall until the path is known to be full (§5.6.2).
    fn set_pacing_rate(&mut self, gain: u64) {
        let rate = self.bandwidth().saturating_mul(gain * PACING_SHARE) / 10_000;
        if self.full_pipe.was_full || rate > self.pacing_rate {
            self.pacing_rate = rate.max(MIN_RATE);
        }
    }

    /// Grows the window by the acknowledged bytes, up to the limit of the model (§5.6.4.6).
    fn set_window(&self, window: &mut Window, bytes: u32) {
        let bdp = self.bdp(self.bandwidth(), self.state.window_gain());
        let max = self.quantized(bdp + u64::from(self.aggregation.get()), window.mss);
        let is_early = self.rounds.delivered < Window::initial(window.mss);
        if self.full_pipe.was_full {
            window.size = window.size.saturating_add(bytes).min(max);
        } else if window.size < max || is_early {
            window.grow(bytes);
        }
        let min = MIN_WINDOW * window.mss;
        if self.state == State::ProbeRtt {
            window.size = window.size.min(self.probe_rtt_window(window.mss));
        }
        window.size = window.size.min(self.volume_bound(window.mss)).max(min);
    }

    /// Bound of the bytes in flight because of losses (§5.6.4.7).
    fn volume_bound(&self, mss: u32) -> u32 {
        let longterm = match self.state {
            State::Cruise | State::ProbeRtt => self.longterm_with_headroom(mss),
            State::Down | State::Refill | State::Up => self.bounds.longterm,
            State::Startup | State::Drain => u32::MAX,
        };
        longterm.min(self.bounds.shortterm)
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        let Some(sample) = &acked.sample else { return };
        // The order of the draft's BBRUpdateModelAndState, followed by BBRUpdateControlParameters.
        self.rounds.on_sample(sample);
        self.max_bandwidth.on_sample(sample);
        self.losses.on_sample(sample);
        self.adapt_shortterm(window);
        let round = (self.rounds.count, self.full_pipe.was_full);
        self.aggregation.on_ack(acked.bytes, self.bandwidth(), window.size, round, acked.now);
        self.full_pipe.on_sample(sample, self.rounds.is_start);
        self.check_startup(window, acked, sample);
        self.update_cycle(window, acked, sample);
        self.min_rtt.on_sample(sample, acked.now);
        self.check_probe_rtt(window, sample, acked.now);
        self.losses.advance(sample);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_window(window, acked.bytes);
    }

    /// Leaves the threshold unchanged: the model takes account of losses.
    fn on_congestion(&mut self, window: &Window, _now: u64) -> u32 {
        let prior = if self.state == State::ProbeRtt { self.prior_window } else { 0 };
        self.prior_window = prior.max(window.size);
        window.threshold
    }

    fn on_idle(&mut self, _since: u64, _now: u64) {}

    fn sets_window(&self) -> bool {
        true
    }

    fn on_recovered(&mut self, window: &mut Window) {
        window.size = window.size.max(self.prior_window);
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn on_lost(&mut self, window: &Window, lost: &Lost) {
        self.note_lost(window, lost);
    }

    /// Data after a pause leaves at the bandwidth (§5.4.1).
    fn on_restart(&mut self, window: &mut Window, is_app_limited: bool, now: u64) {
        if !is_app_limited {
            return;
        }
        self.is_restarting = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            self.end_probe_rtt(window, now);
        }
    }

    fn is_probing_rtt(&self) -> bool {
        self.state == State::ProbeRtt
    }
}

/// Returns the bytes that a rate delivers in a time in nanoseconds.
const fn volume(rate: u64, time: u64) -> u64 {
    rate.saturating_mul(time / MICROSECOND) / 1_000_000
}

/// Converts a volume to the type of windows.
fn narrow(volume: u64) -> u32 {
    u32::try_from(volume).unwrap_or(u32::MAX)
}
