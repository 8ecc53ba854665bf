//! Groups: who is a member of which, on which interface.

use core::net::{IpAddr, Ipv4Addr};

use hermit_interface::Errno;

use crate::core::{Core, Entry};
use crate::socket::Family;

/// Most groups of one socket: Linux's `igmp_max_memberships`.
const MAX_GROUPS: usize = 20;

/// The numbers of the two interfaces, as Linux would count.
const LOOPBACK: u32 = 1;
const DEVICE: u32 = 2;

/// Where a group may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interface {
    /// This host itself.
    Loopback,
    /// The device's network.
    Device,
}

/// Which interface a program means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Whichever suits.
    Any,
    This(Interface),
    /// One that there is not.
    Unknown,
}

impl Named {
    /// By its number.
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

impl Core {
    /// The interface that has an address.
    pub(crate) fn interface_at(&self, address: Ipv4Addr) -> Named {
        match IpAddr::V4(address) {
            address if address.is_unspecified() => Named::Any,
            address if address.is_loopback() => Named::This(Interface::Loopback),
            address if self.network.is_own(address) => Named::This(Interface::Device),
            _ => Named::Unknown,
        }
    }

    /// Whether anybody is a member of a group on an interface.
    pub(crate) fn has_members(&self, group: IpAddr, interface: Interface) -> bool {
        self.groups.contains_key(&Membership { group, interface })
    }

    /// Makes a socket a member of a group.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is no group. `ENODEV`: there is no such interface. `EADDRINUSE`: it is one. `ENOBUFS`, `ENOMEM`,
    /// `ENOPROTOOPT`.
    pub(crate) fn join(&mut self, slot: u32, group: IpAddr, named: Named) -> Result<(), Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if !group.is_multicast() || entry.family == Family::V4 && group.is_ipv6() {
            return Err(Errno::EINVAL);
        }
        let Some(datagrams) = entry.datagrams_mut() else { return Err(Errno::ENOPROTOOPT) };
        let interface = match named {
            Named::Any => Interface::Device,
            Named::This(interface) => interface,
            Named::Unknown => return Err(Errno::ENODEV),
        };
        if interface == Interface::Device && self.control.is_none() {
            return Err(Errno::ENODEV);
        }
        let membership = Membership { group, interface };
        if datagrams.groups.contains(&membership) {
            return Err(Errno::EADDRINUSE);
        }
        if datagrams.groups.len() >= MAX_GROUPS {
            return Err(Errno::ENOBUFS);
        }
        datagrams.groups.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.count_member(membership)?;
        if let Some(datagrams) = self.sockets.get_mut(slot).and_then(Entry::datagrams_mut) {
            datagrams.groups.push(membership);
        }
        Ok(())
    }

    /// One socket more is a member of a group. The network is told of the first one.
    fn count_member(&mut self, membership: Membership) -> Result<(), Errno> {
        self.groups.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if let Some(members) = self.groups.get_mut(&membership) {
            *members += 1;
            return Ok(());
        }
        let control = self.control.as_mut().filter(|_| membership.interface == Interface::Device);
        if control.is_some_and(|control| !control.join(membership.group, self.now)) {
            return Err(Errno::ENOBUFS);
        }
        self.groups.insert(membership, 1);
        Ok(())
    }

    /// Has a socket leave a group.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`: it is no member. `EINVAL`: it is no group of IPv6. `ENOPROTOOPT`.
    pub(crate) fn leave(&mut self, slot: u32, group: IpAddr, named: Named) -> Result<(), Errno> {
        if group.is_ipv6() && !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let entry = self.sockets.get_mut(slot);
        let Some(datagrams) = entry.and_then(Entry::datagrams_mut) else { return Err(Errno::ENOPROTOOPT) };
        let is_meant = |joined: &Membership| {
            joined.group == group && (named == Named::Any || named == Named::This(joined.interface))
        };
        let place = datagrams.groups.iter().position(is_meant).ok_or(Errno::EADDRNOTAVAIL)?;
        let membership = datagrams.groups.swap_remove(place);
        self.discount_member(membership);
        Ok(())
    }

    /// One socket less is a member of a group.
    pub(crate) fn discount_member(&mut self, membership: Membership) {
        let Some(members) = self.groups.get_mut(&membership) else { return };
        *members = members.saturating_sub(1);
        if *members > 0 {
            return;
        }
        self.groups.remove(&membership);
        if let Some(control) = self.control.as_mut().filter(|_| membership.interface == Interface::Device) {
            control.leave(membership.group, self.now);
        }
    }
}
