//! The facade: the interface of the stack to the kernel.
//!
//! A call looks up the socket of its identifier, converts addresses to the stack's form, and calls `tcp` or
//! `udp` with a `Context`. Afterwards it wakes the waiters of all sockets with events. The errors are
//! documented here; they are Linux's.

use core::net::{IpAddr, SocketAddr};

use hermit_interface::Errno;
use hermit_interface::net::{OptionName, SocketOption};

use crate::config::{Configuration, Status};
use crate::dns::KnownAddresses;
use crate::host::Host;
use crate::ip::config::HostConfig;
use crate::layers::{Layers, Target};
use crate::phy::device::NetDevice;
use crate::phy::tx_queue::DeviceLink;
use crate::socket::address::{Endpoint, check_bound_scope, check_peer_scope};
use crate::socket::context::Context;
use crate::socket::id::SocketId;
use crate::socket::kind::{Family, Kind, Shutdown};
use crate::socket::readiness::Readiness;
use crate::tcp::layer::Tcp;
use crate::udp::layer::Udp;

/// The stack: all sockets, and the network device.
///
/// No call blocks. Calls that would block fail with `EAGAIN` or `EINPROGRESS`, and [`Host::wake`] reports
/// when to retry. Calls on sockets only change state, and the next [`poll`](Self::poll) transmits. The kernel
/// therefore polls after each call, before it releases the lock around the stack. Calls use the time of the
/// last `poll` or [`advance`](Self::advance).
#[derive(Debug)]
pub struct Stack<H, S> {
    device: Option<H>,
    host: S,
    pub(crate) layers: Layers,
}

impl<H: NetDevice, S: Host> Stack<H, S> {
    /// Creates a stack with a device, or with the loopback only. Times are nanoseconds of a monotonic clock.
    pub fn new(device: Option<H>, host: S, configuration: Configuration, now: u64) -> Self {
        let info = device.as_ref().map(NetDevice::info);
        let mut host = host;
        let layers = Layers::new(info, &mut host, &configuration, now);
        Self { device, host, layers }
    }

    /// Receives frames, handles expired timers and transmits.
    ///
    /// The work of one call is bounded. Returns `now` if work is left, otherwise the time of the next timer,
    /// or `None` if there is no timer.
    pub fn poll(&mut self, now: u64) -> Option<u64> {
        self.layers.poll(&mut self.device, &mut self.host, now)
    }

    /// Polls if preceding calls have queued something to transmit, and does nothing otherwise. Returns the
    /// time of the next timer, as [`poll`](Self::poll) does.
    pub fn settle(&mut self, now: u64) -> Option<u64> {
        if self.layers.is_settled() { self.layers.next(false) } else { self.poll(now) }
    }

    /// Sets the time of the following calls.
    pub fn advance(&mut self, now: u64) {
        self.layers.now = self.layers.now.max(now);
    }

    /// Returns the network device.
    pub fn device(&mut self) -> Option<&mut H> {
        self.device.as_mut()
    }

    /// Returns the system around the stack.
    pub fn host(&mut self) -> &mut S {
        &mut self.host
    }

