//! Changes of the sender's state by an acknowledgement.

use super::scoreboard::SentRange;
use super::{Acknowledgement, DUPLICATE_THRESHOLD, Phase, Recovery, note_lost};
use crate::buffers::Pool;
use crate::congestion::{Acked, CongestionControl};

/// Data delivered by an acknowledgement, and its RTT.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    bytes: u32,
    rtt: Option<u64>,
}

impl Delivery {
    fn add(&mut self, range: &SentRange, now: u64) {
        self.bytes = self.bytes.saturating_add(range.size());
        if !range.is_retransmitted {
            let rtt = now.saturating_sub(range.sent_at);
            self.rtt = Some(self.rtt.map_or(rtt, |before| before.max(rtt)));
        }
    }
}

impl Recovery {
    /// Handles an acknowledgement that is not older than SND.UNA.
    pub(crate) fn on_ack(&mut self, ack: &Acknowledgement<'_>, pool: &mut Pool) {
        let advance = ack.ack.since(self.una());
        if !ack.sack.is_empty() {
            self.board.reserve_splits(pool);
        }
        let delivery = self.deliver(ack);
        self.board.trim(pool);
        self.note_rtt(advance, delivery.rtt, ack.now);
        if delivery.bytes > 0 {
            (self.may_repeat, self.probe_timer_start) = (true, ack.now);
        }
        self.rack.on_acknowledgement(self.una(), self.nxt(), ack.dsack.is_some());
        let duplicate = self.count_duplicates(ack, advance);
        // Undo or end the phase before new losses are detected, so that these begin a recovery of their own.
        self.undo_if_spurious(ack, advance);
        self.finish_phase();
        self.conclude_probe(ack, advance, duplicate > 0);
        let newly_lost = self.detect_losses(ack.now);
        if self.board.lost() > 0 {
            self.enter_recovery(ack.now);
        }
        if self.control.sets_window() {
            return self.update_model(delivery.bytes, delivery.rtt, ack.now);
        }
        let delivered = delivery.bytes.saturating_add(duplicate);
        // In a reduction, PRR sets the window. Otherwise it grows.
        match self.phase {
            Phase::Recovery { .. } | Phase::Reduction { .. } => {
                let limits = (self.window.threshold, self.window.mss);
                let is_progress = advance > 0 && newly_lost == 0;
                self.window.size = self.prr.on_ack(delivered, self.in_flight(), limits, is_progress);
            }
            Phase::Open | Phase::Loss { .. } if advance > 0 => {
                self.grow(delivered, delivery.rtt, ack.now);
            }
            Phase::Open | Phase::Loss { .. } => (),
        }
    }

    /// Removes or marks the ranges that an acknowledgement covers; returns the sum of newly delivered bytes,
    /// and their RTT.
    fn deliver(&mut self, ack: &Acknowledgement<'_>) -> Delivery {
        let mut delivery = Delivery::default();
        let mut has_retransmitted = false;
        let (rack, rate, rtt, now) = (&mut self.rack, &mut self.delivery, &self.rtt, ack.now);
        let mut on_delivered = |range: &SentRange, is_original: bool| {
            rack.on_delivered(range, is_original, rtt, now);
            if let Some(rate) = rate {
                rate.on_delivered(range, now);
            }
        };
        self.board.acknowledge(ack.ack, |range| {
            has_retransmitted |= range.is_retransmitted;
            delivery.add(range, now);
            on_delivered(range, ack.is_of_before(range.sent_at));
        });
        // Ranges after a repaired gap may have arrived long ago, and so give no RTT.
        if has_retransmitted {
            delivery.rtt = None;
        }
        let by_ack = delivery.rtt.take();
        for &block in ack.sack {
            self.board.sack(block, |range| {
                delivery.add(range, now);
                on_delivered(range, false);
            });
        }
        delivery.rtt = by_ack.or(delivery.rtt);
        delivery
    }

    fn note_rtt(&mut self, advance: u32, rtt: Option<u64>, now: u64) {
        if let Some(rtt) = rtt {
            self.rtt.add(rtt, now);
        }
        if advance > 0 {
            self.rtt.reset_backoff();
            (self.timer_start, self.probe_timer_start) = (now, now);
        }
    }

    /// Counts duplicate acknowledgements of a peer without SACK, and marks the segment that they show to be
    /// lost (RFC 5681 §3.2, RFC 6582 §3.2). Returns the number of bytes that, according to this
    /// acknowledgement, have left the network.
    fn count_duplicates(&mut self, ack: &Acknowledgement<'_>, advance: u32) -> u32 {
        if self.has_sack {
            return 0;
        }
        let mss = self.window.mss;
        if advance > 0 {
            let is_partial = matches!(self.phase, Phase::Recovery { end } if self.una().is_before(end));
            self.duplicates = if is_partial { self.duplicates.saturating_sub(advance / mss) } else { 0 };
            if is_partial && self.board.mark_first_lost(mss) > 0 {
                self.note_first_lost(ack.now);
            }
            return 0;
        }
        if !ack.is_bare || self.board.size() == 0 {
            return 0;
        }
        self.duplicates = self.duplicates.saturating_add(1);
        let is_loss = self.duplicates >= DUPLICATE_THRESHOLD && self.phase == Phase::Open;
        if is_loss && self.board.mark_first_lost(mss) > 0 {
            self.note_first_lost(ack.now);
        }
        mss
    }

    /// Marks the ranges that RACK finds to be lost; returns their bytes.
    pub(super) fn detect_losses(&mut self, now: u64) -> u32 {
        if !self.has_sack {
            return 0;
        }
        let before = self.board.lost();
        let is_recovering = self.phase != Phase::Open;
        let (delivery, control, window) = (&mut self.delivery, &mut self.control, &self.window);
        let on_lost = |range: &SentRange| note_lost(delivery, control, window, range, now);
        let state = (window.mss, is_recovering);
        self.reorder_deadline = self.rack.detect_losses(&mut self.board, &self.rtt, state, now, on_lost);
        self.board.lost() - before
    }

    /// Grows the congestion window, if it is used.
    fn grow(&mut self, delivered: u32, rtt: Option<u64>, now: u64) {
        if !self.usage.permits_growth(self.window.size, self.window.is_slow_start()) {
            return;
        }
        let smoothed_rtt = self.rtt.smoothed().unwrap_or(0);
        let (una, nxt) = (self.una(), self.nxt());
        let acked = Acked { bytes: delivered, una, nxt, rtt, smoothed_rtt, sample: None, now };
        self.control.on_ack(&mut self.window, &acked);
    }

    /// Reports the delivered data to the algorithm that sets the window.
    fn update_model(&mut self, bytes: u32, rtt: Option<u64>, now: u64) {
        let in_flight = self.in_flight();
        let min_rtt = self.rtt.min();
        let Some(delivery) = self.delivery.as_deref_mut() else { return };
        let Some(mut sample) = delivery.take_sample(min_rtt, in_flight, now) else { return };
        sample.rtt = sample.rtt.filter(|_| rtt.is_some());
        sample.is_window_limited = self.usage.is_limited();
        sample.is_recovering = matches!(self.phase, Phase::Recovery { .. });
        let smoothed_rtt = self.rtt.smoothed().unwrap_or(0);
        let (una, nxt) = (self.board.start(), self.board.end());
        let acked = Acked { bytes, una, nxt, rtt, smoothed_rtt, sample: Some(sample), now };
        self.control.on_ack(&mut self.window, &acked);
        if self.control.is_probing_rtt() {
            delivery.set_app_limited(in_flight);
        }
    }
}
