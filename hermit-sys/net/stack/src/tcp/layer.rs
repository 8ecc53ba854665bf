//! The TCP layer: its shards, and the mapping from sockets to shards.
//!
//! A shard has a part of the sockets, and all state that is needed to serve them, so that several CPUs can
//! serve different shards. A connection belongs to the shard that its addresses and ports hash to. Shards
//! share only the port table. The slot number of a socket contains the number of its shard.
//!
//! A socket gets its shard when it is created, before its peer is known. If `connect` finds that the
//! connection belongs to another shard, the socket moves there and gets a new key. `moved` maps the old key
//! to the new one, since the kernel still uses the old one.

use alloc::vec::Vec;
use core::iter;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hermit_interface::Errno;
use hermit_interface::net::CongestionControl;

use crate::host::Random;
use crate::socket::address::{Endpoint, Tuple};
use crate::socket::context::Context;
use crate::socket::kind::Family;
use crate::socket::options::SocketSettings;
use crate::socket::slab::{Key, table_of};
#[cfg(test)]
use crate::socket::table::Socket;
#[cfg(test)]
use crate::tcp::connection::Connection;
use crate::tcp::shard::Shard;
#[cfg(test)]
use crate::tcp::shard::TcpState;
use crate::tcp::sharding::Sharding;

/// State of the TCP layer.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(super) first: Shard,
    pub(super) others: Vec<Shard>,
    pub(super) sharding: Sharding,
    /// Number of created sockets, modulo 2^32. New sockets are assigned to the shards in turn.
    created: u32,
    /// Options of a new socket.
    defaults: SocketSettings,
    /// New key of each socket that was moved to another shard, by its old key.
    moved: HashMap<Key, Key, FixedState>,
}

impl Tcp {
    /// Creates the layer with a number of shards, at least one.
    pub(crate) fn new(shards: u32, congestion: CongestionControl, random: &mut dyn Random) -> Self {
        let sharding = Sharding::new(shards, random);
        let mut all = sharding.numbers().map(|number| Shard::new(number, sharding, random));
        let first = all.next();
        let others = all.collect();
        Self {
            first: first.unwrap_or_else(|| Shard::new(0, sharding, random)),
            others,
            sharding,
            created: 0,
            defaults: SocketSettings { congestion, ..SocketSettings::default() },
            moved: HashMap::with_hasher(FixedState::with_seed(random.random())),
        }
    }

    /// Returns the shard with a number, or the first one if there is no such shard.
    #[inline]
    pub(super) fn shard(&mut self, number: u32) -> &mut Shard {
        if number == 0 { &mut self.first } else { self.other_mut(number) }
    }

    #[cold]
    fn other_mut(&mut self, number: u32) -> &mut Shard {
        let index = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        self.others.get_mut(index).unwrap_or(&mut self.first)
    }

    #[cold]
    fn other(&self, number: u32) -> &Shard {
        let index = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        self.others.get(index).unwrap_or(&self.first)
    }

    /// Returns the shard of a socket.
    #[inline]
    pub(crate) fn of(&self, slot: u32) -> &Shard {
        let number = table_of(slot);
        if number == 0 { &self.first } else { self.other(number) }
    }

    /// Returns the shard of a socket, mutable.
    #[inline]
    pub(crate) fn of_mut(&mut self, slot: u32) -> &mut Shard {
        self.shard(table_of(slot))
    }

    /// Returns the shard of a connection.
    #[inline]
    pub(super) fn of_tuple(&mut self, tuple: &Tuple) -> &mut Shard {
        self.shard(self.sharding.shard_of(tuple))
    }

    /// Returns all shards. Code that runs in each call or poll does not use this iterator, but accesses
    /// `first` directly, which takes fewer instructions.
    pub(super) fn shards(&self) -> impl Iterator<Item = &Shard> {
        iter::once(&self.first).chain(&self.others)
    }

    /// Returns all shards, mutable.
    pub(super) fn shards_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Creates a socket; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn create(&mut self, family: Family, waker_key: usize) -> Result<u32, Errno> {
        let number = self.created.checked_rem(u32::try_from(self.sharding.count()).unwrap_or(1));
        self.created = self.created.wrapping_add(1);
        let settings = self.defaults;
        self.shard(number.unwrap_or(0)).create(family, settings, waker_key)
    }

    /// Returns the slot of a key.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    #[inline]
    pub(crate) fn slot(&self, key: Key) -> Result<u32, Errno> {
        match self.of(key.slot).sockets.slot(key) {
            Err(_) => self.slot_of_moved(key),
            slot => slot,
        }
    }

    #[cold]
    fn slot_of_moved(&self, mut key: Key) -> Result<u32, Errno> {
        while let Some(&later) = self.moved.get(&key) {
            key = later;
        }
        self.of(key.slot).sockets.slot(key)
    }

    /// Removes the entries of `moved` for a socket that is closed.
    pub(crate) fn forget_moves(&mut self, mut key: Key) {
        while let Some(later) = self.moved.remove(&key) {
            key = later;
        }
    }

