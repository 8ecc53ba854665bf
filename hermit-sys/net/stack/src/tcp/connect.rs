//! Active open of connections.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::Errno;
use hermit_tcp::{Algorithm, Parameters, Seq};

use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::routes::Route;
use crate::socket::SocketState;
use crate::socket::address::{Endpoint, Tuple};
use crate::socket::options::SocketSettings;
use crate::socket::ports::Ports;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::path::Path;

/// Replaces the unspecified address, as destination, by the loopback.
pub(crate) const fn or_loopback(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}

impl StackInner {
    /// Starts to connect a stream.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS` if it has started.
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
        let Some(socket) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        let (settings, own) = (socket.settings, socket.own);
        let is_local = match self.ip.routes.route(remote.address) {
            _ if settings.only_v6 && remote.address.is_ipv4() => return Err(Errno::ENETUNREACH),
            _ if self.ip.routes.is_broadcast(remote.address) => return Err(Errno::ENETUNREACH),
            Some(Route::Local) => true,
            Some(Route::Neighbor(_)) => false,
            Some(Route::Group(_)) | None => return Err(Errno::ENETUNREACH),
        };
        // Port 0 is not valid on the wire.
        if remote.port == 0 {
            return Err(Errno::ECONNREFUSED);
        }
        let local = self.source_for(own, remote, host)?;
        let tuple = Tuple { local, remote };
        let path = Path::to(&remote.address, is_local);
        self.buffers.connect()?;
        let parameters = self.parameters(&settings, path, &remote.address, host);
        let tcp = hermit_tcp::Connection::connect(parameters, self.now);
        let mut connection = Connection::new(tcp, tuple, path, Phase::Connecting, self.now);
        connection.apply(&settings);
        if let Some(socket) = self.sockets.get_mut(slot) {
            socket.state = SocketState::Connection(connection);
        }
        if let Err(error) = self.map(slot) {
            self.make_idle(slot);
            return Err(error);
        }
        self.mark(slot);
        Err(Errno::EINPROGRESS)
    }

    /// Parameters of a new connection.
    pub(crate) fn parameters(
        &self,
        settings: &SocketSettings,
        path: Path,
        remote: &IpAddr,
        host: &mut dyn Host,
    ) -> Parameters {
        // On the loopback, segments are lost only if memory is short.
        let algorithm = if path == Path::Local { Algorithm::Unlimited } else { Algorithm::default() };
        // Unpredictable from those of other connections (RFC 6528, RFC 7323 §5.4).
        let random = host.random();
        let [iss, clock_offset] =
            [random & u64::from(u32::MAX), random >> 32].map(|half| u32::try_from(half).unwrap_or(0));
        Parameters {
            iss: Seq(iss),
            clock_offset,
            mss: path.limits(self.phy.interface.as_ref()).mss(remote),
            algorithm,
            receive_buffer: self.buffers.buffer(settings.receive_buffer),
            send_buffer: self.buffers.buffer(settings.send_buffer),
            asks_for_ecn: false,
            has_options: true,
        }
    }

    /// Whether a stream may be connected. The result of an earlier attempt is reported once; after a failure the stream
    /// may be connected again.
    ///
    /// # Errors
    /// The result of `connect`.
    fn is_idle(&mut self, slot: u32) -> Result<bool, Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if matches!(socket.state, SocketState::Idle) {
            return Ok(true);
        }
        let error = socket.error;
        let connection = socket.connection_mut().filter(|connection| !connection.is_reported);
        let Some(connection) = connection else { return Err(Errno::EISCONN) };
        if connection.is_over {
            self.make_idle(slot);
            // `SO_ERROR` may have cleared the error.
            return Err(error.unwrap_or(Errno::ECONNABORTED));
        }
        if connection.phase == Phase::Connecting {
            return Err(Errno::EALREADY);
        }
        connection.is_reported = true;
        Ok(false)
    }

    /// Turns a failed connection into an unconnected stream.
    fn make_idle(&mut self, slot: u32) {
        self.unmap(slot);
        self.timers.set(slot, None);
        self.release_port(slot);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        socket.error = None;
        if let SocketState::Connection(mut connection) =
            core::mem::replace(&mut socket.state, SocketState::Idle)
        {
            self.buffers.disconnect(&mut connection.tcp);
        }
    }

    /// Chooses the local endpoint of a new connection.
    fn source_for(
        &mut self,
        own: Endpoint,
        remote: Endpoint,
        host: &mut dyn Host,
    ) -> Result<Endpoint, Errno> {
        self.expire_time_wait();
        let address = if own.address.is_unspecified() {
            self.ip.routes.source(remote.address).ok_or(Errno::EADDRNOTAVAIL)?
        } else {
            own.address
        };
        if address.is_ipv4() != remote.address.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        // Loopback addresses do not leave the host.
        if address.is_loopback() && !self.ip.routes.is_own(remote.address) {
            return Err(Errno::EINVAL);
        }
        let tcp = &self.tcp;
        let is_free = |port: u16| {
            let tuple = Tuple { local: Endpoint::new(address, port), remote };
            !tcp.connections.contains_key(&tuple) && !tcp.time_wait.contains(&tuple)
        };
        let is_unused = |port: u16| {
            let local = Endpoint::new(address, port);
            // An ephemeral port must not make the connection connect to itself.
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
