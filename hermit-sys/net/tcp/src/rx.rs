//! Reception of segments (RFC 9293 §3.10.7.4).
//!
//! A segment passes the checks of the RFC in their order: sequence number and timestamp, RST, SYN,
//! acknowledgement number. Segments that fail a check are dropped or answered with a challenge ACK, at a
//! limited rate (RFC 5961). Then the acknowledgement goes to loss recovery and frees data in the send buffer,
//! the peer's window is updated, and data and FIN are stored. Nothing is sent here: `ack` and `tx` decide on
//! the answer.

use crate::buffers::Pool;
use crate::connection::{Connection, Events, Failure, State};
use crate::recovery::Acknowledgement;
use crate::rtt::SECOND;
use crate::segment::{Flags, Header, SackBlock, SackBlocks, Segment};
use crate::seq::Seq;

/// Maximum age of TS.Recent: timestamps are not compared with an older one (RFC 7323 §5.5).
const MAX_TIMESTAMP_AGE: u64 = 24 * 24 * 3600 * SECOND;

impl Connection {
    /// Receives a segment of the connection; returns the resulting events.
    pub fn receive(&mut self, segment: &Segment<'_>, pool: &mut Pool, now: u64) -> Events {
        match self.state {
            State::Closed => Events::empty(),
            State::SynSent => self.receive_in_syn_sent(segment, pool, now),
            _ => self.receive_synchronized(segment, pool, now),
        }
    }

    fn receive_synchronized(&mut self, segment: &Segment<'_>, pool: &mut Pool, now: u64) -> Events {
        let header = &segment.header;
        let flags = header.flags;
        if !self.is_acceptable(segment) || self.is_old_duplicate(header, now) {
            return self.refuse(segment, now);
        }
        if flags.contains(Flags::RST) {
            return self.receive_reset(header, pool, now);
        }
        if flags.contains(Flags::SYN) {
            // A SYN in an established connection: challenge ACK (RFC 5961 §4.2).
            self.ack.challenge(now);
            return Events::empty();
        }
        if !flags.contains(Flags::ACK) {
            return Events::empty();
        }
        let mut events = match self.receive_ack(segment, pool, now) {
            Some(events) => events,
            None => return Events::empty(),
        };
        // Only after the checks of both numbers: an attacker that guesses one of them must not keep a dead
        // connection alive, or set TS.Recent to a value with which the peer's timestamps look old.
        self.timers.on_heard(now);
        self.update_timestamp(header, now);
        // A FIN without data is accepted beyond the window, as in Linux: it needs no room, and the peer may
        // not send it again.
        let is_bare_fin = segment.payload.is_empty() && header.seq == self.receive_next();
        let is_beyond = self.receiving.edge.is_up_to(header.seq) && !is_bare_fin;
        if self.can_receive() && !is_beyond {
            events |= self.receive_data(segment, pool, now);
        } else if segment.size() > 0 && self.state != State::Closed {
            // A retransmission after the peer's FIN, or a probe of a shut window.
            self.ack.set_due();
        }
        events
    }

    /// True if the number of a segment is within the window (RFC 9293 §3.10.7.4, first step) or directly
    /// after it, as in Linux. A peer that has filled the window sends acknowledgements with this number. If
    /// both ends have filled each other's window and data was lost, only these acknowledgements make
    /// progress.
    fn is_acceptable(&self, segment: &Segment<'_>) -> bool {
        let (next, seq) = (self.receive_next(), segment.header.seq);
        let window = self.receiving.edge.since(next);
        match segment.size() {
            0 => seq.is_in(next, window + 1),
            // A segment may begin with data that was received already, which is trimmed.
            size => seq.is_up_to(next + window) && next.is_before(seq + size),
        }
    }

