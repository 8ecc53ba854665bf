//! Signs that the guest has started, or has got an address. At such a sign, the network sends unanswered SYNs
//! again. So clients that have connected before need not wait for the retransmission timer.
//!
//! Each sign counts only once, so that a guest cannot make the network repeat many SYNs.

use std::net::IpAddr;

use bitflags::bitflags;

use crate::Guest;
use crate::link::{NEIGHBOR_ADVERTISEMENT, ROUTER_SOLICITATION};

bitflags! {
    /// Signs of a guest.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Signs: u8 {
        /// Its DHCP request was acknowledged.
        const LEASE = 1 << 0;
        /// It has sent an ARP packet from its address.
        const ARP = 1 << 1;
        /// It has solicited routers.
        const SOLICITATION = 1 << 2;
        /// It has advertised itself as a neighbor.
        const ADVERTISEMENT = 1 << 3;
        /// It has sent a packet from its IPv4 address, and from its IPv6 address.
        const IPV4 = 1 << 4;
        const IPV6 = 1 << 5;
    }
}

impl Signs {
    /// Returns the sign that a packet with this source address gives.
    pub(crate) fn of_source(guest: &Guest, source: IpAddr) -> Self {
        match source {
            IpAddr::V4(address) if address == guest.v4 => Self::IPV4,
            IpAddr::V6(address) if Some(address) == guest.v6 => Self::IPV6,
            _ => Self::empty(),
        }
    }

    /// Returns the sign that an ICMPv6 message of this type gives.
    pub(crate) const fn of_message(kind: u8) -> Self {
        match kind {
            ROUTER_SOLICITATION => Self::SOLICITATION,
            NEIGHBOR_ADVERTISEMENT => Self::ADVERTISEMENT,
            _ => Self::empty(),
        }
    }
}
