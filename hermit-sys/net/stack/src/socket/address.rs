//! Addresses as programs specify them, and as they are on the wire.
//!
//! A socket of family IPv6 may use IPv4 by IPv4-mapped addresses, and a link-local IPv6 address has a scope:
//! the index of an interface. Inside of the stack, an [`Endpoint`] has neither mapped addresses nor scopes:
//! the calls convert the addresses that programs pass and receive. [`Scope`] is the set of local addresses at
//! which a bound socket receives.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use hermit_interface::Errno;

use crate::socket::kind::{Family, Kind};

/// Indices of the loopback and of the device's interface, as in Linux. Link-local addresses have these
/// indices as scopes.
const LOOPBACK: u32 = 1;
const INTERFACE: u32 = 2;

/// True if a unicast or multicast address is link-local. A link-local address is complete only with a scope,
/// the index of an interface.
fn needs_scope(address: &SocketAddrV6) -> bool {
    let [first, second, ..] = address.ip().octets();
    address.ip().is_unicast_link_local() || first == 0xff && second & 15 == 2
}

/// Returns an address of the network, with its scope if it has one, and port 0.
#[must_use]
pub fn with_scope(address: IpAddr) -> SocketAddr {
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    Endpoint::new(address, 0).present(family)
}

/// Checks the scope of an address that a socket is bound to.
///
/// # Errors
///
/// `EINVAL`: the address needs a scope and has no scope, or a stream would be bound to a group. `ENODEV`:
/// there is no such interface.
pub(crate) fn check_bound_scope(address: SocketAddr, kind: Kind) -> Result<(), Errno> {
    let SocketAddr::V6(address) = address else { return Ok(()) };
    match address.scope_id() {
        _ if !needs_scope(&address) => Ok(()),
        _ if kind == Kind::Stream && address.ip().is_multicast() => Err(Errno::EINVAL),
        0 => Err(Errno::EINVAL),
        LOOPBACK | INTERFACE => Ok(()),
        _ => Err(Errno::ENODEV),
    }
}

/// Checks the scope of the peer of a socket that is bound to `local`. The scope of either address counts for
/// both.
///
/// # Errors
///
/// `EINVAL`: the peer's address needs a scope, and neither address has one.
pub(crate) fn check_peer_scope(address: SocketAddr, local: SocketAddr, kind: Kind) -> Result<(), Errno> {
    let SocketAddr::V6(address) = address else { return Ok(()) };
    let is_scoped = address.scope_id() != 0 || matches!(local, SocketAddr::V6(local) if needs_scope(&local));
    // A stream to a group fails later, with another error.
    let is_group = kind == Kind::Stream && address.ip().is_multicast();
    if needs_scope(&address) && !is_scoped && !is_group { Err(Errno::EINVAL) } else { Ok(()) }
}

/// An address and a port. IPv4-mapped addresses are stored as IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
}

impl Endpoint {
    pub(crate) const fn new(address: IpAddr, port: u16) -> Self {
        Self { address, port }
    }

    /// Converts an address that a program passes to a socket of this family.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT`: an address of the other family that is not IPv4-mapped.
    pub(crate) fn of(address: SocketAddr, family: Family) -> Result<Self, Errno> {
        match (family, address) {
            (Family::V4, SocketAddr::V4(_)) | (Family::V6, SocketAddr::V6(_)) => {
                Ok(Self::new(address.ip().to_canonical(), address.port()))
            }
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// Returns the address as a program gets it from a socket of this family.
    pub(crate) fn present(self, family: Family) -> SocketAddr {
        match (family, self.address) {
            (Family::V4, IpAddr::V4(address)) => SocketAddrV4::new(address, self.port).into(),
            (Family::V4, IpAddr::V6(_)) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, self.port).into(),
            (Family::V6, IpAddr::V4(address)) => {
                SocketAddrV6::new(address.to_ipv6_mapped(), self.port, 0, 0).into()
            }
            (Family::V6, IpAddr::V6(address)) => {
                let scope = if address.is_unicast_link_local() { INTERFACE } else { 0 };
                SocketAddrV6::new(address, self.port, 0, scope).into()
            }
        }
    }
}

/// The unspecified address of a family.
pub(crate) const fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
}

impl Tuple {
    /// Returns the tuple from the view of the other end.
    pub(crate) const fn reversed(&self) -> Self {
        Self { local: self.remote, remote: self.local }
    }
}

/// Local addresses at which a bound socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All addresses of one or both IP versions.
    Any { v4: bool, v6: bool },
    /// One address.
    One(IpAddr),
}

impl Scope {
    /// Returns the scope of a socket bound to an address. `::` includes IPv4, unless `IPV6_V6ONLY` is set.
    pub(crate) const fn new(address: IpAddr, family: Family, is_v6_only: bool) -> Self {
        match address {
            address if !address.is_unspecified() => Self::One(address),
            // `::ffff:0.0.0.0` means all of IPv4, for a socket of either family.
            IpAddr::V4(_) => Self::Any { v4: true, v6: false },
            IpAddr::V6(_) => Self::Any { v4: matches!(family, Family::V6) && !is_v6_only, v6: true },
        }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        match self {
            Self::Any { v4, v6 } => {
                if address.is_ipv4() {
                    v4
                } else {
                    v6
                }
            }
            Self::One(own) => own == address,
        }
    }

    /// True if the two scopes have an address in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any { v4, v6 }, Self::Any { v4: other_v4, v6: other_v6 }) => {
                v4 && other_v4 || v6 && other_v6
            }
            (Self::One(address), scope) | (scope, Self::One(address)) => scope.contains(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Scope};
    use crate::Errno;
    use crate::socket::kind::Family;
    use core::net::{IpAddr, SocketAddr};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn mapped_addresses_are_of_ipv4_and_shown_as_they_came() {
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:80".parse().unwrap();
        let plain: SocketAddr = "10.0.0.1:80".parse().unwrap();
        let endpoint = Endpoint::of(mapped, Family::V6).unwrap();
        assert_eq!(endpoint, Endpoint::new(ip("10.0.0.1"), 80));
        assert_eq!(endpoint.present(Family::V6), mapped);
        assert_eq!(endpoint.present(Family::V4), plain);
        assert_eq!(Endpoint::of(plain, Family::V6), Err(Errno::EAFNOSUPPORT));
        assert_eq!(Endpoint::of(mapped, Family::V4), Err(Errno::EAFNOSUPPORT));
    }

    #[test]
    fn all_addresses_of_ipv6_are_all_of_ipv4_unless_told_otherwise() {
        let both = Scope::new(ip("::"), Family::V6, false);
        let only = Scope::new(ip("::"), Family::V6, true);
        let v4 = Scope::new(ip("0.0.0.0"), Family::V4, false);
        assert!(both.contains(ip("10.0.0.1")) && both.contains(ip("fe80::1")));
        assert!(!only.contains(ip("10.0.0.1")) && only.contains(ip("fe80::1")));
        assert!(both.overlaps(v4) && v4.overlaps(both) && !only.overlaps(v4));
        let one = Scope::new(ip("10.0.0.1"), Family::V4, false);
        assert!(one.overlaps(v4) && both.overlaps(one) && !one.overlaps(only));
        assert!(!one.overlaps(Scope::One(ip("10.0.0.2"))));
    }
}