    /// True if the timestamp is older than the last one: PAWS (RFC 7323 §5.3). Resets are not checked.
    fn is_old_duplicate(&self, header: &Header, now: u64) -> bool {
        let (Some(known), Some(timestamp)) = (self.timestamps, header.options.timestamp) else {
            return false;
        };
        let is_older = timestamp.value.wrapping_sub(known.recent).cast_signed() < 0;
        let is_current = now.saturating_sub(known.recent_at) < MAX_TIMESTAMP_AGE;
        is_older && is_current && !header.flags.contains(Flags::RST)
    }

    /// Answers a segment that is not acceptable with an acknowledgement.
    fn refuse(&mut self, segment: &Segment<'_>, now: u64) -> Events {
        let header = &segment.header;
        if header.flags.contains(Flags::RST) {
            return Events::empty();
        }
        if self.state == State::SynReceived && header.flags.contains(Flags::SYN) {
            return self.receive_syn_again(header, now);
        }
        if segment.payload.is_empty() {
            // Probes, and segments of attackers: answered at a limited rate.
            self.ack.challenge(now);
        } else {
            let next = self.receiving.buffer.next();
            let end = header.seq + segment.size();
            if end.is_up_to(next) && header.seq.is_before(next) {
                self.ack.dsack = self.has_sack.then_some(SackBlock { start: header.seq, end });
            }
            self.ack.set_due();
        }
        Events::empty()
    }

    /// Handles a retransmitted SYN of the peer. The SYN-ACK is sent again, unless the segment acknowledges it
    /// (simultaneous open).
    fn receive_syn_again(&mut self, header: &Header, now: u64) -> Events {
        if header.seq != self.receiving.irs {
            return Events::empty();
        }
        if !header.flags.contains(Flags::ACK) || header.ack != self.parameters.iss + 1 {
            self.timers.handshake_at = Some(now);
            return Events::empty();
        }
        self.establish(header, now);
        self.ack.set_due();
        Events::ESTABLISHED | Events::WRITABLE
    }

    /// Handles a reset. Only a reset with exactly the expected number ends the connection. Any other reset
    /// within the window is answered with a challenge ACK (RFC 5961 §3.2).
    fn receive_reset(&mut self, header: &Header, pool: &mut Pool, now: u64) -> Events {
        if header.seq != self.receive_next() {
            self.ack.challenge(now);
            return Events::empty();
        }
        let failure = match self.state {
            State::SynReceived => Some(Failure::Refused),
            State::Closing | State::LastAck | State::TimeWait => None,
            _ => Some(Failure::Reset),
        };
        self.end(failure, pool);
        Events::CLOSED
    }

    /// Stores a timestamp to be echoed (RFC 7323 §4.3).
    fn update_timestamp(&mut self, header: &Header, now: u64) {
        let (Some(known), Some(timestamp)) = (&mut self.timestamps, header.options.timestamp) else { return };
        let is_newer = timestamp.value.wrapping_sub(known.recent).cast_signed() >= 0;
        if is_newer && header.seq.is_up_to(self.ack.last) {
            (known.recent, known.recent_at) = (timestamp.value, now);
        }
    }

    /// Handles the acknowledgement of a segment; `None` if the rest of the segment must be ignored.
    fn receive_ack(&mut self, segment: &Segment<'_>, pool: &mut Pool, now: u64) -> Option<Events> {
        let header = &segment.header;
        let mut events = Events::empty();
        if self.state == State::SynReceived {
            if !self.acknowledges_syn(header) {
                // The host answers with a reset: see `Connection::is_answered_by_reset`.
                return None;
            }
            self.establish(header, now);
            self.update_send_window(header);
            events |= Events::ESTABLISHED | Events::WRITABLE;
        }
        let (sending, una) = (&self.sending, self.recovery.una());
        // Challenge ACK (RFC 5961 §5.2).
        if header.ack.is_before(una - sending.max_window) || self.recovery.nxt().is_before(header.ack) {
            self.ack.challenge(now);
            return None;
        }
        let is_bare = segment.size() == 0 && self.scaled_window(header) == sending.window;
        if header.ack.is_before(una) {
            // The acknowledgement is late, but the data of the segment may be new.
            return Some(events);
        }
        let advance = header.ack.since(una);
        self.note_marks(header, now);
        self.pass_to_recovery(header, is_bare, pool, now);
        if advance > 0 {
            events |= self.advance(header.ack, advance, pool, now);
        }
        if self.state != State::Closed {
            self.update_send_window(header);
        }
        self.update_stall(advance > 0, now);
        Some(events)
    }

