//! Listeners: connections are made when a peer asks for one, and wait to be accepted.

use alloc::collections::VecDeque;
use core::net::SocketAddr;

use hermit_interface::Errno;
use smoltcp::socket::tcp::State;
use smoltcp::wire::TcpPacket;

use crate::address::Tuple;
use crate::core::{Body, Core, Entry, instant};
use crate::host::Host;
use crate::socket::SocketId;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::ingress::Via;
use crate::wire::packet::Packet;

/// The largest backlog: Linux's `somaxconn`.
const MAX_BACKLOG: usize = 4096;

/// Most connections that the peer has not completed: of one listener, at least and at most, and of all. They cost
/// memory that anybody can ask for.
const FEW_HALF_OPEN: usize = 128;
const MANY_HALF_OPEN: usize = 1024;
const ALL_HALF_OPEN: usize = 2048;

/// The part of the memory for all buffers that they may have.
const HALF_OPEN_PART: usize = 4;

/// How long a peer is given to complete a connection before that one goes to make room for another.
const GRACE: u64 = 100_000_000;

/// A listener.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    backlog: usize,
    /// In the order in which they came.
    half_open: VecDeque<u32>,
    ready: VecDeque<u32>,
}

impl Listener {
    /// Whether no more are taken: Linux lets one more wait than asked for.
    fn is_full(&self) -> bool {
        self.ready.len() > self.backlog
    }

    /// How many wait to be accepted.
    #[cfg(test)]
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

/// Puts a connection behind the others; `false` if there is no memory to.
fn enqueue(queue: &mut VecDeque<u32>, slot: u32) -> bool {
    queue.try_reserve(1).map(|()| queue.push_back(slot)).is_ok()
}

/// Takes a connection from wherever it is in a queue.
fn dequeue(queue: &mut VecDeque<u32>, slot: u32) {
    if let Some(place) = queue.iter().position(|&other| other == slot) {
        queue.remove(place);
    }
}

impl Core {
    fn listener(&mut self, slot: u32) -> Option<&mut Listener> {
        match &mut self.sockets.get_mut(slot)?.body {
            Body::Listener(listener) => Some(listener),
            _ => None,
        }
    }

    /// Makes a stream a listener, or changes its backlog.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EOPNOTSUPP`, `EADDRINUSE`, `ENOMEM`.
    pub(crate) fn listen(&mut self, id: SocketId, backlog: i32, host: &mut dyn Host) -> Result<(), Errno> {
        // Negative ones are very large ones to Linux.
        let backlog = usize::try_from(backlog).map_or(MAX_BACKLOG, |backlog| backlog.min(MAX_BACKLOG));
        let (slot, entry) = self.entry(id)?;
        match &mut entry.body {
            Body::Listener(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            Body::Idle => (),
            Body::Connection(_) => return Err(Errno::EINVAL),
            Body::Datagrams(_) => return Err(Errno::EOPNOTSUPP),
        }
        let own = entry.own;
        if !entry.is_bound() {
            self.bind_stream(slot, own, host)?;
        }
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let (own, scope) = (entry.own, entry.scope());
        if self.tcp.ports.is_taken(own.port, scope, entry.settings.reuse, Some(slot)) {
            return Err(Errno::EADDRINUSE);
        }
        entry.body = Body::Listener(Listener { backlog, ..Listener::default() });
        self.tcp.ports.update(own.port, slot, |binding| binding.is_listening = true);
        Ok(())
    }

    /// Takes a connection that has been completed.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `EINVAL`, `EOPNOTSUPP`.
    pub(crate) fn accept(&mut self, id: SocketId, cookie: usize) -> Result<(SocketId, SocketAddr), Errno> {
        let (_, entry) = self.entry(id)?;
        let family = entry.family;
        let Body::Listener(listener) = &mut entry.body else {
            return Err(if entry.is_datagrams() { Errno::EOPNOTSUPP } else { Errno::EINVAL });
        };
        let slot = listener.ready.pop_front().ok_or(Errno::EAGAIN)?;
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EAGAIN) };
        entry.cookie = Some(cookie);
        let Some(connection) = entry.connection_mut() else { return Err(Errno::EAGAIN) };
        connection.phase = Phase::Open;
        connection.is_told = true;
        let remote = connection.tuple.remote.present(family);
        Ok((self.sockets.id(slot), remote))
    }

    /// A peer asks for a connection.
    pub(crate) fn invite(
        &mut self,
        listener: u32,
        packet: &Packet<'_>,
        (segment, tuple): (&TcpPacket<&[u8]>, Tuple),
        via: Via,
        host: &mut dyn Host,
    ) {
        if !self.make_room(listener) {
            return;
        }
        let now = instant(self.now);
        if let Some(side) = self.tcp.side(via.path(&packet.source)) {
            side.reseed(host.random(), now);
        }
        // Without memory, the peer asks again later.
        if let Ok(slot) = self.half_open(listener, tuple, via) {
            self.receive_for(slot, packet, segment, via, host);
            let is_begun =
                self.connection(slot).is_some_and(|connection| connection.state() == State::SynReceived);
            if !is_begun {
                self.discard(slot);
            }
        }
    }

