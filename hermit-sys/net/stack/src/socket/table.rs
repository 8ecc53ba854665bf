//! The sockets of a protocol, and their binding to local addresses.
//!
//! A slot of the table has a [`Socket`] with the state of its protocol. A TCP connection that is not accepted
//! yet, or that outlives its socket, has a slot, too. `wake` counts an event of a socket. The facade takes
//! all events at the end of a call or poll, and wakes their waiters through the host. Waiters are not woken
//! at once, because the stack is borrowed during the call.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::Errno;
use hermit_interface::net::OptionName;

use crate::host::Random;
use crate::ip::routes::Routes;
use crate::socket::address::{Endpoint, Scope, unspecified};
use crate::socket::kind::Family;
use crate::socket::options::SocketSettings;
use crate::socket::ports::{Binding, Ports};
use crate::socket::slab::{Key, Slab};

/// A socket with the state of its protocol, or a connection without a socket: not accepted yet, or closed.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    /// Argument of [`Host::wake`](crate::Host::wake). `None` for a connection without a socket.
    pub(crate) waker_key: Option<usize>,
    pub(crate) family: Family,
    pub(crate) settings: SocketSettings,
    /// Pending error (`SO_ERROR`).
    pub(crate) error: Option<Errno>,
    /// Local address as bound. With port 0 the socket has no binding in the port table.
    pub(crate) local: Endpoint,
    /// True if the stack chose the port, which is then released when the socket is disconnected.
    pub(crate) has_any_port: bool,
    pub(crate) state: S,
    /// Number of events whose waiters must be woken.
    events: u32,
}

impl<S> Socket<S> {
    /// Creates a socket that is not bound.
    pub(crate) const fn new(
        waker_key: Option<usize>,
        family: Family,
        settings: SocketSettings,
        state: S,
    ) -> Self {
        let local = Endpoint::new(unspecified(family), 0);
        Self { waker_key, family, settings, error: None, local, has_any_port: false, state, events: 0 }
    }

    /// True if the socket is bound.
    pub(crate) const fn is_bound(&self) -> bool {
        self.local.port != 0
    }

    /// Local addresses at which the socket receives, if it is bound.
    pub(crate) const fn scope(&self) -> Scope {
        Scope::new(self.local.address, self.family, self.settings.only_v6)
    }

    /// Checks that the socket may be bound to an address.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`: this host does not have the address. `EINVAL`: it is an IPv4 address, and
    /// `IPV6_V6ONLY` is set.
    pub(crate) fn check_local(&self, address: IpAddr, routes: &Routes) -> Result<(), Errno> {
        if self.family == Family::V6 && self.settings.only_v6 && address.is_ipv4() {
            return Err(Errno::EINVAL);
        }
        let is_own = address.is_unspecified() || routes.is_own(address);
        if is_own { Ok(()) } else { Err(Errno::EADDRNOTAVAIL) }
    }
}

/// The sockets of a protocol.
#[derive(Debug)]
pub(crate) struct SocketTable<S> {
    sockets: Slab<Socket<S>>,
    /// Slots of sockets with events, whose waiters the facade wakes.
    woken: Vec<u32>,
}

impl<S> SocketTable<S> {
    /// Creates the table with this number among the tables of its protocol.
    pub(crate) const fn numbered(table: u32) -> Self {
        Self { sockets: Slab::numbered(table), woken: Vec::new() }
    }

