//! Reductions of the congestion window: their beginning and end, and their undoing if nothing was lost.

use hermit_base::try_alloc::TryBox;

use super::prr::Prr;
use super::{Acknowledgement, Phase, Recovery, Undo};
use crate::congestion::CongestionControl;

impl Recovery {
    /// Restores the window if one of two signs shows that nothing was lost. Either the original transmission
    /// was acknowledged: nothing was retransmitted yet, or the echoed timestamp is older than the
    /// retransmission (Eifel, RFC 3522). Or all retransmissions were duplicates (RFC 3708).
    pub(super) fn undo_if_spurious(&mut self, ack: &Acknowledgement<'_>, advance: u32) {
        let una = self.una();
        let Some(undo) = self.undo.as_deref_mut() else { return };
        if undo.end.is_before(una) && self.phase == Phase::Open {
            self.undo = None;
            return;
        }
        let is_of_original = match self.phase {
            Phase::Recovery { .. } => undo.retransmitted_at.is_none_or(|at| ack.is_of_before(at)),
            // Data retransmitted before the timeout may be acknowledged, too.
            Phase::Loss { .. } => undo.retransmitted_at.is_some_and(|at| ack.is_of_before(at)),
            Phase::Open | Phase::Reduction { .. } => false,
        };
        let is_early = advance > 0 && is_of_original;
        let duplicate = ack.dsack.map_or(0, |block| block.end.since(block.start));
        let had_some = undo.retransmitted > 0;
        undo.retransmitted = undo.retransmitted.saturating_sub(duplicate);
        let is_all = duplicate > 0 && had_some && undo.retransmitted == 0;
        if !is_early && !is_all {
            return;
        }
        let Some(undo) = self.undo.take().map(TryBox::into_inner) else { return };
        self.window.size = self.window.size.max(undo.window.size);
        self.window.threshold = undo.window.threshold;
        self.control.undo(undo.saved);
        self.is_reduced = false;
        self.board.unmark_lost();
        self.phase = Phase::Open;
    }

    /// Ends a phase after all of its data has been acknowledged.
    pub(super) fn finish_phase(&mut self) {
        let (Phase::Reduction { end } | Phase::Recovery { end } | Phase::Loss { end }) = self.phase else {
            return;
        };
        if self.una().is_before(end) {
            return;
        }
        if !matches!(self.phase, Phase::Loss { .. }) || self.control.sets_window() {
            self.control.on_recovered(&mut self.window);
        }
        self.duplicates = 0;
        self.rack.on_recovered();
        self.phase = Phase::Open;
        let nxt = self.nxt();
        if let Some(undo) = self.undo.as_deref_mut() {
            undo.end = nxt;
        }
    }

    /// Begins fast recovery, unless losses are being repaired already.
    pub(super) fn enter_recovery(&mut self, now: u64) {
        match self.phase {
            Phase::Recovery { .. } | Phase::Loss { .. } => return,
            Phase::Open => self.reduce(now),
            Phase::Reduction { .. } => (),
        }
        self.phase = Phase::Recovery { end: self.nxt() };
    }

    /// Reduces the threshold. The window shrinks to it while data is acknowledged.
    pub(super) fn reduce(&mut self, now: u64) {
        self.save_for_undo();
        self.window.threshold = self.control.on_congestion(&self.window, now);
        self.prr = Prr::new(self.in_flight().saturating_add(self.board.lost()));
        self.is_reduced = true;
        self.probe = None;
    }

    pub(super) fn save_for_undo(&mut self) {
        let (window, saved) = (self.window, self.control.save());
        let undo = Undo { window, saved, retransmitted_at: None, retransmitted: 0, end: self.nxt() };
        // Without memory a reduction is not undone.
        self.undo = TryBox::try_new(undo).ok();
    }

    /// Handles an echoed congestion mark (RFC 3168 §6.1.2): at most one reduction in a round trip.
    pub(crate) fn on_mark(&mut self, now: u64) {
        if self.phase != Phase::Open {
            return;
        }
        self.reduce(now);
        if let Some(delivery) = self.delivery.as_deref() {
            let mark = delivery.mark(self.una(), &self.window, now);
            self.control.on_lost(&self.window, &mark);
        }
        self.undo = None;
        self.phase = Phase::Reduction { end: self.nxt() };
    }
}
