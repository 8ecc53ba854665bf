//! Order of destination addresses (RFC 6724 §6).
//!
//! Rules 3, 4 and 7 are left out, since the machine has no deprecated addresses, home addresses or tunnels.
//! Rule 9 is not applied to IPv4 addresses, as in glibc, since it would undo the rotation by which servers
//! distribute load. If no other rule decides, IPv4 addresses keep the order of the server.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv6Addr};

use crate::{Address, LookupError};

/// A row of the policy table: prefix and its length in bits, precedence, label.
type Policy = (Ipv6Addr, u32, u8, u8);

/// The default policy table (RFC 6724 §2.1), longest prefixes first.
const POLICIES: [Policy; 9] = [
    (Ipv6Addr::LOCALHOST, 128, 50, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 35, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 1, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 30, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 1, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 1, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 3, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 40, 1),
];

/// Scopes (RFC 4291 §2.7, RFC 6724 §3.1).
const LINK_LOCAL: u8 = 2;
const SITE_LOCAL: u8 = 5;
const GLOBAL: u8 = 14;

/// Length in bits of an IPv6 address without its interface identifier, which does not count for the common
/// prefix.
const MAX_COMMON_PREFIX: u32 = 64;

/// IPv4-mapped addresses stand for those of IPv4.
const fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Number of leading bits that two addresses have in common.
const fn common_prefix(one: Ipv6Addr, other: Ipv6Addr) -> u32 {
    (one.to_bits() ^ other.to_bits()).leading_zeros()
}

/// Precedence and label of an address.
fn policy(address: Ipv6Addr) -> (u8, u8) {
    let row = POLICIES.iter().find(|(prefix, bits, ..)| common_prefix(*prefix, address) >= *bits);
    row.map_or((0, 0), |&(.., precedence, label)| (precedence, label))
}

fn scope(address: Ipv6Addr) -> u8 {
    if let Some(address) = address.to_ipv4_mapped() {
        let is_local = address.is_loopback() || address.is_link_local();
        return if is_local { LINK_LOCAL } else { GLOBAL };
    }
    match address.octets() {
        [0xff, flags_and_scope, ..] => flags_and_scope & 15,
        [0xfe, second, ..] if second & 0xc0 == 0xc0 => SITE_LOCAL,
        _ if address.is_loopback() || address.is_unicast_link_local() => LINK_LOCAL,
        _ => GLOBAL,
    }
}

/// Sort key of a destination; the smallest one is the best.
type Key = (bool, bool, bool, Reverse<u8>, u8, Reverse<u32>);

/// Returns the sort key of a destination, given the source address of packets to it. `source` is `None` if
/// the destination cannot be reached.
fn key(destination: IpAddr, source: Option<IpAddr>) -> Key {
    let destination = mapped(destination);
    let (precedence, label) = policy(destination);
    let scope_of_destination = scope(destination);
    let Some(source) = source.map(mapped) else {
        return (true, true, true, Reverse(precedence), scope_of_destination, Reverse(0));
    };
    let common = match destination.to_ipv4_mapped() {
        None => common_prefix(source, destination).min(MAX_COMMON_PREFIX),
        Some(_) => 0,
    };
    (
        // Rule 1: avoid unusable destinations.
        false,
        // Rule 2: prefer matching scope.
        scope(source) != scope_of_destination,
        // Rule 5: prefer matching label.
        policy(source).1 != label,
        // Rule 6: prefer higher precedence.
        Reverse(precedence),
        // Rule 8: prefer smaller scope.
        scope_of_destination,
        // Rule 9: use longest matching prefix.
        Reverse(common),
    )
}

