//! Timers of TCP flows.
//!
//! All flows share three timers: for delayed acknowledgements, for retransmissions and window probes, and for
//! SYNs after the guest has started. The timer for retransmissions does not belong to one flow. When it
//! expires, a scan through all flows finds those whose own deadline has passed. An idle network has no timer
//! at all.

use std::collections::VecDeque;
use std::mem;

use super::flow::{AckDue, MAX_ATTEMPTS, MAX_SYN_ATTEMPTS};
use super::segments::Fate;
use super::{Answer, Tcp};
use crate::Guest;
use crate::config::Config;
use crate::host::{Host, Token};

/// Delay of an acknowledgement in nanoseconds, so that it can leave together with data.
const ACK_DELAY: u64 = 5_000_000;

/// Time in nanoseconds between two scans for flows whose deadlines have passed.
const SCAN_INTERVAL: u64 = 500_000_000;

/// Delay in nanoseconds before unanswered SYNs are sent again after a sign that the guest has started, and
/// the maximum delay. The delay doubles with each repetition. Several repetitions are needed, because a guest
/// sets its address a moment after it has received the DHCPACK.
const SYN_DELAY: u64 = 1_000_000;
const MAX_SYN_DELAY: u64 = 64 * SYN_DELAY;

/// The timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Flows with delayed acknowledgements, and the time at which all of them are sent.
    pub(super) delayed: VecDeque<Token>,
    acks_at: Option<u64>,
    scan_at: Option<u64>,
    /// Time at which SYNs are sent again after a sign that the guest has started, and the delay that ends
    /// then.
    syns: Option<(u64, u64)>,
}

impl Timers {
    /// Returns the number of entries in the list of delayed acknowledgements.
    pub(super) fn len(&self) -> usize {
        self.delayed.len()
    }

    /// Delays the acknowledgement of a flow.
    pub(super) fn delay_ack(&mut self, token: Token, now: u64) {
        self.delayed.push_back(token);
        self.acks_at.get_or_insert(now + ACK_DELAY);
    }

    /// Starts to repeat unanswered SYNs, first after a short delay.
    pub(super) const fn repeat_syns_later(&mut self, now: u64) {
        self.syns = Some((now + SYN_DELAY, SYN_DELAY));
    }

    /// Schedules the next scan if `timer` is set and no scan is scheduled. `timer` is the deadline of a flow.
    pub(super) fn watch(&mut self, timer: Option<u64>, now: u64) {
        if timer.is_some() {
            self.scan_at.get_or_insert(now + SCAN_INTERVAL);
        }
    }
}

impl<S> Tcp<S> {
    /// Returns the time in nanoseconds at which [`Self::handle_timers`] must be called; `None` if no timer is
    /// set.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let Timers { acks_at, scan_at, syns, .. } = self.timers;
        [acks_at, scan_at, syns.map(|(at, _)| at)].into_iter().flatten().min()
    }

    /// Handles the timers that have expired. Returns answers for the guest.
    pub(crate) fn handle_timers<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        (config, guest): (&Config, &Guest),
    ) -> Vec<Answer> {
        let now = host.now();
        if self.timers.acks_at.is_some_and(|at| at <= now) {
            self.send_delayed_acks();
        }
        if let Some((_, delay)) = self.timers.syns.filter(|(at, _)| *at <= now) {
            let goes_on = self.repeat_syns() && delay < MAX_SYN_DELAY;
            self.timers.syns = goes_on.then_some((now + 2 * delay, 2 * delay));
        }
        if self.timers.scan_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let has_timer = self.flows.tokens(|flow| flow.outgoing.retransmit_at.is_some());
        self.timers.scan_at = (!has_timer.is_empty()).then_some(now + SCAN_INTERVAL);
        let mut given_up = has_timer;
        given_up.retain(|&token| self.expire(host, token, now));
        given_up.into_iter().map(|token| self.end(host, (config, guest), token, Fate::ResetPeer)).collect()
    }

    fn send_delayed_acks(&mut self) {
        self.timers.acks_at = None;
        for token in mem::take(&mut self.timers.delayed) {
            let Some(flow) = self.flows.get_mut(token) else { continue };
            flow.incoming.is_listed = false;
            if flow.incoming.ack == AckDue::Delayed {
                flow.incoming.ack = AckDue::Now;
                self.enqueue(token);
            }
        }
    }

    /// Handles a flow's deadline if it has passed. Returns true if the flow must end, because the guest does
    /// not answer.
    fn expire<H: Host<Stream = S>>(&mut self, host: &mut H, token: Token, now: u64) -> bool {
        let Some(flow) = self.flows.get_mut(token) else { return false };
        if flow.outgoing.retransmit_at.is_none_or(|at| at > now) {
            return false;
        }
        let max = if flow.is_half_open() { MAX_SYN_ATTEMPTS } else { MAX_ATTEMPTS };
        if flow.outgoing.attempts >= max {
            return true;
        }
        flow.outgoing.attempts += 1;
        if flow.is_half_open() || flow.outgoing.una == flow.outgoing.nxt {
            // A SYN, or a window probe.
            flow.outgoing.is_due = true;
            flow.outgoing.retransmit_at = None;
        } else {
            flow.rewind(host);
        }
        self.enqueue(token);
        false
    }
}
