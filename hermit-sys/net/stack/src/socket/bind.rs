//! Binding of sockets to local addresses.

use core::net::IpAddr;

use hermit_interface::Errno;

use crate::host::Host;
use crate::inner::StackInner;
use crate::socket::Family;
use crate::socket::address::{Endpoint, Scope};
use crate::socket::options::SocketSettings;
use crate::socket::ports::{Binding, Ports};

impl StackInner {
    /// Whether a socket may be bound to an address.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`: it is not an address of this host. `EINVAL`: it is an IPv4 address, and `IPV6_V6ONLY` is set.
    pub(crate) fn check_own(
        &self,
        family: Family,
        settings: &SocketSettings,
        address: IpAddr,
    ) -> Result<(), Errno> {
        if family == Family::V6 && settings.only_v6 && address.is_ipv4() {
            return Err(Errno::EINVAL);
        }
        let is_own = address.is_unspecified() || self.ip.routes.is_own(address);
        if is_own { Ok(()) } else { Err(Errno::EADDRNOTAVAIL) }
    }

    /// Binds a socket to an address that [`check_own`](Self::check_own) accepts; port 0 chooses an unused port.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `ENOMEM`.
    pub(crate) fn take_address(
        &mut self,
        slot: u32,
        local: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let settings = socket.settings;
        let scope = Scope::new(local.address, socket.family, settings.only_v6);
        let ports = socket.ports(&mut self.udp, &mut self.tcp);
        let port = match local.port {
            0 => Ports::choose(host.random(), |port| ports.is_unused(port)).ok_or(Errno::EADDRINUSE)?,
            port if ports.is_taken(port, scope, settings.reuse, None) => return Err(Errno::EADDRINUSE),
            port => port,
        };
        ports.bind(port, Binding { slot, scope, reuse: settings.reuse, is_listening: false })?;
        socket.own = Endpoint::new(local.address, port);
        socket.has_any_port = local.port == 0;
        Ok(())
    }

    /// Releases the port of a socket that is disconnected, if the stack chose it. The address stays.
    pub(crate) fn release_port(&mut self, slot: u32) {
        let Some(socket) = self.sockets.get_mut(slot).filter(|socket| socket.has_any_port) else { return };
        let port = core::mem::take(&mut socket.own.port);
        socket.ports(&mut self.udp, &mut self.tcp).unbind(port, slot);
    }
}
