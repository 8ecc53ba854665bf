//! The interface of the stack to the kernel.

use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_interface::net::{OptionName, SocketOption};

use crate::config::{Configuration, Status};
use crate::dns::answer::{Addresses, ResolveError};
use crate::dns::{Families, QueryId};
use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::config::HostConfig;
use crate::phy::device::NetDevice;
use crate::phy::tx_queue::DeviceLink;
use crate::socket::address::Endpoint;
use crate::socket::id::SocketId;
use crate::socket::{Family, Kind, Readiness, Shutdown, Socket, SocketState};

/// The stack: all sockets, and the network device.
///
/// Nothing here blocks: calls that would fail with `EAGAIN` or `EINPROGRESS`, and [`Host::wake`] reports when to retry.
/// Calls on sockets change state only; the next [`poll`](Self::poll) transmits, so the kernel calls it after each of
/// them, before it releases the lock around the stack. Calls use the time of the last `poll` or
/// [`advance`](Self::advance).
#[derive(Debug)]
pub struct Stack<H, S> {
    device: Option<H>,
    host: S,
    pub(crate) inner: StackInner,
}

impl<H: NetDevice, S: Host> Stack<H, S> {
    /// Creates a stack with a device, or with the loopback only. Times are nanoseconds of a monotonic clock.
    pub fn new(device: Option<H>, host: S, configuration: Configuration, now: u64) -> Self {
        let info = device.as_ref().map(NetDevice::info);
        let mut host = host;
        let inner = StackInner::new(info, &mut host, configuration, now);
        Self { device, host, inner }
    }

    /// Receives frames, handles expired timers and transmits.
    ///
    /// The work of one call is bounded: if some is left, it returns `now`. Returns the time of the next timer; `None`
    /// if there is none.
    pub fn poll(&mut self, now: u64) -> Option<u64> {
        self.inner.poll(&mut self.device, &mut self.host, now)
    }

    /// Transmits what preceding calls have queued, if anything; a [`poll`](Self::poll) that does not receive if nothing
    /// is queued. Returns the time of the next timer, as `poll` does.
    pub fn settle(&mut self, now: u64) -> Option<u64> {
        if self.inner.is_settled() { self.inner.next(false) } else { self.poll(now) }
    }

    /// Sets the time of the calls that follow.
    pub fn advance(&mut self, now: u64) {
        self.inner.now = self.inner.now.max(now);
    }

    /// The network device.
    pub fn device(&mut self) -> Option<&mut H> {
        self.device.as_mut()
    }

    /// The system around the stack.
    pub fn host(&mut self) -> &mut S {
        &mut self.host
    }

    /// Current configuration of the stack.
    pub fn status(&self) -> Status {
        self.inner.status()
    }

    /// Whether automatic configuration has completed: there is an IPv4 address, if DHCP is used. With a static address
    /// of either version, and without a device, it is complete from the start.
    pub fn is_configured(&self) -> bool {
        self.inner.ip.config.as_ref().is_none_or(HostConfig::is_configured)
    }

