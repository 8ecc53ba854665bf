//! Multicast group memberships of sockets.

use core::net::IpAddr;

use hermit_interface::Errno;

use crate::ip::groups::{Interface, Membership, Named};
use crate::socket::context::Context;
use crate::socket::options::{InterfaceName, MembershipChange};
use crate::udp::layer::Udp;

/// Maximum number of groups of one socket: Linux's `igmp_max_memberships`.
const MAX_GROUPS: usize = 20;

impl Udp {
    /// Makes a socket a member of a group, or removes it from the group.
    ///
    /// # Errors
    ///
    /// `ENODEV`: the interface does not exist. `EADDRINUSE`: the socket is a member already. `EADDRNOTAVAIL`:
    /// it is not a member. `ENOBUFS`, `ENOMEM`.
    pub(super) fn change_membership(
        &mut self,
        slot: u32,
        change: &MembershipChange,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let named = match change.interface {
            InterfaceName::Address(address) => Named::by_address(address, &context.ip.routes),
            InterfaceName::Index(index) => Named::by_index(index),
        };
        if change.is_join {
            self.join(slot, change.group, named, context)
        } else {
            self.leave(slot, change.group, named, context)
        }
    }

    fn join(
        &mut self,
        slot: u32,
        group: IpAddr,
        named: Named,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let interface = match named {
            Named::Any => Interface::Device,
            Named::This(interface) => interface,
            Named::Unknown => return Err(Errno::ENODEV),
        };
        if interface == Interface::Device && context.ip.config.is_none() {
            return Err(Errno::ENODEV);
        }
        let groups = &mut self.socket(slot)?.state.groups;
        let membership = Membership { group, interface };
        if groups.contains(&membership) {
            return Err(Errno::EADDRINUSE);
        }
        if groups.len() >= MAX_GROUPS {
            return Err(Errno::ENOBUFS);
        }
        groups.try_reserve(1)?;
        context.ip.count_member(membership, context.now)?;
        groups.push(membership);
        Ok(())
    }

    fn leave(
        &mut self,
        slot: u32,
        group: IpAddr,
        named: Named,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let groups = &mut self.socket(slot)?.state.groups;
        let is_meant = |joined: &Membership| {
            joined.group == group && (named == Named::Any || named == Named::This(joined.interface))
        };
        let place = groups.iter().position(is_meant).ok_or(Errno::EADDRNOTAVAIL)?;
        let membership = groups.swap_remove(place);
        context.ip.uncount_member(membership, context.now);
        Ok(())
    }
}
