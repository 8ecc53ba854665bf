//! The stack as a whole: what its user calls.

use core::net::SocketAddr;

use hermit_interface::Errno;

use crate::address::Endpoint;
use crate::configuration::{Configuration, Status};
use crate::control::Control;
use crate::core::{Body, Core, Entry};
use crate::hardware::Hardware;
use crate::host::Host;
use crate::link::Device;
use crate::options::{OptionName, SocketOption};
use crate::resolve::{Addresses, Families, QueryId, ResolveError};
use crate::socket::{Family, Kind, Readiness, Shutdown, SocketId};

/// All sockets, and the device beneath them.
///
/// Nothing here waits: what would says `EAGAIN` or `EINPROGRESS`, and [`Host::wake`] tells when it may go on. Calls
/// on sockets change state only; what they give rise to is sent by the next [`poll`](Self::poll), which is therefore
/// called after each of them, before the lock around the stack is released. They act at the time of the last
/// `poll` or [`advance`](Self::advance).
#[derive(Debug)]
pub struct Stack<H, S> {
    hardware: Option<H>,
    host: S,
    pub(crate) core: Core,
}

impl<H: Hardware, S: Host> Stack<H, S> {
    /// A stack over a device, or with the loopback alone. Times are nanoseconds since any moment.
    pub fn new(hardware: Option<H>, host: S, configuration: Configuration, now: u64) -> Self {
        let info = hardware.as_ref().map(Hardware::info);
        let mut host = host;
        let core = Core::new(info, &mut host, configuration, now);
        Self { hardware, host, core }
    }

    /// Receives what there is, does what is due and transmits.
    ///
    /// The work is bounded, so that it may return `now`: call again at once. Returns when to call again at the
    /// latest; `None` if nothing is due unless something is received.
    pub fn poll(&mut self, now: u64) -> Option<u64> {
        self.core.poll(&mut self.hardware, &mut self.host, now)
    }

    /// Sends what calls gave rise to, if they did to anything: a [`poll`](Self::poll) for those who have no time to look
    /// for what was received. Returns the same: when to poll at the latest.
    pub fn settle(&mut self, now: u64) -> Option<u64> {
        if self.core.is_settled() { self.core.next(false) } else { self.poll(now) }
    }

    /// Tells the time, at which the calls that follow act.
    pub fn advance(&mut self, now: u64) {
        self.core.now = self.core.now.max(now);
    }

    /// The device.
    pub fn hardware(&mut self) -> Option<&mut H> {
        self.hardware.as_mut()
    }

    /// The system around the stack.
    pub fn host(&mut self) -> &mut S {
        &mut self.host
    }

    /// How the stack is set up.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Whether what can be waited for is there: an address of IPv4, if a DHCP server is asked. With a static address of
    /// either version, and without a device, it is from the start.
    pub fn is_configured(&self) -> bool {
        self.core.control.as_ref().is_none_or(Control::is_configured)
    }