    /// Handles the ECN flags: the peer echoes a congestion mark (RFC 3168 §6.1.2), or has reduced its window
    /// (§6.1.3).
    fn note_marks(&mut self, header: &Header, now: u64) {
        if !self.ecn.is_on {
            return;
        }
        if header.flags.contains(Flags::ECE) {
            self.recovery.on_mark(now);
        }
        if header.flags.contains(Flags::CWR) {
            self.ecn.echoes = false;
        }
    }

    fn pass_to_recovery(&mut self, header: &Header, is_bare: bool, pool: &mut Pool, now: u64) {
        if self.recovery.outstanding() == 0 {
            return;
        }
        let given = if self.has_sack { header.options.sack } else { SackBlocks::default() };
        let (sack, dsack) = given.split_duplicate(header.ack, self.recovery.nxt());
        let echo = header.options.timestamp.filter(|_| self.timestamps.is_some());
        let acknowledgement = Acknowledgement {
            ack: header.ack,
            sack: sack.as_slice(),
            dsack,
            echo_sent_at: echo.and_then(|timestamp| self.clock_time(timestamp.echo, now)),
            is_bare,
            now,
        };
        self.recovery.on_ack(&acknowledgement, pool);
    }

    /// Frees acknowledged data, and handles the acknowledgement of the FIN; returns the resulting events.
    /// `data` is the length of the acknowledged part in sequence numbers.
    fn advance(&mut self, ack: Seq, mut data: u32, pool: &mut Pool, now: u64) -> Events {
        let sending = &mut self.sending;
        let is_fin_acked = sending.fin.is_some_and(|fin| fin.is_before(ack));
        if is_fin_acked {
            data -= 1;
        }
        let was_full = sending.buffer.room() <= sending.buffer.limit() / 3;
        sending.buffer.advance(data, pool);
        if sending.small.is_some_and(|small| small.is_up_to(ack)) {
            sending.small = None;
        }
        // The buffer holds the data in flight, and as much again to be sent next.
        let wanted = self.recovery.window().size.saturating_mul(2).min(sending.max_limit);
        if wanted > sending.buffer.limit() && !pool.is_scarce() {
            sending.buffer.set_limit(wanted);
        }
        let is_roomy = sending.buffer.room() > sending.buffer.limit() / 3;
        let mut events = if was_full && is_roomy { Events::WRITABLE } else { Events::empty() };
        if is_fin_acked {
            events |= self.on_fin_acked(pool, now);
        }
        events
    }

