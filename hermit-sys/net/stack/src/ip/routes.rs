//! Own addresses and routes.
//!
//! [`Routes`] has the addresses and gateways of this host, which `config` maintains. There is no routing
//! table: a destination is local, a group, on-link, or reached through the default gateway of its IP version.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use heapless::Vec;
use smoltcp::config::{IFACE_MAX_ADDR_COUNT, IFACE_MAX_ROUTE_COUNT};
use smoltcp::wire::EthernetAddress;

use crate::config::Cidr;
use crate::wire::emit::multicast_mac;

/// Broadcast address of the loopback's network.
const LOOPBACK_BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// Route of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Loopback: the packet stays on this host.
    Local,
    /// To a multicast or broadcast MAC address.
    Group(EthernetAddress),
    /// To the neighbor with this address: the destination itself or a gateway.
    Neighbor(IpAddr),
}

/// Addresses of a device, limited by smoltcp's capacity.
pub(crate) type Addresses = Vec<Cidr, IFACE_MAX_ADDR_COUNT>;

/// Gateways: a static gateway of each IP version, and the gateways of smoltcp's routes.
pub(crate) type Gateways = Vec<IpAddr, { 2 + IFACE_MAX_ROUTE_COUNT }>;

/// Addresses of this host, and its routes.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Addresses of the device, in order of preference.
    pub(crate) addresses: Addresses,
    pub(crate) gateways: Gateways,
}

impl Routes {
    /// True if an address is a unicast address of this host.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let is_own = address.is_loopback() || self.addresses.iter().any(|own| own.address == address);
        is_own && address != LOOPBACK_BROADCAST
    }

    /// True if an address is a broadcast address of one of our networks.
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

    /// Route to an address; `None` if it is unreachable.
    pub(crate) fn route(&self, address: IpAddr) -> Option<Route> {
        if address.is_loopback() || self.is_own(address) {
            return Some(Route::Local);
        }
        self.addresses.iter().find(|own| own.address.is_ipv4() == address.is_ipv4())?;
        if address.is_multicast() {
            return Some(Route::Group(multicast_mac(&address)));
        }
        if self.is_broadcast(address) {
            return Some(Route::Group(EthernetAddress::BROADCAST));
        }
        if self.is_neighbor(address) {
            return Some(Route::Neighbor(address));
        }
        let gateway = self.gateways.iter().find(|gateway| gateway.is_ipv4() == address.is_ipv4());
        gateway.copied().map(Route::Neighbor)
    }

    /// Returns the route from an own address. Broadcasts and multicasts from a loopback address stay on this
    /// host.
    pub(crate) fn route_from(&self, source: IpAddr, address: IpAddr) -> Option<Route> {
        let is_for_many = address.is_multicast() || address == Ipv4Addr::BROADCAST;
        if source.is_loopback() && is_for_many { Some(Route::Local) } else { self.route(address) }
    }

    /// True if an address is on-link, in one of our networks.
    pub(crate) fn is_neighbor(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| is_in_network(address, own.address, own.prefix))
    }

    /// Source address for packets to a destination.
    pub(crate) fn source(&self, destination: IpAddr) -> Option<IpAddr> {
        if destination.is_loopback() {
            return Some(match destination {
                // Packets to any address of the loopback have the same source address.
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        if self.is_own(destination) {
            return Some(destination);
        }
        let own = self.addresses.iter().filter(|own| own.address.is_ipv4() == destination.is_ipv4());
        // Prefers the first of equal addresses: `max_by_key` returns the last one of the reversed order.
        own.rev().max_by_key(|own| preference(**own, destination)).map(|own| own.address)
    }
}

/// True if an address is in a network, which is given by an address and the prefix length in bits.
fn is_in_network(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let host = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
            (address.to_bits() ^ network.to_bits()) & !host == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let host = u128::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
            (address.to_bits() ^ network.to_bits()) & !host == 0
        }
        _ => false,
    }
}

/// Replaces an unspecified destination address by the loopback.
pub(crate) const fn or_loopback(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    }
}

/// Preference of a source address: same network, then same scope (RFC 6724, section 5).
fn preference(own: Cidr, destination: IpAddr) -> (bool, bool) {
    let is_near = is_in_network(destination, own.address, own.prefix);
    (is_near, is_link_local(own.address) == is_link_local(destination))
}

/// True if an address has link-local scope.
pub(crate) const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        // Multicast groups count as link-local, so that `preference` chooses a link-local source for them.
        IpAddr::V6(address) => address.is_unicast_link_local() || address.octets()[0] == 0xff,
    }
}

#[cfg(test)]
mod tests {
    use super::{Route, Routes, is_in_network};
    use crate::config::Cidr;
    use core::net::IpAddr;
    use smoltcp::wire::EthernetAddress;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn network() -> Routes {
        let cidr = |text: &str, prefix| Cidr { address: ip(text), prefix };
        Routes {
            addresses: [cidr("10.0.2.15", 24), cidr("fe80::15", 64), cidr("fd00::15", 64)]
                .into_iter()
                .collect(),
            gateways: [ip("10.0.2.2"), ip("fe80::2")].into_iter().collect(),
        }
    }

    #[test]
    fn route_is_by_address() {
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
            ("10.0.2.255", Some(Route::Group(EthernetAddress::BROADCAST))),
            ("255.255.255.255", Some(Route::Group(EthernetAddress::BROADCAST))),
            ("224.0.0.251", Some(Route::Group(EthernetAddress([1, 0, 0x5e, 0, 0, 251])))),
        ] {
            assert_eq!(network.route(ip(address)), expected, "{address}");
        }
        assert_eq!(Routes::default().route(ip("10.0.2.9")), None);
        assert_eq!(Routes::default().route(ip("224.0.0.1")), None);
        assert_eq!(Routes::default().route(ip("127.0.0.1")), Some(Route::Local));
    }

    #[test]
    fn source_is_of_the_same_network_and_scope() {
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
        assert_eq!(Routes::default().source(ip("1.1.1.1")), None);
    }

    #[test]
    fn network_contains_addresses_with_its_prefix() {
        assert!(is_in_network(ip("10.0.2.15"), ip("10.0.2.2"), 24));
        assert!(!is_in_network(ip("10.0.3.15"), ip("10.0.2.2"), 24));
        assert!(is_in_network(ip("1.2.3.4"), ip("9.9.9.9"), 0));
        assert!(!is_in_network(ip("1.2.3.4"), ip("1.2.3.5"), 32));
        assert!(is_in_network(ip("fe80::1"), ip("fe80::2"), 64));
        assert!(!is_in_network(ip("fe80::1"), ip("10.0.0.1"), 0));
    }
}