    /// Adds a socket; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert(&mut self, socket: Socket<S>) -> Result<u32, Errno> {
        // Memory is reserved, so that an event cannot be lost.
        let missing = (self.sockets.slots() + 1).saturating_sub(self.woken.len());
        self.woken.try_reserve(missing)?;
        self.sockets.insert(socket)
    }

    /// Removes a socket and its binding; returns the socket.
    pub(crate) fn remove(&mut self, slot: u32, ports: &mut Ports) -> Option<Socket<S>> {
        let socket = self.sockets.remove(slot)?;
        ports.unbind(socket.local.port, slot);
        Some(socket)
    }

    /// Removes and returns a socket, but keeps its binding.
    pub(crate) fn take(&mut self, slot: u32) -> Option<Socket<S>> {
        self.sockets.remove(slot).map(|socket| Socket { events: 0, ..socket })
    }

    /// Returns the socket in a slot.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Socket<S>> {
        self.sockets.get(slot)
    }

    /// Returns the socket in a slot, mutable.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Socket<S>> {
        self.sockets.get_mut(slot)
    }

    /// Returns the sockets in two different slots.
    #[inline]
    pub(crate) fn get_pair_mut(&mut self, one: u32, other: u32) -> Option<(&mut Socket<S>, &mut Socket<S>)> {
        self.sockets.get_pair_mut(one, other)
    }

    /// Key of the socket in a slot.
    pub(crate) fn key(&self, slot: u32) -> Key {
        self.sockets.key(slot)
    }

    /// Returns the slot of a key.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    #[inline]
    pub(crate) fn slot(&self, key: Key) -> Result<u32, Errno> {
        self.sockets.slot(key)
    }

    /// Number of slots, used or free.
    pub(crate) fn slots(&self) -> usize {
        self.sockets.slots()
    }

    /// Returns the slot with an index below [`slots`](Self::slots).
    pub(crate) fn slot_at(&self, index: usize) -> Option<u32> {
        self.sockets.slot_at(index).filter(|_| index < self.slots())
    }

    /// Number of sockets.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Counts an event: the readiness of a socket may have changed.
    pub(crate) fn wake(&mut self, slot: u32) {
        let Some(socket) = self.sockets.get_mut(slot).filter(|socket| socket.waker_key.is_some()) else {
            return;
        };
        socket.events += 1;
        if socket.events == 1 {
            self.woken.push(slot);
        }
    }

    /// True if an event was counted and not taken yet. Its socket may have been closed.
    #[inline]
    pub(crate) const fn has_events(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Takes an event; returns the waker key of its socket.
    #[inline]
    pub(crate) fn take_event(&mut self) -> Option<usize> {
        while let Some(&slot) = self.woken.last() {
            // The socket may have been closed in the meantime.
            let socket = self.sockets.get_mut(slot).filter(|socket| socket.waker_key.is_some());
            if let Some(socket) = socket.filter(|socket| socket.events > 0) {
                socket.events -= 1;
                return socket.waker_key;
            }
            self.woken.pop();
        }
        None
    }

    /// Binds a socket to an address that [`Socket::check_local`] accepts. Port 0 chooses an unused port.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `ENOMEM`.
    pub(crate) fn bind(
        &mut self,
        slot: u32,
        local: Endpoint,
        ports: &mut Ports,
        random: &mut dyn Random,
    ) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let settings = socket.settings;
        let scope = Scope::new(local.address, socket.family, settings.only_v6);
        let port = match local.port {
            0 => Ports::choose(random.random(), |port| ports.is_unused(port)).ok_or(Errno::EADDRINUSE)?,
            port if ports.is_taken(port, scope, settings.reuse, None) => return Err(Errno::EADDRINUSE),
            port => port,
        };
        ports.bind(
            port,
            Binding { slot, scope, reuse: settings.reuse, is_listening: false, is_replica: false },
        )?;
        socket.local = Endpoint::new(local.address, port);
        socket.has_any_port = local.port == 0;
        Ok(())
    }

    /// Releases the port of a disconnected socket, if the stack chose the port. The address stays.
    pub(crate) fn release_port(&mut self, slot: u32, ports: &mut Ports) {
        let Some(socket) = self.sockets.get_mut(slot).filter(|socket| socket.has_any_port) else { return };
        let port = core::mem::take(&mut socket.local.port);
        ports.unbind(port, slot);
    }
}

impl<S> SocketTable<S> {
    /// Sets an option other than a membership. `is_connection` is true if the socket is connected, or was.
    ///
    /// # Errors
    ///
    /// See [`Stack::set_option`](crate::Stack::set_option).
    pub(crate) fn set_option(
        &mut self,
        slot: u32,
        name: OptionName,
        value: u32,
        is_connection: bool,
        ports: &mut Ports,
    ) -> Result<(), Errno> {
        let Some(socket) = self.get_mut(slot) else { return Err(Errno::EBADF) };
        match name {
            OptionName::ReuseAddress => {
                // The port table has counted a connection with the option's value at its start, which must
                // therefore stay.
                if !is_connection {
                    socket.settings.reuse = value != 0;
                }
                let port = socket.local.port;
                ports.update(port, slot, |binding| binding.reuse = value != 0);
                Ok(())
            }
            OptionName::OnlyV6 if socket.family == Family::V4 => Err(Errno::ENOPROTOOPT),
            OptionName::OnlyV6 if socket.is_bound() || is_connection => Err(Errno::EINVAL),
            OptionName::OnlyV6 => {
                socket.settings.only_v6 = value != 0;
                Ok(())
            }
            name => socket.settings.set(name, value),
        }
    }

    /// Reads an option. `buffers` are the sizes in bytes of the receive and send buffer in use.
    ///
    /// # Errors
    ///
    /// See [`Stack::option`](crate::Stack::option).
    pub(crate) fn option(&mut self, slot: u32, name: OptionName, buffers: (u32, u32)) -> Result<u32, Errno> {
        let Some(socket) = self.get_mut(slot) else { return Err(Errno::EBADF) };
        match name {
            OptionName::Error => Ok(socket.error.take().map_or(0, |error| error.number().unsigned_abs())),
            OptionName::OnlyV6 if socket.family == Family::V4 => Err(Errno::ENOPROTOOPT),
            name => socket.settings.get(name, buffers),
        }
    }
}
