//! Listeners: half-open connections and the accept queue.
//!
//! A SYN creates a half-open connection, which answers with a SYN-ACK. The final ACK of the handshake moves
//! it to the accept queue, from which `accept` takes it. A SYN for which there is no room is deferred, and in
//! a flood it is answered with a SYN cookie. Any host can send SYNs, so the number of half-open connections
//! is bounded for each listener and for all of them. Above the bound, a new one replaces the oldest one whose
//! peer has had time to answer.

use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_tcp::{Parameters, Segment};

use crate::ip::delivery::Via;
use crate::socket::address::Tuple;
use crate::socket::buffers::CONNECTION;
use crate::socket::context::Context;
use crate::socket::ports::Ports;
use crate::socket::table::Socket;
use crate::tcp::backlog::{Listener, dequeue, enqueue};
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::shard::{Shard, TcpState};

/// Maximum backlog: Linux's `somaxconn`.
const MAX_BACKLOG: usize = 4096;

/// Maximum numbers of half-open connections: for a listener with the smallest and the largest backlog, and
/// for all listeners. Any host on the network can make the stack allocate their memory.
const FEW_HALF_OPEN: usize = 128;
const MANY_HALF_OPEN: usize = 1024;
const ALL_HALF_OPEN: usize = 2048;

/// Divisor of the total buffer limit: half-open connections take at most this part of it.
const HALF_OPEN_PART: usize = 4;

/// Time in nanoseconds after which a half-open connection does not count for the backlog any more.
const GRACE: u64 = 100_000_000;

/// Time in nanoseconds without an answer after which a half-open connection may be discarded in favor of
/// others, unless there is a SYN flood. It is the initial RTO of a SYN-ACK (RFC 6298, section 2.1), as in
/// Linux. After a shorter time, the peer may only be late because of a burst, or its answer may be in the
/// receive queue already. Its ACK would then be answered with a RST.
const ANSWER_TIME: u64 = 1_000_000_000;

impl Shard {
    /// Returns the listener in a slot.
    pub(super) fn listener(&mut self, slot: u32) -> Option<&mut Listener> {
        match &mut self.sockets.get_mut(slot)?.state {
            TcpState::Listener(listener) => Some(listener),
            _ => None,
        }
    }

