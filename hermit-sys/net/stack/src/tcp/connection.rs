//! One connection: smoltcp's socket, and what Linux keeps besides.

use smoltcp::socket::tcp::State;
use smoltcp::wire::{TcpOption, TcpPacket, TcpSeqNumber};

use crate::address::Tuple;
use crate::core::{instant, nanoseconds};
use crate::options::Settings;
use crate::socket::{Readiness, Shutdown};
use crate::tcp::arrivals::Arrivals;
use crate::tcp::channel::Channel;
use crate::tcp::patience::Patience;
use crate::tcp::side::{Path, Side};
use crate::wire::device::Sent;

/// The least a peer may say it takes in one segment (Linux's `TCP_MIN_SND_MSS`), and what it takes if it says
/// nothing (RFC 9293, section 3.7.1).
const LEAST_SEGMENT: usize = 48;
const DEFAULT_SEGMENT: usize = 536;

/// How far a connection has come, from the point of view of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Begun by us, not yet answered.
    Connecting,
    /// Begun by a peer, which has not acknowledged our answer; it belongs to a listener.
    HalfOpen { listener: u32 },
    /// It waits to be accepted.
    Queued { listener: u32 },
    /// It has, or had, an owner.
    Open,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    pub(crate) tuple: Tuple,
    pub(crate) path: Path,
    /// Its packets were too large for somebody on their way: they may be cut.
    pub(crate) may_be_cut: bool,
    pub(crate) phase: Phase,
    /// Nothing is sent or received any more.
    pub(crate) is_over: bool,
    /// The tables know of it.
    pub(crate) is_mapped: bool,
    /// Its owner was told that it is established.
    pub(crate) is_told: bool,
    /// The peer was asked a second time, since it remembered an earlier connection.
    pub(crate) has_asked_again: bool,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    /// Bytes of data in a full segment.
    pub(crate) segment: usize,
    /// The end of a small segment that was sent and not acknowledged, as far as is known.
    pub(crate) small: Option<TcpSeqNumber>,
    pub(crate) last_sent: Option<Sent>,
    /// The largest number behind a segment that was sent.
    sent_end: Option<TcpSeqNumber>,
    /// Bytes that came from the owner and were not sent, at most.
    unsent: usize,
    /// The number behind the peer's end, when that has come.
    pub(crate) peer_end: Option<TcpSeqNumber>,
    /// That has come, and everything before it.
    pub(crate) has_ended: bool,
    /// Bytes that came from the owner since something was last sent.
    pub(crate) held: usize,
    /// They wait for the device.
    pub(crate) is_corked: bool,
    arrivals: Arrivals,
    pub(crate) patience: Patience,
}

/// What may have changed after a segment was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    pub(crate) received: usize,
    queued: usize,
    is_writable: bool,
}

