//! Timers of TCP flows: three for all of them. An idle network has none.

use std::collections::VecDeque;
use std::mem;

use super::flow::{AckDue, MAX_ATTEMPTS, MAX_SYN_ATTEMPTS};
use super::segments::Fate;
use super::{Answer, Tcp};
use crate::Guest;
use crate::config::Config;
use crate::host::{Host, Token};

/// Time in nanoseconds by which an acknowledgement is delayed, so that it leaves with an answer.
const ACK_DELAY: u64 = 5_000_000;

/// Time in nanoseconds between two searches for flows whose timers have expired.
const SCAN_INTERVAL: u64 = 500_000_000;

/// Time in nanoseconds after a sign of the guest's that SYNs are repeated once more, and the longest one
/// between two such repetitions, of which each waits twice as long as the one before: a guest that has
/// received an acknowledgement of DHCP sets its address a moment later.
const SYN_DELAY: u64 = 1_000_000;
const MAX_SYN_DELAY: u64 = 64 * SYN_DELAY;

/// The timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Flows whose acknowledgements are delayed, and when they are sent.
    pub(super) delayed: VecDeque<Token>,
    acks_at: Option<u64>,
    scan_at: Option<u64>,
    /// When SYNs are repeated after a sign of the guest's, and how long after the last time.
    syns: Option<(u64, u64)>,
}

impl Timers {
    /// Number of entries in the list of delayed acknowledgements.
    pub(super) fn len(&self) -> usize {
        self.delayed.len()
    }

    /// Sends the acknowledgement of a flow a little later.
    pub(super) fn delay_ack(&mut self, token: Token, now: u64) {
        self.delayed.push_back(token);
        self.acks_at.get_or_insert(now + ACK_DELAY);
    }

    /// Has unanswered SYNs repeated a moment later.
    pub(super) const fn repeat_syns_later(&mut self, now: u64) {
        self.syns = Some((now + SYN_DELAY, SYN_DELAY));
    }

    /// Has the flows searched, if a flow has a timer.
    pub(super) fn watch(&mut self, timer: Option<u64>, now: u64) {
        if timer.is_some() {
            self.scan_at.get_or_insert(now + SCAN_INTERVAL);
        }
    }
}

impl<S> Tcp<S> {
    /// Time in nanoseconds at which [`Self::handle_timers`] is to be called; `None` if nothing waits for it.
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

    /// Handles the timer of a flow, if it has expired. Returns true if the guest does not answer any more.
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
