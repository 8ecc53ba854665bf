//! What programs do with streams.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hermit_interface::Errno;
use smoltcp::socket::tcp::{CongestionControl, State};

use crate::address::{Endpoint, Tuple};
use crate::core::{Body, Core, Entry, instant};
use crate::host::Host;
use crate::network::Route;
use crate::options::Settings;
use crate::ports::Ports;
use crate::socket::Shutdown;
use crate::tcp::channel::Channel;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::side::Path;

/// The address that is meant by connecting to all of a family: this host.
pub(crate) const fn or_loopback(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}

impl Core {
    /// Gives a stream its own address.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(crate) fn bind_stream(
        &mut self,
        slot: u32,
        local: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        self.forget_old();
        let Some(entry) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        if entry.bound.is_some() || !matches!(entry.body, Body::Idle) {
            return Err(Errno::EINVAL);
        }
        self.check_own(entry.family, &entry.settings, local.address)?;
        self.take_address(slot, local, host)
    }

    /// A channel for a connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn channel(&mut self, settings: &Settings, path: Path) -> Result<Channel, Errno> {
        let size = |size: Option<u32>| size.and_then(|size| usize::try_from(size).ok());
        let mut channel = self.budget.channel(size(settings.receive_buffer), size(settings.send_buffer))?;
        // Nothing is lost between two ends on one host but for want of memory.
        channel.refresh(if path == Path::Local { CongestionControl::None } else { CongestionControl::Reno });
        Ok(channel)
    }

    /// Adds a connection, of which the tables know then.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn adopt(&mut self, entry: Entry) -> Result<u32, Errno> {
        let slot = self.insert(entry)?;
        if let Err(error) = self.map(slot) {
            self.discard(slot);
            return Err(error);
        }
        Ok(slot)
    }

    /// Begins to connect a stream.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS` if it has begun.
    pub(crate) fn connect_stream(
        &mut self,
        slot: u32,
        remote: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        if !self.is_idle(slot)? {
            return Ok(());
        }
        let remote = Endpoint::new(or_loopback(remote.address), remote.port);
        let Some(entry) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        let (settings, bound) = (entry.settings, entry.bound);
        let is_local = match self.network.route(remote.address) {
            _ if settings.only_v6 && remote.address.is_ipv4() => return Err(Errno::ENETUNREACH),
            Some(Route::Local) => true,
            Some(Route::Neighbor(_)) => false,
            Some(Route::Everybody(_)) | None => return Err(Errno::ENETUNREACH),
        };
        // Nobody can be there, and smoltcp would not ask.
        if remote.port == 0 {
            return Err(Errno::ECONNREFUSED);
        }
        let local = self.source_for(bound, remote, host)?;
        let tuple = Tuple { local, remote };
        let path = Path::to(&remote.address, is_local);
        let mut channel = self.channel(&settings, path)?;
        let now = instant(self.now);
        let side = self.tcp.side(path);
        let begun = side.map(|side| {
            side.reseed(host.random(), now);
            channel
                .socket_mut()
                .connect(side.interface.context(), remote, local)
                .map_err(|_| Errno::EADDRNOTAVAIL)
        });
        if let Err(error) = begun.unwrap_or(Err(Errno::ENETUNREACH)) {
            self.budget.give_back(channel);
            return Err(error);
        }
        let connection = Connection::new(channel, tuple, path, Phase::Connecting, self.now);
        if let Some(entry) = self.sockets.get_mut(slot) {
            entry.body = Body::Connection(connection);
        }
        if let Err(error) = self.map(slot) {
            self.make_idle(slot);
            return Err(error);
        }
        self.mark(slot);
        Err(Errno::EINPROGRESS)
    }

    /// Whether a stream may be connected. If it has been, that is told once.
    ///
    /// # Errors
    ///
    /// What `connect` says instead.
    fn is_idle(&mut self, slot: u32) -> Result<bool, Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let error = entry.error.take();
        let is_idle = matches!(entry.body, Body::Idle);
        let Some(connection) = entry.connection_mut() else {
            return if is_idle { Ok(true) } else { Err(Errno::EISCONN) };
        };
        if connection.phase == Phase::Connecting && !connection.is_over {
            return Err(Errno::EALREADY);
        }
        if connection.phase == Phase::Connecting {
            // It failed, which is told once; then the socket may be used again.
            self.make_idle(slot);
            return error.map_or(Ok(true), Err);
        }
        let was_told = core::mem::replace(&mut connection.is_told, true);
        match error {
            Some(error) => Err(error),
            None if was_told => Err(Errno::EISCONN),
            None => Ok(false),
        }
    }

    /// Makes a connection that failed a stream that was never connected.
    fn make_idle(&mut self, slot: u32) {
        self.unmap(slot);
        self.timers.set(slot, None);
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        if let Body::Connection(connection) = core::mem::replace(&mut entry.body, Body::Idle) {
            self.budget.give_back(connection.channel);
        }
    }

    /// The own end of a connection to be.
    fn source_for(
        &mut self,
        bound: Option<Endpoint>,
        remote: Endpoint,
        host: &mut dyn Host,
    ) -> Result<Endpoint, Errno> {
        self.forget_old();
        let own = bound.map(|bound| bound.address).filter(|address| !address.is_unspecified());
        let address = match own {
            Some(own) if own.is_ipv4() != remote.address.is_ipv4() => return Err(Errno::ENETUNREACH),
            // The loopback has no way out.
            Some(own) if own.is_loopback() && !self.network.is_own(remote.address) => {
                return Err(Errno::EINVAL);
            }
            Some(own) => own,
            None => self.network.source(remote.address).ok_or(Errno::EADDRNOTAVAIL)?,
        };
        let tcp = &self.tcp;
        let is_free = |port: u16| {
            let local = Endpoint::new(address, port);
            let tuple = Tuple { local, remote };
            // A connection to itself is not what anybody means.
            local != remote && !tcp.connections.contains_key(&tuple) && !tcp.time_wait.contains(&tuple)
        };
        let port = match bound {
            Some(bound) if is_free(bound.port) => bound.port,
            Some(_) => return Err(Errno::EADDRNOTAVAIL),
            None => {
                let is_unbound = |port: u16| tcp.ports.bindings(port).is_empty() && is_free(port);
                Ports::choose(host.random(), is_unbound).ok_or(Errno::EADDRNOTAVAIL)?
            }
        };
        Ok(Endpoint::new(address, port))
    }

    /// Sends bytes on a stream.
    ///
    /// # Errors
    ///
    /// See [`Stack::send`](crate::Stack::send).
    pub(crate) fn send_stream(&mut self, slot: u32, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if let Some(error) = entry.error.take() {
            return Err(error);
        }
        let Some(connection) = entry.connection_mut() else { return Err(Errno::EPIPE) };
        if connection.is_over || connection.shut_write {
            return Err(Errno::EPIPE);
        }
        if !connection.is_established() {
            return Err(Errno::EAGAIN);
        }
        let sent = connection.channel.socket_mut().send_slice(bytes).map_err(|_| Errno::EPIPE)?;
        if sent == 0 && !bytes.is_empty() {
            return Err(Errno::EAGAIN);
        }
        connection.unanswered = 0;
        self.mark(slot);
        Ok(sent)
    }

    /// Receives bytes of a stream.
    ///
    /// # Errors
    ///
    /// See [`Stack::receive`](crate::Stack::receive).
    pub(crate) fn receive_stream(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let error = entry.error;
        let Some(connection) = entry.connection_mut() else { return Err(Errno::ENOTCONN) };
        if connection.channel.socket().can_recv() && connection.is_established() {
            let taken = if peek {
                peek_into(&mut connection.channel, sink)
            } else {
                take_into(&mut connection.channel, sink)
            };
            self.mark(slot);
            return Ok(taken);
        }
        let (is_over, is_established) = (connection.is_read_over(), connection.is_established());
        if let Some(error) = error {
            entry.error = None;
            return Err(error);
        }
        if is_over && (is_established || entry.connection().is_some_and(|connection| connection.is_over)) {
            return Ok(0);
        }
        Err(Errno::EAGAIN)
    }

    /// Shuts halves of a stream down.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shut_stream(&mut self, slot: u32, how: Shutdown, host: &mut dyn Host) -> Result<(), Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if matches!(entry.body, Body::Listener(_)) {
            if how.reads() {
                self.stop_listening(slot, host);
            }
            return Ok(());
        }
        let connection = entry.connection_mut();
        let alive = connection.filter(|alive| !alive.is_over && alive.state() != State::TimeWait);
        let Some(connection) = alive else { return Err(Errno::ENOTCONN) };
        if connection.phase == Phase::Connecting {
            connection.silence();
            self.end(slot, None, host);
            return Ok(());
        }
        connection.shut_read |= how.reads();
        if how.writes() && !core::mem::replace(&mut connection.shut_write, true) {
            connection.channel.socket_mut().close();
        }
        entry.wake(host);
        self.mark(slot);
        Ok(())
    }

    /// Closes a stream, which may live on until its data has been delivered.
    pub(crate) fn close_stream(&mut self, slot: u32, is_reset: bool, host: &mut dyn Host) {
        self.dismiss(slot, host);
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.cookie = None;
        let Some(connection) = entry.connection_mut() else {
            self.remove(slot);
            return;
        };
        let is_unread = connection.channel.socket().can_recv();
        if connection.is_over && !connection.has_reset_to_send() || connection.phase == Phase::Connecting {
            return self.discard(slot);
        }
        if connection.is_over {
            // The reset is tried once more, and the rest goes with it.
            return self.mark(slot);
        }
        // What was received and not read would be lost without the peer's knowledge (RFC 2525, section 2.17).
        if is_reset || is_unread || connection.state() == State::SynReceived {
            return self.reset(slot, None, host);
        }
        connection.shut_write = true;
        connection.channel.socket_mut().close();
        self.mark(slot);
    }

    /// The own address of a stream.
    pub(crate) fn local_of_stream(entry: &Entry) -> SocketAddr {
        let connected = entry.connection().map(|connection| connection.tuple.local);
        connected.or(entry.bound).unwrap_or(Self::nowhere(entry.family)).present(entry.family)
    }

    /// The address of the peer of a stream.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn remote_of_stream(entry: &Entry) -> Result<SocketAddr, Errno> {
        let connection =
            entry.connection().filter(|connection| connection.is_established() && !connection.is_over);
        connection.map(|connection| connection.tuple.remote.present(entry.family)).ok_or(Errno::ENOTCONN)
    }
}