    /// Makes room for one more half-open connection of a listener: its oldest goes or, if there are too many of all and this
    /// listener does not have most of them, the oldest of all, unless it is young. Who is turned away instead asks again.
    fn make_room(&mut self, slot: u32) -> bool {
        let most = self.budget.limit() / HALF_OPEN_PART / self.budget.least();
        let (all, oldest_of_all) = (self.tcp.half_open.len(), self.tcp.half_open.front().copied());
        let is_crowded = all >= ALL_HALF_OPEN.min(most);
        let youngest = self.now.saturating_sub(GRACE);
        let Some(listener) = self.listener(slot) else { return false };
        if listener.is_full() {
            return false;
        }
        let limit = listener.backlog.clamp(FEW_HALF_OPEN, MANY_HALF_OPEN);
        let own = listener.half_open.len();
        if !is_crowded && own < limit {
            return true;
        }
        let gives_own = own >= limit || own > all / 2;
        let oldest = if gives_own { listener.half_open.front().copied() } else { oldest_of_all };
        let Some(oldest) = oldest else { return false };
        let is_old = self.connection(oldest).is_none_or(|oldest| oldest.patience.started() <= youngest);
        if is_old {
            self.discard(oldest);
        }
        is_old
    }

    /// A connection of a listener, to be begun by a peer.
    fn half_open(&mut self, listener: u32, tuple: Tuple, via: Via) -> Result<u32, Errno> {
        let Some(entry) = self.sockets.get(listener) else { return Err(Errno::EBADF) };
        let (family, settings) = (entry.family, entry.settings);
        let path = via.path(&tuple.remote.address);
        let mut channel = self.channel(&settings, path)?;
        if channel.socket_mut().listen(tuple.local).is_err() {
            self.budget.give_back(channel);
            return Err(Errno::EINVAL);
        }
        let connection = Connection::new(channel, tuple, path, Phase::HalfOpen { listener }, self.now);
        let body = Body::Connection(connection);
        let slot = self.adopt(Entry::new(None, family, settings, body))?;
        let queue = self.listener(listener).map(|listener| &mut listener.half_open);
        let is_queued =
            queue.is_some_and(|queue| enqueue(queue, slot)) && enqueue(&mut self.tcp.half_open, slot);
        if !is_queued {
            self.discard(slot);
            return Err(Errno::ENOMEM);
        }
        Ok(slot)
    }

    /// Whether a listener takes no more connections that are complete.
    pub(crate) fn is_full(&self, listener: u32) -> bool {
        self.sockets.get(listener).is_some_and(|entry| match &entry.body {
            Body::Listener(listener) => listener.is_full(),
            _ => false,
        })
    }

    /// A peer has completed a connection: it waits to be accepted.
    pub(crate) fn complete(&mut self, slot: u32, listener: u32, host: &mut dyn Host) {
        dequeue(&mut self.tcp.half_open, slot);
        if let Some(connection) = self.connection(slot) {
            connection.phase = Phase::Queued { listener };
        }
        let Some(entry) = self.sockets.get_mut(listener) else { return };
        entry.wake(host);
        let Body::Listener(listener) = &mut entry.body else { return };
        dequeue(&mut listener.half_open, slot);
        if !enqueue(&mut listener.ready, slot) {
            self.abandon(slot, host);
        }
    }

    /// Resets a connection that will not be accepted.
    fn abandon(&mut self, slot: u32, host: &mut dyn Host) {
        if let Some(connection) = self.connection(slot) {
            connection.phase = Phase::Open;
        }
        self.reset(slot, None, host);
    }

    /// Takes a connection from its listener, if it has one.
    pub(crate) fn detach(&mut self, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        match core::mem::replace(&mut connection.phase, Phase::Open) {
            Phase::HalfOpen { listener } => {
                dequeue(&mut self.tcp.half_open, slot);
                if let Some(listener) = self.listener(listener) {
                    dequeue(&mut listener.half_open, slot);
                }
            }
            Phase::Queued { listener } => {
                if let Some(listener) = self.listener(listener) {
                    dequeue(&mut listener.ready, slot);
                }
            }
            Phase::Connecting | Phase::Open => (),
        }
    }

    /// Ends a listener: half-open connections are forgotten, complete ones are reset.
    pub(crate) fn dismiss(&mut self, slot: u32, host: &mut dyn Host) {
        let Some(listener) = self.listener(slot).map(core::mem::take) else { return };
        for half_open in listener.half_open {
            self.discard(half_open);
        }
        for ready in listener.ready {
            self.abandon(ready, host);
        }
    }

    /// Whether a listener or somebody else is reached at a port, for packets to an address of ours.
    pub(crate) fn find_listener(&self, tuple: &Tuple) -> Option<u32> {
        let Tuple { local, .. } = tuple;
        self.tcp.ports.listener(local.port, local.address)
    }

    /// Ends what [`listen`](Self::listen) began; the socket stays bound to a port that it asked for.
    pub(crate) fn stop_listening(&mut self, slot: u32, host: &mut dyn Host) {
        self.dismiss(slot, host);
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.body = Body::Idle;
        self.tcp.ports.update(entry.own.port, slot, |binding| binding.is_listening = false);
        entry.wake(host);
        self.release_port(slot);
    }
}
