//! Segments from the guest.
//!
//! [`Flow::receive`] handles a segment in the order of RFC 9293 §3.10.7: RST, SYN, acknowledgement, data,
//! FIN. An acknowledgement removes the acknowledged bytes from the socket, which has kept them for
//! retransmission. Data goes from the frame to the socket at once; the flow keeps bytes that the socket does
//! not take. Out-of-order data is dropped, and the guest retransmits it. The returned [`Fate`] says whether
//! the flow continues.

use std::io::ErrorKind;
use std::ops::Range;

use hermit_tcp::{Flags, Seq};

use super::flow::{AckDue, Flow, Outgoing, Phase};
use crate::host::Host;
use crate::parse::Segment;

/// Number of unacknowledged bytes at which an acknowledgement is no longer delayed.
const ACK_AT_ONCE: u32 = 64 * 1024;

/// Minimum number of bytes of data in a full segment. Every second full segment is acknowledged at once (RFC
/// 5681 §4.2).
const FULL_SEGMENT: u32 = 1_000;

/// Maximum number of unused bytes in a flow's buffer. A buffer with more is shrunk.
const MAX_UNUSED: usize = 64 * 1024;

/// Number of duplicate acknowledgements after which the data in flight is retransmitted (RFC 5681 §3.2).
const DUPLICATES: u8 = 3;

/// Maximum number of acknowledged bytes that may stay in the socket, and maximum number of acknowledgements
/// before they are discarded. The delay saves a system call for most small messages.
///
/// The limit must be small: in the host's receive buffer, a single byte of a large segment keeps the memory
/// of the whole segment. The host would close its window, and perhaps no further acknowledgement would come
/// to remove the byte.
const MAX_DEFERRED: u32 = 2 * 1024;
const MAX_DEFERRALS: u8 = 16;

/// Outcome of an event for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The flow continues.
    Lives,
    /// The flow continues. The segment belongs to another connection, and is answered with a reset.
    Refuses,
    /// Both directions have ended.
    Ends,
    /// The guest has reset the flow, or does not answer. The peer's connection must be reset.
    ResetPeer,
    /// The socket has failed. The guest's connection must be reset.
    ResetGuest,
}