    /// A new socket; `cookie` is what [`Host::wake`] gets when its readiness may have changed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn socket(&mut self, family: Family, kind: Kind, cookie: usize) -> Result<SocketId, Errno> {
        self.core.socket(family, kind, cookie)
    }

    /// Closes a socket. What was sent is delivered without it, unless there is data that was not received, which
    /// resets the connection.
    ///
    /// # Errors
    ///
    /// `EBADF`, here and below: there is no such socket.
    pub fn close(&mut self, id: SocketId) -> Result<(), Errno> {
        self.close_with(id, false)
    }

    /// Closes a socket and resets its connection: what `SO_LINGER` with a time of zero asks for.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn close_now(&mut self, id: SocketId) -> Result<(), Errno> {
        self.close_with(id, true)
    }

    /// Begins to close a socket, for one who waits until what was sent has been delivered (`SO_LINGER`) before it
    /// calls [`close`](Self::close): nothing is sent or received any more.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: not everything has been delivered. `EBADF`.
    pub fn finish(&mut self, id: SocketId) -> Result<(), Errno> {
        let (slot, _) = self.core.entry(id)?;
        self.core.finish_stream(slot)
    }

    /// Closes all sockets, since the system ends: nothing but [`poll`](Self::poll), [`advance`](Self::advance) and
    /// [`is_delivered`](Self::is_delivered) is called any more.
    pub fn wind_up(&mut self) {
        let slots = u32::try_from(self.core.sockets.slots()).unwrap_or(u32::MAX);
        for slot in 0..slots {
            // What is nobody's is being closed already.
            let _ = self.close(self.core.sockets.id(slot));
        }
    }

    /// Whether, after [`wind_up`](Self::wind_up), other hosts have everything that was sent to them and know of the end; until
    /// then the stack is to be polled.
    pub fn is_delivered(&mut self) -> bool {
        self.core.is_delivered()
    }

    /// Size in bytes of the buffers that are kept for later connections.
    #[must_use]
    pub const fn kept_memory(&self) -> usize {
        self.core.budget.kept()
    }

    /// Frees the buffers that are kept for later connections.
    pub fn reclaim(&mut self) {
        self.core.budget.reclaim();
    }

    /// Gives a socket its own address; port 0 chooses one.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it has one. `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`.
    pub fn bind(&mut self, id: SocketId, local: SocketAddr) -> Result<(), Errno> {
        let (slot, entry) = self.core.entry(id)?;
        let local = Endpoint::of(local, entry.family)?;
        if entry.is_datagrams() {
            self.core.bind_datagrams(slot, local, &mut self.host)
        } else {
            self.core.bind_stream(slot, local, &mut self.host)
        }
    }

    /// Makes a stream socket a listener, or changes a listener's backlog.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is connected. `EOPNOTSUPP`: no stream. `EADDRINUSE`.
    pub fn listen(&mut self, id: SocketId, backlog: i32) -> Result<(), Errno> {
        self.core.listen(id, backlog, &mut self.host)
    }

    /// Takes a connection from a listener, with the peer's address.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: there is none. `EINVAL`: no listener. `EOPNOTSUPP`: no stream.
    pub fn accept(&mut self, id: SocketId, cookie: usize) -> Result<(SocketId, SocketAddr), Errno> {
        self.core.accept(id, cookie)
    }

    /// Begins to connect a stream, whose readiness tells the end, or sets the peer of a datagram socket.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS`: it has begun. `EALREADY`, `EISCONN`, `ENETUNREACH`, `EAFNOSUPPORT`, `EADDRNOTAVAIL`, `ENOMEM`,
    /// and what had happened before ([`SocketOption::Error`]).
    pub fn connect(&mut self, id: SocketId, remote: SocketAddr) -> Result<(), Errno> {
        let (slot, entry) = self.core.entry(id)?;
        let remote = Endpoint::of(remote, entry.family)?;
        if entry.is_datagrams() {
            self.core.connect_datagrams(slot, remote, &mut self.host)
        } else {
            self.core.connect_stream(slot, remote, &mut self.host)
        }
    }

    /// Clears the peer of a datagram socket: what `connect` with `AF_UNSPEC` asks for.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: it is a stream.
    pub fn disconnect(&mut self, id: SocketId) -> Result<(), Errno> {
        let (slot, entry) = self.core.entry(id)?;
        if !entry.is_datagrams() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.core.disconnect_datagrams(slot);
        Ok(())
    }

    /// Sends bytes, and returns how many; a datagram as a whole, to the peer if `to` is `None`.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `EPIPE`, `ENOTCONN`, `EDESTADDRREQ`, `EMSGSIZE`, `EACCES` (broadcast), `ENETUNREACH`, `EINVAL`, and
    /// what had happened before.
    pub fn send(&mut self, id: SocketId, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
        let (slot, entry) = self.core.entry(id)?;
        if !entry.is_datagrams() {
            return self.core.send_stream(slot, bytes, &mut Device::new(&mut self.hardware));
        }
        let to = to.map(|to| Endpoint::of(to, entry.family)).transpose()?;
        self.core.send_datagram(slot, bytes, to, &mut Device::new(&mut self.hardware), &mut self.host)
    }

    /// Receives bytes into `sink`, which says how many of those it is given it took, and is given more as long as
    /// it takes all; or one datagram, of which it is given everything at once.
    ///
    /// Returns how many it took, and a datagram's sender. 0 of a stream means that the peer sends no more. With
    /// `peek` they stay. `sink` may be called with no bytes (an empty datagram), or not at all.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `ENOTCONN`, and what had happened before.
    pub fn receive(
        &mut self,
        id: SocketId,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<(usize, Option<SocketAddr>), Errno> {
        let (slot, entry) = self.core.entry(id)?;
        if !entry.is_datagrams() {
            return self.core.receive_stream(slot, peek, sink).map(|taken| (taken, None));
        }
        let family = entry.family;
        let (taken, from) = self.core.take_datagram(slot, peek, sink)?;
        Ok((taken, Some(from.present(family))))
    }

    /// Shuts one half of a socket down, or both.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub fn shutdown(&mut self, id: SocketId, how: Shutdown) -> Result<(), Errno> {
        let (slot, entry) = self.core.entry(id)?;
        if entry.is_datagrams() {
            self.core.shut_datagrams(slot, how, &mut self.host)
        } else {
            self.core.shut_stream(slot, how, &mut self.host)
        }
    }

    /// A socket's own address; unspecified with port 0 if it has none.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn local(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        let entry = self.core.peek(id)?;
        Ok(if entry.is_datagrams() { Core::local_of_datagrams(entry) } else { Core::local_of_stream(entry) })
    }

    /// The address of a socket's peer.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub fn remote(&self, id: SocketId) -> Result<SocketAddr, Errno> {
        let entry = self.core.peek(id)?;
        match entry.datagrams() {
            Some(datagrams) => {
                datagrams.peer().map(|remote| remote.present(entry.family)).ok_or(Errno::ENOTCONN)
            }
            None => Core::remote_of_stream(entry),
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOPROTOOPT`, `EADDRINUSE` (joined already), `EADDRNOTAVAIL` (not joined), `ENODEV`.
    pub fn set_option(&mut self, id: SocketId, option: SocketOption) -> Result<(), Errno> {
        self.core.set_option(id, option)
    }

    /// Reads an option.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT`.
    pub fn option(&mut self, id: SocketId, name: OptionName) -> Result<SocketOption, Errno> {
        self.core.option(id, name)
    }

    /// What `poll` says of a socket; of one that does not exist, nothing.
    pub fn readiness(&self, id: SocketId) -> Readiness {
        self.core.peek(id).map_or_else(|_| Readiness::default(), Entry::readiness)
    }

    /// Begins to look up a name, which may also be an address in text, `localhost` or the host's own.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it cannot be a name. `ENOMEM`.
    pub fn resolve(&mut self, name: &str, families: Families, cookie: usize) -> Result<QueryId, Errno> {
        self.core.resolve(name, families, cookie, &mut self.host)
    }

    /// The answer to a query, which ends it unless it is [`ResolveError::Pending`].
    ///
    /// # Errors
    ///
    /// Why there are no addresses.
    pub fn resolved(&mut self, query: QueryId) -> Result<Addresses, ResolveError> {
        self.core.resolved(query)
    }

    /// Gives a query up.
    pub fn cancel(&mut self, query: QueryId) {
        self.core.cancel(query);
    }
}

