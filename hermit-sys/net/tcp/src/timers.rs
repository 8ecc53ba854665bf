//! State of a connection's timers, except those of loss recovery and of delayed acknowledgements.

use crate::rtt::SECOND;

/// Time in nanoseconds after which data after a gap is dropped, if memory is scarce. This timeout is longer
/// than the time after which any peer retransmits missing data (Linux's `TCP_RTO_MAX` is 120 s).
const GAP_TIMEOUT: u64 = 180 * SECOND;

/// Keep-alive probes (RFC 9293 §3.8.4). Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Time without a segment from the peer until the first probe: `TCP_KEEPIDLE`.
    pub idle: u64,
    /// Time between probes: `TCP_KEEPINTVL`.
    pub interval: u64,
    /// Number of unanswered probes after which the connection is given up: `TCP_KEEPCNT`.
    pub count: u32,
}

/// State of the timers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) keep_alive: Option<KeepAlive>,
    pub(crate) user_timeout: Option<u64>,
    pub(crate) orphaned_at: Option<u64>,
    /// Time of the last segment from the peer.
    pub(crate) heard_at: u64,
    /// Number of keep-alive probes since `heard_at`.
    pub(crate) probes: u32,
    pub(crate) probed_at: u64,
    /// Start of the time in which the peer has not acknowledged data, or not answered probes of its shut
    /// window.
    pub(crate) stalled_since: Option<u64>,
    /// Time at which the SYN or SYN-ACK is sent, for the first time or again.
    pub(crate) handshake_at: Option<u64>,
    pub(crate) started_at: u64,
    /// Time at which a shut window is probed.
    pub(crate) window_probe_at: Option<u64>,
    /// Time at which the first gap in received data has lasted too long.
    pub(crate) gap_until: Option<u64>,
    /// End of TIME-WAIT.
    pub(crate) time_wait_until: Option<u64>,
    /// True if a tail loss probe must be sent.
    pub(crate) sends_tail_probe: bool,
    /// True if a segment with an old number must be sent, which the peer answers: a window probe or a
    /// keep-alive probe.
    pub(crate) sends_probe: bool,
}

impl Timers {
    pub(crate) const fn new(now: u64) -> Self {
        Self {
            keep_alive: None,
            user_timeout: None,
            orphaned_at: None,
            heard_at: now,
            probes: 0,
            probed_at: now,
            stalled_since: None,
            handshake_at: Some(now),
            started_at: now,
            window_probe_at: None,
            gap_until: None,
            time_wait_until: None,
            sends_tail_probe: false,
            sends_probe: false,
        }
    }

    /// Records that a segment has come from the peer.
    pub(crate) const fn on_heard(&mut self, now: u64) {
        (self.heard_at, self.probes) = (now, 0);
    }

    /// Updates the deadline of gaps. `is_filled` is true if the first gap was filled.
    pub(crate) fn note_gap(&mut self, has_gap: bool, is_filled: bool, now: u64) {
        let known = self.gap_until.filter(|_| !is_filled);
        self.gap_until = has_gap.then(|| known.unwrap_or(now.saturating_add(GAP_TIMEOUT)));
    }

    /// Time of the next keep-alive probe.
    pub(crate) fn keep_alive_at(&self) -> Option<u64> {
        let keep_alive = self.keep_alive?;
        Some(match self.probes {
            0 => self.heard_at.saturating_add(keep_alive.idle),
            _ => self.probed_at.saturating_add(keep_alive.interval),
        })
    }
}
