//! Deadlines: the time at which a connection has something to do, and the time at which it is given up.

use crate::buffers::{CHUNK, Pool, Purpose};
use crate::connection::{Connection, Events, Failure, State};
use crate::recovery::Expiry;
use crate::rtt::SECOND;

/// Time until a SYN is given up, after 6 retransmissions (Linux's `tcp_syn_retries`), and until a SYN-ACK is
/// given up, after 5 (`tcp_synack_retries`).
const SYN_TIMEOUT: u64 = 127 * SECOND;
const SYN_ACK_TIMEOUT: u64 = 63 * SECOND;

/// Time until unacknowledged data ends a connection, after 15 retransmissions (`tcp_retries2`); and the same
/// for a connection without an owner.
const DATA_TIMEOUT: u64 = 924 * SECOND;
const ORPHAN_TIMEOUT: u64 = 100 * SECOND;

/// Time until a connection without an owner is given up while its peer answers probes, but keeps its window
/// shut. Linux gives up when the interval of the probes, which doubles from 200 ms, reaches 120 s
/// (`TCP_RTO_MAX`).
const SHUT_ORPHAN_TIMEOUT: u64 = 204 * SECOND;

/// Time in FIN-WAIT-2 without an owner (`tcp_fin_timeout`).
const FIN_WAIT_2_TIMEOUT: u64 = 60 * SECOND;

/// Duration of TIME-WAIT: Linux's `TCP_TIMEWAIT_LEN`.
const TIME_WAIT: u64 = 60 * SECOND;

impl Connection {
    /// Time at which [`on_timer`](Self::on_timer) or [`next_segment`](Self::next_segment) has something to
    /// do, if nothing comes from the peer or the owner before.
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
                let sending = match timers.gap_until {
                    None => sending,
                    gap => earliest(sending, gap),
                };
                let idle = if timers.keep_alive.is_some() { self.keep_alive_deadline() } else { None };
                earliest(earliest(sending, self.ack.deadline()), earliest(idle, self.give_up_at()))
            }
        }
    }

    /// Time of the next keep-alive probe. Only connections without outstanding data send such probes.
    fn keep_alive_deadline(&self) -> Option<u64> {
        let is_idle = self.sending.buffer.size() == 0 && self.recovery.outstanding() == 0;
        self.timers.keep_alive_at().filter(|_| is_idle)
    }

    /// Time at which the connection is given up.
    fn give_up_at(&self) -> Option<u64> {
        let timers = &self.timers;
        match self.state {
            State::SynSent => {
                Some(timers.started_at.saturating_add(timers.user_timeout.unwrap_or(SYN_TIMEOUT)))
            }
            State::SynReceived => Some(timers.started_at.saturating_add(SYN_ACK_TIMEOUT)),
            State::FinWait2 => timers.orphaned_at.map(|since| since.saturating_add(FIN_WAIT_2_TIMEOUT)),
            _ => {
                let since = timers.stalled_since?;
                let is_orphan = timers.orphaned_at.is_some();
                let limit = match self.sending.window {
                    _ if !is_orphan => DATA_TIMEOUT,
                    0 if timers.heard_at > since => SHUT_ORPHAN_TIMEOUT,
                    _ => ORPHAN_TIMEOUT,
                };
                Some(since.saturating_add(timers.user_timeout.unwrap_or(limit)))
            }
        }
    }

    /// Handles the deadlines that have passed; returns the resulting events. Afterwards
    /// [`next_segment`](Self::next_segment) returns the segments that have become due.
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
        // Other connections need its memory.
        if self.is_stuck_orphan(now) && pool.left() == 0 {
            return self.give_up(pool);
        }
        if self.timers.gap_until.is_some_and(|at| at <= now) {
            self.on_old_gap(pool, now);
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

    /// True if the peer of a connection without an owner does not acknowledge its data, or keeps its window
    /// shut. Such a connection is given up when others need its memory (Linux's `tcp_out_of_resources`).
    fn is_stuck_orphan(&self, now: u64) -> bool {
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        let timeout = || self.recovery.timer().filter(|(_, expiry)| *expiry == Expiry::Timeout);
        self.timers.orphaned_at.is_some()
            && (is_due(self.timers.window_probe_at) || is_due(timeout().map(|(at, _)| at)))
    }

    /// Drops the data after a gap that has not been filled for long, if there is no memory for more such
    /// data. The peer keeps the data until it is acknowledged (RFC 2018 §8).
    fn on_old_gap(&mut self, pool: &mut Pool, now: u64) {
        if !pool.fits(CHUNK, Purpose::OutOfOrder) {
            self.receiving.buffer.drop_ranges(pool);
        }
        self.timers.gap_until = None;
        self.timers.note_gap(self.receiving.buffer.has_gap(), false, now);
    }

    /// True if all keep-alive probes went unanswered.
    fn is_keep_alive_over(&self, now: u64) -> bool {
        let timers = &self.timers;
        // As in Linux, the user timeout replaces the number of probes.
        let is_last = match timers.user_timeout {
            Some(limit) => timers.probes > 0 && now.saturating_sub(timers.heard_at) >= limit,
            None => timers.keep_alive.is_some_and(|keep_alive| timers.probes >= keep_alive.count),
        };
        is_last && self.keep_alive_deadline().is_some_and(|at| at <= now)
    }

    fn give_up(&mut self, pool: &mut Pool) -> Events {
        // As in Linux, a connection without an owner ends silently in FIN-WAIT-2: its peer may be about to
        // close (`tcp_fin_timeout`). With an owner, it ends there because the peer did not answer keep-alive
        // probes.
        let is_over = self.state == State::FinWait2 && self.timers.orphaned_at.is_some();
        self.resets = self.is_synchronized() && !is_over;
        self.end(Some(Failure::TimedOut), pool);
        Events::CLOSED
    }

    /// Handles the lack of a route to the peer. Data to be sent then counts as unacknowledged, so that the
    /// connection is given up after a timeout.
    pub fn on_unreachable(&mut self, now: u64) {
        if self.is_synchronized() && self.unacknowledged() != (0, false) {
            self.timers.stalled_since.get_or_insert(now);
        }
    }

    /// Enters TIME-WAIT: both ends are closed.
    pub(crate) const fn enter_time_wait(&mut self, now: u64) {
        self.state = State::TimeWait;
        self.timers.time_wait_until = Some(now.saturating_add(TIME_WAIT));
    }
}
