//! Replicas of listeners, one in each other shard.
//!
//! A shard receives SYNs for its own connections only. A listener therefore has a replica in each other
//! shard. The replica has queues of its own, and the same waker key and options. The port table maps a port
//! to the listener or replica of each shard.

use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_interface::net::SocketOption;

use crate::socket::context::Context;
use crate::socket::kind::Shutdown;
use crate::socket::ports::{Binding, Ports};
use crate::socket::readiness::Readiness;
use crate::socket::slab::table_of;
use crate::socket::table::Socket;
use crate::tcp::backlog::Listener;
use crate::tcp::layer::Tcp;
use crate::tcp::shard::{Shard, TcpState};

impl Tcp {
    /// Makes a stream a listener, or changes the backlog of a listener, in all shards.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `ENOMEM`.
    pub(crate) fn listen(&mut self, slot: u32, backlog: i32, context: &mut Context<'_>) -> Result<(), Errno> {
        self.expire_time_wait(context.tcp_ports, context.buffers.pool(), context.now);
        self.of_mut(slot).listen(slot, backlog, context)?;
        if self.others.is_empty() {
            return Ok(());
        }
        self.for_replicas(slot, |shard, replica| shard.listen(replica, backlog, context))?;
        let replicated = self.replicate(slot, context.tcp_ports);
        if replicated.is_err() {
            self.remove_replicas(slot, context);
            self.of_mut(slot).stop_listening(slot, context);
        }
        replicated
    }

    /// Adds replicas of a listener to the other shards, unless it has them.
    fn replicate(&mut self, slot: u32, ports: &mut Ports) -> Result<(), Errno> {
        let missing = self.sharding.count() - 1;
        let Some(listener) = self.of_mut(slot).listener(slot) else { return Ok(()) };
        if !listener.replicas.is_empty() {
            return Ok(());
        }
        listener.replicas.try_reserve_exact(missing)?;
        for number in self.sharding.numbers().filter(|&number| number != table_of(slot)) {
            let Some(replica) = self.of(slot).sockets.get(slot).and_then(Socket::replica) else { break };
            let replica = self.shard(number).add_replica(replica, ports)?;
            if let Some(listener) = self.of_mut(slot).listener(slot) {
                listener.replicas.push(replica);
            }
        }
        Ok(())
    }

    /// Slot of a listener's replica, by its number; `None` if there are fewer replicas.
    fn replica(&self, slot: u32, number: usize) -> Option<u32> {
        self.of(slot).sockets.get(slot)?.listener()?.replicas.get(number).copied()
    }

    /// Calls `action` with each replica of a listener and its shard, until a call fails.
    fn for_replicas(
        &mut self,
        slot: u32,
        mut action: impl FnMut(&mut Shard, u32) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut numbers = 0..self.others.len();
        while let Some(replica) = numbers.next().and_then(|number| self.replica(slot, number)) {
            action(self.of_mut(replica), replica)?;
        }
        Ok(())
    }

    fn remove_replicas(&mut self, slot: u32, context: &mut Context<'_>) {
        if self.others.is_empty() {
            return;
        }
        let replicas =
            self.of_mut(slot).listener(slot).map(|listener| core::mem::take(&mut listener.replicas));
        for replica in replicas.unwrap_or_default() {
            // At shutdown the replica may be closed already.
            let _ = self.of_mut(replica).close(replica, false, context);
        }
    }

    /// Accepts a connection of a listener or of one of its replicas, in round-robin order. Returns the
    /// connection's slot and the peer's address.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `EINVAL`.
    pub(crate) fn accept(&mut self, slot: u32, waker_key: usize) -> Result<(u32, SocketAddr), Errno> {
        if self.of_mut(slot).listener(slot).is_none() {
            return Err(Errno::EINVAL);
        }
        for _ in 0..self.sharding.count() {
            let asked = self.next_turn(slot);
            let accepted = self.of_mut(asked).accept(asked, waker_key);
            if accepted != Err(Errno::EAGAIN) {
                return accepted;
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Returns the listener or replica that is next in round-robin order.
    fn next_turn(&mut self, slot: u32) -> u32 {
        let Some(listener) = self.of_mut(slot).listener(slot) else { return slot };
        let turn = listener.turn;
        listener.turn = if turn < listener.replicas.len() { turn + 1 } else { 0 };
        turn.checked_sub(1).and_then(|number| self.replica(slot, number)).unwrap_or(slot)
    }

    /// Readiness of a socket, as `poll` returns it.
    pub(crate) fn readiness(&self, slot: u32) -> Readiness {
        let mut readiness = self.of(slot).readiness(slot);
        if !self.others.is_empty() {
            let mut replicas = (0..).map_while(|number| self.replica(slot, number));
            readiness.read |= replicas.any(|replica| self.of(replica).readiness(replica).read);
        }
        readiness
    }

    /// Shuts down one or both directions of a stream.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shutdown(
        &mut self,
        slot: u32,
        how: Shutdown,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        if how.reads() {
            self.remove_replicas(slot, context);
        }
        self.of_mut(slot).shutdown(slot, how, context)
    }

    /// Closes a stream; the connection stays until its data is acknowledged.
    ///
    /// # Errors
    ///
    /// `EBADF`: a connection that is not accepted yet, or was closed.
    pub(crate) fn close(
        &mut self,
        slot: u32,
        is_reset: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        self.remove_replicas(slot, context);
        self.of_mut(slot).close(slot, is_reset, context)
    }

    /// Sets an option, also of a listener's replicas: connections inherit the options.
    ///
    /// # Errors
    ///
    /// See [`Stack::set_option`](crate::Stack::set_option).
    pub(crate) fn set_option(
        &mut self,
        slot: u32,
        option: &SocketOption,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        self.of_mut(slot).set_option(slot, option, context)?;
        self.for_replicas(slot, |shard, replica| shard.set_option(replica, option, context))
    }
}

impl Socket<TcpState> {
    /// Creates a replica of a listener, with empty queues; `None` if the socket does not listen.
    fn replica(&self) -> Option<Self> {
        let listener = Listener { backlog: self.listener()?.backlog, ..Listener::default() };
        let state = TcpState::Listener(listener);
        let mut replica = Self::new(self.waker_key, self.family, self.settings, state);
        replica.local = self.local;
        Some(replica)
    }
}

impl Shard {
    /// Adds the replica of a listener, and binds it; returns its slot.
    fn add_replica(&mut self, replica: Socket<TcpState>, ports: &mut Ports) -> Result<u32, Errno> {
        let (port, scope, reuse) = (replica.local.port, replica.scope(), replica.settings.reuse);
        let slot = self.insert(replica)?;
        let binding = Binding { slot, scope, reuse, is_listening: true, is_replica: true };
        ports.bind(port, binding).inspect_err(|_| drop(self.remove(slot, ports))).map(|()| slot)
    }
}