    /// Returns a slot by its index among the slots of all shards, used or free.
    pub(crate) fn slot_at(&self, mut index: usize) -> Option<u32> {
        for shard in self.shards() {
            let slots = shard.sockets.slots();
            if index < slots {
                return shard.sockets.slot_at(index);
            }
            index -= slots;
        }
        None
    }

    /// Binds a stream.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(crate) fn bind(
        &mut self,
        slot: u32,
        local: Endpoint,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        // Expired connections of any shard may still hold the port.
        self.expire_time_wait(context.tcp_ports, context.buffers.pool(), context.now);
        self.of_mut(slot).bind(slot, local, context)
    }

    /// Starts to connect a stream.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS` if it has started.
    pub(crate) fn connect(
        &mut self,
        slot: u32,
        remote: Endpoint,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        self.expire_time_wait(context.tcp_ports, context.buffers.pool(), context.now);
        let slot = self.move_to_connect(slot, remote, context)?;
        self.of_mut(slot).connect(slot, remote, context)
    }

    /// Moves a bound socket to the shard of the connection that it is about to become. Returns the socket's
    /// slot there. A socket without a port stays: `connect` chooses a port with which the connection belongs
    /// to its shard.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn move_to_connect(
        &mut self,
        slot: u32,
        remote: Endpoint,
        context: &mut Context<'_>,
    ) -> Result<u32, Errno> {
        if self.others.is_empty() {
            return Ok(slot);
        }
        let tuple = self.of(slot).tuple_of_bound(slot, remote, &context.ip.routes);
        let number = tuple.map_or(table_of(slot), |tuple| self.sharding.shard_of(&tuple));
        if number == table_of(slot) {
            return Ok(slot);
        }
        self.moved.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let family = self.of(slot).family(slot);
        let settings = self.defaults;
        let target = self.shard(number).create(family, settings, 0)?;
        let keys = [slot, target].map(|slot| self.of(slot).sockets.key(slot));
        let socket = self.of_mut(slot).sockets.take(slot);
        if let Some((socket, place)) = socket.zip(self.shard(number).sockets.get_mut(target)) {
            context.tcp_ports.update(socket.local.port, slot, |binding| binding.slot = target);
            *place = socket;
        }
        self.moved.insert(keys[0], keys[1]);
        Ok(target)
    }
}

/// Accessors for tests.
#[cfg(test)]
impl Tcp {
    /// Returns the connection in a slot.
    pub(crate) fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.of_mut(slot).connection(slot)
    }

    /// Slots of all connections.
    pub(crate) fn connections(&self) -> Vec<u32> {
        self.shards().flat_map(|shard| shard.connections.values().copied()).collect()
    }

    /// Number of sockets, and of connections without one. A listener counts once.
    pub(crate) fn sockets(&self) -> usize {
        let slots = (0..).map_while(|index| self.slot_at(index));
        let sockets = slots.filter_map(|slot| self.of(slot).sockets.get(slot));
        let replicas = |socket: &Socket<TcpState>| socket.listener().map_or(0, |own| own.replicas.len());
        let replicas: usize = sockets.map(replicas).sum();
        self.shards().map(|shard| shard.sockets.len()).sum::<usize>() - replicas
    }

    /// Returns the connection with a remote port.
    pub(crate) fn connection_from(&mut self, port: u16) -> Option<&mut Connection> {
        let slot = self.connections().into_iter().find(|&slot| {
            let connection = self.of(slot).sockets.get(slot).and_then(Socket::connection);
            connection.is_some_and(|connection| connection.tuple.remote.port == port)
        });
        slot.and_then(|slot| self.connection(slot))
    }

    /// Length of a listener's accept queue.
    pub(crate) fn ready_count(&self, slot: u32) -> usize {
        let socket = self.of(slot).sockets.get(slot);
        socket.and_then(Socket::listener).map_or(0, |listener| listener.ready.len())
    }

    /// Slots of all half-open connections, the oldest first in each shard.
    pub(crate) fn half_open(&self) -> Vec<u32> {
        self.shards().flat_map(|shard| shard.half_open.iter().copied()).collect()
    }

    /// Length of the lists of connections that wait for room in the transmit queue of the device.
    pub(crate) fn blocked(&self) -> usize {
        self.shards().map(|shard| shard.blocked.len()).sum()
    }

    /// Memory in bytes that is counted for connections in TIME-WAIT.
    pub(crate) fn time_wait_memory(&self) -> usize {
        self.shards().map(|shard| shard.time_wait.memory()).sum()
    }

    /// Number of deferred SYNs.
    pub(crate) fn deferred(&self) -> usize {
        self.shards().map(|shard| shard.deferred.count()).sum()
    }

    /// Number of connections and segments that were processed.
    pub(crate) fn visits(&self) -> u64 {
        self.shards().map(|shard| shard.visits).sum()
    }
}
