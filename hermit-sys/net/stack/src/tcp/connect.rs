//! Connecting streams.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::Errno;
use smoltcp::socket::tcp::State;

use crate::address::{Endpoint, Tuple};
use crate::core::{Body, Core, Entry, instant};
use crate::host::Host;
use crate::network::Route;
use crate::ports::Ports;
use crate::tcp::channel::Channel;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::side::{Path, Side};

/// The address that is meant by connecting to all of a family: this host.
pub(crate) const fn or_loopback(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}

/// Has smoltcp ask for a connection.
///
/// # Errors
///
/// `EADDRNOTAVAIL`.
fn ask(side: &mut Side, channel: &mut Channel, tuple: Tuple, random: u64, now: u64) -> Result<(), Errno> {
    side.reseed(random, instant(now));
    let context = side.interface.context();
    channel.socket_mut().connect(context, tuple.remote, tuple.local).map_err(|_| Errno::EADDRNOTAVAIL)
}

impl Core {
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
        let (settings, own) = (entry.settings, entry.own);
        let is_local = match self.network.route(remote.address) {
            _ if settings.only_v6 && remote.address.is_ipv4() => return Err(Errno::ENETUNREACH),
            _ if self.network.is_broadcast(remote.address) => return Err(Errno::ENETUNREACH),
            Some(Route::Local) => true,
            Some(Route::Neighbor(_)) => false,
            Some(Route::Everybody(_)) | None => return Err(Errno::ENETUNREACH),
        };
        // Nobody can be there, and smoltcp would not ask.
        if remote.port == 0 {
            return Err(Errno::ECONNREFUSED);
        }
        let local = self.source_for(own, remote, host)?;
        let tuple = Tuple { local, remote };
        let path = Path::to(&remote.address, is_local);
        let mut channel = self.channel(&settings, path)?;
        let side = self.tcp.side(path).ok_or(Errno::ENETUNREACH);
        if let Err(error) = side.and_then(|side| ask(side, &mut channel, tuple, host.random(), self.now)) {
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

    /// Asks for a connection once more, at once: the peer remembered an earlier one of the same ends, and has just been told to
    /// forget it (RFC 9293, section 3.5.1). smoltcp would wait a second.
    pub(crate) fn ask_again(&mut self, slot: u32, host: &mut dyn Host) {
        let now = self.now;
        let Some(connection) = self.sockets.get_mut(slot).and_then(Entry::connection_mut) else { return };
        let is_asking = connection.state() == State::SynSent;
        if !is_asking || core::mem::replace(&mut connection.has_asked_again, true) {
            return;
        }
        let Some(side) = self.tcp.side(connection.path) else { return };
        connection.channel.socket_mut().abort();
        connection.last_sent = None;
        match ask(side, &mut connection.channel, connection.tuple, host.random(), now) {
            Ok(()) => self.mark(slot),
            Err(error) => self.end(slot, Some(error), host),
        }
    }

    /// Whether a stream may be connected. If it has been, that is told once, and so is why it could not be: then it may
    /// be tried again.
    ///
    /// # Errors
    ///
    /// What `connect` says instead.
    fn is_idle(&mut self, slot: u32) -> Result<bool, Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if matches!(entry.body, Body::Idle) {
            return Ok(true);
        }
        let error = entry.error;
        let connection = entry.connection_mut().filter(|connection| !connection.is_told);
        let Some(connection) = connection else { return Err(Errno::EISCONN) };
        if connection.is_over {
            self.make_idle(slot);
            // Somebody else may have taken the reason.
            return Err(error.unwrap_or(Errno::ECONNABORTED));
        }
        if connection.phase == Phase::Connecting {
            return Err(Errno::EALREADY);
        }
        connection.is_told = true;
        Ok(false)
    }

    /// Makes a connection that failed a stream that was never connected.
    fn make_idle(&mut self, slot: u32) {
        self.unmap(slot);
        self.timers.set(slot, None);
        self.release_port(slot);
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.error = None;
        if let Body::Connection(connection) = core::mem::replace(&mut entry.body, Body::Idle) {
            self.budget.give_back(connection.channel);
        }
    }

    /// The own end of a connection to be.
    fn source_for(
        &mut self,
        own: Endpoint,
        remote: Endpoint,
        host: &mut dyn Host,
    ) -> Result<Endpoint, Errno> {
        self.forget_old();
        let address = if own.address.is_unspecified() {
            self.network.source(remote.address).ok_or(Errno::EADDRNOTAVAIL)?
        } else {
            own.address
        };
        if address.is_ipv4() != remote.address.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        // The loopback has no way out.
        if address.is_loopback() && !self.network.is_own(remote.address) {
            return Err(Errno::EINVAL);
        }
        let tcp = &self.tcp;
        let is_free = |port: u16| {
            let tuple = Tuple { local: Endpoint::new(address, port), remote };
            !tcp.connections.contains_key(&tuple) && !tcp.time_wait.contains(&tuple)
        };
        let is_unused = |port: u16| {
            let local = Endpoint::new(address, port);
            // A connection to itself is not what anybody means who does not ask for it.
            local != remote && tcp.ports.bindings(port).is_empty() && is_free(port)
        };
        let port = match own.port {
            0 => Ports::choose(host.random(), is_unused),
            port => Some(port).filter(|&port| is_free(port)),
        };
        let port = port.ok_or(Errno::EADDRNOTAVAIL)?;
        Ok(Endpoint::new(address, port))
    }
}
