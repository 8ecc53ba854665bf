//! A shard: sockets and connections that one CPU can serve without the others, and their timers.
//!
//! It has the socket table, the table of connections by addresses and ports, the records of TIME-WAIT, the
//! queues of half-open connections and deferred SYNs, the loopback queue, and the timers. A slot identifies a
//! socket, or a connection without a socket. `dirty`, `blocked` and `corked` are the lists of connections to
//! be served: see `service`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::collections::map::Map;
use crate::host::Random;
use crate::socket::address::Tuple;
use crate::socket::kind::Family;
use crate::socket::options::SocketSettings;
use crate::socket::ports::Ports;
use crate::socket::readiness::Readiness;
use crate::socket::table::{Socket, SocketTable};
use crate::tcp::backlog::{DeferredSyns, Listener};
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::loopback::Loopback;
use crate::tcp::numbers::Secret;
use crate::tcp::sharding::Sharding;
use crate::tcp::time_wait::TimeWait;
use crate::tcp::timers::Timers;

/// State of a stream socket.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most sockets are connections, and the table boxes each socket"
)]
pub(crate) enum TcpState {
    /// Neither connected nor listening.
    Idle,
    Listener(Listener),
    Connection(Connection),
}

impl Socket<TcpState> {
    /// The connection, unless the socket has another state.
    pub(crate) const fn connection(&self) -> Option<&Connection> {
        if let TcpState::Connection(connection) = &self.state { Some(connection) } else { None }
    }

    /// The connection, mutable, unless the socket has another state.
    pub(crate) const fn connection_mut(&mut self) -> Option<&mut Connection> {
        if let TcpState::Connection(connection) = &mut self.state { Some(connection) } else { None }
    }

    /// The listener, unless the socket has another state.
    pub(super) const fn listener(&self) -> Option<&Listener> {
        if let TcpState::Listener(listener) = &self.state { Some(listener) } else { None }
    }

    /// True if it is a connection whose socket was closed.
    pub(crate) fn is_orphan(&self) -> bool {
        self.waker_key.is_none()
            && self.connection().is_some_and(|connection| connection.phase == Phase::Open)
    }
}

impl Socket<TcpState> {
    /// Readiness, as `poll` returns it.
    pub(crate) fn readiness(&self) -> Readiness {
        let error = self.error.is_some();
        match &self.state {
            // As in Linux, for a stream that was never connected.
            TcpState::Idle => Readiness { write: true, hang_up: true, error, ..Readiness::default() },
            TcpState::Listener(listener) => {
                Readiness { read: listener.has_ready(), error, ..Readiness::default() }
            }
            TcpState::Connection(connection) => connection.readiness(error),
        }
    }
}

/// Sockets and connections, with all state that is needed to serve them without other shards.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Number of the shard, which the slots of its sockets contain.
    pub(super) number: u32,
    pub(super) sharding: Sharding,
    pub(crate) sockets: SocketTable<TcpState>,
    /// Slots of connections, by addresses and ports.
    pub(crate) connections: Map<Tuple, u32>,
    pub(super) time_wait: TimeWait,
    /// Slots of the half-open connections of all listeners, oldest first.
    pub(crate) half_open: VecDeque<u32>,
    pub(crate) deferred: DeferredSyns,
    pub(super) secret: Secret,
    /// Time in nanoseconds until which a SYN cookie may be acknowledged.
    pub(super) cookies_valid_until: u64,
    /// Segments from this host to itself.
    pub(crate) loopback: Loopback,
    /// Deadlines of connections.
    pub(super) timers: Timers,
    /// Queue of the slots of connections that may have something to send.
    pub(super) dirty: VecDeque<u32>,
    /// Slots of connections that wait for room in the transmit queue of the device.
    pub(super) blocked: Vec<u32>,
    /// Slots of connections that hold data back until the device has sent the frames that are queued.
    pub(super) corked: Vec<u32>,
    /// Used at shutdown: the data of all connections in slots with lower indices has been delivered.
    pub(super) delivered: usize,
    /// Number of connections and segments that were processed. Tests check that it does not depend on the
    /// number of sockets.
    #[cfg(test)]
    pub(crate) visits: u64,
}

impl Shard {
    pub(super) fn new(number: u32, sharding: Sharding, random: &mut dyn Random) -> Self {
        Self {
            number,
            sharding,
            sockets: SocketTable::numbered(number),
            connections: Map::new(random.random()),
            time_wait: TimeWait::new(random.random(), sharding.count()),
            half_open: VecDeque::new(),
            deferred: DeferredSyns::default(),
            secret: Secret::new(random),
            cookies_valid_until: 0,
            loopback: Loopback::default(),
            timers: Timers::default(),
            dirty: VecDeque::new(),
            blocked: Vec::new(),
            corked: Vec::new(),
            delivered: 0,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Creates a socket; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn create(
        &mut self,
        family: Family,
        settings: SocketSettings,
        waker_key: usize,
    ) -> Result<u32, Errno> {
        self.insert(Socket::new(Some(waker_key), family, settings, TcpState::Idle))
    }

    /// Adds a socket, or a connection without a socket; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn insert(&mut self, socket: Socket<TcpState>) -> Result<u32, Errno> {
        let slots = self.sockets.slots() + 1;
        self.timers.reserve(slots)?;
        self.dirty.try_reserve(slots.saturating_sub(self.dirty.len()))?;
        self.sockets.insert(socket)
    }

    /// Removes and returns a socket, with its timer and its binding. A connection stays in the tables.
    pub(super) fn remove(&mut self, slot: u32, ports: &mut Ports) -> Option<Socket<TcpState>> {
        self.timers.set(slot, None);
        self.sockets.remove(slot, ports)
    }

    /// Returns the socket in a slot.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(super) fn socket(&mut self, slot: u32) -> Result<&mut Socket<TcpState>, Errno> {
        self.sockets.get_mut(slot).ok_or(Errno::EBADF)
    }

    /// Returns the connection in a slot.
    #[inline]
    pub(crate) fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.sockets.get_mut(slot).and_then(Socket::connection_mut)
    }

    /// Queues a connection to be served, because it may have something to send, or may have to be closed.
    pub(super) fn mark(&mut self, slot: u32) {
        if let Some(connection) = self.connection(slot)
            && !core::mem::replace(&mut connection.is_dirty, true)
        {
            self.dirty.push_back(slot);
        }
    }

    /// Family of a socket.
    pub(crate) fn family(&self, slot: u32) -> Family {
        self.sockets.get(slot).map_or(Family::V4, |socket| socket.family)
    }

    /// Readiness of a socket, as `poll` returns it.
    pub(crate) fn readiness(&self, slot: u32) -> Readiness {
        self.sockets.get(slot).map_or_else(Readiness::default, Socket::readiness)
    }

    /// True if a connection belongs to this shard.
    pub(super) fn owns(&self, tuple: &Tuple) -> bool {
        self.sharding.shard_of(tuple) == self.number
    }

    /// Counts a unit of work, in tests.
    pub(super) const fn visit(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }
}