    /// Creates a socket; [`Host::wake`] is called with `waker_key` when its readiness may have changed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn socket(&mut self, family: Family, kind: Kind, waker_key: usize) -> Result<SocketId, Errno> {
        self.inner.create_socket(family, kind, waker_key)
    }

    /// Closes a socket. Sent data is still delivered, unless received data was not read, which resets the connection.
    ///
    /// # Errors
    ///
    /// `EBADF`, here and below: the socket does not exist.
    pub fn close(&mut self, id: SocketId) -> Result<(), Errno> {
        self.close_with(id, false)
    }

    /// Closes a socket and resets its connection (`SO_LINGER` with a time of zero).
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn close_now(&mut self, id: SocketId) -> Result<(), Errno> {
        self.close_with(id, true)
    }

    /// Shuts a socket down before a lingering close (`SO_LINGER`): no more data can be sent or received. The caller
    /// retries until sent data is acknowledged, then calls [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// `EAGAIN`: sent data is not acknowledged yet. `EBADF`.
    pub fn finish(&mut self, id: SocketId) -> Result<(), Errno> {
        let (slot, _) = self.inner.socket_mut(id)?;
        self.inner.finish_stream(slot)
    }

    /// Closes all sockets at shutdown. Afterwards only [`poll`](Self::poll), [`advance`](Self::advance) and
    /// [`is_delivered`](Self::is_delivered) may be called.
    pub fn close_all(&mut self) {
        let slots = u32::try_from(self.inner.sockets.slots()).unwrap_or(u32::MAX);
        for slot in 0..slots {
            // Connections without a socket are being closed already, so the error is ignored.
            let _ = self.close(self.inner.sockets.id(slot));
        }
    }

    /// Whether, after [`close_all`](Self::close_all), all sent data and FINs are acknowledged; until then the kernel
    /// polls the stack.
    pub fn is_delivered(&mut self) -> bool {
        self.inner.is_delivered()
    }

    /// Size in bytes of the buffers that are kept for later connections.
    #[must_use]
    pub const fn kept_memory(&self) -> usize {
        self.inner.buffers.kept()
    }

    /// Frees the buffers that are kept for later connections.
    pub fn reclaim(&mut self) {
        self.inner.buffers.reclaim();
    }

    /// Binds a socket to a local address; port 0 chooses an unused port.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is bound already. `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`.
    pub fn bind(&mut self, id: SocketId, local: SocketAddr) -> Result<(), Errno> {
        let (slot, socket) = self.inner.socket_mut(id)?;
        let local = Endpoint::of(local, socket.family)?;
        if socket.is_udp() {
            self.inner.bind_udp(slot, local, &mut self.host)
        } else {
            self.inner.bind_stream(slot, local, &mut self.host)
        }
    }

    /// Makes a stream socket a listener, or changes a listener's backlog.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is connected. `EOPNOTSUPP`: not a stream. `EADDRINUSE`.
    pub fn listen(&mut self, id: SocketId, backlog: i32) -> Result<(), Errno> {
        self.inner.listen(id, backlog, &mut self.host)
    }

    /// Accepts a connection of a listener; returns its socket and the peer's address.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: the accept queue is empty. `EINVAL`: not a listener. `EOPNOTSUPP`: not a stream.
    pub fn accept(&mut self, id: SocketId, waker_key: usize) -> Result<(SocketId, SocketAddr), Errno> {
        self.inner.accept(id, waker_key)
    }

    /// Starts to connect a stream, whose readiness reports the end, or sets the peer of a datagram socket.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS`: it has started. `EALREADY`, `EISCONN`, `ENETUNREACH`, `EAFNOSUPPORT`, `EADDRNOTAVAIL`, `ENOMEM`,
    /// and the pending error (`SO_ERROR`).
    pub fn connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<(), Errno> {
        let (slot, socket) = self.inner.socket_mut(id)?;
        let remote = Endpoint::of(remote, socket.family)?;
        if socket.is_udp() {
            self.inner.connect_udp(slot, remote, &mut self.host)
        } else {
            self.inner.connect_stream(slot, remote, &mut self.host)
        }
    }

    /// Clears the peer of a datagram socket (`connect` with `AF_UNSPEC`).
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: it is a stream.
    pub fn disconnect(&mut self, id: SocketId) -> Result<(), Errno> {
        let (slot, socket) = self.inner.socket_mut(id)?;
        if !socket.is_udp() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.inner.disconnect_udp(slot);
        Ok(())
    }

    /// Sends bytes; returns their number. A datagram is sent as a whole, to the peer if `to` is `None`.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `EPIPE`, `ENOTCONN`, `EDESTADDRREQ`, `EMSGSIZE`, `EACCES` (broadcast), `ENETUNREACH`, `EINVAL`, and
    /// the pending error.
    pub fn send(&mut self, id: SocketId, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
        let (slot, socket) = self.inner.socket_mut(id)?;
        if !socket.is_udp() {
            return self.inner.send_stream(slot, bytes, &mut DeviceLink::new(&mut self.device));
        }
        let to = to.map(|to| Endpoint::of(to, socket.family)).transpose()?;
        self.inner.send_datagram(slot, bytes, to, &mut DeviceLink::new(&mut self.device), &mut self.host)
    }

    /// Receives bytes into `sink`, which returns how many of the given bytes it took, and is called again while it
    /// takes all; or one datagram, with one call.
    ///
    /// Returns the number of bytes taken, and a datagram's sender. 0 of a stream means that the peer has sent its FIN.
    /// With `peek` the bytes stay in the receive queue. `sink` may be called with no bytes (an empty datagram), or not
    /// at all.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `ENOTCONN`, and the pending error.
    pub fn receive(
        &mut self,
        id: SocketId,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<(usize, Option<SocketAddr>), Errno> {
        let (slot, socket) = self.inner.socket_mut(id)?;
        if !socket.is_udp() {
            return self.inner.receive_stream(slot, peek, sink).map(|taken| (taken, None));
        }
        let family = socket.family;
        let (taken, from) = self.inner.receive_from_queue(slot, peek, sink)?;
        Ok((taken, Some(from.present(family))))
    }

    /// Shuts down one or both directions of a socket.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub fn shutdown(&mut self, id: SocketId, how: Shutdown) -> Result<(), Errno> {
        let (slot, socket) = self.inner.socket_mut(id)?;
        if socket.is_udp() {
            self.inner.shut_udp(slot, how, &mut self.host)
        } else {
            self.inner.shut_stream(slot, how, &mut self.host)
        }
    }

    /// The local address of a socket; the unspecified one with port 0 if it is not bound.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn local(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        let socket = self.inner.socket(id)?;
        Ok(if socket.is_udp() {
            StackInner::local_of_udp(socket)
        } else {
            StackInner::local_of_stream(socket)
        })
    }

    /// The address of a socket's peer.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub fn remote(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        let socket = self.inner.socket(id)?;
        match socket.as_udp() {
            Some(udp_socket) => {
                udp_socket.peer().map(|remote| remote.present(socket.family)).ok_or(Errno::ENOTCONN)
            }
            None => StackInner::remote_of_stream(socket),
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOPROTOOPT`, `EADDRINUSE` (joined already), `EADDRNOTAVAIL` (not joined), `ENODEV`.
    pub fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<(), Errno> {
        self.inner.set_option(id, option)
    }

    /// Reads the value of an option, an `int` or boolean.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`.
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<u32, Errno> {
        self.inner.option(id, name)
    }

    /// Readiness of a socket, as `poll` returns it; none of a socket that does not exist.
    pub fn readiness(&self, id: SocketId) -> Readiness {
        self.inner.socket(id).map_or_else(|_| Readiness::default(), Socket::readiness)
    }

    /// Starts a query for a name, which may also be an address in text, `localhost` or the host's own name.
    ///
    /// # Errors
    ///
    /// `EINVAL`: not a valid name. `ENOMEM`.
    pub fn resolve(&mut self, name: &str, families: Families, waker_key: usize) -> Result<QueryId, Errno> {
        let inner = &mut self.inner;
        inner.dns.resolve(name, families, waker_key, (&mut inner.ip, &mut self.host, inner.now))
    }

    /// Result of a query; ends the query unless the result is [`ResolveError::Pending`].
    ///
    /// # Errors
    /// The reason why there are no addresses.
    pub fn resolved(&mut self, query: QueryId) -> Result<Addresses, ResolveError> {
        self.inner.dns.resolved(query, &self.inner.ip)
    }

    /// Cancels a query.
    pub fn cancel(&mut self, query: QueryId) {
        self.inner.dns.cancel(query);
    }
}

