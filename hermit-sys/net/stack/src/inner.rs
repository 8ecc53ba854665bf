//! The state of the stack, without the device and the system around it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::config::Configuration;
use crate::dns::Dns;
use crate::host::Host;
use crate::ip::layer::Ip;
use crate::phy::Phy;
use crate::phy::device::NetDeviceInfo;
use crate::socket::address::{Endpoint, unspecified};
use crate::socket::buffers::BufferAccounting;
use crate::socket::id::SocketId;
use crate::socket::options::SocketSettings;
use crate::socket::ports::Ports;
use crate::socket::slab::Slab;
use crate::socket::{Family, Kind, Socket, SocketState};
use crate::tcp::Tcp;
use crate::tcp::timers::Timers;
use crate::udp::UdpSocket;

/// State of all layers.
#[derive(Debug)]
pub(crate) struct StackInner {
    pub(crate) now: u64,
    pub(crate) phy: Phy,
    pub(crate) ip: Ip,
    pub(crate) dns: Dns,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) timers: Timers,
    /// Queue of the slots of sockets that may have something to send.
    pub(crate) dirty: VecDeque<u32>,
    pub(crate) buffers: BufferAccounting,
    pub(crate) tcp: Tcp,
    pub(crate) udp: Ports,
    /// Slots of sockets that wait for room in the transmit queue of the device.
    pub(crate) blocked: Vec<u32>,
    /// Time in nanoseconds since which the transmit queue has been full while sockets wait for it.
    pub(crate) stuck_since: Option<u64>,
    /// Slots of connections that hold data back until the device has sent the frames that are queued.
    pub(crate) corked: Vec<u32>,
    /// At shutdown: the data of sockets in lower slots has been delivered.
    pub(crate) delivered: u32,
    /// Number of sockets and packets that were processed: tests check that it does not depend on the number of sockets.
    #[cfg(test)]
    pub(crate) visits: u64,
}

impl StackInner {
    pub(crate) fn new(
        info: Option<NetDeviceInfo>,
        host: &mut dyn Host,
        configuration: Configuration,
        now: u64,
    ) -> Self {
        let ip = Ip::new(info.as_ref(), host, &configuration, now);
        Self {
            now,
            phy: Phy::new(info, now),
            dns: Dns::new(&ip, &configuration),
            ip,
            sockets: Slab::new(),
            timers: Timers::default(),
            dirty: VecDeque::new(),
            buffers: BufferAccounting::new(configuration.buffers),
            tcp: Tcp::new(host),
            udp: Ports::new(host.random()),
            blocked: Vec::new(),
            stuck_since: None,
            corked: Vec::new(),
            delivered: 0,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Counts a unit of work, in tests.
    pub(crate) const fn visit(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }

    /// Adds a socket or a connection without a socket.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert(&mut self, socket: Socket) -> Result<u32, Errno> {
        let slots = self.sockets.slots() + 1;
        self.timers.reserve(slots)?;
        self.dirty.try_reserve(slots.saturating_sub(self.dirty.len())).map_err(|_| Errno::ENOMEM)?;
        self.sockets.insert(socket)
    }

    /// Creates a socket.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn create_socket(
        &mut self,
        family: Family,
        kind: Kind,
        waker_key: usize,
    ) -> Result<SocketId, Errno> {
        let state = match kind {
            Kind::Stream => SocketState::Idle,
            Kind::Datagram => SocketState::Udp(UdpSocket::default()),
        };
        let slot = self.insert(Socket::new(Some(waker_key), family, SocketSettings::default(), state))?;
        Ok(self.sockets.id(slot))
    }

    /// The socket of this identifier, with its slot.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    #[inline]
    pub(crate) fn socket_mut(&mut self, id: SocketId) -> Result<(u32, &mut Socket), Errno> {
        let slot = self.sockets.slot(id)?;
        self.sockets.get_mut(slot).map(|socket| (slot, socket)).ok_or(Errno::EBADF)
    }

    /// The socket of this identifier, read only.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(crate) fn socket(&self, id: SocketId) -> Result<&Socket, Errno> {
        self.sockets.slot(id).and_then(|slot| self.sockets.get(slot).ok_or(Errno::EBADF))
    }

    /// Queues a socket for [`serve`](Self::serve): it may have something to send, or be closed.
    pub(crate) fn mark(&mut self, slot: u32) {
        if let Some(socket) = self.sockets.get_mut(slot)
            && !socket.is_dirty
        {
            socket.is_dirty = true;
            self.dirty.push_back(slot);
        }
    }

    /// Removes a socket, its timer and its binding, but not from the tables of its protocol.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Socket> {
        self.timers.set(slot, None);
        let socket = self.sockets.remove(slot)?;
        socket.ports(&mut self.udp, &mut self.tcp).unbind(socket.own.port, slot);
        Some(socket)
    }

    /// The local address of a socket that is not bound: the unspecified one, port 0.
    pub(crate) const fn nowhere(family: Family) -> Endpoint {
        Endpoint::new(unspecified(family), 0)
    }
}
