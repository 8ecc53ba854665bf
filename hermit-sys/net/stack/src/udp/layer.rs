//! State of the UDP layer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;

use crate::ip::groups::Membership;
use crate::phy::Phy;
use crate::phy::tx_queue::Link;
use crate::socket::address::Endpoint;
use crate::socket::kind::Family;
use crate::socket::options::SocketSettings;
use crate::socket::ports::Ports;
use crate::socket::readiness::Readiness;
use crate::socket::table::{Socket, SocketTable};
use crate::wire::emit::ETHERNET;

/// Default size in bytes of a receive queue: Linux's `rmem_default`.
pub(super) const DEFAULT_BUFFER: u32 = 212_992;

/// A datagram in the receive queue.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) from: Endpoint,
    pub(super) bytes: Vec<u8>,
}

impl Datagram {
    /// Cost in bytes of a datagram in the receive queue, with overhead, about as in Linux.
    pub(super) fn cost(size: usize) -> usize {
        size.next_multiple_of(512) + 256
    }
}

/// A UDP socket.
#[derive(Debug, Default)]
pub(crate) struct UdpSocket {
    /// Peer of a connected socket.
    pub(super) remote: Option<Endpoint>,
    /// Local address for packets to the peer.
    pub(super) source: Option<IpAddr>,
    pub(super) queue: VecDeque<Datagram>,
    /// Total cost of the datagrams in the queue, in bytes.
    pub(super) queued: usize,
    pub(super) shut_read: bool,
    pub(super) shut_write: bool,
    /// True if the socket waits for room in the transmit queue.
    pub(super) is_blocked: bool,
    pub(super) groups: Vec<Membership>,
}

impl UdpSocket {
    /// True if the socket receives datagrams from an endpoint. A peer with port 0 matches all ports of its
    /// address.
    pub(super) fn accepts_from(&self, from: Endpoint) -> bool {
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

/// State of the UDP layer.
#[derive(Debug)]
pub(crate) struct Udp {
    pub(crate) sockets: SocketTable<UdpSocket>,
    pub(crate) ports: Ports,
    /// Slots of sockets that wait for room in the transmit queue of the device.
    pub(super) blocked: Vec<u32>,
    /// Number of datagrams that were processed. Tests check that it does not depend on the number of sockets.
    #[cfg(test)]
    pub(crate) visits: u64,
}

impl Udp {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            sockets: SocketTable::numbered(0),
            ports: Ports::new(seed),
            blocked: Vec::new(),
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Creates a socket; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn create(&mut self, family: Family, waker_key: usize) -> Result<u32, Errno> {
        // Memory is reserved, so that a socket can always be queued.
        self.blocked
            .try_reserve((self.sockets.slots() + 1).saturating_sub(self.blocked.len()))
            .map_err(|_| Errno::ENOMEM)?;
        let settings = SocketSettings::default();
        self.sockets.insert(Socket::new(Some(waker_key), family, settings, UdpSocket::default()))
    }

    /// Returns the socket in a slot.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(super) fn socket(&mut self, slot: u32) -> Result<&mut Socket<UdpSocket>, Errno> {
        self.sockets.get_mut(slot).ok_or(Errno::EBADF)
    }

    /// True if sockets wait for room in the transmit queue of the device.
    pub(crate) const fn is_waiting(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Queues a socket until the device has room.
    pub(super) fn block(&mut self, slot: u32) {
        if let Some(socket) = self.sockets.get_mut(slot)
            && !core::mem::replace(&mut socket.state.is_blocked, true)
        {
            self.blocked.push(slot);
        }
    }

    /// Wakes the sockets that wait for the device, if it has room.
    pub(crate) fn unblock_all(&mut self, phy: &Phy, link: &mut dyn Link) {
        if self.blocked.is_empty() || !link.can_transmit(ETHERNET + phy.mtu()) {
            return;
        }
        while let Some(slot) = self.blocked.pop() {
            if let Some(socket) = self.sockets.get_mut(slot) {
                socket.state.is_blocked = false;
                self.sockets.wake(slot);
            }
        }
    }

    /// Family of a socket.
    pub(crate) fn family(&self, slot: u32) -> Family {
        self.sockets.get(slot).map_or(Family::V4, |socket| socket.family)
    }

    /// Readiness of a socket, as `poll` returns it.
    pub(crate) fn readiness(&self, slot: u32) -> Readiness {
        self.sockets
            .get(slot)
            .map_or_else(Readiness::default, |socket| socket.state.readiness(socket.error.is_some()))
    }

    /// Counts a datagram, in tests.
    pub(super) const fn visit(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }
}