impl<H: NetDevice, S: Host> Stack<H, S> {
    fn close_with(&mut self, id: SocketId, is_reset: bool) -> Result<(), Errno> {
        let (slot, socket) = self.inner.socket_mut(id)?;
        // A connection that is not accepted yet, or was closed, has no waker key.
        socket.waker_key.ok_or(Errno::EBADF)?;
        if socket.is_udp() {
            self.inner.close_udp(slot);
        } else {
            self.inner.close_stream(slot, is_reset, &mut self.host);
        }
        Ok(())
    }
}

impl Socket {
    /// Readiness as `poll` returns it.
    fn readiness(&self) -> Readiness {
        let error = self.error.is_some();
        match &self.state {
            // As in Linux, for a stream that was never connected.
            SocketState::Idle => Readiness { write: true, hang_up: true, error, ..Readiness::default() },
            SocketState::Listener(listener) => {
                Readiness { read: listener.has_ready(), error, ..Readiness::default() }
            }
            SocketState::Connection(connection) => connection.readiness(error),
            SocketState::Udp(udp_socket) => udp_socket.readiness(error),
        }
    }
}

impl StackInner {
    fn status(&self) -> Status {
        let Some(config) = &self.ip.config else { return Status::default() };
        Status {
            has_device: true,
            addresses: self.ip.routes.addresses.clone(),
            gateways: self.ip.routes.gateways.clone(),
            nameservers: self.dns.servers().into(),
            ignored: config.ignored.clone(),
        }
    }
}
