//! RX of segments: lookup of the connection, and the effects on its socket.

use hermit_interface::Errno;
use hermit_tcp::{Events, Flags, Header, Segment, Seq, State};
use smoltcp::wire::IpProtocol;

use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::ingress::Via;
use crate::phy::device::Offload;
use crate::phy::tx_queue::Link;
use crate::socket::Socket;
use crate::socket::address::{Endpoint, Tuple};
use crate::tcp::connection::{Phase, Snapshot};
use crate::tcp::time_wait::Verdict;
use crate::wire::emit::{ETHERNET, EthernetHeader, IpHeader};
use crate::wire::packet::Packet;
use crate::wire::tcp::{ChecksumBy, OutgoingSegment, TCP};

/// The RST that answers a segment without connection (RFC 9293 §3.10.7.1); `None` if that is a RST itself.
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

impl StackInner {
    /// Receives a segment.
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
            Some(Verdict::Begin | Verdict::Forget) => self.remove_time_wait(&tuple),
            None => (),
        }
        match listener {
            Some(listener) => self.receive_syn(listener, packet, (segment, tuple), via, host),
            None => self.refuse(tuple, segment, via),
        }
    }

    /// Ends a connection that a SYN of this number replaces, if [`may_end_before`](Connection::may_end_before) allows
    /// it.
    fn end_before(&mut self, tuple: &Tuple, syn: Seq, host: &mut dyn Host) {
        let Some(&slot) = self.tcp.connections.get(tuple) else { return };
        let Some(socket) = self.sockets.get(slot) else { return };
        if socket.connection().is_some_and(|connection| connection.may_end_before(syn, socket.is_orphan())) {
            self.end(slot, None, host);
        }
    }

    /// Removes a connection in TIME-WAIT.
    pub(crate) fn remove_time_wait(&mut self, tuple: &Tuple) {
        if let Some(record) = self.tcp.time_wait.remove(tuple) {
            self.tcp.ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Removes connections whose TIME-WAIT has expired.
    pub(crate) fn expire_time_wait(&mut self) {
        while let Some((tuple, record)) = self.tcp.time_wait.expire(self.now) {
            self.tcp.ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Answers a segment without connection with a RST.
    pub(crate) fn refuse(&mut self, tuple: Tuple, segment: &Segment<'_>, via: Via) {
        if let Some(header) = reset_for(segment) {
            self.answer_segment(tuple, &header, via);
        }
    }

    /// Sends a segment without data and without connection, in answer to a received one.
    fn answer_segment(&mut self, tuple: Tuple, header: &Header, via: Via) {
        let ip = IpHeader {
            source: tuple.local.address,
            destination: tuple.remote.address,
            protocol: IpProtocol::Tcp,
            size: TCP + header.options.size(),
            hop_limit: 64,
            class: 0,
        };
        let (queue, ethernet, checksum) = match (via, self.phy.interface) {
            (Via::Local, _) => (&mut self.phy.loopback, None, ChecksumBy::None),
            (Via::Wire(destination), Some(port)) => {
                let protocol = EthernetHeader::protocol(&ip.destination);
                let ethernet = EthernetHeader { source: port.mac, destination, protocol };
                (&mut self.phy.outbox, Some(ethernet), ChecksumBy::Software)
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

    /// Receives a segment of a connection.
    pub(crate) fn receive_for(&mut self, slot: u32, segment: &Segment<'_>, via: Via, host: &mut dyn Host) {
        self.visit();
        if self.drops_final_ack(slot) && !segment.header.flags.contains(Flags::RST) {
            return;
        }
        let Self { sockets, buffers, now, .. } = self;
        let Some(connection) = sockets.get_mut(slot).and_then(Socket::connection_mut) else { return };
        if connection.tcp.is_answered_by_reset(&segment.header) {
            if !core::mem::replace(&mut connection.has_repeated_syn, true) {
                connection.tcp.repeat_syn(*now);
            }
            let tuple = connection.tuple;
            self.refuse(tuple, segment, via);
            return self.mark(slot);
        }
        let before = connection.snapshot();
        let events = connection.tcp.receive(segment, buffers.pool(), *now);
        let (is_settled, deadline) = (connection.is_settled(before, *now), connection.tcp.deadline());
        if is_settled {
            self.schedule(slot, deadline);
        } else {
            self.mark(slot);
        }
        self.handle_change(slot, before, events, host);
    }

    /// Whether the final ACK of a handshake is dropped; the SYN-ACK is retransmitted later.
    fn drops_final_ack(&self, slot: u32) -> bool {
        let connection = self.sockets.get(slot).and_then(|socket| socket.connection());
        match connection.map(|connection| connection.phase) {
            Some(Phase::HalfOpen { listener }) => self.drops_final_ack_of(listener),
            _ => false,
        }
    }

    /// Handles the changes that a segment has caused.
    fn handle_change(&mut self, slot: u32, before: Snapshot, events: Events, host: &mut dyn Host) {
        let is_closed = events.contains(Events::CLOSED);
        let Self { sockets, buffers, now, .. } = self;
        let Some(socket) = sockets.get_mut(slot) else { return };
        let is_orphan = socket.is_orphan();
        let Some(connection) = socket.connection_mut() else { return };
        match connection.phase {
            Phase::HalfOpen { .. } if is_closed => self.discard(slot),
            Phase::HalfOpen { listener } if events.contains(Events::ESTABLISHED) => {
                self.complete(slot, listener, host);
            }
            Phase::HalfOpen { .. } => (),
            Phase::Connecting if is_closed => self.end(slot, Some(Errno::ECONNREFUSED), host),
            Phase::Connecting if events.contains(Events::ESTABLISHED) => {
                connection.phase = Phase::Open;
                socket.wake(host);
            }
            Phase::Connecting => (),
            Phase::Queued { .. } | Phase::Open if is_closed => {
                let is_half_closed = before.state == State::CloseWait && !connection.shut_write;
                let error = if is_half_closed { Errno::EPIPE } else { Errno::ECONNRESET };
                let error = connection.tcp.failure().map(|_| error);
                self.end(slot, error, host);
            }
            // The received data cannot be read any more.
            Phase::Open if is_orphan && connection.tcp.readable() > 0 => self.reset(slot, None, host),
            Phase::Open if connection.is_received_after_shutdown(before) => {
                // Data received before can still be read.
                if before.readable == 0 {
                    connection.tcp.read(false, &mut |bytes| bytes.len(), buffers.pool(), *now);
                }
                self.reset(slot, Some(Errno::ECONNRESET), host);
            }
            Phase::Queued { .. } | Phase::Open => {
                if connection.has_news(before, events) {
                    socket.wake(host);
                }
            }
        }
    }
}
