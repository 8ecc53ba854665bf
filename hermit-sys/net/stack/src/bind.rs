//! Which addresses a socket may have.

use core::net::IpAddr;

use hermit_interface::Errno;

use crate::address::{Endpoint, Scope};
use crate::core::Core;
use crate::host::Host;
use crate::options::Settings;
use crate::ports::{Binding, Ports};
use crate::socket::Family;

impl Core {
    /// Whether a socket may be bound to an address.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`: it is not of this host. `EINVAL`: it is of IPv4, and the socket is for IPv6 only.
    pub(crate) fn check_own(
        &self,
        family: Family,
        settings: &Settings,
        address: IpAddr,
    ) -> Result<(), Errno> {
        if family == Family::V6 && settings.only_v6 && address.is_ipv4() {
            return Err(Errno::EINVAL);
        }
        let is_own = address.is_unspecified() || self.network.is_own(address);
        if is_own { Ok(()) } else { Err(Errno::EADDRNOTAVAIL) }
    }

    /// Gives a socket an address that it may have; port 0 chooses one that nobody has.
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
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let settings = entry.settings;
        let scope = Scope::new(local.address, entry.family, settings.only_v6);
        let ports = entry.ports(&mut self.udp, &mut self.tcp);
        let port = match local.port {
            0 => Ports::choose(host.random(), |port| ports.is_unused(port)).ok_or(Errno::EADDRINUSE)?,
            port if ports.is_taken(port, scope, settings.reuse, None) => return Err(Errno::EADDRINUSE),
            port => port,
        };
        ports.bind(port, Binding { slot, scope, reuse: settings.reuse, is_listening: false })?;
        entry.own = Endpoint::new(local.address, port);
        entry.has_any_port = local.port == 0;
        Ok(())
    }

    /// Gives up the port of a socket that is disconnected, unless it was asked for. The address stays.
    pub(crate) fn release_port(&mut self, slot: u32) {
        let Some(entry) = self.sockets.get_mut(slot).filter(|entry| entry.has_any_port) else { return };
        let port = core::mem::take(&mut entry.own.port);
        entry.ports(&mut self.udp, &mut self.tcp).unbind(port, slot);
    }
}