/// Sorts addresses, the best first; equal ones keep their order (rule 10). `source` tells the source address
/// of packets to a destination, if that can be reached.
///
/// # Errors
///
/// [`LookupError::Memory`].
pub fn sort(
    addresses: &mut [Address],
    mut source: impl FnMut(&Address) -> Option<IpAddr>,
) -> Result<(), LookupError> {
    let mut keyed = Vec::new();
    keyed.try_reserve_exact(addresses.len())?;
    keyed.extend(addresses.iter().enumerate().map(|(index, address)| {
        // The index keeps the order of equal addresses. A stable sort would do the same, but allocates
        // memory.
        (key(address.ip, source(address)), index, *address)
    }));
    keyed.sort_unstable_by_key(|&(key, index, _)| (key, index));
    addresses.iter_mut().zip(keyed).for_each(|(slot, (.., address))| *slot = address);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{policy, scope, sort};
    use crate::Address;
    use core::net::IpAddr;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Sorts destinations, each with its source address or `-`.
    fn sorted(pairs: &[(&str, &str)]) -> Vec<Address> {
        let mut addresses: Vec<Address> = pairs.iter().map(|(destination, _)| address(destination)).collect();
        let source = |wanted: &Address| {
            let pair = pairs.iter().find(|(destination, _)| address(destination) == *wanted);
            pair.and_then(|(_, source)| source.parse().ok())
        };
        sort(&mut addresses, source).unwrap();
        addresses
    }

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    /// Checks that destinations are sorted into this order, whatever their order was.
    #[track_caller]
    fn check(in_order: &[(&str, &str)]) {
        let expected: Vec<Address> = in_order.iter().map(|(destination, _)| address(destination)).collect();
        let reversed: Vec<_> = in_order.iter().rev().copied().collect();
        assert_eq!(sorted(in_order), expected);
        assert_eq!(sorted(&reversed), expected);
    }

    /// The examples of RFC 6724, section 10.2, but those of deprecated and home addresses.
    #[test]
    fn examples_of_the_rfc() {
        check(&[("2001:db8:1::1", "2001:db8:1::2"), ("198.51.100.121", "169.254.13.78")]);
        check(&[("198.51.100.121", "198.51.100.117"), ("2001:db8:1::1", "fe80::1")]);
        check(&[("2001:db8:1::1", "2001:db8:1::2"), ("10.1.2.3", "10.1.2.4")]);
        check(&[("fe80::1", "fe80::2"), ("2001:db8:1::1", "2001:db8:1::2")]);
        check(&[("2001:db8:1::1", "2001:db8:1::2"), ("2001:db8:3ffe::1", "2001:db8:3f44::2")]);
        check(&[("2002:c633:6401::1", "2002:c633:6401::2"), ("2001:db8:1::1", "fe80::2")]);
        check(&[("2001:db8:1::1", "2001:db8:1::2"), ("2002:c633:6401::1", "2002:c633:6401::2")]);
    }

    #[test]
    fn unreachable_destinations_are_last() {
        check(&[("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "-")]);
        check(&[("2001:db8::1", "2001:db8::2"), ("10.0.0.1", "-")]);
    }

    #[test]
    fn loopback_is_best() {
        check(&[("::1", "::1"), ("127.0.0.1", "127.0.0.1")]);
    }

    #[test]
    fn unique_local_addresses_match_their_own_kind() {
        check(&[("fd00:1::1", "fd00:1::2"), ("2001:db8::1", "fd00:1::2")]);
        check(&[("10.0.0.1", "10.0.0.2"), ("fd00:1::1", "fd00:1::2")]);
    }

    #[test]
    fn addresses_of_ipv4_keep_their_order() {
        let pairs = [("10.0.0.9", "10.0.0.2"), ("192.0.2.1", "10.0.0.2"), ("10.0.0.3", "10.0.0.2")];
        let expected: Vec<Address> = pairs.iter().map(|(destination, _)| address(destination)).collect();
        assert_eq!(sorted(&pairs), expected);
    }

    #[test]
    fn policies_and_scopes() {
        let of = |text: &str| {
            let address = super::mapped(text.parse().unwrap());
            (policy(address), scope(address))
        };
        assert_eq!(of("::1"), ((50, 0), 2));
        assert_eq!(of("2001:db8::1"), ((40, 1), 14));
        assert_eq!(of("2001::1"), ((5, 5), 14));
        assert_eq!(of("2002::1"), ((30, 2), 14));
        assert_eq!(of("::2"), ((1, 3), 14));
        assert_eq!(of("fec0::1"), ((1, 11), 5));
        assert_eq!(of("fd00::1"), ((3, 13), 14));
        assert_eq!(of("3ffe::1"), ((1, 12), 14));
        assert_eq!(of("169.254.0.1"), ((35, 4), 2));
        assert_eq!(of("10.0.0.1"), ((35, 4), 14));
        assert_eq!(of("ff05::1"), ((40, 1), 5));
    }

    proptest! {
        #[test]
        fn sorting_loses_no_address(v4: Vec<[u8; 4]>, v6: Vec<[u8; 16]>) {
            let v4 = v4.into_iter().map(|address| Address::from(IpAddr::from(address)));
            let v6 = v6.into_iter().map(|address| Address::from(IpAddr::from(address)));
            let all: Vec<Address> = v4.chain(v6).collect();
            let mut sorted = all.clone();
            sort(&mut sorted, |address| address.ip.is_ipv6().then_some(address.ip)).unwrap();
            prop_assert_eq!(sorted.len(), all.len());
            prop_assert!(all.iter().all(|address| sorted.contains(address)));
            // Those that can be reached are first.
            prop_assert!(sorted.is_sorted_by_key(|address| address.ip.is_ipv4()));
        }
    }
}
