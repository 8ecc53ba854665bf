//! Listeners: connections are made when a peer asks for one, and wait to be accepted.

use alloc::collections::VecDeque;
use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_tcp::Segment;

use crate::address::Tuple;
use crate::budget::CONNECTION;
use crate::core::{Body, Core, Entry};
use crate::host::Host;
use crate::socket::SocketId;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::deferred::DeferredSyn;
use crate::tcp::rx::Via;
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

/// Time in nanoseconds after which a half-open connection does not keep others out any more.
const GRACE: u64 = 100_000_000;

/// Time in nanoseconds without an answer after which a half-open connection is discarded for the sake of others, unless
/// there is a flood of SYNs. That of the first repetition of a SYN-ACK (RFC 6298, section 2.1), as in Linux: the peer may
/// be late because it is busy with a burst, and would be reset. Frames that wait to be received may be its answer.
const ANSWER_TIME: u64 = 1_000_000_000;

/// A listener.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    backlog: usize,
    /// In the order in which they came.
    half_open: VecDeque<u32>,
    ready: VecDeque<u32>,
    /// SYNs for which there is no room yet.
    pub(crate) deferred: VecDeque<DeferredSyn>,
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
    pub(crate) fn listener(&mut self, slot: u32) -> Option<&mut Listener> {
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

    /// Receives the SYN of a new connection, now or when the listener has room.
    pub(crate) fn receive_syn(
        &mut self,
        listener: u32,
        packet: &Packet<'_>,
        syn: (&Segment<'_>, Tuple),
        via: Via,
        host: &mut dyn Host,
    ) {
        let is_behind = self.has_deferred(listener);
        if is_behind || !self.invite(listener, syn, via, host) {
            self.defer(listener, packet, via);
        }
    }

    /// A peer asks for a connection; returns `false` if there is no room or no memory for it.
    pub(crate) fn invite(
        &mut self,
        listener: u32,
        syn: (&Segment<'_>, Tuple),
        via: Via,
        host: &mut dyn Host,
    ) -> bool {
        if !self.make_room(listener) {
            return false;
        }
        let Ok(slot) = self.half_open(listener, syn, via, host) else { return false };
        self.mark(slot);
        true
    }

    /// Makes room for one more half-open connection of a listener. There are no more young ones than may wait to be
    /// accepted. Old ones stay, since a busy peer or guest may be late, up to a limit: then the listener's oldest goes or, if
    /// there are too many of all and this listener does not have most of them, the oldest of all, as soon as its peer is not
    /// expected to answer any more.
    fn make_room(&mut self, slot: u32) -> bool {
        let most = self.budget.limit() / HALF_OPEN_PART / CONNECTION;
        let (all, oldest_of_all) = (self.tcp.half_open.len(), self.tcp.half_open.front().copied());
        let is_crowded = all >= ALL_HALF_OPEN.min(most);
        let Some(listener) = self.listener(slot) else { return false };
        if listener.is_full() {
            return false;
        }
        let room = listener.backlog.max(FEW_HALF_OPEN) + 1 - listener.ready.len();
        let room = listener.backlog.clamp(FEW_HALF_OPEN, MANY_HALF_OPEN).min(room);
        let own = listener.half_open.len();
        // The last of those that take all of the room.
        let last = own.checked_sub(room).and_then(|last| listener.half_open.get(last).copied());
        let gives_own = own >= MANY_HALF_OPEN || own > all / 2;
        let oldest = if gives_own { listener.half_open.front().copied() } else { oldest_of_all };
        let now = self.now;
        if last.is_some_and(|last| !self.began_by(last, now.saturating_sub(GRACE))) {
            return false;
        }
        if own < MANY_HALF_OPEN && !is_crowded {
            return true;
        }
        let is_flood = self.tcp.deferred.is_flood();
        let (time, answer_time) = if is_flood { (now, GRACE) } else { (self.caught_up, ANSWER_TIME) };
        let latest = time.saturating_sub(answer_time);
        let Some(oldest) = oldest.filter(|&oldest| self.began_by(oldest, latest)) else { return false };
        self.discard(oldest);
        true
    }

    /// Whether a half-open connection began at this time or before.
    fn began_by(&mut self, slot: u32, time: u64) -> bool {
        self.connection(slot).is_none_or(|connection| connection.started <= time)
    }

    /// A connection of a listener, begun by the SYN of a peer.
    fn half_open(
        &mut self,
        listener: u32,
        (segment, tuple): (&Segment<'_>, Tuple),
        via: Via,
        host: &mut dyn Host,
    ) -> Result<u32, Errno> {
        let Some(entry) = self.sockets.get(listener) else { return Err(Errno::EBADF) };
        let (family, settings) = (entry.family, entry.settings);
        let path = via.path(&tuple.remote.address);
        let parameters = self.parameters(&settings, path, &tuple.remote.address, host);
        let tcp = hermit_tcp::Connection::accept(parameters, segment, self.now);
        let mut connection = Connection::new(tcp, tuple, path, Phase::HalfOpen { listener }, self.now);
        connection.apply(&settings);
        let slot = self.adopt(Entry::new(None, family, settings, Body::Connection(connection)))?;
        let queue = self.listener(listener).map(|listener| &mut listener.half_open);
        let is_queued =
            queue.is_some_and(|queue| enqueue(queue, slot)) && enqueue(&mut self.tcp.half_open, slot);
        if !is_queued {
            self.discard(slot);
            return Err(Errno::ENOMEM);
        }
        Ok(slot)
    }

    /// Whether the last segment of a handshake is dropped, because the accept queue of its listener has no room.
    pub(crate) fn must_wait_for(&self, listener: u32) -> bool {
        self.sockets.get(listener).is_some_and(|entry| match &entry.body {
            // A handshake that began in time may end late: passt and its like do not repeat the segment, either.
            Body::Listener(listener) => listener.is_full() && listener.backlog < FEW_HALF_OPEN,
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

    /// Ends a listener: half-open connections are forgotten, complete and deferred ones are reset.
    pub(crate) fn dismiss(&mut self, slot: u32, host: &mut dyn Host) {
        let Some(listener) = self.listener(slot).map(core::mem::take) else { return };
        self.refuse_deferred(slot, listener.deferred);
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
