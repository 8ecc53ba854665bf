//! Multicast groups with members among the sockets.

use core::net::{IpAddr, Ipv4Addr};

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hermit_interface::Errno;

use crate::ip::config::HostConfig;
use crate::ip::routes::Routes;

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

/// Interface as a program specifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Any interface.
    Any,
    This(Interface),
    /// An interface that does not exist.
    Unknown,
}

impl Named {
    /// Returns the interface with an address.
    pub(crate) fn by_address(address: Ipv4Addr, routes: &Routes) -> Self {
        match IpAddr::V4(address) {
            address if address.is_unspecified() => Self::Any,
            address if address.is_loopback() => Self::This(Interface::Loopback),
            address if routes.is_own(address) => Self::This(Interface::Device),
            _ => Self::Unknown,
        }
    }

    /// Returns the interface with an index.
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

/// Number of sockets that are members of each group.
#[derive(Debug)]
pub(crate) struct Groups(HashMap<Membership, u32, FixedState>);

impl Groups {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(HashMap::with_hasher(FixedState::with_seed(seed)))
    }

    /// True if a socket is a member of a group on an interface.
    pub(crate) fn has_members(&self, group: IpAddr, interface: Interface) -> bool {
        self.0.contains_key(&Membership { group, interface })
    }

    /// True if no group has members.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts a member of a group. The first member joins the group by IGMP or MLD.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`, `ENOMEM`.
    pub(crate) fn count(
        &mut self,
        membership: Membership,
        config: Option<&mut HostConfig>,
        now: u64,
    ) -> Result<(), Errno> {
        self.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if let Some(members) = self.0.get_mut(&membership) {
            *members += 1;
            return Ok(());
        }
        let config = config.filter(|_| membership.interface == Interface::Device);
        if config.is_some_and(|config| !config.join(membership.group, now)) {
            return Err(Errno::ENOBUFS);
        }
        self.0.insert(membership, 1);
        Ok(())
    }

    /// Removes a member from the count of a group. The last member leaves the group by IGMP or MLD.
    pub(crate) fn uncount(&mut self, membership: Membership, config: Option<&mut HostConfig>, now: u64) {
        let Some(members) = self.0.get_mut(&membership) else { return };
        *members = members.saturating_sub(1);
        if *members > 0 {
            return;
        }
        self.0.remove(&membership);
        if let Some(config) = config.filter(|_| membership.interface == Interface::Device) {
            config.leave(membership.group, now);
        }
    }
}
