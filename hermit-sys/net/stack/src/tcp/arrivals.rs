//! What has arrived on a connection, and how long its acknowledgement may wait.

use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::{TcpPacket, TcpSeqNumber};

use crate::tcp::connection::Snapshot;

/// How many full segments may wait for one acknowledgement, for a short time. RFC 9293 has two, but much of the work of a
/// transfer is in them, and their receivers have long been stretching that, since devices join segments.
const STRETCH: usize = 8;

/// Takes note of segments that were received.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// The number of the byte that the peer is to send next, once it has begun.
    expected: Option<TcpSeqNumber>,
    /// Bytes that have not been acknowledged, and bytes that came one after the other.
    unacknowledged: usize,
    flowing: usize,
}

impl Arrivals {
    /// A segment has been received, by a socket that was as `before`.
    pub(crate) fn note(&mut self, segment: &TcpPacket<&[u8]>, before: Snapshot, socket: &Socket<'_>) {
        if segment.syn() && matches!(before.state, State::Listen | State::SynSent) {
            self.expected = Some(segment.seq_number() + 1);
        } else if let Some(expected) = &mut self.expected {
            *expected += socket.recv_queue().saturating_sub(before.received);
        }
    }

    /// Whether everything before a number has come, and nothing behind it.
    pub(crate) fn has_reached(&self, number: TcpSeqNumber) -> bool {
        self.expected == Some(number)
    }

    /// An acknowledgement of everything was sent.
    pub(crate) const fn note_acknowledgement(&mut self) {
        self.unacknowledged = 0;
    }

    /// The number under which smoltcp is given a segment, if not under its own; `has_ended` if the peer's end has come.
    pub(crate) fn heeded_as(
        &self,
        segment: &TcpPacket<&[u8]>,
        socket: &Socket<'_>,
        has_ended: bool,
    ) -> Option<TcpSeqNumber> {
        let room = if has_ended { 0 } else { socket.recv_capacity() - socket.recv_queue() };
        let next = self.expected? + usize::from(has_ended);
        if segment.payload().is_empty() {
            number_of_acknowledgement(segment, next, room)
        } else {
            number_of_data(segment, next, room)
        }
    }

    /// Takes note of so many bytes that were received, `is_next` if they were those expected, and returns whether their
    /// acknowledgement may wait, even if smoltcp would send it at once, when the peer has no reason to wait for it yet. It sends
    /// `full` bytes at most in a segment.
    pub(crate) fn may_stretch(&mut self, size: usize, is_next: bool, full: usize, capacity: usize) -> bool {
        // A peer that begins, or that has lost something, sends little before it waits.
        self.flowing = if is_next { self.flowing.saturating_add(size) } else { 0 };
        self.unacknowledged += size;
        let limit = (STRETCH * full).min(capacity / 8).min(self.flowing / 16);
        is_next && self.unacknowledged < limit
    }
}

/// The number of an acknowledgement that smoltcp would not heed.
///
/// The room that the peer knows of may become a little less, for it is told in multiples of a power of two. If the peer
/// has used all of it, what it says is beyond the window for smoltcp, which never learns then that the peer has room again;
/// and a program that receives nothing before it has sent something waits for ever. Such acknowledgements are to be
/// heeded (RFC 9293, section 3.10.7.4).
fn number_of_acknowledgement(
    segment: &TcpPacket<&[u8]>,
    next: TcpSeqNumber,
    room: usize,
) -> Option<TcpSeqNumber> {
    let is_bare = segment.ack() && !segment.syn() && !segment.fin() && !segment.rst();
    let is_ahead = segment.seq_number() > next && segment.seq_number() <= next + room;
    (is_bare && is_ahead).then_some(next)
}

/// The number of data for which there is no room, as that of data which has come before: smoltcp only answers it.
///
/// smoltcp relies on its window, which does not always say how much room there is. Until it has sent something after a first
/// segment, it takes the window of that one for a scaled one, which is up to twice the room; and an end that fills
/// a window puts what is expected behind it, so that numbers half of all further on seem to be between. It stops then, when it
/// finds that it has taken more than it can.
fn number_of_data(segment: &TcpPacket<&[u8]>, next: TcpSeqNumber, room: usize) -> Option<TcpSeqNumber> {
    let (start, size) = (segment.seq_number(), segment.payload().len());
    // The end of what begins half of all numbers further on seems to be before the limit.
    let is_beyond = start > next + room || start + size > next + room;
    (is_beyond && !segment.syn() && !segment.rst()).then(|| next - size)
}

#[cfg(test)]
mod tests {
    use super::Arrivals;

    const FULL: usize = 1000;
    const CAPACITY: usize = 100_000;

    #[test]
    fn a_peer_that_flows_is_acknowledged_seldom() {
        let mut arrivals = Arrivals::default();
        // At first everything is acknowledged at once.
        assert!(!arrivals.may_stretch(FULL, true, FULL, CAPACITY));
        arrivals.note_acknowledgement();
        for _ in 0..200 {
            arrivals.may_stretch(FULL, true, FULL, CAPACITY);
        }
        arrivals.note_acknowledgement();
        let waits = (0..20).take_while(|_| arrivals.may_stretch(FULL, true, FULL, CAPACITY)).count();
        assert_eq!(waits, 7);
        arrivals.note_acknowledgement();
        // A small buffer has less patience.
        let waits = (0..20).take_while(|_| arrivals.may_stretch(FULL, true, FULL, 20_000)).count();
        assert_eq!(waits, 2);
        arrivals.note_acknowledgement();
        // Something was lost: it begins anew.
        assert!(!arrivals.may_stretch(FULL, false, FULL, CAPACITY));
        arrivals.note_acknowledgement();
        assert!(!arrivals.may_stretch(FULL, true, FULL, CAPACITY));
    }
}
