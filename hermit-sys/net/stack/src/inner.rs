//! The state of the stack, without the device and the system around it.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hermit_interface::Errno;
use smoltcp::time::Instant;
use smoltcp::wire::EthernetAddress;

use crate::config::{Configuration, HostAddress};
use crate::dns::Queries;
use crate::host::Host;
use crate::ip::config::HostConfig;
use crate::ip::neighbors::Neighbors;
use crate::ip::routes::Routes;
use crate::ip::token_bucket::TokenBucket;
use crate::phy::device::NetDeviceInfo;
use crate::phy::tx_queue::Queue;
use crate::socket::address::{Endpoint, unspecified};
use crate::socket::buffers::BufferAccounting;
use crate::socket::options::SocketSettings;
use crate::socket::ports::Ports;
use crate::socket::slab::Slab;
use crate::socket::{Family, Kind, Socket, SocketId, SocketState};
use crate::tcp::Tcp;
use crate::tcp::timers::Timers;
use crate::udp::UdpSocket;
use crate::udp::groups::Membership;
use crate::wire::fragments::Fragments;

/// Properties of the device, and its MAC address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetInterface {
    pub(crate) info: NetDeviceInfo,
    pub(crate) mac: EthernetAddress,
}

/// State of all layers.
#[derive(Debug)]
pub(crate) struct StackInner {
    pub(crate) now: u64,
    /// Time in nanoseconds at which the receive queue was last empty: everything that peers had sent by then is
    /// handled.
    pub(crate) caught_up: u64,
    pub(crate) interface: Option<NetInterface>,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) timers: Timers,
    /// Queue of the slots of sockets that may have something to send.
    pub(crate) dirty: VecDeque<u32>,
    pub(crate) buffers: BufferAccounting,
    pub(crate) routes: Routes,
    pub(crate) neighbors: Neighbors,
    pub(crate) fragments: Fragments,
    pub(crate) tcp: Tcp,
    pub(crate) udp: Ports,
    pub(crate) config: Option<HostConfig>,
    pub(crate) queries: Queries,
    pub(crate) hostname: Option<String>,
    /// Address of [`HOST_NAME`](hermit_interface::net::HOST_NAME).
    pub(crate) host_address: Option<HostAddress>,
    /// Number of sockets that are members of each group.
    pub(crate) groups: HashMap<Membership, u32, FixedState>,
    /// Slots of sockets that wait for room in the transmit queue of the device.
    pub(crate) blocked: Vec<u32>,
    /// Time in nanoseconds since which the transmit queue has been full while sockets wait for it.
    pub(crate) stuck_since: Option<u64>,
    /// Slots of connections that hold data back until the device has sent the frames that are queued.
    pub(crate) corked: Vec<u32>,
    /// Packets from this host to itself (loopback).
    pub(crate) local: Queue,
    /// Limits the rate of ICMP errors and of other answers to unsolicited packets.
    pub(crate) icmp_limiter: TokenBucket,
    /// Frames that wait for room in the transmit queue of the device.
    pub(crate) outbox: Queue,
    /// At shutdown: the data of sockets in lower slots has been delivered.
    pub(crate) delivered: u32,
    /// Identification field of the last fragmented datagram.
    pub(crate) identification: u32,
    /// Buffer for smoltcp's answer to a packet.
    pub(crate) reply: Vec<u8>,
    /// Number of sockets and packets that were processed: tests check that it does not depend on the number of sockets.
    #[cfg(test)]
    pub(crate) visits: u64,
}

/// Converts nanoseconds to smoltcp's time.
pub(crate) fn instant(now: u64) -> Instant {
    Instant::from_micros(i64::try_from(now / 1000).unwrap_or(i64::MAX))
}

/// Converts smoltcp's time to nanoseconds.
pub(crate) fn nanoseconds(instant: Instant) -> u64 {
    u64::try_from(instant.total_micros()).unwrap_or(0).saturating_mul(1000)
}

impl StackInner {
    pub(crate) fn new(
        info: Option<NetDeviceInfo>,
        host: &mut dyn Host,
        configuration: Configuration,
        now: u64,
    ) -> Self {
        let interface = info.map(|info| NetInterface { info, mac: EthernetAddress(info.mac) });
        let mtu = usize::from(info.map_or(u16::MAX, |info| info.mtu));
        let mut inner = Self {
            now,
            caught_up: now,
            interface,
            sockets: Slab::new(),
            timers: Timers::default(),
            dirty: VecDeque::new(),
            buffers: BufferAccounting::new(configuration.buffers),
            routes: Routes::default(),
            neighbors: Neighbors::new(host.random()),
            fragments: Fragments::default(),
            tcp: Tcp::new(host),
            udp: Ports::new(host.random()),
            config: info.as_ref().map(|info| HostConfig::new(info, host.random(), &configuration, now)),
            queries: Queries::new(),
            hostname: configuration.hostname,
            host_address: configuration.host,
            groups: HashMap::with_hasher(FixedState::with_seed(host.random())),
            blocked: Vec::new(),
            stuck_since: None,
            corked: Vec::new(),
            local: Queue::default(),
            icmp_limiter: TokenBucket::new(now),
            outbox: Queue::default(),
            delivered: 0,
            identification: u32::try_from(host.random() >> 32).unwrap_or(0),
            reply: Vec::with_capacity(mtu),
            #[cfg(test)]
            visits: 0,
        };
        inner.learn_addresses();
        inner
    }

    /// Updates addresses and gateways from the configuration clients, if they have changed.
    pub(crate) fn learn_addresses(&mut self) {
        let Some(config) = &mut self.config else { return };
        if config.has_news() {
            self.routes = Routes { addresses: config.addresses(), gateways: config.gateways() };
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