    /// Current configuration of the stack.
    pub fn status(&self) -> Status<'_> {
        let Layers { ip, dns, .. } = &self.layers;
        let Some(config) = &ip.config else { return Status::default() };
        Status {
            has_device: true,
            addresses: &ip.routes.addresses,
            gateways: &ip.routes.gateways,
            nameservers: dns.servers(),
            ignored: &config.ignored,
        }
    }

    /// True if automatic configuration has completed: there is an IPv4 address, if DHCP is used. With a
    /// static address of either version, and without a device, it is complete from the start.
    pub fn is_configured(&self) -> bool {
        self.layers.ip.config.as_ref().is_none_or(HostConfig::is_configured)
    }

    /// Creates a socket; returns its identifier. The stack calls [`Host::wake`] with `waker_key` when the
    /// socket's readiness may have changed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn socket(&mut self, family: Family, kind: Kind, waker_key: usize) -> Result<SocketId, Errno> {
        self.layers.create(family, kind, waker_key)
    }

    /// Closes a socket. Sent data is still delivered. If received data was not read, the connection is reset
    /// instead.
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

    /// Shuts a socket down before a lingering close (`SO_LINGER`): no more data can be sent or received. The
    /// caller retries until sent data is acknowledged, and then calls [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// `EAGAIN`: sent data is not acknowledged yet. `EBADF`.
    pub fn finish(&mut self, id: SocketId) -> Result<(), Errno> {
        match self.layers.find(id)? {
            Target::Tcp(slot) => self.layers.tcp.of_mut(slot).shut_to_linger(slot),
            Target::Udp(_) => Ok(()),
        }
    }

    /// Closes all sockets at shutdown. Afterwards only [`poll`](Self::poll), [`advance`](Self::advance) and
    /// [`is_delivered`](Self::is_delivered) may be called.
    pub fn close_all(&mut self) {
        self.layers.buffers.keep_orphans();
        for kind in [Kind::Stream, Kind::Datagram] {
            let mut ids = 0..;
            while let Some(id) = ids.next().and_then(|index| self.layers.id_at(kind, index)) {
                // Connections without a socket are already being closed, so the error is ignored.
                let _ = self.close(id);
            }
        }
    }

    /// True if, after [`close_all`](Self::close_all), all sent data and FINs are acknowledged. Until then the
    /// kernel polls the stack.
    pub fn is_delivered(&mut self) -> bool {
        self.layers.is_delivered()
    }

    /// Size in bytes of the buffers that are cached for later connections.
    #[must_use]
    pub const fn kept_memory(&self) -> usize {
        self.layers.buffers.kept()
    }

    /// Frees the buffers that are cached for later connections.
    pub fn reclaim(&mut self) {
        self.layers.buffers.reclaim();
    }

    /// Binds a socket to a local address; port 0 chooses an unused port.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the socket is bound already, or the address is link-local without a scope. `ENODEV`: there
    /// is no interface of that scope. `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`.
    pub fn bind(&mut self, id: SocketId, local: SocketAddr) -> Result<(), Errno> {
        let target = self.layers.find(id)?;
        check_bound_scope(local, target.kind())?;
        let local = Endpoint::of(local, self.layers.family(target))?;
        self.call(|tcp, udp, context| match target {
            Target::Tcp(slot) => tcp.bind(slot, local, context),
            Target::Udp(slot) => udp.bind(slot, local, &context.ip.routes, context.random),
        })
    }

    /// Makes a stream socket a listener, or changes a listener's backlog.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the socket is connected. `EOPNOTSUPP`: not a stream. `EADDRINUSE`.
    pub fn listen(&mut self, id: SocketId, backlog: i32) -> Result<(), Errno> {
        let Target::Tcp(slot) = self.layers.find(id)? else { return Err(Errno::EOPNOTSUPP) };
        self.call(|tcp, _, context| tcp.listen(slot, backlog, context))
    }

    /// Accepts a connection of a listener; returns its socket and the peer's address.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: the accept queue is empty. `EINVAL`: not a listener. `EOPNOTSUPP`: not a stream.
    pub fn accept(&mut self, id: SocketId, waker_key: usize) -> Result<(SocketId, SocketAddr), Errno> {
        let Target::Tcp(slot) = self.layers.find(id)? else { return Err(Errno::EOPNOTSUPP) };
        let (slot, remote) = self.layers.tcp.accept(slot, waker_key)?;
        Ok((self.layers.id(Kind::Stream, slot), remote))
    }

    /// Starts to connect a stream, or sets the peer of a datagram socket. The readiness of a stream reports
    /// the end of the attempt.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS`: the attempt has started. `EINVAL`: the address is link-local without a scope.
    /// `EALREADY`, `EISCONN`, `ENETUNREACH`, `EAFNOSUPPORT`, `EADDRNOTAVAIL`, `ENOMEM`, and the pending error
    /// (`SO_ERROR`).
    pub fn connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<(), Errno> {
        let target = self.layers.find(id)?;
        check_peer_scope(remote, self.local(id)?, target.kind())?;
        let remote = Endpoint::of(remote, self.layers.family(target))?;
        self.call(|tcp, udp, context| match target {
            Target::Tcp(slot) => tcp.connect(slot, remote, context),
            Target::Udp(slot) => udp.connect(slot, remote, context),
        })
    }

    /// Clears the peer of a datagram socket (`connect` with `AF_UNSPEC`).
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: the socket is a stream.
    pub fn disconnect(&mut self, id: SocketId) -> Result<(), Errno> {
        let Target::Udp(slot) = self.layers.find(id)? else { return Err(Errno::EOPNOTSUPP) };
        self.layers.udp.disconnect(slot);
        Ok(())
    }

    /// Sends bytes; returns their number. A datagram is sent as a whole, to the peer if `to` is `None`.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, also if all memory for data is in use; `ENOBUFS` if the heap is exhausted; `EPIPE`,
    /// `ENOTCONN`, `EDESTADDRREQ`, `EMSGSIZE`, `EACCES` (broadcast), `ENETUNREACH`, `EINVAL`, and the pending
    /// error.
    pub fn send(&mut self, id: SocketId, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
        let sent = match self.layers.find(id)? {
            Target::Tcp(slot) => {
                let link = &mut DeviceLink::new(&mut self.device);
                let (tcp, _, mut context) = self.layers.split(&mut self.host);
                tcp.of_mut(slot).send(slot, bytes, link, &mut context)
            }
            Target::Udp(slot) => self.send_datagram(slot, bytes, to),
        };
        // The receiver may be a socket of this host.
        self.layers.wake(&mut self.host);
        sent
    }

    /// Receives bytes of a stream, or one datagram, into `sink`.
    ///
    /// `sink` returns the number of bytes it took. For a stream, `sink` is called until no bytes are left, or
    /// it takes fewer than it was given; for a datagram, at most once. It may be called with no bytes (an
    /// empty datagram), or not at all. Returns the number of bytes taken, and a datagram's sender. 0 means
    /// that the peer of a stream has sent its FIN. With `peek` the bytes stay in the receive queue.
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
        match self.layers.find(id)? {
            Target::Tcp(slot) => {
                let (tcp, _, mut context) = self.layers.split(&mut self.host);
                let taken = tcp.of_mut(slot).read(slot, peek, sink, &mut context)?;
                self.layers.wake_writers(&mut self.host);
                Ok((taken, None))
            }
            Target::Udp(slot) => self.take_datagram(slot, peek, sink),
        }
    }

    /// Shuts down one or both directions of a socket.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub fn shutdown(&mut self, id: SocketId, how: Shutdown) -> Result<(), Errno> {
        let target = self.layers.find(id)?;
        self.call(|tcp, udp, context| match target {
            Target::Tcp(slot) => tcp.shutdown(slot, how, context),
            Target::Udp(slot) => udp.shutdown(slot, how),
        })
    }

    /// Returns the local address of a socket: unspecified with port 0 if it is not bound.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn local(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        match self.layers.find(id)? {
            Target::Tcp(slot) => self.layers.tcp.of(slot).local(slot),
            Target::Udp(slot) => self.layers.udp.local(slot),
        }
    }

    /// Returns the address of a socket's peer.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub fn remote(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        match self.layers.find(id)? {
            Target::Tcp(slot) => self.layers.tcp.of(slot).remote(slot),
            Target::Udp(slot) => self.layers.udp.remote(slot),
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOPROTOOPT`, `EADDRINUSE` (joined already), `EADDRNOTAVAIL` (not joined), `ENODEV`.
    pub fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<(), Errno> {
        let target = self.layers.find(id)?;
        self.call(|tcp, udp, context| match target {
            Target::Tcp(slot) => tcp.set_option(slot, &option, context),
            Target::Udp(slot) => udp.set_option(slot, &option, context),
        })
    }

    /// Reads the value of an option, an `int` or boolean.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`.
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<u32, Errno> {
        let target = self.layers.find(id)?;
        self.call(|tcp, udp, context| match target {
            Target::Tcp(slot) => tcp.of_mut(slot).option(slot, name, context),
            Target::Udp(slot) => udp.option(slot, name),
        })
    }

    /// Readiness of a socket, as `poll` returns it; empty for a socket that does not exist.
    pub fn readiness(&self, id: SocketId) -> Readiness {
        match self.layers.find(id) {
            Ok(Target::Tcp(slot)) => self.layers.tcp.readiness(slot),
            Ok(Target::Udp(slot)) => self.layers.udp.readiness(slot),
            Err(_) => Readiness::default(),
        }
    }

    /// Addresses of a name that this machine defines; `None` for any other name. These names are the
    /// machine's own host name and [`HOST_NAME`](hermit_interface::net::HOST_NAME), the name of its host.
    /// `HOST_NAME` may have no address.
    pub fn known_addresses(&self, name: &str) -> Option<KnownAddresses> {
        self.layers.dns.known_addresses(name, &self.layers.ip)
    }

    /// DNS servers in use.
    pub fn nameservers(&self) -> &[IpAddr] {
        self.layers.dns.servers()
    }

    /// Domains that complete names, in the format of DNS messages. The domains may be compressed within the
    /// list.
    pub fn search(&self) -> &[u8] {
        self.layers.dns.search()
    }
}

