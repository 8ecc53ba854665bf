//! Segments that arrive: whose they are, and what they change.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;
use smoltcp::iface::{SocketSet, SocketStorage};
use smoltcp::socket::tcp::State;
use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, IpProtocol, TcpPacket};

use crate::address::{Endpoint, Tuple};
use crate::core::{Core, Entry, instant};
use crate::hardware::Offload;
use crate::host::Host;
use crate::link::Link;
use crate::tcp::connection::{Phase, Snapshot};
use crate::tcp::side::Path;
use crate::tcp::time_wait::Verdict;
use crate::wire::emit::{self, Acknowledgement, ETHERNET, EthernetHeader, IpHeader};
use crate::wire::packet::Packet;

/// How long an acknowledgement may wait for something to go with it.
const DELAY: Duration = Duration::from_millis(10);

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

/// A first segment, changed so that smoltcp believes that the peer takes no more at a time than the device carries.
fn clamp(packet: &Packet<'_>, most: u16) -> Option<Vec<u8>> {
    let start = packet.bytes.len() - packet.payload.len();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(packet.bytes.len()).ok()?;
    bytes.extend_from_slice(packet.bytes);
    emit::limit_segment(bytes.get_mut(start..)?, most);
    Some(bytes)
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
        if let Some(&slot) = self.tcp.connections.get(&tuple) {
            self.receive_for(slot, packet, &segment, via, host);
            return;
        }
        match self.tcp.time_wait.judge(&tuple, &segment) {
            Some(Verdict::Answer(answer)) => return self.answer_late(tuple, answer, via),
            Some(Verdict::Begin | Verdict::Forget) => self.forget(&tuple),
            None => (),
        }
        let is_first = segment.syn() && !segment.ack() && !segment.rst() && !segment.fin();
        match self.find_listener(&tuple).filter(|_| is_first) {
            Some(listener) => self.invite(listener, packet, (&segment, tuple), via, host),
            None => self.refuse(packet, via),
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
        let header = IpHeader {
            source: local.address,
            destination: remote.address,
            protocol: IpProtocol::Tcp,
            size: emit::TCP,
            hop_limit: 64,
            class: 0,
        };
        let mut packet = core::mem::take(&mut self.reply);
        packet.clear();
        packet.resize(header.size() + emit::TCP, 0);
        let (from, to) = ((local.address, local.port), (remote.address, remote.port));
        emit::acknowledgement(header.write(&mut packet), from, to, answer);
        self.reply = packet;
        self.send_reply(via);
    }

    /// Has smoltcp reset a peer that asks for what is not there.
    fn refuse(&mut self, packet: &Packet<'_>, via: Via) {
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
        let Some(connection) = entry.connection_mut() else { return };
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
        let clamped = side.announced(&packet.source).filter(|_| segment.syn());
        let clamped = clamped.and_then(|most| clamp(packet, most));
        let bytes = clamped.as_deref().unwrap_or(packet.bytes);
        side.receive(instant(now), bytes, connection.channel.set(), &mut self.reply);
        let is_orphan = self.sockets.get(slot).is_some_and(Entry::is_orphan);
        if let Some(connection) = self.connection(slot)
            && (connection.has_progressed(before) || segment.window_len() == 0 && !is_orphan)
        {
            connection.patience.note_progress(now);
        }
        self.send_reply(via);
        self.mark(slot);
        self.note_change(slot, before, segment.rst(), host);
    }

    /// Whether a connection may not be completed yet: the peer will try again.
    fn must_wait(&self, slot: u32) -> bool {
        let connection = self.sockets.get(slot).and_then(|entry| entry.connection());
        match connection.map(|connection| connection.phase) {
            Some(Phase::HalfOpen { listener }) => self.is_full(listener),
            _ => false,
        }
    }

    /// Draws the conclusions from what a segment changed.
    fn note_change(&mut self, slot: u32, before: Snapshot, is_reset: bool, host: &mut dyn Host) {
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        let is_orphan = entry.is_orphan();
        let Some(connection) = entry.connection_mut() else { return };
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
                    State::CloseWait => Errno::EPIPE,
                    _ => Errno::ECONNRESET,
                };
                self.end(slot, is_reset.then_some(error), host);
            }
            // Nobody will ever receive it.
            Phase::Open if is_orphan && connection.channel.socket().can_recv() => {
                self.reset(slot, None, host);
            }
            Phase::Queued { .. } | Phase::Open => {
                if connection.has_news(before) {
                    entry.wake(host);
                }
            }
        }
    }
}