impl Connection {
    pub(crate) fn new(channel: Channel, tuple: Tuple, path: Path, phase: Phase, now: u64) -> Self {
        Self {
            channel,
            tuple,
            path,
            may_be_cut: false,
            phase,
            is_over: false,
            is_mapped: false,
            is_told: false,
            has_asked_again: false,
            shut_read: false,
            shut_write: false,
            segment: DEFAULT_SEGMENT,
            small: None,
            last_sent: None,
            sent_end: None,
            unsent: 0,
            peer_end: None,
            has_ended: false,
            held: 0,
            is_corked: false,
            arrivals: Arrivals::default(),
            patience: Patience::new(now),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.channel.socket().state()
    }

    /// The peer sends no more, or nothing more is received.
    pub(crate) const fn is_read_over(&self) -> bool {
        self.is_over || self.shut_read || self.has_ended
    }

    /// Ends halves of it.
    pub(crate) fn shut(&mut self, how: Shutdown) {
        self.shut_read |= how.reads();
        self.shut_write |= how.writes();
        self.end_sending();
    }

    /// Has smoltcp send the end when everything has come from the owner.
    ///
    /// If the peer has ended before, its end waits until it has all the data: once smoltcp waits for nothing but the last
    /// acknowledgement, it takes one that acknowledges nothing new for a stray one, and does not look at how much the peer
    /// takes now. What is left behind a window that was shut would wait for a probe then.
    pub(crate) fn end_sending(&mut self) {
        let must_wait = self.state() == State::CloseWait && self.channel.socket().send_queue() > 0;
        if self.shut_write && !must_wait {
            self.channel.socket_mut().close();
        }
    }

    /// Takes note of a segment that was received, after which nothing may be left to be received.
    pub(crate) fn note_end(&mut self) {
        let states = [State::CloseWait, State::LastAck, State::Closing, State::TimeWait];
        self.has_ended |= states.contains(&self.state());
    }

    /// Takes note of what a segment has brought.
    pub(crate) fn note_received(&mut self, segment: &TcpPacket<&[u8]>, before: Snapshot) {
        self.arrivals.note(segment, before, self.channel.socket());
    }

    /// The number under which smoltcp is given a segment, if not under its own.
    pub(crate) fn heeded_as(&self, segment: &TcpPacket<&[u8]>) -> Option<TcpSeqNumber> {
        self.arrivals.heeded_as(segment, self.channel.socket(), self.has_ended)
    }

    /// Whether the peer's end may come under a number: everything before it is there, and no end is yet.
    pub(crate) fn may_end_at(&self, end: TcpSeqNumber) -> bool {
        !self.has_ended && self.arrivals.has_reached(end)
    }

    /// Whether the peer has not been asked yet: it has nothing to answer. smoltcp would take that it asks, too, for an answer
    /// to what it has not sent, and stop when it compares windows.
    pub(crate) fn is_unasked(&self) -> bool {
        self.phase == Phase::Connecting && self.last_sent.is_none()
    }

    /// Whether more has been received, which nobody will read: the peer is to be told (RFC 1122, section 4.2.2.13).
    pub(crate) fn is_in_vain(&self, before: Snapshot) -> bool {
        self.shut_read && self.shut_write && self.channel.socket().recv_queue() > before.received
    }

    /// Whether the handshake has been completed.
    pub(crate) const fn is_established(&self) -> bool {
        !matches!(self.phase, Phase::Connecting | Phase::HalfOpen { .. })
    }

    /// Whether there is room worth waking a writer for: a third of the buffer, as in Linux.
    pub(crate) fn is_writable(&self) -> bool {
        let socket = self.channel.socket();
        let queued = socket.send_queue();
        socket.may_send() && socket.send_capacity() - queued > queued / 2
    }

    /// Something was sent that is not acknowledged: data or the end.
    pub(crate) fn is_outstanding(&self) -> bool {
        let has_fin = matches!(self.state(), State::FinWait1 | State::Closing | State::LastAck);
        has_fin || self.channel.socket().send_queue() > 0
    }

    /// Whether another host lacks something that was sent to it before the connection was closed.
    pub(crate) fn is_owed(&self) -> bool {
        let is_outstanding = if self.is_over { self.has_reset_to_send() } else { self.is_outstanding() };
        self.path != Path::Local && is_outstanding
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state(),
            received: self.channel.socket().recv_queue(),
            queued: self.channel.socket().send_queue(),
            is_writable: self.is_writable(),
        }
    }

    /// Whether somebody who waits has reason to look again.
    pub(crate) fn has_news(&self, before: Snapshot) -> bool {
        let now = self.snapshot();
        now.state != before.state || now.received > before.received || now.is_writable && !before.is_writable
    }

    /// Whether the peer has acknowledged something.
    pub(crate) fn has_progressed(&self, before: Snapshot) -> bool {
        let now = self.snapshot();
        now.state != before.state || now.queued < before.queued
    }

    /// What `poll` says, as Linux's `tcp_poll`.
    pub(crate) fn readiness(&self, has_error: bool) -> Readiness {
        if !self.is_established() && !self.is_over {
            return Readiness { error: has_error, ..Readiness::default() };
        }
        let read_hang_up = self.is_read_over();
        let is_write_over = self.is_over || self.shut_write;
        Readiness {
            read: read_hang_up || self.channel.socket().can_recv(),
            write: is_write_over || self.is_writable(),
            hang_up: read_hang_up && is_write_over,
            read_hang_up,
            error: has_error,
        }
    }

    /// Takes note of how much the peer takes in one segment.
    pub(crate) fn note_options(&mut self, segment: &TcpPacket<&[u8]>, own: usize) {
        let mut options = segment.options();
        let mut size = DEFAULT_SEGMENT;
        while let Ok((rest, option)) = TcpOption::parse(options) {
            match option {
                TcpOption::EndOfList => break,
                TcpOption::MaxSegmentSize(said) if said != 0 => size = usize::from(said).max(LEAST_SEGMENT),
                _ => (),
            }
            options = rest;
        }
        self.segment = size.min(own);
    }

