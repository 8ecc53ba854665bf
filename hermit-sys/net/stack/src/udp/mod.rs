//! UDP sockets.
//!
//! smoltcp's UDP sockets are not used: they have buffers of fixed size. These hold only received datagrams.

pub(crate) mod groups;
mod rx;
mod tx;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use hermit_interface::Errno;

use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::groups::Membership;
use crate::socket::address::{Endpoint, Scope};
use crate::socket::{Readiness, Shutdown, Socket, SocketState};
use crate::tcp::connect::or_loopback;

/// Default size in bytes of a receive queue: Linux's `rmem_default`.
pub(crate) const DEFAULT_BUFFER: u32 = 212_992;

/// A datagram in the receive queue.
#[derive(Debug)]
struct Datagram {
    from: Endpoint,
    bytes: Vec<u8>,
}

impl Datagram {
    /// Cost of a datagram in the receive queue in bytes, with overhead, about as in Linux.
    fn cost(size: usize) -> usize {
        size.next_multiple_of(512) + 256
    }
}

/// A UDP socket.
#[derive(Debug, Default)]
pub(crate) struct UdpSocket {
    /// Peer of a connected socket.
    pub(crate) remote: Option<Endpoint>,
    /// Local address towards that peer.
    source: Option<IpAddr>,
    queue: VecDeque<Datagram>,
    /// Total cost of the datagrams in the queue, in bytes.
    queued: usize,
    shut_read: bool,
    shut_write: bool,
    /// Whether the socket waits for room in the transmit queue.
    pub(crate) is_blocked: bool,
    pub(crate) groups: Vec<Membership>,
}

impl UdpSocket {
    /// Whether the socket receives datagrams from an endpoint. A peer with port 0 matches all ports of its address.
    fn accepts_from(&self, from: Endpoint) -> bool {
        self.remote.is_none_or(|remote| {
            remote.address == from.address && (remote.port == from.port || remote.port == 0)
        })
    }

    /// Peer of a connected socket, unless its port is 0.
    pub(crate) fn peer(&self) -> Option<Endpoint> {
        self.remote.filter(|remote| remote.port != 0)
    }

    pub(crate) fn readiness(&self, has_error: bool) -> Readiness {
        Readiness {
            read: self.shut_read || !self.queue.is_empty(),
            write: !self.is_blocked,
            hang_up: self.shut_read && self.shut_write,
            read_hang_up: self.shut_read,
            error: has_error,
        }
    }
}

impl Socket {
    /// The UDP state, mutable, if it is a UDP socket.
    pub(crate) const fn as_udp_mut(&mut self) -> Option<&mut UdpSocket> {
        if let SocketState::Udp(udp_socket) = &mut self.state { Some(udp_socket) } else { None }
    }

    /// The UDP state, if it is a UDP socket.
    pub(crate) const fn as_udp(&self) -> Option<&UdpSocket> {
        if let SocketState::Udp(udp_socket) = &self.state { Some(udp_socket) } else { None }
    }
}

impl StackInner {
    /// Binds a UDP socket.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(crate) fn bind_udp(&mut self, slot: u32, local: Endpoint, host: &mut dyn Host) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        if socket.is_bound() {
            return Err(Errno::EINVAL);
        }
        let is_for_many = local.address.is_multicast() || self.ip.routes.is_broadcast(local.address);
        if !is_for_many {
            self.check_own(socket.family, &socket.settings, local.address)?;
        }
        self.take_address(slot, local, host)
    }

    /// Binds a socket to an ephemeral port if it is not bound.
    fn bind_ephemeral(&mut self, slot: u32, host: &mut dyn Host) -> Result<Endpoint, Errno> {
        let Some(socket) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        let own = socket.own;
        if !socket.is_bound() {
            self.bind_udp(slot, own, host)?;
        }
        self.sockets.get(slot).map(|socket| socket.own).ok_or(Errno::EBADF)
    }

    /// Connects a UDP socket to a peer.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, `EACCES`, `EINVAL`, `EADDRINUSE`.
    pub(crate) fn connect_udp(
        &mut self,
        slot: u32,
        remote: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        let remote = Endpoint::new(or_loopback(remote.address), remote.port);
        let Some(socket) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        let (family, settings, own) = (socket.family, socket.settings, socket.own);
        let (source, _) = self.route_datagram(&settings, own.address, remote.address)?;
        let own = self.bind_ephemeral(slot, host)?;
        let scope = if own.address.is_unspecified() {
            Scope::One(source)
        } else {
            Scope::new(own.address, family, settings.only_v6)
        };
        self.udp.update(own.port, slot, |binding| binding.scope = scope);
        if let Some(udp_socket) = self.sockets.get_mut(slot).and_then(Socket::as_udp_mut) {
            udp_socket.remote = Some(remote);
            udp_socket.source = Some(source);
        }
        Ok(())
    }

    /// Disconnects a UDP socket.
    pub(crate) fn disconnect_udp(&mut self, slot: u32) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        let (own, scope) = (socket.own, socket.scope());
        if let Some(udp_socket) = socket.as_udp_mut() {
            udp_socket.remote = None;
            udp_socket.source = None;
        }
        self.udp.update(own.port, slot, |binding| binding.scope = scope);
        self.release_port(slot);
    }

    /// Shuts down one or both directions of a UDP socket.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shut_udp(&mut self, slot: u32, how: Shutdown, host: &mut dyn Host) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let Some(udp_socket) = socket.as_udp_mut() else { return Err(Errno::EBADF) };
        if udp_socket.remote.is_none() {
            return Err(Errno::ENOTCONN);
        }
        udp_socket.shut_read |= how.reads();
        udp_socket.shut_write |= how.writes();
        socket.wake(host);
        Ok(())
    }

    /// Closes a UDP socket.
    pub(crate) fn close_udp(&mut self, slot: u32) {
        let Some(udp_socket) = self.sockets.get_mut(slot).and_then(Socket::as_udp_mut) else { return };
        self.buffers.refund(udp_socket.queued);
        let groups = core::mem::take(&mut udp_socket.groups);
        for membership in groups {
            self.ip.uncount_member(membership, self.now);
        }
        self.remove(slot);
    }

    /// Local address of a UDP socket.
    pub(crate) fn local_of_udp(socket: &Socket) -> SocketAddr {
        let own = socket.own;
        let source = socket.as_udp().and_then(|udp_socket| udp_socket.source);
        let source = source.filter(|_| own.address.is_unspecified());
        Endpoint::new(source.unwrap_or(own.address), own.port).present(socket.family)
    }
}