impl<S> Flow<S> {
    /// Handles a segment from the guest (RFC 9293 §3.10.7). If the socket does not take all data, the flow
    /// keeps at most `room` bytes of the rest.
    pub(crate) fn receive<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        segment: &Segment,
        frame: &H::Frame<'_>,
        room: usize,
    ) -> Fate {
        match self.phase {
            // While the socket connects, the guest can only retransmit its SYN, or give up.
            Phase::Connecting => {
                let gives_up = segment.flags.contains(Flags::RST);
                return if gives_up { Fate::ResetPeer } else { Fate::Lives };
            }
            Phase::SynSent => return self.receive_answer(segment, host.now()),
            Phase::SynReceived | Phase::Established => {}
        }
        if segment.flags.contains(Flags::RST) {
            let window = self.incoming.edge.since(self.incoming.nxt).max(1);
            let is_valid = segment.seq.is_in(self.incoming.nxt, window);
            return if is_valid { Fate::ResetPeer } else { Fate::Lives };
        }
        if segment.flags.contains(Flags::SYN) {
            // Either the answer to the SYN was lost, or the SYN demands a challenge ACK (RFC 5961 §4). Both
            // need an acknowledgement.
            self.incoming.ack = AckDue::Now;
            self.outgoing.is_due |= self.phase == Phase::SynReceived;
            return Fate::Lives;
        }
        if !segment.flags.contains(Flags::ACK) {
            return Fate::Lives;
        }
        if self.phase == Phase::SynReceived && !self.is_acknowledged_by(segment) {
            return Fate::Refuses;
        }
        if !self.receive_ack(host, segment) {
            return Fate::Lives;
        }
        if self.receive_data(host, segment, frame, room).is_err() {
            return Fate::ResetGuest;
        }
        if self.is_over() { Fate::Ends } else { Fate::Lives }
    }

    /// Handles the answer to a SYN for the guest (RFC 9293 §3.10.7.3).
    fn receive_answer(&mut self, segment: &Segment, now: u64) -> Fate {
        let answers = segment.flags.contains(Flags::ACK)
            && segment.ack == self.outgoing.nxt
            && self.outgoing.nxt != self.outgoing.una;
        if segment.flags.contains(Flags::RST) {
            return if answers { Fate::ResetPeer } else { Fate::Lives };
        }
        if segment.flags.contains(Flags::ACK) && !answers {
            return Fate::Refuses;
        }
        if answers && segment.flags.contains(Flags::SYN) {
            self.outgoing.una = segment.ack;
            self.take_syn(segment);
            self.incoming.ack = AckDue::Now;
            self.establish(now);
        }
        Fate::Lives
    }

    /// Returns true if a segment acknowledges data that was sent and is not yet acknowledged.
    const fn is_acknowledged_by(&self, segment: &Segment) -> bool {
        let Outgoing { una, max, .. } = self.outgoing;
        una.is_before(segment.ack) && segment.ack.is_up_to(max)
    }

    /// Handles the acknowledgement and the window of a segment. Returns false if the segment acknowledges
    /// data that was never sent.
    fn receive_ack<H: Host<Stream = S>>(&mut self, host: &mut H, segment: &Segment) -> bool {
        let ack = segment.ack;
        if self.outgoing.max.is_before(ack) {
            self.incoming.ack = AckDue::Now;
            return false;
        }
        let was_repeated = self.outgoing.nxt.is_before(ack);
        self.outgoing.nxt = self.outgoing.nxt.max(ack);
        if ack.is_before(self.outgoing.una) {
            return true;
        }
        let edge = ack + (u32::from(segment.window) << self.outgoing.scale);
        if self.outgoing.una != ack {
            self.acknowledge(host, ack);
        } else if self.outgoing.una == self.outgoing.nxt {
            // No data is in flight, so this may be the answer to a window probe.
            (self.outgoing.attempts, self.outgoing.retransmit_at) = (0, None);
        } else if self.outgoing.edge == edge && self.outgoing.in_flight() > 0 && segment.data.is_empty() {
            self.outgoing.duplicates = self.outgoing.duplicates.saturating_add(1);
            if self.outgoing.duplicates == DUPLICATES {
                self.rewind(host);
            }
        }
        self.outgoing.edge = edge;
        if was_repeated {
            // The data that was about to be retransmitted has arrived after all. It is discarded at once, so
            // that it is not peeked at again.
            self.discard(host);
        }
        true
    }

    /// Handles an acknowledgement of data in flight.
    fn acknowledge<H: Host<Stream = S>>(&mut self, host: &mut H, ack: Seq) {
        let outgoing = &mut self.outgoing;
        let has_syn = self.phase == Phase::SynReceived;
        let has_fin = outgoing.fin.is_some_and(|fin| fin.is_before(ack));
        let bytes = ack.since(outgoing.una) - u32::from(has_syn) - u32::from(has_fin);
        outgoing.una = ack;
        outgoing.duplicates = 0;
        outgoing.acknowledged += bytes;
        outgoing.deferrals += 1;
        outgoing.attempts = 0;
        outgoing.restart_timer(host.now());
        if has_syn {
            self.establish(host.now());
        }
        let outgoing = &self.outgoing;
        if outgoing.burst > MAX_DEFERRED || outgoing.deferrals >= MAX_DEFERRALS {
            self.discard(host);
        }
    }

    /// Removes acknowledged bytes from the socket.
    pub(crate) fn discard<H: Host<Stream = S>>(&mut self, host: &mut H) {
        let outgoing = &mut self.outgoing;
        if outgoing.acknowledged > 0 {
            host.discard(&self.stream, outgoing.acknowledged as usize);
        }
        (outgoing.acknowledged, outgoing.deferrals) = (0, 0);
        // The burst ends only when the socket is empty: otherwise its next bytes may belong to a large
        // segment that was partly discarded.
        if outgoing.una == outgoing.nxt && !outgoing.is_readable {
            outgoing.burst = 0;
        }
    }

    /// Goes back to the first unacknowledged byte, so that all data in flight is retransmitted.
    pub(crate) fn rewind<H: Host<Stream = S>>(&mut self, host: &mut H) {
        self.discard(host);
        host.rewind(&self.stream);
        let outgoing = &mut self.outgoing;
        outgoing.nxt = outgoing.una;
        outgoing.duplicates = 0;
        outgoing.retransmit_at = None;
        outgoing.is_readable = true;
    }

    /// Handles data and the FIN of a segment.
    fn receive_data<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        segment: &Segment,
        frame: &H::Frame<'_>,
        room: usize,
    ) -> Result<(), ErrorKind> {
        let has_fin = segment.flags.contains(Flags::FIN);
        if segment.data.is_empty() && !has_fin {
            // A keep-alive or window probe has the sequence number RCV.NXT - 1 (RFC 9293 §3.8.6.1), and must
            // be answered.
            if segment.seq != self.incoming.nxt {
                self.incoming.ack = AckDue::Now;
            }
            return Ok(());
        }
        let Some(data) = self.part_in_window(segment) else {
            // The data is out of order, a duplicate, or beyond the window. An immediate acknowledgement tells
            // the guest which sequence number is expected.
            self.incoming.ack = AckDue::Now;
            return Ok(());
        };
        let is_last = data.end == segment.data.end;
        let taken = self.deliver(host, frame, data.clone(), room)?;
        let incoming = &mut self.incoming;
        incoming.nxt = incoming.nxt + u32::try_from(taken).unwrap_or(u32::MAX);
        if has_fin && is_last && taken == data.len() {
            incoming.nxt = incoming.nxt + 1;
            incoming.has_ended = true;
        }
        incoming.open_window();
        let unacknowledged = incoming.nxt.since(incoming.acknowledged);
        let size = u32::try_from(segment.data.len()).unwrap_or(u32::MAX);
        let limit = if size < FULL_SEGMENT { ACK_AT_ONCE } else { ACK_AT_ONCE.min(2 * size) };
        let is_urgent = incoming.has_ended || taken < data.len() || unacknowledged >= limit;
        incoming.ack = if is_urgent || incoming.ack == AckDue::Now { AckDue::Now } else { AckDue::Delayed };
        if incoming.has_ended {
            // Discard acknowledged bytes now. If this process ends soon, Linux would reset the connection of
            // a socket with unread bytes.
            self.discard(host);
        }
        self.flush(host)
    }

    /// Returns the position in the frame of the segment's data that is next in order and within the window;
    /// `None` if the segment brings nothing new.
    fn part_in_window(&self, segment: &Segment) -> Option<Range<usize>> {
        let incoming = &self.incoming;
        if incoming.has_ended || incoming.nxt.is_before(segment.seq) {
            return None;
        }
        let Range { start, end } = segment.data;
        let old = incoming.nxt.since(segment.seq) as usize;
        let room = incoming.edge.since(incoming.nxt) as usize;
        let has_fin = segment.flags.contains(Flags::FIN);
        // A segment with only old data brings nothing new, unless it has a FIN that was not received before.
        if old > end - start || (old == end - start && !has_fin) || (room == 0 && old < end - start) {
            return None;
        }
        Some(start + old..end.min(start + old + room))
    }

    /// Writes data to the socket, and keeps up to `room` bytes of the rest. Returns the number of bytes that
    /// were written or kept.
    fn deliver<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        frame: &H::Frame<'_>,
        data: Range<usize>,
        room: usize,
    ) -> Result<usize, ErrorKind> {
        let mut sent = 0;
        // New data must not overtake kept bytes, so it goes to the socket only if there are none.
        if self.incoming.pending.is_empty() && self.incoming.is_writable && !data.is_empty() {
            sent = match host.send(&self.stream, frame, data.clone()) {
                Ok(sent) => sent.min(data.len()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error.kind()),
            };
            self.incoming.is_writable = sent == data.len();
        }
        let rest = data.start + sent..data.end.min(data.start + sent + room);
        let taken = rest.end - data.start;
        if !rest.is_empty() {
            let mut bytes = Vec::with_capacity(rest.len());
            host.copy(frame, rest, &mut bytes);
            self.incoming.pending.extend(bytes);
        }
        Ok(taken)
    }

    /// Writes kept bytes to the socket, and then the end of the stream.
    pub(crate) fn flush<H: Host<Stream = S>>(&mut self, host: &mut H) -> Result<(), ErrorKind> {
        let incoming = &mut self.incoming;
        while incoming.is_writable && !incoming.pending.is_empty() {
            let (bytes, _) = incoming.pending.as_slices();
            match host.send_bytes(&self.stream, bytes) {
                Ok(count) => {
                    incoming.is_writable = count >= bytes.len();
                    incoming.pending.drain(..count.min(incoming.pending.len()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => incoming.is_writable = false,
                Err(error) => return Err(error.kind()),
            }
        }
        if incoming.pending.capacity() > MAX_UNUSED + 4 * incoming.pending.len() {
            incoming.pending.shrink_to(2 * incoming.pending.len());
        }
        if incoming.pending.is_empty() {
            incoming.pending.shrink_to(0);
            // The stream is shut down only after its last byte was written.
            if incoming.has_ended && !incoming.is_shut_down {
                incoming.is_shut_down = true;
                host.shutdown(&self.stream);
            }
        }
        incoming.open_window();
        if incoming.is_window_news() && self.phase == Phase::Established {
            incoming.ack = AckDue::Now;
        }
        Ok(())
    }
}
