//! The way of packets: which addresses are ours, where others are, who sits beside us.

pub(crate) mod neighbors;
pub(crate) mod sources;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::wire::EthernetAddress;

use crate::address::is_in_network;
use crate::configuration::Cidr;
use crate::wire::emit::multicast_mac;

/// Everybody in the loopback's network.
const LOOPBACK_BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// Where a packet to an address goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// It stays on this host.
    Local,
    /// To whom this hardware address belongs: a group, or everybody.
    Everybody(EthernetAddress),
    /// To a neighbor, who has this address.
    Neighbor(IpAddr),
}

/// The addresses of this host and what it knows of its network.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// Of the device, in the order in which they are preferred.
    pub(crate) addresses: Vec<Cidr>,
    pub(crate) gateways: Vec<IpAddr>,
}

impl Network {
    /// Whether packets to an address are for this host alone, and whoever is at that address.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let is_own = address.is_loopback() || self.addresses.iter().any(|own| own.address == address);
        is_own && address != LOOPBACK_BROADCAST
    }

    /// Whether an address means everybody in a network of ours.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        let own = self.addresses.iter().filter_map(|own| match own.address {
            IpAddr::V4(own_address) if own.prefix < 31 => Some((own_address, own.prefix)),
            _ => None,
        });
        let mut directed =
            own.map(|(own, prefix)| own.to_bits() | u32::MAX.checked_shr(prefix.into()).unwrap_or(0));
        address.is_broadcast()
            || address == LOOPBACK_BROADCAST
            || directed.any(|all| all == address.to_bits())
    }

    /// The way to an address; `None` if there is none.
    pub(crate) fn route(&self, address: IpAddr) -> Option<Route> {
        if address.is_loopback() || self.is_own(address) {
            return Some(Route::Local);
        }
        self.addresses.iter().find(|own| own.address.is_ipv4() == address.is_ipv4())?;
        if address.is_multicast() {
            return Some(Route::Everybody(multicast_mac(&address)));
        }
        if self.is_broadcast(address) {
            return Some(Route::Everybody(EthernetAddress::BROADCAST));
        }
        if self.is_neighbor(address) {
            return Some(Route::Neighbor(address));
        }
        let gateway = self.gateways.iter().find(|gateway| gateway.is_ipv4() == address.is_ipv4());
        gateway.copied().map(Route::Neighbor)
    }

    /// The way from an address of ours: what is for many, and comes from the loopback, stays there.
    pub(crate) fn route_from(&self, source: IpAddr, address: IpAddr) -> Option<Route> {
        let is_for_many = address.is_multicast() || address == Ipv4Addr::BROADCAST;
        if source.is_loopback() && is_for_many { Some(Route::Local) } else { self.route(address) }
    }

    /// Whether an address is in one of our networks.
    pub(crate) fn is_neighbor(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| is_in_network(address, own.address, own.prefix))
    }

    /// The address of ours from which a packet to another goes.
    pub(crate) fn source(&self, destination: IpAddr) -> Option<IpAddr> {
        if destination.is_loopback() {
            return Some(match destination {
                // Whatever address of the loopback is meant, it answers from the same one.
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        if self.is_own(destination) {
            return Some(destination);
        }
        let own = self.addresses.iter().filter(|own| own.address.is_ipv4() == destination.is_ipv4());
        // Of several that fit equally well, the last one is taken.
        own.rev().max_by_key(|own| preference(**own, destination)).map(|own| own.address)
    }
}

/// How well an own address fits a destination: of the same network, then of the same reach (RFC 6724, section 5).
fn preference(own: Cidr, destination: IpAddr) -> (bool, bool) {
    let is_near = is_in_network(destination, own.address, own.prefix);
    (is_near, is_link_local(own.address) == is_link_local(destination))
}

/// Whether an address counts on one network only.
pub(crate) const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        // Groups of the link are reached from its own addresses, too.
        IpAddr::V6(address) => address.is_unicast_link_local() || address.octets()[0] == 0xff,
    }
}

#[cfg(test)]
mod tests {
    use super::{Network, Route};
    use crate::configuration::Cidr;
    use core::net::IpAddr;
    use smoltcp::wire::EthernetAddress;
    use std::vec;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn network() -> Network {
        let cidr = |text: &str, prefix| Cidr { address: ip(text), prefix };
        Network {
            addresses: vec![cidr("10.0.2.15", 24), cidr("fe80::15", 64), cidr("fd00::15", 64)],
            gateways: vec![ip("10.0.2.2"), ip("fe80::2")],
        }
    }

    #[test]
    fn packets_find_their_way() {
        let network = network();
        for (address, expected) in [
            ("127.0.0.9", Some(Route::Local)),
            ("::1", Some(Route::Local)),
            ("127.255.255.255", Some(Route::Local)),
            ("10.0.2.15", Some(Route::Local)),
            ("10.0.2.9", Some(Route::Neighbor(ip("10.0.2.9")))),
            ("1.1.1.1", Some(Route::Neighbor(ip("10.0.2.2")))),
            ("fd00::9", Some(Route::Neighbor(ip("fd00::9")))),
            ("2001::9", Some(Route::Neighbor(ip("fe80::2")))),
            ("10.0.2.255", Some(Route::Everybody(EthernetAddress::BROADCAST))),
            ("255.255.255.255", Some(Route::Everybody(EthernetAddress::BROADCAST))),
            ("224.0.0.251", Some(Route::Everybody(EthernetAddress([1, 0, 0x5e, 0, 0, 251])))),
        ] {
            assert_eq!(network.route(ip(address)), expected, "{address}");
        }
        assert_eq!(Network::default().route(ip("10.0.2.9")), None);
        assert_eq!(Network::default().route(ip("224.0.0.1")), None);
        assert_eq!(Network::default().route(ip("127.0.0.1")), Some(Route::Local));
    }

    #[test]
    fn the_source_is_of_the_same_network_and_reach() {
        let network = network();
        for (destination, source) in [
            ("127.0.0.9", "127.0.0.1"),
            ("10.0.2.15", "10.0.2.15"),
            ("1.1.1.1", "10.0.2.15"),
            ("fe80::9", "fe80::15"),
            ("ff02::1", "fe80::15"),
            ("fd00::9", "fd00::15"),
            ("2001::9", "fd00::15"),
        ] {
            assert_eq!(network.source(ip(destination)), Some(ip(source)), "{destination}");
        }
        assert_eq!(Network::default().source(ip("1.1.1.1")), None);
    }
}
