//! Multicast group memberships of sockets.

use core::net::IpAddr;

use hermit_interface::Errno;

use crate::inner::StackInner;
use crate::ip::groups::{Interface, Membership, Named};
use crate::socket::{Family, Socket};

/// Maximum number of groups of one socket: Linux's `igmp_max_memberships`.
const MAX_GROUPS: usize = 20;

impl StackInner {
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
        if interface == Interface::Device && self.ip.config.is_none() {
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
        self.ip.count_member(membership, self.now)?;
        if let Some(udp_socket) = self.sockets.get_mut(slot).and_then(Socket::as_udp_mut) {
            udp_socket.groups.push(membership);
        }
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
        self.ip.uncount_member(membership, self.now);
        Ok(())
    }
}
