//! Datagrams that arrive.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;

use super::{DEFAULT_BUFFER, Datagram};
use crate::address::{Endpoint, Scope};
use crate::budget::Budget;
use crate::core::{Body, Core, Entry};
use crate::host::Host;
use crate::wire::packet::Packet;

/// Puts a datagram into a socket's queue; without room, it is lost.
fn deliver(entry: &mut Entry, from: Endpoint, payload: &[u8], budget: &mut Budget, host: &mut dyn Host) {
    let limit =
        usize::try_from(entry.settings.receive_buffer.unwrap_or(DEFAULT_BUFFER)).unwrap_or(usize::MAX);
    let cost = Datagram::cost(payload.len());
    let Body::Datagrams(datagrams) = &mut entry.body else { return };
    if datagrams.queued + cost > limit || datagrams.queue.try_reserve(1).is_err() {
        return;
    }
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(payload.len()).is_err() || !budget.charge(cost) {
        return;
    }
    bytes.extend_from_slice(payload);
    datagrams.queued += cost;
    datagrams.queue.push_back(Datagram { from, bytes });
    entry.wake(host);
}

impl Core {
    /// Takes a datagram; returns whether there was anybody to receive it.
    pub(crate) fn receive_datagram(
        &mut self,
        packet: &Packet<'_>,
        is_checked: bool,
        host: &mut dyn Host,
    ) -> bool {
        let Some(datagram) = packet.udp(is_checked) else { return true };
        let from = Endpoint::new(packet.source, datagram.src_port());
        let to = Endpoint::new(packet.destination, datagram.dst_port());
        self.hand_over(from, to, datagram.payload(), host)
    }

    /// Hands a datagram to whom it is for; returns whether there was anybody.
    pub(crate) fn hand_over(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        payload: &[u8],
        host: &mut dyn Host,
    ) -> bool {
        self.visit();
        if to.address.is_multicast() || self.network.is_broadcast(to.address) {
            self.hand_to_many(from, to, payload, host);
            return true;
        }
        let Some(slot) = self.receiver(from, to) else { return false };
        if let Some(entry) = self.sockets.get_mut(slot) {
            deliver(entry, from, payload, &mut self.budget, host);
        }
        true
    }

    /// The socket for a datagram: one with that peer goes before others, one with that address before one for all.
    fn receiver(&self, from: Endpoint, to: Endpoint) -> Option<u32> {
        let bindings = self.udp.bindings(to.port).iter().filter(|binding| binding.scope.contains(to.address));
        let ranked = bindings.filter_map(|binding| {
            let datagrams =
                self.sockets.get(binding.slot)?.datagrams().filter(|socket| socket.hears(from))?;
            let is_one = matches!(binding.scope, Scope::One(_));
            Some((datagrams.remote.is_some(), is_one, binding.slot))
        });
        ranked.max().map(|(_, _, slot)| slot)
    }

    /// Hands a datagram to everybody at a port.
    fn hand_to_many(&mut self, from: Endpoint, to: Endpoint, payload: &[u8], host: &mut dyn Host) {
        let Self { udp, sockets, budget, .. } = self;
        for binding in udp.bindings(to.port) {
            let Some(entry) = sockets.get_mut(binding.slot) else { continue };
            let hears = entry.datagrams().is_some_and(|datagrams| datagrams.hears(from));
            if hears && binding.scope.contains(to.address) {
                deliver(entry, from, payload, budget, host);
            }
        }
    }

    /// A peer says that nobody receives what a socket sends to it.
    pub(crate) fn refuse_datagram(
        &mut self,
        local: (IpAddr, u16),
        remote: Endpoint,
        error: Errno,
        host: &mut dyn Host,
    ) {
        let to = Endpoint::new(local.0, local.1);
        let Some(slot) = self.receiver(remote, to) else { return };
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        if entry.datagrams().is_some_and(|datagrams| datagrams.remote == Some(remote)) {
            entry.error = Some(error);
            entry.wake(host);
        }
    }

    /// Gives the next datagram of a socket away. What is not taken of it is lost.
    ///
    /// # Errors
    ///
    /// See [`Stack::receive`](crate::Stack::receive).
    pub(crate) fn take_datagram(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<(usize, Endpoint), Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if let Some(error) = entry.error.take() {
            return Err(error);
        }
        let family = entry.family;
        let Some(datagrams) = entry.datagrams_mut() else { return Err(Errno::EBADF) };
        let Some(first) = datagrams.queue.front() else {
            return if datagrams.shut_read { Ok((0, Self::nowhere(family))) } else { Err(Errno::EAGAIN) };
        };
        let taken = sink(&first.bytes).min(first.bytes.len());
        let from = first.from;
        if !peek {
            let cost = Datagram::cost(first.bytes.len());
            datagrams.queue.pop_front();
            datagrams.queued -= cost;
            self.budget.refund(cost);
        }
        Ok((taken, from))
    }
}
