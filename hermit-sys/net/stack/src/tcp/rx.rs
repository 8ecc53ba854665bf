//! RX of segments: lookup of the connection, and the effects on its socket.
//!
//! The addresses and ports of a segment identify its connection. Without a connection, it may be a segment of
//! a connection in TIME-WAIT, a SYN for a listener, or the acknowledgement of a SYN cookie. Otherwise it is
//! answered with a RST. After the state machine of the connection has received a segment, `handle_change`
//! compares the states and updates the socket. It wakes waiters, moves the connection to the accept queue, or
//! ends it with an error.

use hermit_interface::Errno;
use hermit_tcp::{Events, Flags, Header, Pool, Segment, Seq, State};
use smoltcp::wire::{EthernetAddress, IpProtocol};

use crate::ip::delivery::Via;
use crate::phy::Phy;
use crate::socket::address::{Endpoint, Tuple};
use crate::socket::context::Context;
use crate::socket::ports::Ports;
use crate::socket::table::Socket;
use crate::tcp::connection::{Phase, Snapshot};
use crate::tcp::layer::Tcp;
use crate::tcp::shard::Shard;
use crate::tcp::time_wait::Verdict;
use crate::wire::emit::{ETHERNET, EthernetHeader, IpHeader};
use crate::wire::packet::Packet;
use crate::wire::tcp::{ChecksumBy, OutgoingSegment, TCP};

/// Returns the RST that answers a segment without a connection (RFC 9293 §3.10.7.1); `None` if the segment is
/// a RST itself.
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

impl Tcp {
    /// Receives a segment from the device.
    pub(crate) fn receive(
        &mut self,
        packet: &Packet<'_>,
        via: Via,
        is_checked: bool,
        context: &mut Context<'_>,
    ) {
        let Some(received) = packet.tcp(is_checked) else { return };
        let local = Endpoint::new(packet.destination, received.destination_port);
        let tuple = Tuple { local, remote: Endpoint::new(packet.source, received.source_port) };
        self.of_tuple(&tuple).receive_segment(&received.segment, tuple, via, context);
    }
}

impl Shard {
    /// Receives the first segment of the loopback; `false` if the queue is empty.
    pub(crate) fn receive_local(&mut self, context: &mut Context<'_>) -> bool {
        let Some(segment) = self.loopback.pop() else { return false };
        self.receive_segment(&segment.segment(), segment.receiver(), Via::Local, context);
        self.loopback.recycle(segment);
        true
    }

    /// Receives a segment with or without a connection or listener.
    pub(super) fn receive_segment(
        &mut self,
        segment: &Segment<'_>,
        tuple: Tuple,
        via: Via,
        context: &mut Context<'_>,
    ) {
        let control = segment.header.flags & (Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN);
        let listener =
            if control == Flags::SYN { self.find_listener(&tuple, context.tcp_ports) } else { None };
        // The SYN may replace a connection that is about to end.
        if listener.is_some() {
            self.end_before(&tuple, segment.header.seq, context);
        }
        if let Some(&slot) = self.connections.get(&tuple) {
            return self.receive_for(slot, segment, via, context);
        }
        match self.time_wait.judge(&tuple, &segment.header, segment.size(), context.now) {
            Some(Verdict::Answer(answer)) => return self.answer(tuple, &answer, via, context.phy),
            Some(Verdict::Ignore) => return,
            Some(Verdict::Begin | Verdict::Forget) => self.remove_time_wait(&tuple, context),
            None => (),
        }
        match listener {
            Some(listener) => self.receive_syn(listener, (segment, tuple), via, context),
            None if self.receive_cookie((segment, tuple), via, context) => (),
            None => self.refuse(tuple, segment, via, context.phy),
        }
    }

    /// Ends a connection, so that a SYN of this number can replace it, if
    /// [`may_end_before`](Connection::may_end_before) allows it.
    fn end_before(&mut self, tuple: &Tuple, syn: Seq, context: &mut Context<'_>) {
        let Some(&slot) = self.connections.get(tuple) else { return };
        let Some(socket) = self.sockets.get(slot) else { return };
        if socket.connection().is_some_and(|connection| connection.may_end_before(syn, socket.is_orphan())) {
            self.end(slot, None, context);
        }
    }

