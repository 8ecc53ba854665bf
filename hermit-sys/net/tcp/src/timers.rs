//! Timers of a connection besides those of loss recovery and of delayed acknowledgements.

use crate::buffers::Pool;
use crate::connection::{Connection, Events, Failure, State, TIME_WAIT};
use crate::recovery::Expiry;
use crate::rtt::SECOND;

/// Time until a SYN is given up: 6 retransmissions (Linux's `tcp_syn_retries`), and until a SYN-ACK is: 5
/// (`tcp_synack_retries`).
const SYN_TIMEOUT: u64 = 127 * SECOND;
const SYN_ACK_TIMEOUT: u64 = 63 * SECOND;

/// Time until unacknowledged data ends a connection: what 15 retransmissions take (`tcp_retries2`), and without an owner.
const DATA_TIMEOUT: u64 = 924 * SECOND;
const ORPHAN_TIMEOUT: u64 = 100 * SECOND;

/// Time in FIN-WAIT-2 without an owner (`tcp_fin_timeout`).
const FIN_WAIT_2_TIMEOUT: u64 = 60 * SECOND;

/// Keep-alive probes (RFC 9293 §3.8.4). Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Time without a segment from the peer until the first probe: `TCP_KEEPIDLE`.
    pub idle: u64,
    /// Time between probes: `TCP_KEEPINTVL`.
    pub interval: u64,
    /// Unanswered probes after which the connection is given up: `TCP_KEEPCNT`.
    pub count: u32,
}

/// What the timers know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) keep_alive: Option<KeepAlive>,
    pub(crate) user_timeout: Option<u64>,
    pub(crate) orphaned_at: Option<u64>,
    /// When the peer was last heard.
    pub(crate) heard_at: u64,
    /// Keep-alive probes since then.
    probes: u32,
    probed_at: u64,
    /// Since when data is not acknowledged, or the window is shut without an answer to probes.
    pub(crate) stalled_since: Option<u64>,
    /// When the SYN or SYN-ACK is sent; again, if it was.
    pub(crate) handshake_at: Option<u64>,
    pub(crate) started_at: u64,
    /// When a shut window is probed.
    pub(crate) window_probe_at: Option<u64>,
    /// When TIME-WAIT ends.
    pub(crate) time_wait_until: Option<u64>,
    /// A tail loss probe is to be sent.
    pub(crate) sends_tail_probe: bool,
    /// A segment with an old number, which the peer answers, is to be sent: a window probe or a keep-alive probe.
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
            time_wait_until: None,
            sends_tail_probe: false,
            sends_probe: false,
        }
    }

    /// A segment has come from the peer.
    pub(crate) const fn on_heard(&mut self, now: u64) {
        (self.heard_at, self.probes) = (now, 0);
    }

    /// When the next keep-alive probe is due.
    fn keep_alive_at(&self) -> Option<u64> {
        let keep_alive = self.keep_alive?;
        Some(match self.probes {
            0 => self.heard_at.saturating_add(keep_alive.idle),
            _ => self.probed_at.saturating_add(keep_alive.interval),
        })
    }
}

