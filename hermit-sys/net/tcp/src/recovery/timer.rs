//! Timer of the sender: reordering, tail loss probes and the retransmission timeout share one deadline.

use super::scoreboard::SentRange;
use super::{Expiry, Phase, Recovery, note_lost, probe};
use crate::congestion::CongestionControl;

impl Recovery {
    /// Time at which the timer of the sender expires, and its action then.
    pub(crate) fn timer(&self) -> Option<(u64, Expiry)> {
        if self.board.size() == 0 {
            return None;
        }
        if let Some(deadline) = self.reorder_deadline {
            return Some((deadline, Expiry::Retransmit));
        }
        let timeout = self.timer_start.saturating_add(self.rtt.rto());
        if self.may_probe() {
            let interval = probe::interval(&self.rtt, self.board.in_flight() <= self.window.mss);
            if !self.is_probing() {
                return Some((self.probe_timer_start.saturating_add(interval).min(timeout), Expiry::Probe));
            }
            let second = self.probe_timer_start.saturating_add(2 * interval);
            if second < timeout {
                return Some((second, Expiry::Probe));
            }
        }
        if self.may_repeat() {
            let interval = probe::interval(&self.rtt, false);
            let repeat = self.probe_timer_start.saturating_add(interval);
            if repeat < timeout {
                return Some((repeat, Expiry::Repeat));
            }
        }
        Some((timeout, Expiry::Timeout))
    }

    /// Handles the timer, if it has expired; returns the action. If it is [`Expiry::Probe`], the caller sends
    /// the probe.
    pub(crate) fn on_timer(&mut self, now: u64) -> Option<Expiry> {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_timer(now);
        }
        let (_, expiry) = self.timer().filter(|&(deadline, _)| deadline <= now)?;
        match expiry {
            Expiry::Retransmit => {
                self.detect_losses(now);
                if self.board.lost() > 0 {
                    self.enter_recovery(now);
                    // The first retransmission must not wait.
                    self.window.size = self.window.size.max(self.in_flight().saturating_add(self.window.mss));
                }
            }
            Expiry::Probe => self.probe_timer_start = now,
            Expiry::Repeat => self.repeat_first(now),
            Expiry::Timeout => self.on_timeout(now),
        }
        Some(expiry)
    }

    /// Handles the retransmission timeout (RFC 5681 §3.1, RFC 6298 §5.4 to §5.6, RFC 8985 §6.3).
    fn on_timeout(&mut self, now: u64) {
        if !matches!(self.phase, Phase::Loss { .. }) {
            self.save_for_undo();
            self.window.threshold = self.control.on_congestion(&self.window, now);
        }
        self.board.forget_dropped();
        let reordering_window = self.rtt.min().unwrap_or(0) / 4;
        let (delivery, control, window) = (&mut self.delivery, &mut self.control, &self.window);
        let on_lost = |range: &SentRange| note_lost(delivery, control, window, range, now);
        self.rack.on_timeout(&mut self.board, reordering_window, now, on_lost);
        self.duplicates = 0;
        self.is_reduced = true;
        #[cfg(test)]
        {
            self.timeouts += 1;
        }
        (self.probe, self.reorder_deadline, self.may_repeat) = (None, None, false);
        self.phase = Phase::Loss { end: self.nxt() };
        self.window.size = self.in_flight().saturating_add(self.window.mss);
        self.rtt.back_off();
        self.timer_start = now;
    }
}
