//! UDP: datagrams, which are written into the device's frames and read out of them without smoltcp's sockets.
//!
//! smoltcp's have buffers of fixed size, one for each of them; here only what waits to be received is kept.

pub(crate) mod groups;
mod receive;
mod send;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use hermit_interface::Errno;

use self::groups::Membership;
use crate::address::{Endpoint, Scope};
use crate::core::{Body, Core, Entry};
use crate::host::Host;
use crate::socket::{Readiness, Shutdown};
use crate::tcp::connect::or_loopback;

/// Most bytes that wait in a socket if nothing else is asked for: Linux's `rmem_default`, and `rmem_max`.
pub(crate) const DEFAULT_BUFFER: u32 = 212_992;

/// A datagram that waits to be received.
#[derive(Debug)]
struct Datagram {
    from: Endpoint,
    bytes: Vec<u8>,
}

impl Datagram {
    /// What it counts for besides its bytes, about as in Linux.
    fn cost(size: usize) -> usize {
        size.next_multiple_of(512) + 256
    }
}

/// A socket for datagrams.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    /// The only peer, if there is one.
    pub(crate) remote: Option<Endpoint>,
    /// The own address towards that peer.
    source: Option<IpAddr>,
    queue: VecDeque<Datagram>,
    /// What those in the queue cost.
    queued: usize,
    shut_read: bool,
    shut_write: bool,
    /// The device had no room for a datagram: it will be tried again.
    pub(crate) is_blocked: bool,
    pub(crate) groups: Vec<Membership>,
}

impl Datagrams {
    /// Whether it takes what somebody sends. A peer without a port, which none can have, is everybody at its address.
    fn hears(&self, from: Endpoint) -> bool {
        self.remote.is_none_or(|remote| {
            remote.address == from.address && (remote.port == from.port || remote.port == 0)
        })
    }

    /// The only peer, if it can be sent to.
    pub(crate) fn peer(&self) -> Option<Endpoint> {
        self.remote.filter(|remote| remote.port != 0)
    }

    pub(crate) fn readiness(&self, has_error: bool) -> Readiness {
        Readiness {
            read: self.shut_read || !self.queue.is_empty(),
            write: !self.is_blocked,
            hang_up: self.shut_read && self.shut_write,
            read_hang_up: self.shut_read,
            error: has_error,
        }
    }
}

impl Entry {
    /// The datagrams, if it is a socket for those.
    pub(crate) const fn datagrams_mut(&mut self) -> Option<&mut Datagrams> {
        if let Body::Datagrams(datagrams) = &mut self.body { Some(datagrams) } else { None }
    }

    /// The same, to be looked at.
    pub(crate) const fn datagrams(&self) -> Option<&Datagrams> {
        if let Body::Datagrams(datagrams) = &self.body { Some(datagrams) } else { None }
    }
}

impl Core {
    /// Gives a socket its own address.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(crate) fn bind_datagrams(
        &mut self,
        slot: u32,
        local: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        let Some(entry) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        if entry.is_bound() {
            return Err(Errno::EINVAL);
        }
        let is_for_many = local.address.is_multicast() || self.network.is_broadcast(local.address);
        if !is_for_many {
            self.check_own(entry.family, &entry.settings, local.address)?;
        }
        self.take_address(slot, local, host)
    }

    /// Gives a socket any address of its own if it has none.
    fn bind_somewhere(&mut self, slot: u32, host: &mut dyn Host) -> Result<Endpoint, Errno> {
        let Some(entry) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        let own = entry.own;
        if !entry.is_bound() {
            self.bind_datagrams(slot, own, host)?;
        }
        self.sockets.get(slot).map(|entry| entry.own).ok_or(Errno::EBADF)
    }

    /// Sets the only peer of a socket.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, `EACCES`, `EINVAL`, `EADDRINUSE`.
    pub(crate) fn connect_datagrams(
        &mut self,
        slot: u32,
        remote: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        let remote = Endpoint::new(or_loopback(remote.address), remote.port);
        let Some(entry) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        let (family, settings, own) = (entry.family, entry.settings, entry.own);
        let (source, _) = self.way_of_datagram(&settings, own.address, remote.address)?;
        let own = self.bind_somewhere(slot, host)?;
        let scope = if own.address.is_unspecified() {
            Scope::One(source)
        } else {
            Scope::new(own.address, family, settings.only_v6)
        };
        self.udp.update(own.port, slot, |binding| binding.scope = scope);
        if let Some(datagrams) = self.sockets.get_mut(slot).and_then(Entry::datagrams_mut) {
            datagrams.remote = Some(remote);
            datagrams.source = Some(source);
        }
        Ok(())
    }

    /// Clears the only peer of a socket.
    pub(crate) fn disconnect_datagrams(&mut self, slot: u32) {
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        let (own, scope) = (entry.own, entry.scope());
        if let Some(datagrams) = entry.datagrams_mut() {
            datagrams.remote = None;
            datagrams.source = None;
        }
        self.udp.update(own.port, slot, |binding| binding.scope = scope);
        self.release_port(slot);
    }

    /// Shuts halves of a socket down.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shut_datagrams(
        &mut self,
        slot: u32,
        how: Shutdown,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let Some(datagrams) = entry.datagrams_mut() else { return Err(Errno::EBADF) };
        if datagrams.remote.is_none() {
            return Err(Errno::ENOTCONN);
        }
        datagrams.shut_read |= how.reads();
        datagrams.shut_write |= how.writes();
        entry.wake(host);
        Ok(())
    }

    /// Closes a socket.
    pub(crate) fn close_datagrams(&mut self, slot: u32) {
        let Some(datagrams) = self.sockets.get_mut(slot).and_then(Entry::datagrams_mut) else { return };
        self.budget.refund(datagrams.queued);
        let groups = core::mem::take(&mut datagrams.groups);
        for membership in groups {
            self.discount_member(membership);
        }
        self.remove(slot);
    }

    /// The own address of a socket.
    pub(crate) fn local_of_datagrams(entry: &Entry) -> SocketAddr {
        let own = entry.own;
        let source = entry.datagrams().and_then(|datagrams| datagrams.source);
        let source = source.filter(|_| own.address.is_unspecified());
        Endpoint::new(source.unwrap_or(own.address), own.port).present(entry.family)
    }
}
