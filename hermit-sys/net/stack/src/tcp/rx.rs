//! Segments that arrive: whose they are, and what they change.

use core::net::IpAddr;

use hermit_interface::Errno;
use hermit_tcp::{Events, Flags, Header, Segment, Seq, State};
use smoltcp::wire::{EthernetAddress, IpProtocol};

use crate::address::{Endpoint, Tuple};
use crate::core::{Core, Entry};
use crate::hardware::Offload;
use crate::host::Host;
use crate::link::Link;
use crate::tcp::connection::{Phase, Snapshot};
use crate::tcp::path::Path;
use crate::tcp::time_wait::Verdict;
use crate::wire::emit::{ETHERNET, EthernetHeader, IpHeader};
use crate::wire::packet::Packet;
use crate::wire::tcp::{ChecksumBy, OutgoingSegment, TCP};

/// Where a packet came from, and where an answer to it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// This host itself.
    Local,
    /// A neighbor.
    Wire(EthernetAddress),
}

impl Via {
    /// The path of answers to a packet from an address.
    pub(crate) fn path(self, source: &IpAddr) -> Path {
        Path::to(source, self == Self::Local)
    }
}

/// The RST that answers a segment of no connection (RFC 9293 §3.10.7.1); `None`: it is one itself.
fn reset_for(segment: &Segment<'_>) -> Option<Header> {
    let Header { seq, ack, flags, .. } = segment.header;
    if flags.contains(Flags::RST) {
        None
    } else if flags.contains(Flags::ACK) {
        Some(Header { seq: ack, flags: Flags::RST, ..Header::default() })
    } else {
        Some(Header { ack: seq + segment.size(), flags: Flags::RST | Flags::ACK, ..Header::default() })
    }
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
        let Some(received) = packet.tcp(is_checked) else { return };
        let segment = &received.segment;
        let local = Endpoint::new(packet.destination, received.destination_port);
        let tuple = Tuple { local, remote: Endpoint::new(packet.source, received.source_port) };
        let control = segment.header.flags & (Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN);
        let listener = if control == Flags::SYN { self.find_listener(&tuple) } else { None };
        if listener.is_some() {
            self.end_before(&tuple, segment.header.seq, host);
        }
        if let Some(&slot) = self.tcp.connections.get(&tuple) {
            return self.receive_for(slot, segment, via, host);
        }
        match self.tcp.time_wait.judge(&tuple, &segment.header, segment.size(), self.now) {
            Some(Verdict::Answer(answer)) => return self.answer_segment(tuple, &answer, via),
            Some(Verdict::Ignore) => return,
            Some(Verdict::Begin | Verdict::Forget) => self.forget(&tuple),
            None => (),
        }
        match listener {
            Some(listener) => self.receive_syn(listener, packet, (segment, tuple), via, host),
            None => self.refuse(tuple, segment, via),
        }
    }

    /// Ends a connection whose peer begins another one with a SYN of this number, if the old one can lose nothing.
    fn end_before(&mut self, tuple: &Tuple, syn: Seq, host: &mut dyn Host) {
        let Some(&slot) = self.tcp.connections.get(tuple) else { return };
        let Some(entry) = self.sockets.get(slot) else { return };
        if entry.connection().is_some_and(|connection| connection.may_end_before(syn, entry.is_orphan())) {
            self.end(slot, None, host);
        }
    }

    /// Forgets a connection in TIME-WAIT.
    pub(crate) fn forget(&mut self, tuple: &Tuple) {
        if let Some(record) = self.tcp.time_wait.remove(tuple) {
            self.tcp.ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Forgets connections whose TIME-WAIT is over.
    pub(crate) fn forget_old(&mut self) {
        while let Some((tuple, record)) = self.tcp.time_wait.expire(self.now) {
            self.tcp.ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Resets a peer whose segment belongs to no connection.
    pub(crate) fn refuse(&mut self, tuple: Tuple, segment: &Segment<'_>, via: Via) {
        if let Some(header) = reset_for(segment) {
            self.answer_segment(tuple, &header, via);
        }
    }

    /// Sends a segment without data that belongs to no connection, the way back from which another one came.
    fn answer_segment(&mut self, tuple: Tuple, header: &Header, via: Via) {
        let ip = IpHeader {
            source: tuple.local.address,
            destination: tuple.remote.address,
            protocol: IpProtocol::Tcp,
            size: TCP + header.options.size(),
            hop_limit: 64,
            class: 0,
        };
        let (queue, ethernet, checksum) = match (via, self.port) {
            (Via::Local, _) => (&mut self.local, None, ChecksumBy::Nobody),
            (Via::Wire(destination), Some(port)) => {
                let protocol = EthernetHeader::protocol(&ip.destination);
                let ethernet = EthernetHeader { source: port.mac, destination, protocol };
                (&mut self.outbox, Some(ethernet), ChecksumBy::Software)
            }
            (Via::Wire(_), None) => return,
        };
        let (ports, identification) = ((tuple.local.port, tuple.remote.port), None);
        let answer = OutgoingSegment { ethernet, ip, ports, header, checksum, identification };
        let size = ethernet.map_or(0, |_| ETHERNET) + ip.size() + ip.size;
        if queue.can_transmit(size) {
            queue.transmit(size, Offload::default(), &mut |bytes| answer.write(bytes, [[0; 0]; 0]));
        }
    }

    /// Takes a segment for a connection.
    pub(crate) fn receive_for(&mut self, slot: u32, segment: &Segment<'_>, via: Via, host: &mut dyn Host) {
        self.visit();
        if self.must_wait(slot) && !segment.header.flags.contains(Flags::RST) {
            return;
        }
        let Self { sockets, budget, now, .. } = self;
        let Some(connection) = sockets.get_mut(slot).and_then(Entry::connection_mut) else { return };
        if connection.tcp.is_answered_by_reset(&segment.header) {
            if !core::mem::replace(&mut connection.has_repeated_syn, true) {
                connection.tcp.repeat_syn(*now);
            }
            let tuple = connection.tuple;
            self.refuse(tuple, segment, via);
            return self.mark(slot);
        }
        let before = connection.snapshot();
        let events = connection.tcp.receive(segment, budget.pool(), *now);
        let (is_settled, deadline) = (connection.is_settled(before, *now), connection.tcp.deadline());
        if is_settled {
            self.schedule(slot, deadline);
        } else {
            self.mark(slot);
        }
        self.note_change(slot, before, events, host);
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
    fn note_change(&mut self, slot: u32, before: Snapshot, events: Events, host: &mut dyn Host) {
        let is_closed = events.contains(Events::CLOSED);
        let Self { sockets, budget, now, .. } = self;
        let Some(entry) = sockets.get_mut(slot) else { return };
        let is_orphan = entry.is_orphan();
        let Some(connection) = entry.connection_mut() else { return };
        match connection.phase {
            Phase::HalfOpen { .. } if is_closed => self.discard(slot),
            Phase::HalfOpen { listener } if events.contains(Events::ESTABLISHED) => {
                self.complete(slot, listener, host);
            }
            Phase::HalfOpen { .. } => (),
            Phase::Connecting if is_closed => self.end(slot, Some(Errno::ECONNREFUSED), host),
            Phase::Connecting if events.contains(Events::ESTABLISHED) => {
                connection.phase = Phase::Open;
                entry.wake(host);
            }
            Phase::Connecting => (),
            Phase::Queued { .. } | Phase::Open if is_closed => {
                let is_half_closed = before.state == State::CloseWait && !connection.shut_write;
                let error = if is_half_closed { Errno::EPIPE } else { Errno::ECONNRESET };
                let error = connection.tcp.failure().map(|_| error);
                self.end(slot, error, host);
            }
            // Nobody will ever read it.
            Phase::Open if is_orphan && connection.tcp.readable() > 0 => self.reset(slot, None, host),
            Phase::Open if connection.is_in_vain(before) => {
                // What came before can still be read.
                if before.readable == 0 {
                    connection.tcp.read(false, &mut |bytes| bytes.len(), budget.pool(), *now);
                }
                self.reset(slot, Some(Errno::ECONNRESET), host);
            }
            Phase::Queued { .. } | Phase::Open => {
                if connection.has_news(before, events) {
                    entry.wake(host);
                }
            }
        }
    }
}
