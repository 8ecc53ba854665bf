//! Segments that arrive: whose they are, and what they change.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;
use smoltcp::iface::{SocketSet, SocketStorage};
use smoltcp::socket::tcp::State;
use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, IpProtocol, TcpPacket, TcpSeqNumber};

use crate::address::{Endpoint, Tuple};
use crate::core::{Core, Entry, instant};
use crate::hardware::Offload;
use crate::host::Host;
use crate::link::Link;
use crate::tcp::connection::{Phase, Snapshot};
use crate::tcp::side::Path;
use crate::tcp::stream::take_into;
use crate::tcp::time_wait::Verdict;
use crate::wire::emit::{self, Acknowledgement, ETHERNET, EthernetHeader, IpHeader};
use crate::wire::packet::Packet;

/// How long an acknowledgement may wait for something to go with it. A peer that has sent one small segment holds the next
/// one back until then: long enough that it has a full one, short enough if it has no more.
const DELAY: Duration = Duration::from_millis(5);

/// The larger one of the headers of IP.
const IPV6: usize = 40;

/// Where a packet came from, and where an answer to it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// This host itself.
    Local,
    /// A neighbor.
    Wire(EthernetAddress),
}

impl Via {
    /// The way of answers to a packet from an address.
    pub(crate) fn path(self, source: &IpAddr) -> Path {
        Path::to(source, self == Self::Local)
    }
}

/// A packet whose segment is changed; smoltcp does not look at its checksum.
fn changed(packet: &Packet<'_>, change: impl FnOnce(&mut [u8])) -> Option<Vec<u8>> {
    let start = packet.bytes.len() - packet.payload.len();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(packet.bytes.len()).ok()?;
    bytes.extend_from_slice(packet.bytes);
    change(bytes.get_mut(start..)?);
    Some(bytes)
}

/// A first segment, so that smoltcp believes that the peer takes no more at a time than the device carries.
fn clamp(packet: &Packet<'_>, most: u16) -> Option<Vec<u8>> {
    changed(packet, |segment| emit::limit_segment(segment, most))
}

/// A segment under another number.
fn renumber(packet: &Packet<'_>, number: TcpSeqNumber) -> Option<Vec<u8>> {
    changed(packet, |segment| TcpPacket::new_unchecked(segment).set_seq_number(number))
}

/// Writes a packet with an acknowledgement, and nothing else, from one end to the other; returns its segment.
fn write_acknowledgement(bytes: &mut [u8], from: Endpoint, to: Endpoint, what: Acknowledgement) -> &mut [u8] {
    let (source, destination) = (from.address, to.address);
    let header =
        IpHeader { source, destination, protocol: IpProtocol::Tcp, size: emit::TCP, hop_limit: 64, class: 0 };
    let segment = header.write(bytes);
    emit::acknowledgement(segment, (source, from.port), (destination, to.port), what);
    segment
}

impl Core {
    /// Takes a segment for this host.
    pub(crate) fn receive_segment(
        &mut self,
        packet: &Packet<'_>,
        via: Via,
        is_checked: bool,
        host: &mut dyn Host,
    ) {
        let Some(segment) = packet.tcp(is_checked) else { return };
        let local = Endpoint::new(packet.destination, segment.dst_port());
        let tuple = Tuple { local, remote: Endpoint::new(packet.source, segment.src_port()) };
        let is_first = segment.syn() && !segment.ack() && !segment.rst() && !segment.fin();
        let listener = if is_first { self.find_listener(&tuple) } else { None };
        if listener.is_some() {
            self.end_before(&tuple, segment.seq_number(), host);
        }
        if let Some(&slot) = self.tcp.connections.get(&tuple) {
            let is_last = segment.fin() && segment.ack() && !segment.syn() && !segment.rst();
            if is_last && !segment.payload().is_empty() {
                self.receive_last(slot, packet, (&segment, tuple), via, host);
            } else {
                self.receive_for(slot, packet, &segment, via, host);
            }
            return;
        }
        match self.tcp.time_wait.judge(&tuple, &segment, self.now) {
            Some(Verdict::Answer(answer)) => return self.answer_late(tuple, answer, via),
            Some(Verdict::Ignore) => return,
            Some(Verdict::Begin | Verdict::Forget) => self.forget(&tuple),
            None => (),
        }
        match listener {
            Some(listener) => self.receive_syn(listener, packet, (&segment, tuple), via, host),
            None => self.refuse(packet, via),
        }
    }

