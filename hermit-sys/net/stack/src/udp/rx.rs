//! RX of datagrams.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;

use super::{DEFAULT_BUFFER, Datagram};
use crate::host::Host;
use crate::inner::StackInner;
use crate::socket::address::{Endpoint, Scope};
use crate::socket::buffers::BufferAccounting;
use crate::socket::{Socket, SocketState};
use crate::wire::packet::Packet;

/// Appends a datagram to a socket's receive queue; drops it without room.
fn deliver(
    socket: &mut Socket,
    from: Endpoint,
    payload: &[u8],
    buffers: &mut BufferAccounting,
    host: &mut dyn Host,
) {
    let limit =
        usize::try_from(socket.settings.receive_buffer.unwrap_or(DEFAULT_BUFFER)).unwrap_or(usize::MAX);
    let cost = Datagram::cost(payload.len());
    let SocketState::Udp(udp_socket) = &mut socket.state else { return };
    if udp_socket.queued + cost > limit || udp_socket.queue.try_reserve(1).is_err() {
        return;
    }
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(payload.len()).is_err() || !buffers.charge(cost) {
        return;
    }
    bytes.extend_from_slice(payload);
    udp_socket.queued += cost;
    udp_socket.queue.push_back(Datagram { from, bytes });
    socket.wake(host);
}

impl StackInner {
    /// Receives a datagram; returns whether a socket matches.
    pub(crate) fn receive_datagram(
        &mut self,
        packet: &Packet<'_>,
        is_checked: bool,
        host: &mut dyn Host,
    ) -> bool {
        let Some(datagram) = packet.udp(is_checked) else { return true };
        let from = Endpoint::new(packet.source, datagram.src_port());
        let to = Endpoint::new(packet.destination, datagram.dst_port());
        self.deliver_to_sockets(from, to, datagram.payload(), host)
    }

    /// Delivers a datagram to the matching sockets; returns whether there is one.
    pub(crate) fn deliver_to_sockets(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        payload: &[u8],
        host: &mut dyn Host,
    ) -> bool {
        self.visit();
        if to.address.is_multicast() || self.ip.routes.is_broadcast(to.address) {
            self.deliver_to_all(from, to, payload, host);
            return true;
        }
        let Some(slot) = self.receiver(from, to) else { return false };
        if let Some(socket) = self.sockets.get_mut(slot) {
            deliver(socket, from, payload, &mut self.buffers, host);
        }
        true
    }

    /// The socket for a datagram: connected ones take precedence, then those bound to the address.
    fn receiver(&self, from: Endpoint, to: Endpoint) -> Option<u32> {
        let bindings = self.udp.bindings(to.port).iter().filter(|binding| binding.scope.contains(to.address));
        let ranked = bindings.filter_map(|binding| {
            let udp_socket =
                self.sockets.get(binding.slot)?.as_udp().filter(|socket| socket.accepts_from(from))?;
            let is_one = matches!(binding.scope, Scope::One(_));
            Some((udp_socket.remote.is_some(), is_one, binding.slot))
        });
        ranked.max().map(|(_, _, slot)| slot)
    }

    /// Delivers a broadcast or multicast datagram to all matching sockets.
    fn deliver_to_all(&mut self, from: Endpoint, to: Endpoint, payload: &[u8], host: &mut dyn Host) {
        let Self { udp, sockets, buffers, .. } = self;
        for binding in udp.bindings(to.port) {
            let Some(socket) = sockets.get_mut(binding.slot) else { continue };
            let accepts_from = socket.as_udp().is_some_and(|udp_socket| udp_socket.accepts_from(from));
            if accepts_from && binding.scope.contains(to.address) {
                deliver(socket, from, payload, buffers, host);
            }
        }
    }

    /// Handles an ICMP error for a datagram: sets the pending error of the connected socket.
    pub(crate) fn refuse_datagram(
        &mut self,
        local: (IpAddr, u16),
        remote: Endpoint,
        error: Errno,
        host: &mut dyn Host,
    ) {
        let to = Endpoint::new(local.0, local.1);
        let Some(slot) = self.receiver(remote, to) else { return };
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        if socket.as_udp().is_some_and(|udp_socket| udp_socket.remote == Some(remote)) {
            socket.error = Some(error);
            socket.wake(host);
        }
    }

    /// Takes the next datagram of a socket. Bytes that the sink does not take are dropped.
    ///
    /// # Errors
    ///
    /// See [`Stack::receive`](crate::Stack::receive).
    pub(crate) fn receive_from_queue(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<(usize, Endpoint), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let family = socket.family;
        let Some(udp_socket) = socket.as_udp_mut() else { return Err(Errno::EBADF) };
        let Some(first) = udp_socket.queue.front() else {
            return if udp_socket.shut_read { Ok((0, Self::nowhere(family))) } else { Err(Errno::EAGAIN) };
        };
        let taken = sink(&first.bytes).min(first.bytes.len());
        let from = first.from;
        if !peek {
            let cost = Datagram::cost(first.bytes.len());
            udp_socket.queue.pop_front();
            udp_socket.queued -= cost;
            self.buffers.refund(cost);
        }
        Ok((taken, from))
    }
}
