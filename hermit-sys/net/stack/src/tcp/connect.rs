//! Active open of connections.

use core::net::IpAddr;

use hermit_interface::Errno;
use hermit_interface::net::CongestionControl;
use hermit_tcp::{Algorithm, Parameters};

use crate::ip::routes::{Route, Routes, or_loopback};
use crate::socket::address::{Endpoint, Tuple};
use crate::socket::context::Context;
use crate::socket::options::SocketSettings;
use crate::socket::ports::Ports;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::path::Path;
use crate::tcp::shard::{Shard, TcpState};

/// Returns the algorithm of a congestion control.
pub(super) const fn algorithm(control: CongestionControl) -> Algorithm {
    match control {
        CongestionControl::Cubic => Algorithm::Cubic,
        CongestionControl::Reno => Algorithm::Reno,
        CongestionControl::Bbr => Algorithm::Bbr,
    }
}

/// Local address for a connection to `remote` of a socket that is bound to `bound`; `None` without a route.
fn local_address(bound: Endpoint, remote: Endpoint, routes: &Routes) -> Option<IpAddr> {
    if bound.address.is_unspecified() { routes.source(remote.address) } else { Some(bound.address) }
}

impl Shard {
    /// Returns the endpoints of the connection that an unconnected, bound socket would become by `connect` to
    /// `remote`.
    pub(super) fn tuple_of_bound(&self, slot: u32, remote: Endpoint, routes: &Routes) -> Option<Tuple> {
        let socket = self.sockets.get(slot)?;
        let is_candidate = socket.is_bound() && matches!(socket.state, TcpState::Idle);
        let bound = Some(socket.local).filter(|_| is_candidate)?;
        let remote = Endpoint::new(or_loopback(remote.address), remote.port);
        let local = Endpoint::new(local_address(bound, remote, routes)?, bound.port);
        Some(Tuple { local, remote })
    }

    /// Starts to connect a stream. If the stream has a port, the connection must belong to this shard.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS` if it has started.
    pub(super) fn connect(
        &mut self,
        slot: u32,
        remote: Endpoint,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        if !self.is_idle(slot, context)? {
            return Ok(());
        }
        let remote = Endpoint::new(or_loopback(remote.address), remote.port);
        let socket = self.socket(slot)?;
        let (settings, bound) = (socket.settings, socket.local);
        let is_local = match context.ip.routes.route(remote.address) {
            _ if settings.only_v6 && remote.address.is_ipv4() => return Err(Errno::ENETUNREACH),
            _ if context.ip.routes.is_broadcast(remote.address) => return Err(Errno::ENETUNREACH),
            Some(Route::Local) => true,
            Some(Route::Neighbor(_)) => false,
            Some(Route::Group(_)) | None => return Err(Errno::ENETUNREACH),
        };
        // Port 0 is not valid on the wire.
        if remote.port == 0 {
            return Err(Errno::ECONNREFUSED);
        }
        let local = self.choose_local(bound, remote, context)?;
        let tuple = Tuple { local, remote };
        let path = Path::to(&remote.address, is_local);
        context.buffers.connect()?;
        let parameters = self.parameters(&settings, path, &tuple, context);
        let tcp = hermit_tcp::Connection::connect(parameters, context.now);
        let mut connection = Connection::new(tcp, tuple, path, Phase::Connecting, context.now);
        connection.apply(&settings);
        if let Some(socket) = self.sockets.get_mut(slot) {
            socket.state = TcpState::Connection(connection);
        }
        if let Err(error) = self.map(slot, context.tcp_ports) {
            self.make_idle(slot, context);
            return Err(error);
        }
        self.mark(slot);
        Err(Errno::EINPROGRESS)
    }

    /// Returns true if a stream may be connected, and false once after an earlier attempt has succeeded.
    /// Returns the error of a failed attempt once; then the stream may be connected again.
    ///
    /// # Errors
    /// The result of `connect`.
    fn is_idle(&mut self, slot: u32, context: &mut Context<'_>) -> Result<bool, Errno> {
        let socket = self.socket(slot)?;
        if matches!(socket.state, TcpState::Idle) {
            return Ok(true);
        }
        let error = socket.error;
        let connection = socket.connection_mut().filter(|connection| !connection.is_reported);
        let Some(connection) = connection else { return Err(Errno::EISCONN) };
        if connection.is_over {
            self.make_idle(slot, context);
            // A program may have read, and so cleared, the error with `SO_ERROR`.
            return Err(error.unwrap_or(Errno::ECONNABORTED));
        }
        if connection.phase == Phase::Connecting {
            return Err(Errno::EALREADY);
        }
        connection.is_reported = true;
        Ok(false)
    }

    /// Chooses the local endpoint of a new connection.
    fn choose_local(
        &mut self,
        bound: Endpoint,
        remote: Endpoint,
        context: &mut Context<'_>,
    ) -> Result<Endpoint, Errno> {
        let address = local_address(bound, remote, &context.ip.routes).ok_or(Errno::EADDRNOTAVAIL)?;
        if address.is_ipv4() != remote.address.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        // Loopback addresses do not leave the host.
        if address.is_loopback() && !context.ip.routes.is_own(remote.address) {
            return Err(Errno::EINVAL);
        }
        let (tcp, ports) = (&*self, &*context.tcp_ports);
        let is_free = |port: u16| {
            let tuple = Tuple { local: Endpoint::new(address, port), remote };
            tcp.owns(&tuple) && !tcp.connections.contains_key(&tuple) && !tcp.time_wait.contains(&tuple)
        };
        let is_unused = |port: u16| {
            let local = Endpoint::new(address, port);
            // An ephemeral port must not make the connection connect to itself.
            local != remote && ports.bindings(port).is_empty() && is_free(port)
        };
        let port = match bound.port {
            0 => Ports::choose(context.random.random(), is_unused),
            port => Some(port).filter(|&port| is_free(port)),
        };
        let port = port.ok_or(Errno::EADDRNOTAVAIL)?;
        Ok(Endpoint::new(address, port))
    }

    /// Parameters of a new connection.
    pub(super) fn parameters(
        &self,
        settings: &SocketSettings,
        path: Path,
        tuple: &Tuple,
        context: &Context<'_>,
    ) -> Parameters {
        // On the loopback, segments are lost only if memory is short: there is no congestion.
        let algorithm =
            if path == Path::Local { Algorithm::Unlimited } else { algorithm(settings.congestion) };
        let remote = &tuple.remote.address;
        Parameters {
            iss: self.secret.sequence_number(tuple, context.now),
            clock_offset: self.secret.clock_offset(tuple),
            mss: path.limits(context.phy.interface.as_ref()).mss(remote),
            default_mss: if remote.is_ipv4() { 536 } else { 1220 },
            algorithm,
            is_paced: true,
            receive_buffer: context.buffers.buffer(settings.receive_buffer),
            send_buffer: context.buffers.buffer(settings.send_buffer),
            asks_for_ecn: false,
            has_options: true,
        }
    }
}