/// Gives received bytes away; returns how many were taken. They lie in one piece or in two.
fn take_into(channel: &mut Channel, sink: &mut dyn FnMut(&[u8]) -> usize) -> usize {
    let mut total = 0;
    for _ in 0..2 {
        let offered = |bytes: &mut [u8]| {
            let taken = sink(bytes).min(bytes.len());
            (taken, (taken, taken == bytes.len()))
        };
        if !channel.socket().can_recv() {
            break;
        }
        let Ok((taken, took_all)) = channel.socket_mut().recv(offered) else { break };
        total += taken;
        if !took_all {
            break;
        }
    }
    total
}

/// Shows received bytes; returns how many were taken. smoltcp shows no more than the first piece, unless copied.
fn peek_into(channel: &mut Channel, sink: &mut dyn FnMut(&[u8]) -> usize) -> usize {
    let queued = channel.socket().recv_queue();
    let Ok(first) = channel.socket_mut().peek(queued) else { return 0 };
    let size = first.len();
    let taken = sink(first).min(size);
    let mut copy = alloc::vec::Vec::new();
    if taken < size || size == queued || copy.try_reserve_exact(queued).is_err() {
        return taken;
    }
    copy.resize(queued, 0);
    let copied = channel.socket_mut().peek_slice(&mut copy).unwrap_or(0);
    let rest = copy.get(size..copied).unwrap_or(&[]);
    taken + sink(rest).min(rest.len())
}