    /// Ends a connection whose peer begins another one with a SYN of this number, if the old one can lose nothing.
    fn end_before(&mut self, tuple: &Tuple, number: TcpSeqNumber, host: &mut dyn Host) {
        let Some(&slot) = self.tcp.connections.get(tuple) else { return };
        let Some(entry) = self.sockets.get(slot) else { return };
        if entry.connection().is_some_and(|connection| connection.may_end_before(number, entry.is_orphan())) {
            self.end(slot, None, host);
        }
    }

    /// Forgets a connection that was.
    pub(crate) fn forget(&mut self, tuple: &Tuple) {
        if let Some(record) = self.tcp.time_wait.remove(tuple) {
            self.tcp.ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Forgets connections whose time has come.
    pub(crate) fn forget_old(&mut self) {
        while let Some((tuple, record)) = self.tcp.time_wait.expire(self.now) {
            self.tcp.ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Answers a segment of a connection that was.
    fn answer_late(&mut self, Tuple { local, remote }: Tuple, answer: Acknowledgement, via: Via) {
        let mut packet = core::mem::take(&mut self.reply);
        packet.clear();
        packet.resize(emit::ip_header(&local.address) + emit::TCP, 0);
        write_acknowledgement(&mut packet, local, remote, answer);
        self.reply = packet;
        self.send_reply(via);
    }

    /// Has smoltcp reset a peer that asks for what is not there.
    pub(crate) fn refuse(&mut self, packet: &Packet<'_>, via: Via) {
        let mut nobody: [SocketStorage<'_>; 0] = [];
        let mut set = SocketSet::new(&mut nobody[..]);
        if let Some(side) = self.tcp.side(via.path(&packet.source)) {
            side.receive(instant(self.now), packet.bytes, &mut set, &mut self.reply);
            self.send_reply(via);
        }
    }

    /// Sends what smoltcp answered, if it did.
    pub(crate) fn send_reply(&mut self, via: Via) {
        if matches!(via, Via::Wire(_)) {
            // The device fills in only those that a connection sends of its own accord.
            emit::fill_tcp_checksum(&mut self.reply);
        }
        let packet = &self.reply;
        let Some(first) = packet.first() else { return };
        let (queue, header) = match (via, self.port) {
            (Via::Local, _) => (&mut self.local, None),
            (Via::Wire(destination), Some(port)) => {
                let protocol = EthernetHeader::of_version(first >> 4);
                (&mut self.outbox, Some(EthernetHeader { source: port.mac, destination, protocol }))
            }
            (Via::Wire(_), None) => return,
        };
        let size = packet.len() + header.map_or(0, |_| ETHERNET);
        if queue.can_transmit(size) {
            queue.transmit(size, Offload::default(), &mut |bytes| {
                let rest = match header {
                    Some(header) => header.write(bytes),
                    None => bytes,
                };
                rest.copy_from_slice(packet);
            });
        }
    }

    /// Takes a segment with data and the end behind it. smoltcp would heed the end even if it has no room for all that is
    /// before: the window may have become a little less than what the peer knows of. So the end comes separately, if at all.
    fn receive_last(
        &mut self,
        slot: u32,
        packet: &Packet<'_>,
        (segment, tuple): (&TcpPacket<&[u8]>, Tuple),
        via: Via,
        host: &mut dyn Host,
    ) {
        let Some(data) = changed(packet, |segment| TcpPacket::new_unchecked(segment).set_fin(false)) else {
            return;
        };
        self.receive_part(slot, &data, via, host);
        let end = segment.seq_number() + segment.payload().len();
        let is_there = self.tcp.connections.get(&tuple) == Some(&slot);
        if is_there && self.connection(slot).is_some_and(|connection| connection.may_end_at(end)) {
            let size = emit::ip_header(&packet.source) + emit::TCP;
            let mut bytes = [0; IPV6 + emit::TCP];
            if let Some(bytes) = bytes.get_mut(..size) {
                let (acknowledged, window) = (segment.ack_number(), segment.window_len());
                let what = Acknowledgement { sequence: end, acknowledged, window };
                let last = write_acknowledgement(bytes, tuple.remote, tuple.local, what);
                TcpPacket::new_unchecked(last).set_fin(true);
                self.receive_part(slot, bytes, via, host);
            }
        }
    }

    /// Takes a part of a segment, as a packet of its own.
    fn receive_part(&mut self, slot: u32, bytes: &[u8], via: Via, host: &mut dyn Host) {
        let Some(packet) = Packet::parse(bytes) else { return };
        if let Some(segment) = packet.tcp(true) {
            self.receive_for(slot, &packet, &segment, via, host);
        }
    }

    /// Takes a segment for a connection.
    pub(crate) fn receive_for(
        &mut self,
        slot: u32,
        packet: &Packet<'_>,
        segment: &TcpPacket<&[u8]>,
        via: Via,
        host: &mut dyn Host,
    ) {
        self.visit();
        if self.must_wait(slot) && !segment.rst() {
            return;
        }
        let now = self.now;
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.note_heard(now);
        let Some(connection) = entry.connection_mut().filter(|connection| !connection.is_unasked()) else {
            return;
        };
        let Some(side) = self.tcp.side(connection.path) else { return };
        if segment.syn() {
            connection.note_options(segment, side.segment(&packet.source));
        }
        if segment.ack() {
            connection.note_acknowledged(segment.ack_number());
        }
        if segment.fin() {
            connection.peer_end = Some(segment.seq_number() + segment.segment_len());
        }
        let may_wait = connection.may_delay_acknowledgement(segment.payload().len());
        let delay = if may_wait { DELAY } else { Duration::ZERO };
        connection.channel.socket_mut().set_ack_delay(Some(delay));
        let before = connection.snapshot();
        let other = match connection.heeded_as(segment) {
            Some(number) => {
                let Some(renumbered) = renumber(packet, number) else { return };
                Some(renumbered)
            }
            None => {
                let most = side.announced(&packet.source).filter(|_| segment.syn());
                most.and_then(|most| clamp(packet, most))
            }
        };
        let bytes = other.as_deref().unwrap_or(packet.bytes);
        side.receive(instant(now), bytes, connection.channel.set(), &mut self.reply);
        connection.note_received(segment, before);
        connection.end_sending();
        let is_orphan = self.sockets.get(slot).is_some_and(Entry::is_orphan);
        if let Some(connection) = self.connection(slot)
            && (connection.has_progressed(before) || segment.window_len() == 0 && !is_orphan)
        {
            connection.patience.note_progress(now);
        }
        self.send_reply(via);
        if !self.reply.is_empty() {
            // Whoever has only asked so far answers nothing but what cannot be meant for it, by a reset.
            self.ask_again(slot, host);
        }
        self.answer(slot, before, segment.payload().len());
        self.note_change(slot, before, segment.rst(), host);
    }

    /// Has a connection answer what it received, if it is to be answered now.
    fn answer(&mut self, slot: u32, before: Snapshot, size: usize) {
        let later = self.now.saturating_add(DELAY.total_micros() * 1000);
        let Some(connection) = self.connection(slot) else { return };
        if connection.state() != before.state {
            self.mark(slot);
        } else if size > 0 && connection.may_stretch(size, before) {
            self.timers.advance(slot, Some(later));
        } else {
            self.consider(slot);
        }
    }

    /// Whether a connection may not be completed yet: the peer will try again.
    fn must_wait(&self, slot: u32) -> bool {
        let connection = self.sockets.get(slot).and_then(|entry| entry.connection());
        match connection.map(|connection| connection.phase) {
            Some(Phase::HalfOpen { listener }) => self.must_wait_for(listener),
            _ => false,
        }
    }

    /// Draws the conclusions from what a segment changed.
    fn note_change(&mut self, slot: u32, before: Snapshot, is_reset: bool, host: &mut dyn Host) {
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        let is_orphan = entry.is_orphan();
        let Some(connection) = entry.connection_mut() else { return };
        connection.note_end();
        let state = connection.state();
        match connection.phase {
            Phase::HalfOpen { listener } => match state {
                State::SynReceived => (),
                State::Listen | State::Closed => self.discard(slot),
                _ => self.complete(slot, listener, host),
            },
            Phase::Connecting => match state {
                State::SynSent | State::SynReceived => (),
                State::Closed => self.end(slot, Some(Errno::ECONNREFUSED), host),
                _ => {
                    connection.phase = Phase::Open;
                    entry.wake(host);
                }
            },
            Phase::Queued { .. } | Phase::Open if state == State::Closed => {
                let error = match before.state {
                    State::Closed => return,
                    State::CloseWait if !connection.shut_write => Errno::EPIPE,
                    _ => Errno::ECONNRESET,
                };
                self.end(slot, is_reset.then_some(error), host);
            }
            // Nobody will ever receive it.
            Phase::Open if is_orphan && connection.channel.socket().can_recv() => {
                self.reset(slot, None, host);
            }
            Phase::Open if connection.is_in_vain(before) => {
                // What came before can still be read.
                if before.received == 0 {
                    take_into(&mut connection.channel, &mut |bytes| bytes.len());
                }
                self.reset(slot, Some(Errno::ECONNRESET), host);
            }
            Phase::Queued { .. } | Phase::Open => {
                if connection.has_news(before) {
                    entry.wake(host);
                }
            }
        }
    }
}