    /// Makes a stream a listener, or changes the backlog of a listener.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `ENOMEM`.
    pub(crate) fn listen(&mut self, slot: u32, backlog: i32, context: &mut Context<'_>) -> Result<(), Errno> {
        // As in Linux, a negative backlog is a very large one.
        let backlog = usize::try_from(backlog).map_or(MAX_BACKLOG, |backlog| backlog.min(MAX_BACKLOG));
        let socket = self.socket(slot)?;
        match &mut socket.state {
            TcpState::Listener(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            TcpState::Idle => (),
            TcpState::Connection(_) => return Err(Errno::EINVAL),
        }
        let local = socket.local;
        if !socket.is_bound() {
            self.bind(slot, local, context)?;
        }
        let socket = self.socket(slot)?;
        let (local, scope) = (socket.local, socket.scope());
        let reuse = socket.settings.reuse;
        if context.tcp_ports.is_taken(local.port, scope, reuse, Some(slot)) {
            return Err(Errno::EADDRINUSE);
        }
        self.socket(slot)?.state = TcpState::Listener(Listener { backlog, ..Listener::default() });
        context.tcp_ports.update(local.port, slot, |binding| binding.is_listening = true);
        Ok(())
    }

    /// Accepts the first connection of the accept queue; returns its slot and the peer's address.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `EINVAL`.
    pub(crate) fn accept(&mut self, slot: u32, waker_key: usize) -> Result<(u32, SocketAddr), Errno> {
        let socket = self.socket(slot)?;
        let family = socket.family;
        let TcpState::Listener(listener) = &mut socket.state else {
            return Err(Errno::EINVAL);
        };
        let slot = listener.ready.pop_front().ok_or(Errno::EAGAIN)?;
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EAGAIN) };
        socket.waker_key = Some(waker_key);
        let Some(connection) = socket.connection_mut() else { return Err(Errno::EAGAIN) };
        connection.phase = Phase::Open;
        connection.is_reported = true;
        let remote = connection.tuple.remote.present(family);
        Ok((slot, remote))
    }

    /// Receives the SYN of a new connection. Defers it if the listener has no room, and answers it with a
    /// cookie if too many are deferred.
    pub(crate) fn receive_syn(
        &mut self,
        listener: u32,
        syn: (&Segment<'_>, Tuple),
        via: Via,
        context: &mut Context<'_>,
    ) {
        // Deferred SYNs come first.
        let is_behind = self.has_deferred(listener);
        if !is_behind && self.add_half_open(listener, syn, via, context) {
            return;
        }
        if self.has_too_many_deferred(context.buffers) && self.is_accepting(listener) {
            self.send_cookie(listener, syn, via, context);
        } else {
            self.defer(listener, syn, via, context);
        }
    }

    /// Creates a half-open connection from a SYN; returns `false` without room or memory.
    pub(crate) fn add_half_open(
        &mut self,
        listener: u32,
        syn: (&Segment<'_>, Tuple),
        via: Via,
        context: &mut Context<'_>,
    ) -> bool {
        if !self.make_room(listener, context) {
            return false;
        }
        let (segment, tuple) = syn;
        let Some(parameters) = self.parameters_of(listener, &tuple, via, context) else { return false };
        let tcp = hermit_tcp::Connection::accept(parameters, segment, context.now);
        let Ok(slot) = self.half_open(listener, tcp, tuple, via, context) else { return false };
        self.mark(slot);
        true
    }

    /// Makes room for one more half-open connection of a listener; returns `false` without room. The backlog
    /// limits the number of young connections. Old ones may stay up to a higher limit, since a busy peer or
    /// guest may be late. Above this limit, the oldest connection is discarded if its [`ANSWER_TIME`] (in a
    /// flood, its [`GRACE`]) has passed. If there are too many in total, and this listener does not have most
    /// of them, it is the oldest of all listeners; otherwise it is the oldest of this listener.
    fn make_room(&mut self, slot: u32, context: &mut Context<'_>) -> bool {
        let shards = self.sharding.count();
        let most = context.buffers.limit() / HALF_OPEN_PART / CONNECTION;
        let (all, oldest_of_all) = (self.half_open.len(), self.half_open.front().copied());
        let is_crowded = all >= ALL_HALF_OPEN.min(most) / shards;
        let Some(listener) = self.listener(slot) else { return false };
        if listener.is_full() {
            return false;
        }
        // Young half-open connections must fit into the accept queue, together with those already in it.
        let room = listener.backlog.max(FEW_HALF_OPEN) + 1 - listener.ready.len();
        let room = listener.backlog.clamp(FEW_HALF_OPEN, MANY_HALF_OPEN).min(room);
        let half_open = listener.half_open.len();
        // Youngest of the connections that are above the limit.
        let last = half_open.checked_sub(room).and_then(|last| listener.half_open.get(last).copied());
        let gives_own = half_open >= MANY_HALF_OPEN || half_open > all / 2;
        let oldest = if gives_own { listener.half_open.front().copied() } else { oldest_of_all };
        let now = context.now;
        if last.is_some_and(|last| !self.began_by(last, now.saturating_sub(GRACE))) {
            return false;
        }
        if half_open < MANY_HALF_OPEN && !is_crowded {
            return true;
        }
        let is_flood = self.deferred.is_flood();
        // Frames that are not received yet may hold the answer. Unless there is a flood, time counts only up
        // to the last moment at which the receive queue was empty.
        let (time, answer_time) = if is_flood { (now, GRACE) } else { (context.phy.caught_up, ANSWER_TIME) };
        let latest = time.saturating_sub(answer_time);
        let Some(oldest) = oldest.filter(|&oldest| self.began_by(oldest, latest)) else { return false };
        self.discard(oldest, context);
        true
    }

    /// True if a half-open connection started at this time or before.
    fn began_by(&mut self, slot: u32, time: u64) -> bool {
        self.connection(slot).is_none_or(|connection| connection.started <= time)
    }

    /// Parameters of a new connection of a listener.
    pub(super) fn parameters_of(
        &self,
        listener: u32,
        tuple: &Tuple,
        via: Via,
        context: &Context<'_>,
    ) -> Option<Parameters> {
        let settings = self.sockets.get(listener)?.settings;
        Some(self.parameters(&settings, via.path(&tuple.remote.address), tuple, context))
    }

    /// True if the accept queue of a listener has room.
    pub(super) fn is_accepting(&mut self, slot: u32) -> bool {
        self.listener(slot).is_some_and(|listener| !listener.is_full())
    }

    /// Adds a half-open connection of a listener; returns its slot.
    pub(super) fn half_open(
        &mut self,
        listener: u32,
        tcp: hermit_tcp::Connection,
        tuple: Tuple,
        via: Via,
        context: &mut Context<'_>,
    ) -> Result<u32, Errno> {
        let Some(socket) = self.sockets.get(listener) else { return Err(Errno::EBADF) };
        let (family, settings) = (socket.family, socket.settings);
        let path = via.path(&tuple.remote.address);
        let mut connection = Connection::new(tcp, tuple, path, Phase::HalfOpen { listener }, context.now);
        connection.apply(&settings);
        let socket = Socket::new(None, family, settings, TcpState::Connection(connection));
        let slot = self.adopt(socket, context)?;
        let queue = self.listener(listener).map(|listener| &mut listener.half_open);
        let is_queued = queue.is_some_and(|queue| enqueue(queue, slot)) && enqueue(&mut self.half_open, slot);
        if !is_queued {
            self.discard(slot, context);
            return Err(Errno::ENOMEM);
        }
        Ok(slot)
    }

    /// True if the final ACK of a handshake is dropped, because the accept queue of its listener is full.
    pub(crate) fn drops_final_ack_of(&self, listener: u32) -> bool {
        self.sockets.get(listener).is_some_and(|socket| match &socket.state {
            // With a larger backlog the handshake completes although the queue is full: passt does not
            // retransmit the ACK.
            TcpState::Listener(listener) => listener.is_full() && listener.backlog < FEW_HALF_OPEN,
            _ => false,
        })
    }

    /// Moves a connection to the accept queue after the handshake.
    pub(crate) fn complete(&mut self, slot: u32, listener: u32, context: &mut Context<'_>) {
        dequeue(&mut self.half_open, slot);
        if let Some(connection) = self.connection(slot) {
            connection.phase = Phase::Queued { listener };
        }
        self.sockets.wake(listener);
        let Some(listener) = self.listener(listener) else { return };
        dequeue(&mut listener.half_open, slot);
        if !enqueue(&mut listener.ready, slot) {
            self.abandon(slot, context);
        }
    }

    /// Resets a connection that will not be accepted: its listener is closed, or the accept queue cannot
    /// grow.
    fn abandon(&mut self, slot: u32, context: &mut Context<'_>) {
        if let Some(connection) = self.connection(slot) {
            connection.phase = Phase::Open;
        }
        self.reset(slot, None, context);
    }

    /// Removes a connection from the queues of its listener, if it has one.
    pub(crate) fn detach(&mut self, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        match core::mem::replace(&mut connection.phase, Phase::Open) {
            Phase::HalfOpen { listener } => {
                dequeue(&mut self.half_open, slot);
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

    /// Closes a listener. Discards half-open connections, and resets connections in the accept queue and the
    /// peers of deferred SYNs.
    pub(crate) fn close_listener(&mut self, slot: u32, context: &mut Context<'_>) {
        let Some(listener) = self.listener(slot).map(core::mem::take) else { return };
        self.reset_deferred(slot, listener.deferred, context);
        for half_open in listener.half_open {
            self.discard(half_open, context);
        }
        for ready in listener.ready {
            self.abandon(ready, context);
        }
    }

    /// Returns the listener for a SYN with this destination, an address of this host.
    pub(super) fn find_listener(&self, tuple: &Tuple, ports: &Ports) -> Option<u32> {
        ports.listener(tuple.local.port, tuple.local.address, self.number)
    }

    /// Turns a listener into an unconnected stream; it stays bound, unless the stack chose the port.
    pub(crate) fn stop_listening(&mut self, slot: u32, context: &mut Context<'_>) {
        self.close_listener(slot, context);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        socket.state = TcpState::Idle;
        let port = socket.local.port;
        context.tcp_ports.update(port, slot, |binding| binding.is_listening = false);
        self.sockets.wake(slot);
        self.sockets.release_port(slot, context.tcp_ports);
    }
}