    fn on_fin_acked(&mut self, pool: &mut Pool, now: u64) -> Events {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                // Restarts the time without an owner, which now limits the time in this state (Linux's
                // `tcp_fin_timeout`).
                self.timers.orphaned_at = self.timers.orphaned_at.map(|_| now);
            }
            State::Closing => self.enter_time_wait(now),
            State::LastAck => {
                self.end(None, pool);
                return Events::CLOSED;
            }
            _ => (),
        }
        Events::empty()
    }

    fn scaled_window(&self, header: &Header) -> u32 {
        u32::from(header.window) << self.sending.scale
    }

    /// Stores the peer's window, unless the segment is older than the one that has set the present window
    /// (RFC 9293 §3.10.7.4).
    fn update_send_window(&mut self, header: &Header) {
        let window = self.scaled_window(header);
        let sending = &mut self.sending;
        let is_newer = sending.wl1.is_before(header.seq)
            || sending.wl1 == header.seq && sending.wl2.is_up_to(header.ack);
        if !is_newer {
            return;
        }
        if window > sending.window {
            self.recovery.reset_backoff();
        }
        (sending.window, sending.wl1, sending.wl2) = (window, header.seq, header.ack);
        sending.max_window = sending.max_window.max(window);
    }

    /// Updates the start of the time in which the peer makes no progress. A peer that answers probes may keep
    /// its window shut forever (RFC 9293 §3.8.6.1), unless the connection has no owner or has a user timeout
    /// (Linux's `tcp_probe_timer`).
    fn update_stall(&mut self, has_advanced: bool, now: u64) {
        let is_waiting = self.recovery.outstanding() > 0;
        let is_shut = self.sending.window == 0;
        let is_limited = self.timers.orphaned_at.is_some() || self.timers.user_timeout.is_some();
        self.timers.stalled_since = match self.timers.stalled_since {
            Some(since) if !has_advanced && is_shut && is_limited => Some(since),
            _ if !is_waiting || is_shut && !is_limited => None,
            Some(since) if !has_advanced => Some(since),
            _ => Some(now),
        };
    }

    /// Stores the data of a segment, and handles the FIN when all data before it has arrived.
    fn receive_data(&mut self, segment: &Segment<'_>, pool: &mut Pool, now: u64) -> Events {
        let header = &segment.header;
        if segment.size() == 0 {
            return Events::empty();
        }
        if segment.is_marked && self.ecn.is_on {
            self.ecn.echoes = true;
            self.ack.set_due();
        }
        let mut events = Events::empty();
        if !segment.payload.is_empty() {
            events |= self.store(segment, pool, now);
        }
        if header.flags.contains(Flags::FIN) {
            let fin = header.seq + segment.size() - 1;
            self.receiving.fin.get_or_insert(fin);
            self.ack.set_due();
        }
        if self.receiving.fin == Some(self.receiving.buffer.next()) {
            self.receiving.is_finished = true;
            self.ack.set_due();
            events |= Events::READABLE;
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.enter_time_wait(now),
                _ => (),
            }
        }
        events
    }

    fn store(&mut self, segment: &Segment<'_>, pool: &mut Pool, now: u64) -> Events {
        let size = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
        let timestamps = self.timestamp_size();
        let receiving = &mut self.receiving;
        // Data after a FIN is invalid.
        let payload = match receiving.fin {
            Some(fin) => {
                let most = usize::try_from(fin.since(segment.header.seq)).unwrap_or(0);
                segment.payload.get(..most).unwrap_or(segment.payload)
            }
            None => segment.payload,
        };
        let had_gap = receiving.buffer.has_gap();
        // A device may have coalesced segments, so the size of this one is limited.
        let largest = u32::from(self.parameters.mss) - timestamps;
        let inserted = receiving.buffer.insert(segment.header.seq, payload, pool);
        receiving.mss = receiving.mss.max(size.min(largest));
        if had_gap || inserted.is_out_of_order {
            let (has_gap, is_filled) = (receiving.buffer.has_gap(), inserted.in_order > size);
            self.timers.note_gap(has_gap, is_filled, now);
        }
        // The window is shut until there is memory again, as in Linux. The peer then probes the window, and
        // does not give up.
        let lacked_memory = receiving.lacks_memory;
        receiving.lacks_memory = inserted.lacks_memory || lacked_memory && inserted.in_order == 0;
        let has_changed = receiving.lacks_memory != lacked_memory;
        if inserted.duplicate.is_some() && self.has_sack {
            self.ack.dsack = inserted.duplicate;
        }
        if inserted.in_order == 0 || had_gap || inserted.duplicate.is_some() || has_changed {
            self.ack.on_disorder();
        } else {
            self.ack.on_data(inserted.in_order, receiving.mss, receiving.buffer.limit(), now);
        }
        if inserted.in_order > 0 { Events::READABLE } else { Events::empty() }
    }
}
