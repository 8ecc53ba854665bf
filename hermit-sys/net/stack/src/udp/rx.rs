//! RX of datagrams.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::socket::address::{Endpoint, Scope, unspecified};
use crate::socket::buffers::BufferAccounting;
use crate::socket::context::Context;
use crate::udp::layer::{DEFAULT_BUFFER, Datagram, Udp};
use crate::wire::packet::Packet;

impl Udp {
    /// Receives a datagram. Returns false if no socket matches, and an ICMP error should answer the datagram.
    pub(crate) fn receive(
        &mut self,
        packet: &Packet<'_>,
        is_checked: bool,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(datagram) = packet.udp(is_checked) else { return true };
        let from = Endpoint::new(packet.source, datagram.src_port());
        let to = Endpoint::new(packet.destination, datagram.dst_port());
        self.deliver_to_sockets(from, to, datagram.payload(), context)
    }

    /// Delivers a datagram to the matching sockets. Returns false if no socket matches, so that an error is
    /// sent. Returns true for each broadcast or multicast datagram, because no error answers them.
    pub(super) fn deliver_to_sockets(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        payload: &[u8],
        context: &mut Context<'_>,
    ) -> bool {
        self.visit();
        if to.address.is_multicast() || context.ip.routes.is_broadcast(to.address) {
            self.deliver_to_all(from, to, payload, context.buffers);
            return true;
        }
        let Some(slot) = self.receiver(from, to) else { return false };
        self.deliver(slot, from, payload, context.buffers);
        true
    }

    /// Appends a datagram to a socket's receive queue; drops it if there is no room.
    fn deliver(&mut self, slot: u32, from: Endpoint, payload: &[u8], buffers: &mut BufferAccounting) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        let limit =
            usize::try_from(socket.settings.receive_buffer.unwrap_or(DEFAULT_BUFFER)).unwrap_or(usize::MAX);
        let cost = Datagram::cost(payload.len());
        let state = &mut socket.state;
        if state.queued + cost > limit || state.queue.try_reserve(1).is_err() {
            return;
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(payload.len()).is_err() || !buffers.charge(cost) {
            return;
        }
        bytes.extend_from_slice(payload);
        state.queued += cost;
        state.queue.push_back(Datagram { from, bytes });
        self.sockets.wake(slot);
    }

    /// Returns the socket for a datagram. Connected sockets take precedence, then sockets bound to the
    /// address.
    fn receiver(&self, from: Endpoint, to: Endpoint) -> Option<u32> {
        let bindings = self.ports.bindings(to.port).iter();
        let ranked = bindings.filter(|binding| binding.scope.contains(to.address)).filter_map(|binding| {
            let state =
                &self.sockets.get(binding.slot).filter(|socket| socket.state.accepts_from(from))?.state;
            let is_one = matches!(binding.scope, Scope::One(_));
            Some((state.remote.is_some(), is_one, binding.slot))
        });
        ranked.max().map(|(_, _, slot)| slot)
    }

    /// Delivers a broadcast or multicast datagram to all matching sockets.
    fn deliver_to_all(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        payload: &[u8],
        buffers: &mut BufferAccounting,
    ) {
        for index in 0.. {
            let Some(binding) = self.ports.bindings(to.port).get(index).copied() else { return };
            let socket = self.sockets.get(binding.slot);
            let accepts_from = socket.is_some_and(|socket| socket.state.accepts_from(from));
            if accepts_from && binding.scope.contains(to.address) {
                self.deliver(binding.slot, from, payload, buffers);
            }
        }
    }

    /// Handles an ICMP error about a datagram: sets the pending error of the connected socket.
    pub(crate) fn refuse(&mut self, local: Endpoint, remote: Endpoint, error: Errno) {
        let Some(slot) = self.receiver(remote, local) else { return };
        let socket = self.sockets.get_mut(slot).filter(|socket| socket.state.remote == Some(remote));
        if let Some(socket) = socket {
            socket.error = Some(error);
            self.sockets.wake(slot);
        }
    }

    /// Takes the next datagram of a socket. Bytes that the sink does not take are dropped.
    ///
    /// # Errors
    ///
    /// See [`Stack::receive`](crate::Stack::receive).
    pub(crate) fn take(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
        buffers: &mut BufferAccounting,
    ) -> Result<(usize, Endpoint), Errno> {
        let socket = self.socket(slot)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let state = &mut socket.state;
        let Some(first) = state.queue.front() else {
            let nowhere = Endpoint::new(unspecified(socket.family), 0);
            return if state.shut_read { Ok((0, nowhere)) } else { Err(Errno::EAGAIN) };
        };
        let taken = sink(&first.bytes).min(first.bytes.len());
        let from = first.from;
        if !peek {
            let cost = Datagram::cost(first.bytes.len());
            state.queue.pop_front();
            state.queued -= cost;
            buffers.refund(cost);
        }
        Ok((taken, from))
    }
}
