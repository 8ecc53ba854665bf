//! Congestion control: how many bytes may be in flight.
//!
//! An algorithm changes the [`Window`] when data is acknowledged, and says how much smaller it becomes after a loss. When and
//! how it gets there is the matter of `recovery`, unless the algorithm [sets the window](CongestionControl::sets_window) itself.

pub(crate) mod cubic;
pub(crate) mod hystart;
pub(crate) mod reno;

use cubic::Cubic;
use reno::Reno;

use crate::seq::Seq;

/// Minimum of the slow-start threshold, in segments (RFC 5681 §3.1).
const MIN_THRESHOLD: u32 = 2;

/// Maximum of a congestion window, in bytes: what a scaled window can be.
pub(crate) const MAX_WINDOW: u32 = 1 << 30;

/// The congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Bytes that may be in flight.
    pub(crate) size: u32,
    /// Slow start ends here.
    pub(crate) threshold: u32,
    /// Sender maximum segment size (SMSS).
    pub(crate) mss: u32,
}

impl Window {
    /// The initial window (RFC 6928 §2).
    pub(crate) fn initial(mss: u32) -> u32 {
        (10 * mss).min((2 * mss).max(14_600))
    }

    pub(crate) fn new(mss: u32) -> Self {
        Self { size: Self::initial(mss), threshold: MAX_WINDOW, mss }
    }

    pub(crate) const fn is_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    pub(crate) fn grow(&mut self, bytes: u32) {
        self.size = self.size.saturating_add(bytes).min(MAX_WINDOW);
    }

    /// The window after a reduction: not below the minimum.
    pub(crate) fn at_least_min(&self, size: u64) -> u32 {
        u32::try_from(size).unwrap_or(MAX_WINDOW).max(MIN_THRESHOLD * self.mss)
    }
}

/// What an acknowledgement says to congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    /// Bytes that were acknowledged for the first time.
    pub(crate) bytes: u32,
    /// SND.UNA after it, and SND.NXT.
    pub(crate) una: Seq,
    pub(crate) nxt: Seq,
    /// RTT of this acknowledgement, and the smoothed one.
    pub(crate) rtt: Option<u64>,
    pub(crate) smoothed_rtt: u64,
    pub(crate) now: u64,
}

/// A congestion-control algorithm.
pub(crate) trait CongestionControl {
    /// Data has been acknowledged, and the window was used: it may grow.
    fn on_ack(&mut self, window: &mut Window, acked: &Acked);

    /// Data was lost, or a mark was echoed. Returns the new slow-start threshold.
    fn on_congestion(&mut self, window: &Window, now: u64) -> u32;

    /// Nothing was sent from `since` until now.
    fn on_idle(&mut self, since: u64, now: u64);

    /// Whether the algorithm sets the window with each acknowledgement that delivers data, used or not and in recoveries too,
    /// instead of growth and proportional rate reduction.
    fn sets_window(&self) -> bool {
        false
    }

    /// A reduction or recovery has ended, or, for an algorithm that sets the window, the repair of losses after a timeout.
    fn on_recovered(&mut self, window: &mut Window) {
        window.size = window.threshold;
    }
}

/// Name of an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// Reno (RFC 5681, RFC 6582) with HyStart++.
    Reno,
    /// None: the window is unlimited, for connections within a host.
    Unlimited,
}

/// The state of a connection's algorithm, in place instead of behind a pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Cubic(Cubic),
    Reno(Reno),
    Unlimited,
}

/// What a reduction changes of a connection's algorithm: see [`Control::undo`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Saved {
    Cubic(Cubic),
    Reno(Reno),
    Nothing,
}

impl Control {
    pub(crate) fn new(algorithm: Algorithm, nxt: Seq) -> Self {
        match algorithm {
            Algorithm::Cubic => Self::Cubic(Cubic::new(nxt)),
            Algorithm::Reno => Self::Reno(Reno::new(nxt)),
            Algorithm::Unlimited => Self::Unlimited,
        }
    }

    /// The state before a reduction.
    pub(crate) const fn save(&self) -> Saved {
        match self {
            Self::Cubic(cubic) => Saved::Cubic(*cubic),
            Self::Reno(reno) => Saved::Reno(*reno),
            Self::Unlimited => Saved::Nothing,
        }
    }

    /// Nothing was lost: restores the state before the reduction.
    pub(crate) const fn undo(&mut self, saved: Saved) {
        match saved {
            Saved::Cubic(cubic) => *self = Self::Cubic(cubic),
            Saved::Reno(reno) => *self = Self::Reno(reno),
            Saved::Nothing => (),
        }
    }
}

impl CongestionControl for Control {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        match self {
            Self::Cubic(cubic) => cubic.on_ack(window, acked),
            Self::Reno(reno) => reno.on_ack(window, acked),
            Self::Unlimited => window.size = MAX_WINDOW,
        }
    }

    fn on_congestion(&mut self, window: &Window, now: u64) -> u32 {
        match self {
            Self::Cubic(cubic) => cubic.on_congestion(window, now),
            Self::Reno(reno) => reno.on_congestion(window, now),
            Self::Unlimited => MAX_WINDOW,
        }
    }

    fn on_idle(&mut self, since: u64, now: u64) {
        match self {
            Self::Cubic(cubic) => cubic.on_idle(since, now),
            Self::Reno(reno) => reno.on_idle(since, now),
            Self::Unlimited => (),
        }
    }
}