    /// Takes note of a segment that was sent.
    pub(crate) fn note_sent(&mut self, sent: Sent) {
        let full = sent.segment.map_or(self.segment, usize::from).max(1);
        // A repetition may end before a small segment that is outstanding, too.
        if !sent.size.is_multiple_of(full) && self.small.is_none_or(|small| small < sent.end) {
            self.small = Some(sent.end);
        }
        self.last_sent = Some(sent);
        // A repetition ends before that.
        let before = self.sent_end.filter(|&before| before > sent.end).unwrap_or(sent.end);
        let new = self.sent_end.filter(|&end| sent.end > end).map_or(0, |end| sent.end - end);
        (self.sent_end, self.unsent) = (Some(before), self.unsent.saturating_sub(new));
        self.held = 0;
        self.arrivals.note_acknowledgement();
    }

    /// Takes note of bytes that came from the owner.
    pub(crate) const fn note_offered(&mut self, size: usize) {
        self.held += size;
        self.unsent += size;
    }

    /// Whether bytes that came from the owner wait for the acknowledgement of a small segment, when the rest is as it was
    /// when smoltcp was asked last: they do not fill a segment. (With a probe of a closed window, whose byte is sent again,
    /// they may fill it exactly: then they wait, too.)
    pub(crate) fn must_wait(&self, settings: &Settings) -> bool {
        self.has_small_outstanding(settings) && self.unsent < self.segment
    }

    /// Whether Nagle's algorithm holds small segments back.
    const fn has_small_outstanding(&self, settings: &Settings) -> bool {
        !settings.no_delay && self.small.is_some()
    }

    /// Whether the acknowledgement of a segment with so many bytes may wait for something to go with it: smoltcp sends
    /// it at once when a second one comes, but does not see that the device has put a large one together of several.
    pub(crate) const fn may_delay_acknowledgement(&self, size: usize) -> bool {
        size <= self.segment
    }

    /// Takes note of bytes that were received, and returns whether their acknowledgement may wait, even if smoltcp would
    /// send it at once: nothing else is to be sent, and the peer has no reason to wait for it yet.
    pub(crate) fn may_stretch(&mut self, size: usize, before: Snapshot) -> bool {
        let socket = self.channel.socket();
        let is_next = socket.recv_queue() > before.received;
        let may_wait = self.arrivals.may_stretch(size, is_next, self.segment, socket.recv_capacity());
        may_wait && socket.send_queue() == 0
    }

    /// When smoltcp wants to be asked what it has to send; not later than now if it has something.
    pub(crate) fn due(&mut self, side: &mut Side, settings: &Settings, now: u64) -> Option<u64> {
        self.prepare(settings);
        side.interface.poll_at(instant(now), self.channel.set()).map(nanoseconds)
    }

    /// Whether receiving may have made so much room that the peer is to be told, when so much had been received before.
    pub(crate) fn may_invite(&self, received: usize) -> bool {
        // smoltcp tells when the room is twice what the peer knows of.
        received > self.channel.socket().recv_capacity() / 4
    }

    /// Takes note of what the peer acknowledges.
    pub(crate) fn note_acknowledged(&mut self, number: TcpSeqNumber) {
        if self.small.is_some_and(|small| number >= small) {
            self.small = None;
        }
    }

    /// Sets the socket up for what is sent next. A small segment waits only for another small one (Minshall's
    /// variant of Nagle's algorithm, as in Linux): smoltcp would have it wait for full ones, too.
    pub(crate) fn prepare(&mut self, settings: &Settings) {
        let waits = self.has_small_outstanding(settings);
        let hops = settings.hops(self.tuple.remote.address.is_ipv4());
        let socket = self.channel.socket_mut();
        socket.set_nagle_enabled(waits);
        socket.set_hop_limit(Some(hops.max(1)));
    }

    /// Has smoltcp forget the connection, without a word to the peer.
    pub(crate) fn silence(&mut self) {
        let socket = self.channel.socket_mut();
        socket.abort();
        // Listening is the only way to have it forget the peer.
        if socket.listen(self.tuple.local.port).is_ok() {
            socket.close();
        }
    }

    /// Whether the peer has been told that its end has come: smoltcp may wait a little with that.
    pub(crate) fn has_acknowledged_end(&self) -> bool {
        let sent = self.last_sent.map(|sent| sent.acknowledged);
        sent.zip(self.peer_end).is_some_and(|(sent, end)| sent >= end)
    }

