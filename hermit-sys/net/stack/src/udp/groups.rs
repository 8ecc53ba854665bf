//! Multicast group memberships of sockets.

use core::net::{IpAddr, Ipv4Addr};

use hermit_interface::Errno;

use crate::inner::StackInner;
use crate::socket::{Family, Socket};

/// Maximum number of groups of one socket: Linux's `igmp_max_memberships`.
const MAX_GROUPS: usize = 20;

/// Indices of the two interfaces, as in Linux.
const LOOPBACK: u32 = 1;
const DEVICE: u32 = 2;

/// Interface of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interface {
    /// The loopback.
    Loopback,
    /// The network device.
    Device,
}

/// Interface as a program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Any interface.
    Any,
    This(Interface),
    /// An interface that does not exist.
    Unknown,
}

impl Named {
    /// The interface of an index.
    pub(crate) const fn by_index(index: u32) -> Self {
        match index {
            0 => Self::Any,
            LOOPBACK => Self::This(Interface::Loopback),
            DEVICE => Self::This(Interface::Device),
            _ => Self::Unknown,
        }
    }
}

/// A group on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Membership {
    pub(crate) group: IpAddr,
    pub(crate) interface: Interface,
}

impl StackInner {
    /// The interface with an address.
    pub(crate) fn interface_at(&self, address: Ipv4Addr) -> Named {
        match IpAddr::V4(address) {
            address if address.is_unspecified() => Named::Any,
            address if address.is_loopback() => Named::This(Interface::Loopback),
            address if self.routes.is_own(address) => Named::This(Interface::Device),
            _ => Named::Unknown,
        }
    }

    /// Whether any socket is a member of a group on an interface.
    pub(crate) fn has_members(&self, group: IpAddr, interface: Interface) -> bool {
        self.groups.contains_key(&Membership { group, interface })
    }

    /// Makes a socket a member of a group.
    ///
    /// # Errors
    ///
    /// `EINVAL`: not a multicast address. `ENODEV`: the interface does not exist. `EADDRINUSE`: it is a member already.
    /// `ENOBUFS`, `ENOMEM`, `ENOPROTOOPT`.
    pub(crate) fn join(&mut self, slot: u32, group: IpAddr, named: Named) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if !group.is_multicast() || socket.family == Family::V4 && group.is_ipv6() {
            return Err(Errno::EINVAL);
        }
        let Some(udp_socket) = socket.as_udp_mut() else { return Err(Errno::ENOPROTOOPT) };
        let interface = match named {
            Named::Any => Interface::Device,
            Named::This(interface) => interface,
            Named::Unknown => return Err(Errno::ENODEV),
        };
        if interface == Interface::Device && self.config.is_none() {
            return Err(Errno::ENODEV);
        }
        let membership = Membership { group, interface };
        if udp_socket.groups.contains(&membership) {
            return Err(Errno::EADDRINUSE);
        }
        if udp_socket.groups.len() >= MAX_GROUPS {
            return Err(Errno::ENOBUFS);
        }
        udp_socket.groups.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.count_member(membership)?;
        if let Some(udp_socket) = self.sockets.get_mut(slot).and_then(Socket::as_udp_mut) {
            udp_socket.groups.push(membership);
        }
        Ok(())
    }

    /// Counts a member of a group; the first one joins by IGMP or MLD.
    fn count_member(&mut self, membership: Membership) -> Result<(), Errno> {
        self.groups.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if let Some(members) = self.groups.get_mut(&membership) {
            *members += 1;
            return Ok(());
        }
        let config = self.config.as_mut().filter(|_| membership.interface == Interface::Device);
        if config.is_some_and(|config| !config.join(membership.group, self.now)) {
            return Err(Errno::ENOBUFS);
        }
        self.groups.insert(membership, 1);
        Ok(())
    }

    /// Removes a socket from a group.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`: it is not a member. `EINVAL`: not an IPv6 multicast address. `ENOPROTOOPT`.
    pub(crate) fn leave(&mut self, slot: u32, group: IpAddr, named: Named) -> Result<(), Errno> {
        if group.is_ipv6() && !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let socket = self.sockets.get_mut(slot);
        let Some(udp_socket) = socket.and_then(Socket::as_udp_mut) else { return Err(Errno::ENOPROTOOPT) };
        let is_meant = |joined: &Membership| {
            joined.group == group && (named == Named::Any || named == Named::This(joined.interface))
        };
        let place = udp_socket.groups.iter().position(is_meant).ok_or(Errno::EADDRNOTAVAIL)?;
        let membership = udp_socket.groups.swap_remove(place);
        self.uncount_member(membership);
        Ok(())
    }

    /// Uncounts a member of a group; the last one leaves by IGMP or MLD.
    pub(crate) fn uncount_member(&mut self, membership: Membership) {
        let Some(members) = self.groups.get_mut(&membership) else { return };
        *members = members.saturating_sub(1);
        if *members > 0 {
            return;
        }
        self.groups.remove(&membership);
        if let Some(config) = self.config.as_mut().filter(|_| membership.interface == Interface::Device) {
            config.leave(membership.group, self.now);
        }
    }
}
