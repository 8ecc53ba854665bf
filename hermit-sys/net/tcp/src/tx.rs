//! Transmission of segments (RFC 9293 §3.8.6.2.1).
//!
//! [`Connection::next_segment`] chooses the next segment: a tail loss probe, a retransmission, new data, a
//! window or keep-alive probe, or an acknowledgement, in this order. The host writes it to a packet and then
//! calls [`Connection::sent`], which changes the state. If the device has no room, the host does not call
//! `sent`: nothing has changed, and the same segment is chosen later. New data must fit into the peer's
//! window and the congestion window. New data also waits for a full segment, unless Nagle's algorithm permits
//! a smaller one.

use crate::buffers::Pool;
use crate::connection::{Connection, State};
use crate::segment::{Flags, Header, Options, SackBlocks};
use crate::seq::Seq;

/// Kind of a segment: it determines which state changes when the segment has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// SYN or SYN-ACK.
    Handshake,
    /// Data or a FIN, for the first time.
    New { is_tail_probe: bool },
    /// Data or a FIN again.
    Retransmission { is_tail_probe: bool },
    /// A segment with an old number: the peer answers it.
    Probe,
    /// An acknowledgement only.
    Ack,
    /// A reset.
    Reset,
}

/// A segment to be sent. Nothing has changed until [`Connection::sent`] is called with it.
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// Header of the segment.
    pub header: Header,
    /// Offset of the data in the send buffer, and size of the data in bytes.
    offset: u32,
    size: u32,
    /// Bytes of data in each segment, if the device cuts it (TSO).
    pub mss: u32,
    /// True if routers may mark its packets instead of dropping them: ECT(0) (RFC 3168 §6.1.5).
    pub is_ecn_capable: bool,
    kind: Kind,
}

impl Transmit {
    /// Size of the data in bytes.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Length in sequence numbers: data and FIN.
    fn sequence_size(&self) -> u32 {
        self.size + u32::from(self.header.flags.contains(Flags::FIN))
    }
}

/// New data that may be sent.
enum NewData {
    Segment {
        size: u32,
        has_fin: bool,
    },
    /// There is no data, or it waits for more data or for an acknowledgement.
    Nothing,
    /// The data waits for the peer's window.
    Shut,
}

impl Connection {
    /// Returns the next segment to be sent now, with at most `max` bytes of data. If it is larger than
    /// [`Transmit::mss`], the device must cut it into segments of this size. `None` means that nothing can be
    /// sent until a segment is received, data is written, or a deadline passes. The state of sent data takes
    /// memory of `pool`. Without memory, only earlier data is sent again.
    #[must_use]
    pub fn next_segment(&mut self, max: u32, pool: &mut Pool, now: u64) -> Option<Transmit> {
        match self.state {
            State::Closed => return self.resets.then(|| self.reset_segment(now)),
            State::SynSent | State::SynReceived => {
                let header = self.handshake_segment(now)?;
                return Some(self.bare(header, Kind::Handshake));
            }
            _ => (),
        }
        let data = self.next_data(max, pool, now);
        data.or_else(|| self.next_control(now))
    }

    /// True if [`next_segment`](Self::next_segment) may return a segment now. If false, it returns `None` and
    /// need not be called.
    #[must_use]
    pub fn may_send(&self, now: u64) -> bool {
        match self.state {
            State::Closed => return self.resets,
            State::SynSent | State::SynReceived => return true,
            _ => (),
        }
        let sending = &self.sending;
        let unsent =
            sending.buffer.size() > self.recovery.outstanding() || sending.is_closed && sending.fin.is_none();
        let is_due = self.timers.sends_tail_probe || self.timers.sends_probe || self.ack.is_due(now);
        unsent || is_due || self.recovery.has_lost()
    }

