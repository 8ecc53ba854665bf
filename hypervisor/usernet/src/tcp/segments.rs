//! Segments from the guest.
//!
//! [`Flow::receive`] handles a segment in the order of RFC 9293 §3.10.7: RST, SYN, acknowledgement, data,
//! FIN. Acknowledgements remove bytes from the socket, where they were kept for retransmission. Data goes
//! from the frame to the socket at once; bytes that the socket does not take are kept in the flow. Data that
//! is not next in order is dropped, and the guest retransmits it. The [`Fate`] tells the caller if the flow
//! continues.

use std::io::ErrorKind;
use std::ops::Range;

use hermit_tcp::{Flags, Seq};

use super::flow::{AckDue, Flow, Outgoing, Phase};
use crate::host::Host;
use crate::parse::Segment;

/// Number of unacknowledged bytes from which on data is acknowledged at once.
const ACK_AT_ONCE: u32 = 64 * 1024;

/// Minimum number of bytes of a full segment. Every second full segment is acknowledged at once (RFC 5681
/// §4.2).
const FULL_SEGMENT: u32 = 1_000;

/// Number of bytes of memory that may be unused in a flow's buffer.
const MAX_UNUSED: usize = 64 * 1024;

/// Number of duplicate acknowledgements after which the data in flight is retransmitted (RFC 5681 §3.2).
const DUPLICATES: u8 = 3;

/// Maximum number of acknowledged bytes that may stay in the socket for a while, and of acknowledgements
/// after which they are discarded. This saves a system call for most small messages.
///
/// Larger amounts must not stay: a single byte of a large segment keeps all of the segment's memory. The host
/// would close its window, and there might be no further acknowledgement that removes the byte.
const MAX_DEFERRED: u32 = 2 * 1024;
const MAX_DEFERRALS: u8 = 16;

/// Outcome of an event for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The flow continues.
    Lives,
    /// The flow continues, but the segment belongs to another connection, and is answered by a reset.
    Refuses,
    /// Both directions have ended.
    Ends,
    /// The guest has reset the flow, or does not answer: the peer is reset.
    ResetPeer,
    /// The socket has failed: the guest is reset.
    ResetGuest,
}

impl<S> Flow<S> {
    /// Handles a segment from the guest (RFC 9293 §3.10.7). If the socket does not take all data, at most
    /// `room` bytes of the rest are kept.
    pub(crate) fn receive<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        segment: &Segment,
        frame: &H::Frame<'_>,
        room: usize,
    ) -> Fate {
        match self.phase {
            // The guest retransmits its SYN, or gives up.
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
            // The answer to the SYN was lost, or a challenge ACK is due (RFC 5961 §4).
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

    /// True if a segment acknowledges data that was sent and not acknowledged before.
    const fn is_acknowledged_by(&self, segment: &Segment) -> bool {
        let Outgoing { una, max, .. } = self.outgoing;
        una.is_before(segment.ack) && segment.ack.is_up_to(max)
    }

    /// Handles the acknowledgement and the window of a segment. Returns false if it acknowledges data that
    /// was not sent.
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
            // The answer to a window probe.
            (self.outgoing.attempts, self.outgoing.retransmit_at) = (0, None);
        } else if self.outgoing.edge == edge && self.outgoing.in_flight() > 0 && segment.data.is_empty() {
            self.outgoing.duplicates = self.outgoing.duplicates.saturating_add(1);
            if self.outgoing.duplicates == DUPLICATES {
                self.rewind(host);
            }
        }
        self.outgoing.edge = edge;
        if was_repeated {
            // The data that was about to be retransmitted has arrived. It is removed, so that it is not
            // peeked at again.
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
        // The next bytes may be the rest of a large segment, unless the socket is empty.
        if outgoing.una == outgoing.nxt && !outgoing.is_readable {
            outgoing.burst = 0;
        }
    }

    /// Prepares to retransmit all data in flight.
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
            // A keep-alive or window probe has the number before the next one (RFC 9293 §3.8.6.1), and wants
            // an answer.
            if segment.seq != self.incoming.nxt {
                self.incoming.ack = AckDue::Now;
            }
            return Ok(());
        }
        let Some(data) = self.part_in_window(segment) else {
            // Out of order, a duplicate, or beyond the window: an immediate acknowledgement tells the guest
            // the number that is expected.
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
            // If this process ends soon, bytes that are left in the socket would reset the peer.
            self.discard(host);
        }
        self.flush(host)
    }

    /// Position in the frame of the data that is next in order and within the window. Returns `None` if there
    /// is no such data.
    fn part_in_window(&self, segment: &Segment) -> Option<Range<usize>> {
        let incoming = &self.incoming;
        if incoming.has_ended || incoming.nxt.is_before(segment.seq) {
            return None;
        }
        let Range { start, end } = segment.data;
        let old = incoming.nxt.since(segment.seq) as usize;
        let room = incoming.edge.since(incoming.nxt) as usize;
        let has_fin = segment.flags.contains(Flags::FIN);
        // A FIN that was received before brings nothing new.
        if old > end - start || (old == end - start && !has_fin) || (room == 0 && old < end - start) {
            return None;
        }
        Some(start + old..end.min(start + old + room))
    }

    /// Passes data to the socket, and keeps up to `room` bytes of the rest. Returns the number of bytes that
    /// were passed or kept.
    fn deliver<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        frame: &H::Frame<'_>,
        data: Range<usize>,
        room: usize,
    ) -> Result<usize, ErrorKind> {
        let mut sent = 0;
        // Data must not overtake kept bytes.
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
            // The stream is ended only after its last byte.
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
