//! Connecting streams.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::Errno;
use hermit_tcp::{Algorithm, Parameters, Seq};

use crate::address::{Endpoint, Tuple};
use crate::core::{Body, Core};
use crate::host::Host;
use crate::network::Route;
use crate::options::Settings;
use crate::ports::Ports;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::path::Path;

/// The address that is meant by connecting to all of a family: this host.
pub(crate) const fn or_loopback(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
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
        // No peer has that port.
        if remote.port == 0 {
            return Err(Errno::ECONNREFUSED);
        }
        let local = self.source_for(own, remote, host)?;
        let tuple = Tuple { local, remote };
        let path = Path::to(&remote.address, is_local);
        self.budget.connect()?;
        let parameters = self.parameters(&settings, path, &remote.address, host);
        let tcp = hermit_tcp::Connection::connect(parameters, self.now);
        let mut connection = Connection::new(tcp, tuple, path, Phase::Connecting, self.now);
        connection.apply(&settings);
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

    /// What one more connection begins with.
    pub(crate) fn parameters(
        &self,
        settings: &Settings,
        path: Path,
        remote: &IpAddr,
        host: &mut dyn Host,
    ) -> Parameters {
        // Nothing is lost between two ends on one host but for want of memory.
        let algorithm = if path == Path::Local { Algorithm::Unlimited } else { Algorithm::default() };
        // Nobody can guess them from those of other connections (RFC 6528, RFC 7323 §5.4).
        let random = host.random();
        let [iss, clock_offset] =
            [random & u64::from(u32::MAX), random >> 32].map(|half| u32::try_from(half).unwrap_or(0));
        Parameters {
            iss: Seq(iss),
            clock_offset,
            mss: path.limits(self.port.as_ref()).mss(remote),
            algorithm,
            receive_buffer: self.budget.buffer(settings.receive_buffer),
            send_buffer: self.budget.buffer(settings.send_buffer),
            asks_for_ecn: false,
            has_options: true,
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
        if let Body::Connection(mut connection) = core::mem::replace(&mut entry.body, Body::Idle) {
            self.budget.disconnect(&mut connection.tcp);
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