    /// True if new data certainly waits for an acknowledgement. [`next_segment`](Self::next_segment) need not
    /// be called before a segment is received or a deadline has passed.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        let (sending, outstanding) = (&self.sending, self.recovery.outstanding());
        let mss = self.data_mss();
        let is_small = sending.buffer.size().saturating_sub(outstanding) < mss && !self.may_send_small();
        let is_shut = outstanding >= sending.window;
        let is_paced = self.recovery.pacing_deadline().is_some();
        outstanding > 0 && (is_small || is_shut || is_paced || self.recovery.room() < mss)
    }

    fn next_data(&mut self, max: u32, pool: &mut Pool, now: u64) -> Option<Transmit> {
        if self.timers.sends_tail_probe {
            let probe = self.tail_probe(pool, now);
            if probe.is_some() {
                return probe;
            }
            // All data was acknowledged in the meantime.
            self.timers.sends_tail_probe = false;
        }
        // Pacing delays retransmissions, too.
        if !self.recovery.may_leave(now) {
            return None;
        }
        // With nothing in flight, no acknowledgement would open the window: a segment may always be sent.
        if let Some((seq, size)) = self.recovery.next_lost(max.max(self.data_mss()))
            && (self.recovery.room() >= self.data_mss().min(size) || self.recovery.in_flight() == 0)
        {
            return Some(self.retransmission(seq, size, false, now));
        }
        // The FIN is acknowledged: there is no new data.
        if matches!(self.state, State::FinWait2 | State::TimeWait) {
            return None;
        }
        self.recovery.restart_after_idle(now);
        match self.next_new(max, self.recovery.room(), pool) {
            NewData::Segment { size, has_fin } => {
                self.timers.window_probe_at = None;
                Some(self.new_segment(size, has_fin, false, now))
            }
            NewData::Nothing => None,
            NewData::Shut if self.timers.sends_probe => {
                let size = self.override_size()?;
                self.timers.sends_probe = false;
                Some(self.new_segment(size, false, false, now))
            }
            NewData::Shut => {
                // The window is probed after a while (RFC 9293 §3.8.6.1).
                if self.recovery.outstanding() == 0 {
                    let rto = self.recovery.rtt().rto();
                    self.timers.window_probe_at.get_or_insert(now.saturating_add(rto));
                }
                None
            }
        }
    }

    /// Returns the new data that may be sent. The congestion window has `room`.
    fn next_new(&mut self, max: u32, room: u32, pool: &mut Pool) -> NewData {
        // Nothing follows a FIN. Without memory for its state, new data must wait.
        if self.sending.fin.is_some() || !self.recovery.reserve(pool) {
            return NewData::Nothing;
        }
        let sending = &self.sending;
        let unsent = sending.buffer.size() - self.recovery.outstanding();
        if unsent == 0 && !sending.is_closed {
            return NewData::Nothing;
        }
        let window = sending.window.saturating_sub(self.recovery.outstanding());
        let mss = self.data_mss();
        let open = unsent.min(window);
        if window == 0 {
            return NewData::Shut;
        }
        if unsent == 0 {
            return NewData::Segment { size: 0, has_fin: true };
        }
        let most = open.min(max.max(mss).max(1));
        if room < mss.min(most) {
            self.recovery.set_limited();
            return NewData::Nothing;
        }
        let mut size = most.min(room);
        if size >= mss && size < unsent || size > mss {
            // Whole segments only; the rest may wait.
            let rest = size % mss;
            if rest > 0 && (size < unsent || size - rest > 0 && !self.may_send_small()) {
                size -= rest;
            }
        }
        if size < mss && !self.may_send_partial(size, unsent) {
            // If the window is too small, probe it: the peer may not report that it has opened.
            return if size < unsent { NewData::Shut } else { NewData::Nothing };
        }
        let has_fin = self.sending.is_closed && size == unsent && window > size;
        NewData::Segment { size, has_fin }
    }

    /// Returns the size of the segment that replaces a window probe, if the peer's window is open, but too
    /// small for a segment of reasonable size (override timeout, RFC 9293 §3.8.6.2.1). Nothing else is
    /// outstanding.
    fn override_size(&self) -> Option<u32> {
        let size = self.sending.buffer.size().min(self.sending.window).min(self.data_mss());
        (size > 0 && self.recovery.outstanding() == 0).then_some(size)
    }

    /// True if a segment that is not full may be sent, while `unsent` bytes wait.
    fn may_send_partial(&self, size: u32, unsent: u32) -> bool {
        if size == unsent {
            return self.may_send_small();
        }
        // The peer's window is the limit. Half of its largest window is enough (sender's SWS avoidance).
        size >= self.sending.max_window / 2
    }

    /// True if a small segment may be sent: Nagle's algorithm in Minshall's variant. A small segment waits
    /// until an earlier small one is acknowledged.
    const fn may_send_small(&self) -> bool {
        if self.sending.is_closed {
            return true;
        }
        !self.options.cork && (self.options.no_delay || self.sending.small.is_none())
    }

    /// Returns a tail loss probe: new data if there is any, or the last segment again (RFC 8985 §7.3).
    fn tail_probe(&mut self, pool: &mut Pool, now: u64) -> Option<Transmit> {
        let mss = self.data_mss();
        // A second probe is the last segment again: the peer acknowledges a duplicate at once.
        if !self.recovery.is_probing()
            && let NewData::Segment { size, has_fin } = self.next_new(mss, mss, pool)
        {
            return Some(self.new_segment(size, has_fin, true, now));
        }
        let (seq, size) = self.recovery.probe_range(mss)?;
        Some(self.retransmission(seq, size, true, now))
    }

    fn next_control(&mut self, now: u64) -> Option<Transmit> {
        if self.timers.sends_probe {
            // A window probe has a byte of data with an old number. passt (2023-03, Debian 12) does not
            // report that its window has opened, and does not answer a segment without data. RFC 1122
            // §4.2.3.6 has the same rule for keep-alive probes.
            let size = self.sending.buffer.size().min(1);
            let header = Header { seq: self.recovery.una() - 1, ..self.header(now) };
            return Some(Transmit { size, ..self.bare(header, Kind::Probe) });
        }
        let is_due = self.ack.is_due(now);
        is_due.then(|| self.bare(self.header(now), Kind::Ack))
    }

    /// Header of an acknowledgement sent now. The host stores it for a connection in TIME-WAIT.
    #[must_use]
    pub fn acknowledgement(&self, now: u64) -> Header {
        self.header(now)
    }

    /// Header of a segment without data.
    fn header(&self, now: u64) -> Header {
        let next = self.receive_next();
        let timestamp = self.timestamp(now);
        let max_blocks = if timestamp.is_some() { 3 } else { 4 };
        let sack = if self.has_sack_blocks() {
            self.receiving.buffer.sack_blocks(self.ack.dsack, max_blocks)
        } else {
            SackBlocks::default()
        };
        let echo = if self.ecn.is_on && self.ecn.echoes { Flags::ECE } else { Flags::empty() };
        Header {
            seq: self.recovery.nxt(),
            ack: next,
            flags: Flags::ACK | echo,
            window: self.window_field(),
            urgent: 0,
            options: Options { timestamp, sack, ..Options::default() },
        }
    }

    /// True if an acknowledgement has SACK blocks.
    const fn has_sack_blocks(&self) -> bool {
        self.has_sack && (self.receiving.buffer.has_gap() || self.ack.dsack.is_some())
    }

    /// True if an acknowledgement that reports a gap or a duplicate is due at once.
    fn reports_disorder(&self) -> bool {
        self.ack.deadline() == Some(0) && self.has_sack_blocks()
    }

    fn bare(&self, header: Header, kind: Kind) -> Transmit {
        Transmit { header, offset: 0, size: 0, mss: self.data_mss(), is_ecn_capable: false, kind }
    }

    fn reset_segment(&self, now: u64) -> Transmit {
        let mut header = self.header(now);
        header.flags |= Flags::RST;
        self.bare(header, Kind::Reset)
    }

    /// Returns a segment with data or a FIN. It has no SACK blocks: see [`sent`](Self::sent).
    fn with_data(&self, seq: Seq, size: u32, has_fin: bool, now: u64) -> Transmit {
        let mut header = self.header(now);
        header.options.sack = SackBlocks::default();
        header.seq = seq;
        let offset = seq.since(self.recovery.una());
        let is_last = offset + size >= self.sending.buffer.size();
        header.flags.set(Flags::PSH, size > 0 && is_last);
        header.flags.set(Flags::FIN, has_fin);
        let mss = self.data_mss();
        Transmit { header, offset, size, mss, is_ecn_capable: false, kind: Kind::Ack }
    }

    fn new_segment(&self, size: u32, has_fin: bool, is_tail_probe: bool, now: u64) -> Transmit {
        let mut transmit = self.with_data(self.recovery.nxt(), size, has_fin, now);
        transmit.kind = Kind::New { is_tail_probe };
        // Retransmissions and segments without data must not be marked (RFC 3168 §6.1.4, §6.1.5).
        transmit.is_ecn_capable = self.ecn.is_on && size > 0;
        transmit.header.flags.set(Flags::CWR, self.ecn.is_on && self.recovery.is_reduced() && size > 0);
        transmit
    }

    fn retransmission(&self, seq: Seq, size: u32, is_tail_probe: bool, now: u64) -> Transmit {
        let end = seq + size;
        let has_fin = self.sending.fin.is_some_and(|fin| fin.is_before(end));
        let mut transmit = self.with_data(seq, size - u32::from(has_fin), has_fin, now);
        transmit.kind = Kind::Retransmission { is_tail_probe };
        transmit
    }

    /// Returns the data of a segment, in contiguous pieces.
    pub fn payload(&self, transmit: &Transmit) -> impl Iterator<Item = &[u8]> {
        self.sending.buffer.pieces(transmit.offset, transmit.size)
    }

    /// Records that a segment was sent. `transmit` must be the last segment that
    /// [`next_segment`](Self::next_segment) returned.
    pub fn sent(&mut self, transmit: &Transmit, now: u64) {
        let header = &transmit.header;
        let size = transmit.sequence_size();
        match transmit.kind {
            Kind::Reset => {
                self.resets = false;
                return;
            }
            Kind::Handshake => return self.on_handshake_sent(header, now),
            Kind::New { is_tail_probe } => {
                let is_small = self.on_new_sent(transmit);
                self.recovery.on_sent(header.seq, size, is_small, now);
                self.note_tail_probe(is_tail_probe, false, now);
            }
            Kind::Retransmission { is_tail_probe } => {
                self.recovery.on_retransmitted(header.seq, size, now);
                self.note_tail_probe(is_tail_probe, true, now);
            }
            Kind::Probe => {
                self.timers.sends_probe = false;
                self.timers.stalled_since.get_or_insert(now);
            }
            Kind::Ack => (),
        }
        let data_next = self.receiving.buffer.next();
        let window = u32::from(header.window) << self.receiving.scale;
        self.receiving.edge = self.receiving.edge.max(data_next + window);
        // The data has left no room for the SACK blocks: a separate acknowledgement reports them.
        if size > 0 && self.reports_disorder() {
            self.ack.last = header.ack;
        } else {
            self.ack.on_sent(header.ack);
        }
        if size > 0 {
            self.timers.stalled_since.get_or_insert(now);
        }
    }

    /// Records new data; returns true if its last segment is not full.
    fn on_new_sent(&mut self, transmit: &Transmit) -> bool {
        let sending = &mut self.sending;
        let end = transmit.header.seq + transmit.sequence_size();
        if transmit.header.flags.contains(Flags::FIN) {
            sending.fin = Some(end - 1);
        }
        let is_small = !transmit.size.is_multiple_of(transmit.mss);
        if is_small {
            sending.small = Some(end);
        }
        if transmit.header.flags.contains(Flags::CWR) {
            self.recovery.reduction_announced();
        }
        is_small
    }

    fn note_tail_probe(&mut self, is_tail_probe: bool, is_retransmission: bool, now: u64) {
        if is_tail_probe {
            self.timers.sends_tail_probe = false;
            self.recovery.on_probe_sent(is_retransmission, now);
        }
    }
}