    /// Removes a connection in TIME-WAIT.
    pub(crate) fn remove_time_wait(&mut self, tuple: &Tuple, context: &mut Context<'_>) {
        if let Some(record) = self.time_wait.remove(tuple, context.buffers.pool()) {
            context.tcp_ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Removes connections whose TIME-WAIT has expired.
    pub(super) fn expire_time_wait(&mut self, ports: &mut Ports, pool: &mut Pool, now: u64) {
        while let Some((tuple, record)) = self.time_wait.expire(pool, now) {
            ports.disconnected(tuple.local.port, record.reuse);
        }
    }

    /// Receives a segment of a connection.
    pub(crate) fn receive_for(
        &mut self,
        slot: u32,
        segment: &Segment<'_>,
        via: Via,
        context: &mut Context<'_>,
    ) {
        self.visit();
        if self.drops_final_ack(slot) && !segment.header.flags.contains(Flags::RST) {
            return;
        }
        let Some(connection) = self.sockets.get_mut(slot).and_then(Socket::connection_mut) else { return };
        if connection.tcp.is_answered_by_reset(&segment.header) {
            // The peer has an earlier connection with these ports. After the reset it accepts a new SYN.
            if !core::mem::replace(&mut connection.has_repeated_syn, true) {
                connection.tcp.repeat_syn(context.now);
            }
            let tuple = connection.tuple;
            self.refuse(tuple, segment, via, context.phy);
            return self.mark(slot);
        }
        let before = connection.snapshot();
        let events = connection.tcp.receive(segment, context.buffers.pool(), context.now);
        let (is_settled, deadline) = (connection.is_settled(before, context.now), connection.tcp.deadline());
        if is_settled {
            self.schedule(slot, deadline, context.now);
        } else {
            self.mark(slot);
        }
        self.handle_change(slot, before, events, context);
    }

    /// True if the final ACK of a handshake is dropped. The SYN-ACK is retransmitted later.
    fn drops_final_ack(&self, slot: u32) -> bool {
        let connection = self.sockets.get(slot).and_then(|socket| socket.connection());
        match connection.map(|connection| connection.phase) {
            Some(Phase::HalfOpen { listener }) => self.drops_final_ack_of(listener),
            _ => false,
        }
    }

    /// Updates the socket of a connection after a segment.
    fn handle_change(&mut self, slot: u32, before: Snapshot, events: Events, context: &mut Context<'_>) {
        let is_closed = events.contains(Events::CLOSED);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        let is_orphan = socket.is_orphan();
        let Some(connection) = socket.connection_mut() else { return };
        match connection.phase {
            Phase::HalfOpen { .. } if is_closed => self.discard(slot, context),
            Phase::HalfOpen { listener } if events.contains(Events::ESTABLISHED) => {
                self.complete(slot, listener, context);
            }
            Phase::HalfOpen { .. } => (),
            Phase::Connecting if is_closed => self.end(slot, Some(Errno::ECONNREFUSED), context),
            Phase::Connecting if events.contains(Events::ESTABLISHED) => {
                connection.phase = Phase::Open;
                self.sockets.wake(slot);
            }
            Phase::Connecting => (),
            Phase::Queued { .. } | Phase::Open if is_closed => {
                let is_half_closed = before.state == State::CloseWait && !connection.shut_write;
                let error = if is_half_closed { Errno::EPIPE } else { Errno::ECONNRESET };
                let error = connection.tcp.failure().map(|_| error);
                self.end(slot, error, context);
            }
            // The socket is closed: the received data cannot be read any more.
            Phase::Open if is_orphan && connection.tcp.readable() > 0 => {
                self.reset(slot, None, context);
            }
            Phase::Open if connection.is_received_after_shutdown(before) => {
                // Discards the new data, unless earlier data is unread, which the program can still read.
                if before.readable == 0 {
                    connection.tcp.read(false, &mut |bytes| bytes.len(), context.buffers.pool(), context.now);
                }
                self.reset(slot, Some(Errno::ECONNRESET), context);
            }
            Phase::Queued { .. } | Phase::Open => {
                if connection.has_news(before, events) {
                    self.sockets.wake(slot);
                }
            }
        }
    }

    /// Answers a segment without a connection with a RST.
    pub(super) fn refuse(&mut self, tuple: Tuple, segment: &Segment<'_>, via: Via, phy: &mut Phy) {
        if let Some(header) = reset_for(segment) {
            self.answer(tuple, &header, via, phy);
        }
    }

    /// Answers a received segment with a segment that has no data and no connection. Drops the answer if
    /// there is no room.
    pub(super) fn answer(&mut self, tuple: Tuple, header: &Header, via: Via, phy: &mut Phy) {
        match via {
            Via::Wire(destination) => answer_on_wire(tuple, header, destination, phy),
            Via::Local if self.loopback.reserve(0) => self.loopback.push(tuple, header, [[0; 0]; 0]),
            Via::Local => (),
        }
    }
}

fn answer_on_wire(tuple: Tuple, header: &Header, destination: EthernetAddress, phy: &mut Phy) {
    let Some(interface) = phy.interface else { return };
    let ip = IpHeader {
        source: tuple.local.address,
        destination: tuple.remote.address,
        protocol: IpProtocol::Tcp,
        size: TCP + header.options.size(),
        hop_limit: 64,
        class: 0,
    };
    let protocol = EthernetHeader::protocol(&ip.destination);
    let answer = OutgoingSegment {
        ethernet: EthernetHeader { source: interface.mac, destination, protocol },
        ip,
        ports: (tuple.local.port, tuple.remote.port),
        header,
        checksum: ChecksumBy::Software,
        identification: None,
    };
    phy.post(ETHERNET + ip.size() + ip.size, |bytes| answer.write(bytes, [[0; 0]; 0]));
}
