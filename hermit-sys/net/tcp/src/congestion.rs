//! Congestion control: how many bytes may be in flight.
//!
//! An algorithm grows the [`Window`] when data is acknowledged, and computes the slow-start threshold after a
//! loss. The module `recovery` then shrinks the window to this threshold (proportional rate reduction). An
//! algorithm that [sets the window](CongestionControl::sets_window), as BBR does, replaces both steps: it
//! computes the window with each acknowledgement. `Control` has the state of a connection's algorithm and
//! calls it through a `match`.

pub(crate) mod bbr;
pub(crate) mod cubic;
pub(crate) mod hystart;
pub(crate) mod reno;

use bbr::Bbr;
use cubic::Cubic;
use hermit_base::try_alloc::TryBox;
use reno::Reno;

use crate::rtt::RttEstimator;
use crate::seq::Seq;

/// Minimum of the slow-start threshold, in segments (RFC 5681 §3.1).
const MIN_THRESHOLD: u32 = 2;

/// Maximum congestion window, in bytes: the largest window that window scaling permits.
pub(crate) const MAX_WINDOW: u32 = 1 << 30;

/// The congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Bytes that may be in flight.
    pub(crate) size: u32,
    /// Slow-start threshold.
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

    /// Returns `size`, the window after a reduction, but at least the minimum.
    pub(crate) fn at_least_min(&self, size: u64) -> u32 {
        u32::try_from(size).unwrap_or(MAX_WINDOW).max(MIN_THRESHOLD * self.mss)
    }
}

/// Input of congestion control from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    /// Bytes that were acknowledged for the first time.
    pub(crate) bytes: u32,
    /// SND.UNA after the acknowledgement, and SND.NXT.
    pub(crate) una: Seq,
    pub(crate) nxt: Seq,
    /// RTT of this acknowledgement, and the smoothed RTT.
    pub(crate) rtt: Option<u64>,
    pub(crate) smoothed_rtt: u64,
    /// Sample of the delivery rate, for an algorithm that sets the window.
    pub(crate) sample: Option<Sample>,
    pub(crate) now: u64,
}

/// A sample of the delivery rate (draft-ietf-ccwg-bbr-06 §4.1.2). It belongs to the newest range that an
/// acknowledgement delivers, and spans the time from the transmission of this range to the acknowledgement.
/// Bytes are counted modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Bytes delivered so far (C.delivered), and their number when the range was sent (P.delivered).
    pub(crate) total: Seq,
    pub(crate) prior: Seq,
    /// Bytes delivered in this time, and the rate in bytes per second; 0 if unknown.
    pub(crate) delivered: u32,
    pub(crate) rate: u64,
    /// RTT of the range.
    pub(crate) rtt: Option<u64>,
    /// Bytes lost in this time.
    pub(crate) lost: u32,
    /// Bytes in flight when the range was sent, and now.
    pub(crate) sent_in_flight: u32,
    pub(crate) in_flight: u32,
    /// True if the congestion window held data back.
    pub(crate) is_window_limited: bool,
    /// True during fast recovery.
    pub(crate) is_recovering: bool,
    /// True if the owner had nothing to send, so that the path may deliver more.
    pub(crate) is_app_limited: bool,
    pub(crate) has_sack: bool,
}

/// A range that was marked as lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) start: Seq,
    pub(crate) end: Seq,
    /// Bytes delivered so far.
    pub(crate) total: Seq,
    /// Bytes lost since the range was sent, including the range.
    pub(crate) lost: u32,
    /// Bytes in flight when the range was sent.
    pub(crate) sent_in_flight: u32,
    pub(crate) is_app_limited: bool,
    pub(crate) has_sack: bool,
    pub(crate) now: u64,
}

/// A congestion-control algorithm.
pub(crate) trait CongestionControl {
    /// Handles an acknowledgement of data, after which the window may grow. Called only if the window was
    /// used, or if the algorithm sets the window.
    fn on_ack(&mut self, window: &mut Window, acked: &Acked);

    /// Handles a loss or an echoed ECN mark. Returns the new slow-start threshold.
    fn on_congestion(&mut self, window: &Window, now: u64) -> u32;

    /// Handles a pause: nothing was sent from `since` until now.
    fn on_idle(&mut self, since: u64, now: u64);

    /// True if the algorithm sets the window with each acknowledgement that delivers data, also during
    /// recovery and if the window was not used. It then replaces growth and proportional rate reduction.
    fn sets_window(&self) -> bool {
        false
    }

    /// Handles the end of a reduction or recovery. For an algorithm that sets the window, it is also called
    /// when the losses before a timeout are repaired.
    fn on_recovered(&mut self, window: &mut Window) {
        window.size = window.threshold;
    }

    /// Pacing rate in bytes per second, if the algorithm has a rate of its own.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Handles a range that was marked as lost.
    fn on_lost(&mut self, _window: &Window, _lost: &Lost) {}