impl Connection {
    /// When [`on_timer`](Self::on_timer) or [`next_segment`](Self::next_segment) has something to do, without anything from
    /// the peer or the owner.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let timers = &self.timers;
        let earliest = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match self.state {
            State::Closed => self.resets.then_some(0),
            State::TimeWait => earliest(timers.time_wait_until, self.ack.deadline()),
            State::SynSent | State::SynReceived => earliest(timers.handshake_at, self.give_up_at()),
            _ => {
                let sending =
                    earliest(self.recovery.timer().map(|(deadline, _)| deadline), timers.window_probe_at);
                let sending = match self.recovery.pacing_deadline() {
                    None => sending,
                    pacing => earliest(sending, pacing),
                };
                let idle = if timers.keep_alive.is_some() { self.keep_alive_deadline() } else { None };
                earliest(earliest(sending, self.ack.deadline()), earliest(idle, self.give_up_at()))
            }
        }
    }

    /// Keep-alive probes are for connections on which nothing is outstanding.
    fn keep_alive_deadline(&self) -> Option<u64> {
        let is_idle = self.sending.buffer.size() == 0 && self.recovery.outstanding() == 0;
        self.timers.keep_alive_at().filter(|_| is_idle)
    }

    /// When the connection is given up.
    fn give_up_at(&self) -> Option<u64> {
        let timers = &self.timers;
        match self.state {
            State::SynSent => {
                Some(timers.started_at.saturating_add(timers.user_timeout.unwrap_or(SYN_TIMEOUT)))
            }
            State::SynReceived => Some(timers.started_at.saturating_add(SYN_ACK_TIMEOUT)),
            State::FinWait2 => timers.orphaned_at.map(|since| since.saturating_add(FIN_WAIT_2_TIMEOUT)),
            _ => {
                let limit = if timers.orphaned_at.is_some() { ORPHAN_TIMEOUT } else { DATA_TIMEOUT };
                timers.stalled_since.map(|since| since.saturating_add(timers.user_timeout.unwrap_or(limit)))
            }
        }
    }

    /// Does what is due. What is to be sent then is in [`next_segment`](Self::next_segment).
    pub fn on_timer(&mut self, pool: &mut Pool, now: u64) -> Events {
        if self.state == State::Closed {
            return Events::empty();
        }
        if self.timers.time_wait_until.is_some_and(|until| until <= now) {
            self.end(None, pool);
            return Events::CLOSED;
        }
        if self.give_up_at().is_some_and(|deadline| deadline <= now) || self.is_keep_alive_over(now) {
            return self.give_up(pool);
        }
        match self.recovery.on_timer(now) {
            Some(Expiry::Probe) => self.timers.sends_tail_probe = true,
            Some(Expiry::Timeout) => self.on_retransmission_timeout(),
            Some(Expiry::Retransmit | Expiry::Repeat) | None => (),
        }
        if self.timers.window_probe_at.is_some_and(|at| at <= now) {
            self.timers.window_probe_at = None;
            self.timers.sends_probe = true;
            self.recovery.back_off();
        }
        if self.keep_alive_deadline().is_some_and(|at| at <= now) {
            self.timers.probes += 1;
            self.timers.probed_at = now;
            self.timers.sends_probe = true;
        }
        Events::empty()
    }

    /// Whether all keep-alive probes went unanswered.
    fn is_keep_alive_over(&self, now: u64) -> bool {
        let timers = &self.timers;
        // As in Linux, the user timeout counts instead of the number of probes.
        let is_last = match timers.user_timeout {
            Some(limit) => timers.probes > 0 && now.saturating_sub(timers.heard_at) >= limit,
            None => timers.keep_alive.is_some_and(|keep_alive| timers.probes >= keep_alive.count),
        };
        is_last && self.keep_alive_deadline().is_some_and(|at| at <= now)
    }

    fn give_up(&mut self, pool: &mut Pool) -> Events {
        // A peer that does not end its half of a connection without an owner hears nothing, as from Linux.
        self.resets = self.is_synchronized() && self.state != State::FinWait2;
        self.end(Some(Failure::TimedOut), pool);
        Events::CLOSED
    }

    /// A path that drops full segments without a word gets smaller ones after some timeouts (RFC 4821 §7.7 in spirit;
    /// Linux's `tcp_mtu_probing`).
    fn on_retransmission_timeout(&mut self) {
        let mss = self.sending.mss;
        if self.recovery.rtt().backoff() == BLACK_HOLE_TIMEOUTS && mss > MIN_PROBED_MSS {
            self.set_mss((mss / 2).max(MIN_PROBED_MSS));
        }
    }

    /// Changes the bytes of data and options in a full segment, when the path's MTU has.
    pub fn set_mss(&mut self, mss: u16) {
        self.sending.mss = mss.max(MIN_MSS);
        let data = self.data_mss();
        self.recovery.set_mss(data);
    }

    /// The host has no way to the peer at present: as long as it has none, what is to be sent counts as unacknowledged.
    pub fn on_unreachable(&mut self, now: u64) {
        if self.is_synchronized() && self.unacknowledged() != (0, false) {
            self.timers.stalled_since.get_or_insert(now);
        }
    }

    /// Sends smaller segments, because a router of the path takes no larger packets (RFC 1191 §6.3); larger ones are ignored.
    pub fn reduce_mss(&mut self, mss: u16) {
        if mss < self.sending.mss {
            self.set_mss(mss);
        }
    }

    /// Both ends are closed.
    pub(crate) const fn enter_time_wait(&mut self, now: u64) {
        self.state = State::TimeWait;
        self.timers.time_wait_until = Some(now.saturating_add(TIME_WAIT));
    }
}

/// Minimum MSS (Linux's `TCP_MIN_SND_MSS`).
pub(crate) const MIN_MSS: u16 = 48;

/// Retransmission timeouts after which a black hole is suspected, and the MSS below which there is none (`tcp_base_mss`).
const BLACK_HOLE_TIMEOUTS: u32 = 2;
const MIN_PROBED_MSS: u16 = 512;