impl<H: NetDevice, S: Host> Stack<H, S> {
    /// Calls a protocol, then wakes the waiters of sockets with events. Returns the result of `action`.
    #[inline]
    fn call<R>(&mut self, action: impl FnOnce(&mut Tcp, &mut Udp, &mut Context<'_>) -> R) -> R {
        let (tcp, udp, mut context) = self.layers.split(&mut self.host);
        let result = action(tcp, udp, &mut context);
        self.layers.wake(&mut self.host);
        result
    }

    /// Sends a datagram. Not inlined into `send`: the larger stack frame would slow down streams.
    #[inline(never)]
    fn send_datagram(&mut self, slot: u32, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
        let (_, udp, mut context) = self.layers.split(&mut self.host);
        let family = udp.family(slot);
        let to = to.map(|to| Endpoint::of(to, family)).transpose()?;
        udp.send(slot, bytes, to, &mut DeviceLink::new(&mut self.device), &mut context)
    }

    /// Receives a datagram. Not inlined, for the reason given at [`send_datagram`](Self::send_datagram).
    #[inline(never)]
    fn take_datagram(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<(usize, Option<SocketAddr>), Errno> {
        let Layers { udp, buffers, .. } = &mut self.layers;
        let family = udp.family(slot);
        let (taken, from) = udp.take(slot, peek, sink, buffers)?;
        self.layers.wake_writers(&mut self.host);
        Ok((taken, Some(from.present(family))))
    }

    fn close_with(&mut self, id: SocketId, is_reset: bool) -> Result<(), Errno> {
        let target = self.layers.find(id)?;
        self.call(|tcp, udp, context| match target {
            Target::Tcp(slot) => {
                tcp.forget_moves(id.key());
                tcp.close(slot, is_reset, context)
            }
            Target::Udp(slot) => {
                udp.close(slot, context);
                Ok(())
            }
        })
    }
}