    /// Handles the sending of data while no data is in flight. `is_app_limited` is true if the owner had no
    /// data before.
    fn on_restart(&mut self, _window: &mut Window, _is_app_limited: bool, _now: u64) {}

    /// True if the algorithm keeps little in flight to measure the RTT, so that samples of the rate are too
    /// low.
    fn is_probing_rtt(&self) -> bool {
        false
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
    /// BBR, version 3 (draft-ietf-ccwg-bbr-06). It always paces data, even if the connection does not ask for
    /// pacing.
    Bbr,
    /// No congestion control: the window is unlimited, for connections within a host.
    Unlimited,
}

/// State of a connection's algorithm, inline instead of behind a pointer.
#[derive(Debug)]
pub(crate) enum Control {
    Cubic(Cubic),
    Reno(Reno),
    /// On the heap, since it is larger than the rest of the sender's state.
    Bbr(TryBox<Bbr>),
    Unlimited,
}

/// State of the algorithm before a reduction: see [`Control::undo`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Saved {
    Cubic(Cubic),
    Reno(Reno),
    /// Nothing to restore, or the algorithm itself keeps the state.
    Nothing,
}

impl Control {
    /// Creates the state of an algorithm. `nxt` is the number of the next byte to be sent. If there is no
    /// memory for the state of BBR, creates that of CUBIC.
    pub(crate) fn new(algorithm: Algorithm, nxt: Seq, window: &Window, rtt: &RttEstimator, now: u64) -> Self {
        match algorithm {
            Algorithm::Cubic => Self::Cubic(Cubic::new(nxt)),
            Algorithm::Reno => Self::Reno(Reno::new(nxt)),
            Algorithm::Bbr => match TryBox::try_new(Bbr::new(nxt, window, rtt.smoothed(), now)) {
                Ok(bbr) => Self::Bbr(bbr),
                Err(_) => Self::Cubic(Cubic::new(nxt)),
            },
            Algorithm::Unlimited => Self::Unlimited,
        }
    }

    /// True if this is the state of `algorithm`.
    pub(crate) const fn is(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Cubic(_), Algorithm::Cubic)
                | (Self::Reno(_), Algorithm::Reno)
                | (Self::Bbr(_), Algorithm::Bbr)
                | (Self::Unlimited, Algorithm::Unlimited)
        )
    }

    /// Returns the state to be restored by [`undo`](Self::undo).
    pub(crate) const fn save(&self) -> Saved {
        match self {
            Self::Cubic(cubic) => Saved::Cubic(*cubic),
            Self::Reno(reno) => Saved::Reno(*reno),
            Self::Bbr(_) | Self::Unlimited => Saved::Nothing,
        }
    }

    /// Restores the state before a reduction, because nothing was lost.
    pub(crate) fn undo(&mut self, saved: Saved) {
        match (saved, self) {
            (Saved::Cubic(cubic), control) => *control = Self::Cubic(cubic),
            (Saved::Reno(reno), control) => *control = Self::Reno(reno),
            (Saved::Nothing, Self::Bbr(bbr)) => bbr.undo_losses(),
            (Saved::Nothing, _) => (),
        }
    }
}

impl CongestionControl for Control {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        match self {
            Self::Cubic(cubic) => cubic.on_ack(window, acked),
            Self::Reno(reno) => reno.on_ack(window, acked),
            Self::Bbr(bbr) => bbr.on_ack(window, acked),
            Self::Unlimited => window.size = MAX_WINDOW,
        }
    }

    fn on_congestion(&mut self, window: &Window, now: u64) -> u32 {
        match self {
            Self::Cubic(cubic) => cubic.on_congestion(window, now),
            Self::Reno(reno) => reno.on_congestion(window, now),
            Self::Bbr(bbr) => bbr.on_congestion(window, now),
            Self::Unlimited => MAX_WINDOW,
        }
    }

    fn on_idle(&mut self, since: u64, now: u64) {
        match self {
            Self::Cubic(cubic) => cubic.on_idle(since, now),
            Self::Reno(reno) => reno.on_idle(since, now),
            Self::Bbr(bbr) => bbr.on_idle(since, now),
            Self::Unlimited => (),
        }
    }

    fn sets_window(&self) -> bool {
        matches!(self, Self::Bbr(_))
    }

    fn on_recovered(&mut self, window: &mut Window) {
        match self {
            Self::Bbr(bbr) => bbr.on_recovered(window),
            _ => window.size = window.threshold,
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        if let Self::Bbr(bbr) = self { bbr.pacing_rate() } else { None }
    }

    fn on_lost(&mut self, window: &Window, lost: &Lost) {
        if let Self::Bbr(bbr) = self {
            bbr.on_lost(window, lost);
        }
    }

    fn on_restart(&mut self, window: &mut Window, is_app_limited: bool, now: u64) {
        if let Self::Bbr(bbr) = self {
            bbr.on_restart(window, is_app_limited, now);
        }
    }

    fn is_probing_rtt(&self) -> bool {
        matches!(self, Self::Bbr(bbr) if bbr.is_probing_rtt())
    }
}
