//! Calls on UDP sockets.

use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_interface::net::{OptionName, SocketOption};

use crate::host::Random;
use crate::ip::routes::{Routes, or_loopback};
use crate::socket::address::{Endpoint, Scope};
use crate::socket::context::Context;
use crate::socket::kind::Shutdown;
use crate::socket::options::MembershipChange;
use crate::udp::layer::{DEFAULT_BUFFER, Udp};

impl Udp {
    /// Binds a socket.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(crate) fn bind(
        &mut self,
        slot: u32,
        local: Endpoint,
        routes: &Routes,
        random: &mut dyn Random,
    ) -> Result<(), Errno> {
        let socket = self.socket(slot)?;
        if socket.is_bound() {
            return Err(Errno::EINVAL);
        }
        let is_for_many = local.address.is_multicast() || routes.is_broadcast(local.address);
        if !is_for_many {
            socket.check_local(local.address, routes)?;
        }
        self.sockets.bind(slot, local, &mut self.ports, random)
    }

    /// Binds a socket to an ephemeral port if it is not bound; returns the socket's local endpoint.
    pub(super) fn bind_ephemeral(&mut self, slot: u32, context: &mut Context<'_>) -> Result<Endpoint, Errno> {
        let socket = self.socket(slot)?;
        let local = socket.local;
        if socket.is_bound() {
            return Ok(local);
        }
        self.bind(slot, local, &context.ip.routes, context.random)?;
        self.socket(slot).map(|socket| socket.local)
    }

    /// Connects a socket to a peer.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, `EACCES`, `EINVAL`, `EADDRINUSE`.
    pub(crate) fn connect(
        &mut self,
        slot: u32,
        remote: Endpoint,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let remote = Endpoint::new(or_loopback(remote.address), remote.port);
        let socket = self.socket(slot)?;
        let (family, settings, local) = (socket.family, socket.settings, socket.local);
        let routes = &context.ip.routes;
        let (source, _) = Self::route(&settings, local.address, remote.address, routes)?;
        let local = self.bind_ephemeral(slot, context)?;
        let scope = if local.address.is_unspecified() {
            Scope::One(source)
        } else {
            Scope::new(local.address, family, settings.only_v6)
        };
        self.ports.update(local.port, slot, |binding| binding.scope = scope);
        let state = &mut self.socket(slot)?.state;
        state.remote = Some(remote);
        state.source = Some(source);
        Ok(())
    }

    /// Disconnects a socket.
    pub(crate) fn disconnect(&mut self, slot: u32) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        let (port, scope) = (socket.local.port, socket.scope());
        socket.state.remote = None;
        socket.state.source = None;
        self.ports.update(port, slot, |binding| binding.scope = scope);
        self.sockets.release_port(slot, &mut self.ports);
    }

    /// Shuts down one or both directions of a socket.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shutdown(&mut self, slot: u32, how: Shutdown) -> Result<(), Errno> {
        let state = &mut self.socket(slot)?.state;
        if state.remote.is_none() {
            return Err(Errno::ENOTCONN);
        }
        state.shut_read |= how.reads();
        state.shut_write |= how.writes();
        self.sockets.wake(slot);
        Ok(())
    }

    /// Closes a socket.
    pub(crate) fn close(&mut self, slot: u32, context: &mut Context<'_>) {
        let Some(socket) = self.sockets.remove(slot, &mut self.ports) else { return };
        context.buffers.refund(socket.state.queued);
        if socket.state.is_blocked {
            self.blocked.retain(|&other| other != slot);
        }
        for membership in socket.state.groups {
            context.ip.uncount_member(membership, context.now);
        }
    }

    /// Local address of a socket.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(crate) fn local(&self, slot: u32) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(slot).ok_or(Errno::EBADF)?;
        let source = socket.state.source.filter(|_| socket.local.address.is_unspecified());
        let address = source.unwrap_or(socket.local.address);
        Ok(Endpoint::new(address, socket.local.port).present(socket.family))
    }

    /// Address of a socket's peer.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn remote(&self, slot: u32) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(slot).ok_or(Errno::EBADF)?;
        socket.state.peer().map(|remote| remote.present(socket.family)).ok_or(Errno::ENOTCONN)
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// See [`Stack::set_option`](crate::Stack::set_option).
    pub(crate) fn set_option(
        &mut self,
        slot: u32,
        option: &SocketOption,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let name = OptionName::from_number(option.name).ok_or(Errno::ENOPROTOOPT)?;
        match MembershipChange::of(option, name, self.socket(slot)?.family)? {
            Some(change) => self.change_membership(slot, &change, context),
            None => self.sockets.set_option(slot, name, option.value, false, &mut self.ports),
        }
    }

    /// Reads an option.
    ///
    /// # Errors
    ///
    /// See [`Stack::option`](crate::Stack::option).
    pub(crate) fn option(&mut self, slot: u32, name: OptionName) -> Result<u32, Errno> {
        let settings = &self.socket(slot)?.settings;
        let sizes = [settings.receive_buffer, settings.send_buffer];
        self.sockets.option(slot, name, sizes.map(|size| size.unwrap_or(DEFAULT_BUFFER)).into())
    }
}
