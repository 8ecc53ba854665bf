//! Ranges of IP addresses, in CIDR notation (RFC 4632 §3.1).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Length in bits of the prefix that IPv4-mapped IPv6 addresses share (RFC 4291 §2.5.5.2).
const MAPPED: u8 = 96;

/// Length in bits of an IPv6 address.
const BITS: u8 = 128;

/// A range of addresses with a common prefix. An IPv4 address and its IPv4-mapped IPv6 address count as the
/// same address, because sockets reach the same host with either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// First address.
    first: u128,
    /// Length of the prefix in bits, as for an IPv6 address.
    length: u8,
}

/// Returns the bits of an IPv6 address, or of the IPv4-mapped IPv6 address of an IPv4 address.
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Prefix {
    /// Returns the range of addresses that share the first `length` bits with `address`. The range is
    /// `address` alone if `address` has fewer bits.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Self {
        let length = if address.is_ipv4() { length.saturating_add(MAPPED) } else { length }.min(BITS);
        let range = Self { first: bits(address), length };
        Self { first: range.first & !range.host_mask(), ..range }
    }

    /// Returns the range of a single address.
    #[must_use]
    pub fn of_host(address: IpAddr) -> Self {
        Self::new(address, BITS)
    }

    /// Returns the length of the prefix in bits, as for an IPv6 address.
    pub(super) fn length(self) -> u8 {
        self.length
    }

    pub(super) fn first(self) -> u128 {
        self.first
    }

    pub(super) fn last(self) -> u128 {
        self.first | self.host_mask()
    }

    pub(super) fn contains(self, address: u128) -> bool {
        address & !self.host_mask() == self.first
    }

    /// Returns true if all addresses of this range are in `other`.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.length >= other.length && other.contains(self.first)
    }

    /// Returns the mask of the bits after the prefix.
    fn host_mask(self) -> u128 {
        u128::MAX.checked_shr(self.length.into()).unwrap_or(0)
    }
}

impl fmt::Display for Prefix {
    /// Writes the syntax that [`FromStr`] parses.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.first);
        match address.to_ipv4_mapped().zip(self.length.checked_sub(MAPPED)) {
            Some((address, length)) => write!(out, "{address}/{length}"),
            None => write!(out, "{address}/{}", self.length),
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("`{text}` is no range of addresses, such as 10.0.0.0/8, 192.0.2.7 or fd00::/8");
        let (address, length) = text.split_once('/').map_or((text, None), |(start, end)| (start, Some(end)));
        let address: IpAddr = address.parse().map_err(|_| help())?;
        let max = if address.is_ipv4() { 32 } else { BITS };
        let length = match length {
            None => max,
            Some(length) => {
                let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
                length.parse().ok().filter(|&length| is_number && length <= max).ok_or_else(help)?
            }
        };
        let range = Self::new(address, length);
        if range.first == bits(address) {
            return Ok(range);
        }
        Err(format!(
            "`{text}` has bits behind its prefix: write {range}, or {address} for that address alone"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;
    use proptest::prelude::*;
    use std::net::IpAddr;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn range_and_text_are_inverse() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::/0", "::/0"),
            ("fd00::/8", "fd00::/8"),
            ("fe80::1", "fe80::1/128"),
        ] {
            assert_eq!(prefix(text).to_string(), written);
            assert_eq!(prefix(written), prefix(text));
        }
    }

    #[test]
    fn invalid_range_is_an_error_with_the_syntax() {
        for text in ["", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "::/129", "fe80::1%eth0", "a", "10.0.0/8"]
        {
            let error = text.parse::<Prefix>().unwrap_err();
            assert!(error.contains("no range of addresses"), "{text}: {error}");
        }
        let error = "10.0.0.5/8".parse::<Prefix>().unwrap_err();
        assert!(error.contains("write 10.0.0.0/8, or 10.0.0.5 for that"), "{error}");
    }

    #[test]
    fn ranges_are_nested_by_their_prefixes() {
        for (inner, outer) in [
            ("10.1.0.0/16", "10.0.0.0/8"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("1.2.3.4", "0.0.0.0/0"),
            ("fd00::1", "::/0"),
        ] {
            assert!(prefix(inner).is_within(prefix(outer)), "{inner} {outer}");
        }
        for (inner, outer) in
            [("10.0.0.0/8", "10.0.0.0/16"), ("11.0.0.0/8", "10.0.0.0/8"), ("::1", "0.0.0.0/0")]
        {
            assert!(!prefix(inner).is_within(prefix(outer)), "{inner} {outer}");
        }
    }

    proptest! {
        #[test]
        fn first_and_last_address_bound_a_range(address: IpAddr, length: u8, other: IpAddr) {
            let range = Prefix::new(address, length);
            let other = super::bits(other);
            prop_assert!(range.contains(range.first()) && range.contains(range.last()));
            prop_assert_eq!(range.contains(other), (range.first()..=range.last()).contains(&other));
            prop_assert_eq!(prefix(&range.to_string()), range);
        }
    }
}