impl<H: Hardware, S: Host> Stack<H, S> {
    fn close_with(&mut self, id: SocketId, is_reset: bool) -> Result<(), Errno> {
        let (slot, entry) = self.core.entry(id)?;
        // What is not accepted yet, or was closed, is nobody's.
        entry.cookie.ok_or(Errno::EBADF)?;
        if entry.is_datagrams() {
            self.core.close_datagrams(slot);
        } else {
            self.core.close_stream(slot, is_reset, &mut self.host);
        }
        Ok(())
    }
}

impl Entry {
    /// What `poll` says.
    fn readiness(&self) -> Readiness {
        let error = self.error.is_some();
        match &self.body {
            // As Linux says of a stream that was never connected.
            Body::Idle => Readiness { write: true, hang_up: true, error, ..Readiness::default() },
            Body::Listener(listener) => {
                Readiness { read: listener.has_ready(), error, ..Readiness::default() }
            }
            Body::Connection(connection) => connection.readiness(error),
            Body::Datagrams(datagrams) => datagrams.readiness(error),
        }
    }
}

impl Core {
    fn status(&self) -> Status {
        let Some(control) = &self.control else { return Status::default() };
        Status {
            has_hardware: true,
            addresses: self.network.addresses.clone(),
            gateways: self.network.gateways.clone(),
            nameservers: control.names.servers().into(),
            ignored: control.ignored.clone(),
        }
    }
}