    /// Whether the peer may begin another connection with a SYN of this number, as in TIME-WAIT (RFC 9293, section
    /// 3.10.7.4): passt forgets a connection as soon as it has sent the FIN. If that was lost, FIN-WAIT-2 is left, in
    /// which a connection without a program has nothing to receive.
    pub(crate) fn may_end_before(&self, number: TcpSeqNumber, is_orphan: bool) -> bool {
        let last = self.peer_end.or(self.last_sent.map(|sent| sent.acknowledged));
        let is_over = match self.state() {
            State::TimeWait => true,
            State::FinWait2 => is_orphan,
            _ => false,
        };
        is_over && last.is_some_and(|last| number > last)
    }

    /// Whether a last segment, which resets the peer, is still to be sent.
    pub(crate) fn has_reset_to_send(&self) -> bool {
        self.state() == State::Closed && self.channel.socket().remote_endpoint().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{Connection, Phase};
    use crate::address::{Endpoint, Tuple};
    use crate::options::Settings;
    use crate::tcp::channel::Channel;
    use crate::tcp::side::Path;
    use crate::wire::device::Sent;
    use core::net::{IpAddr, Ipv4Addr};
    use smoltcp::wire::{TcpOption, TcpPacket, TcpSeqNumber};

    const HERE: Endpoint = Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);

    fn connection() -> Connection {
        let tuple = Tuple { local: HERE, remote: HERE };
        Connection::new(Channel::new(64, 64).unwrap(), tuple, Path::Local, Phase::Connecting, 0)
    }

    fn sent(end: i32, size: usize, segment: Option<u16>) -> Sent {
        let number = TcpSeqNumber(end);
        Sent { sequence: number, end: number, acknowledged: number, window: 0, size, segment }
    }

    #[test]
    fn a_small_segment_waits_for_a_small_one_only() {
        let mut connection = connection();
        let mut settings = Settings::default();
        for (size, segment, no_delay, waits) in [
            (536, None, false, false),
            (100, None, false, true),
            (100, None, true, false),
            (3000, Some(1000), false, false),
            (3001, Some(1000), false, true),
        ] {
            connection.small = None;
            connection.note_sent(sent(500, size, segment));
            settings.no_delay = no_delay;
            connection.prepare(&settings);
            assert_eq!(connection.channel.socket().nagle_enabled(), waits, "{size}");
        }
        connection.note_sent(sent(400, 100, None));
        connection.note_acknowledged(TcpSeqNumber(499));
        assert!(connection.small.is_some());
        connection.note_acknowledged(TcpSeqNumber(500));
        assert!(connection.small.is_none());
    }

    #[test]
    fn bytes_wait_for_a_small_segment_until_they_fill_one() {
        let mut connection = connection();
        let mut settings = Settings::default();
        connection.note_sent(sent(1000, 0, None));
        connection.note_offered(100);
        assert!(!connection.must_wait(&settings), "nothing is outstanding");
        connection.note_sent(sent(1100, 100, None));
        connection.note_offered(535);
        assert!(connection.must_wait(&settings));
        settings.no_delay = true;
        assert!(!connection.must_wait(&settings), "small segments do not wait");
        settings.no_delay = false;
        connection.note_offered(1);
        assert!(!connection.must_wait(&settings), "a segment is full");
        // A repetition sends nothing new; what follows it does so only behind what was sent before.
        connection.note_sent(sent(1050, 50, None));
        assert!(!connection.must_wait(&settings));
        connection.note_sent(sent(1101, 51, None));
        assert!(connection.must_wait(&settings));
        connection.note_acknowledged(TcpSeqNumber(1101));
        assert!(!connection.must_wait(&settings), "it has been acknowledged");
    }

    #[test]
    fn the_peer_says_how_much_it_takes() {
        let mut connection = connection();
        for (option, expected) in [
            (TcpOption::MaxSegmentSize(1000), 1000),
            (TcpOption::MaxSegmentSize(9000), 1460),
            (TcpOption::MaxSegmentSize(1), 48),
            (TcpOption::MaxSegmentSize(0), 536),
            (TcpOption::NoOperation, 536),
        ] {
            let mut bytes = [0; 24];
            let mut segment = TcpPacket::new_unchecked(&mut bytes[..]);
            segment.set_header_len(24);
            option.emit(segment.options_mut());
            connection.note_options(&TcpPacket::new_unchecked(&bytes[..]), 1460);
            assert_eq!(connection.segment, expected);
        }
    }
}
