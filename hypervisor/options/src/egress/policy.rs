//! Policy for outgoing connections: the addresses to which a guest may open connections.
//!
//! The policy is a set of rules. Each rule opens or closes a range of addresses. If several ranges contain an
//! address, the rule with the longest prefix decides, as in a routing table. So the order of rules does not
//! matter: an exception is a rule with a smaller range, and a rule that opens a large range does not open the
//! metadata service in it. The operator cannot give two rules for the same range. A rule of the operator
//! replaces uhyve's own rule for the same range.
//!
//! Rules are evaluated once, at start. [`EgressPolicy`] stores the result as a sorted list, which is searched
//! for each connection, or for each packet on a tap.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::prefix::{Prefix, bits};

/// Ranges on the host's link, which are closed with the user-mode network: link-local addresses (RFC 3927,
/// RFC 4291 §2.5.6) and multicast groups (RFC 5771 §4, RFC 4291 §2.7).
const LINK_LOCAL: [(IpAddr, u8); 5] = [
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 24),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    (IpAddr::V6(Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0)), 16),
];

/// Ranges of addresses with which a host reaches itself: 0.0.0.0/8 and 127.0.0.0/8 (RFC 1122 §3.2.1.3), `::`,
/// `::1` and IPv4-compatible addresses (RFC 4291 §2.5).
const LOOPBACK: [(IpAddr, u8); 3] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 96),
];

/// A range, and true if its addresses are open.
type Rule = (Prefix, bool);

/// Rules of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressOptions {
    rules: Vec<Rule>,
    /// True if all addresses without a rule are closed.
    is_closed: bool,
}

/// The host's network configuration, as far as the policy of the user-mode network depends on it.
#[derive(Clone, Debug, Default)]
pub struct HostNetwork {
    /// Addresses of the host's interfaces, which are closed.
    pub addresses: Vec<IpAddr>,
    /// DNS servers that the guest may query even at closed addresses.
    pub nameservers: Vec<IpAddr>,
}

impl EgressOptions {
    /// Opens a range.
    ///
    /// # Errors
    ///
    /// There is a rule for the range, or the range is the host's loopback.
    pub fn allow(&mut self, range: Prefix) -> Result<(), String> {
        if is_loopback(range) {
            return Err(format!("allow={range} is the host itself: host-loopback opens its loopback"));
        }
        self.add(range, true)
    }

    /// Closes a range.
    ///
    /// # Errors
    ///
    /// There is a rule for the range.
    pub fn deny(&mut self, range: Prefix) -> Result<(), String> {
        self.add(range, false)
    }

    fn add(&mut self, range: Prefix, is_open: bool) -> Result<(), String> {
        if self.rules.iter().any(|(other, _)| *other == range) {
            return Err(format!("{range} is given twice: one allow= or deny= decides about a range"));
        }
        self.rules.push((range, is_open));
        Ok(())
    }

    /// Closes all addresses that no rule opens.
    ///
    /// # Errors
    ///
    /// They are closed already.
    pub fn close(&mut self) -> Result<(), String> {
        if mem::replace(&mut self.is_closed, true) {
            return Err("egress= is given twice: a guest has one".to_owned());
        }
        Ok(())
    }

    /// Returns true if all addresses without a rule are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns true if the options close any address.
    #[must_use]
    pub fn closes_any(&self) -> bool {
        self.is_closed || self.rules.iter().any(|(_, is_open)| !is_open)
    }

    /// Returns true if the options open any address.
    #[must_use]
    pub fn opens_any(&self) -> bool {
        self.rules.iter().any(|(_, is_open)| *is_open)
    }
}

/// Returns true if the range is within the loopback.
fn is_loopback(range: Prefix) -> bool {
    LOOPBACK.iter().any(|&(address, length)| range.is_within(Prefix::new(address, length)))
}

/// The result of the rules: open and closed addresses, for fast look-up.
#[derive(Clone, Debug)]
pub struct EgressPolicy {
    /// First address of each range, in ascending order, and true if the range is open. The first range begins
    /// at 0, and each range ends where the next one begins.
    ranges: Vec<(u128, bool)>,
    nameservers: Vec<u128>,
}

impl EgressPolicy {
    /// Returns the policy for the user-mode network. Link-local addresses and the host's own addresses are
    /// closed unless the operator opens them.
    #[must_use]
    pub fn of_sockets(options: &EgressOptions, host: &HostNetwork) -> Self {
        let ranges = |ranges: &[(IpAddr, u8)], is_open| -> Vec<Rule> {
            ranges.iter().map(|&(address, length)| (Prefix::new(address, length), is_open)).collect()
        };
        let hosts = |addresses: &[IpAddr], is_open| -> Vec<Rule> {
            addresses.iter().map(|&address| (Prefix::of_host(address), is_open)).collect()
        };
        let rules = [ranges(&LINK_LOCAL, false), ranges(&LOOPBACK, false), hosts(&host.addresses, false)];
        let rules = rules.concat();
        Self::new(rules, options, &host.nameservers)
    }

    /// Returns the policy for a network interface, which the operator routes: only the rules of `options`
    /// count. Returns `None` if these close nothing.
    #[must_use]
    pub fn of_interface(options: &EgressOptions, nameservers: &[IpAddr]) -> Option<Self> {
        options.closes_any().then(|| Self::new(Vec::new(), options, nameservers))
    }

    fn new(mut rules: Vec<Rule>, options: &EgressOptions, nameservers: &[IpAddr]) -> Self {
        let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        rules.extend(all.map(|address| (Prefix::new(address, 0), !options.is_closed)));
        // The operator's rules come last, because the last of several rules with the same range decides.
        rules.extend(&options.rules);
        // The decision can change only at the first address of a range, or at the first address after a
        // range.
        let bounds = rules.iter().flat_map(|(range, _)| [Some(range.first()), range.last().checked_add(1)]);
        let mut bounds: Vec<u128> = bounds.flatten().collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut ranges: Vec<_> = bounds.into_iter().map(|first| (first, decide(&rules, first))).collect();
        // Merges adjacent ranges that are both open or both closed.
        ranges.dedup_by_key(|(_, is_open)| *is_open);
        Self { ranges, nameservers: nameservers.iter().copied().map(bits).collect() }
    }

    /// Returns true if the guest may open connections to this address.
    ///
    /// An IPv6 address of NAT64 or 6to4 contains an IPv4 address, to which a router would forward the
    /// connection. It is open only if both addresses are open.
    #[must_use]
    pub fn is_open(&self, address: IpAddr) -> bool {
        let address = bits(address);
        self.has_open(address) && embedded(address).is_none_or(|address| self.has_open(address))
    }

    fn has_open(&self, address: u128) -> bool {
        let next = self.ranges.partition_point(|(first, _)| *first <= address);
        next.checked_sub(1).and_then(|index| self.ranges.get(index)).is_some_and(|(_, is_open)| *is_open)
    }

    /// Returns true if this is a DNS server of the guest. The guest may query it even at a closed address.
    #[must_use]
    pub fn is_nameserver(&self, address: IpAddr) -> bool {
        self.nameservers.contains(&bits(address))
    }
}

/// Returns true if the rules open an address. The rule with the longest prefix decides. If several rules have
/// the same range, the last one decides.
fn decide(rules: &[Rule], address: u128) -> bool {
    let matching = rules.iter().filter(|(range, _)| range.contains(address));
    matching.max_by_key(|(range, _)| range.length()).is_some_and(|(_, is_open)| *is_open)
}

/// Returns the IPv4 address in an address of NAT64 (64:ff9b::/96, RFC 6052 §2.1) or 6to4 (2002::/16, RFC 3056
/// §2), as an IPv4-mapped address; `None` for other addresses.
fn embedded(address: u128) -> Option<u128> {
    let [.., a, b, c, d] = address.to_be_bytes();
    match address.to_be_bytes() {
        [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, ..] => Some(Ipv4Addr::new(a, b, c, d)),
        [0x20, 0x02, a, b, c, d, ..] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
    .map(|address| address.to_ipv6_mapped().to_bits())
}

#[cfg(test)]
mod tests {
    use super::{EgressOptions, EgressPolicy, HostNetwork, Prefix};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    /// Options in the order of the text: `+` opens a range, `-` closes one, `none` closes all.
    fn options(text: &str) -> EgressOptions {
        let mut options = EgressOptions::default();
        for word in text.split_whitespace() {
            match word.split_at(1) {
                ("+", range) => options.allow(range.parse().unwrap()).unwrap(),
                ("-", range) => options.deny(range.parse().unwrap()).unwrap(),
                _ => options.close().unwrap(),
            }
        }
        options
    }

    fn host() -> HostNetwork {
        let addresses = ["192.0.2.2", "172.17.0.1", "fd00::2", "fe80::2"].map(|text| text.parse().unwrap());
        HostNetwork { addresses: addresses.to_vec(), ..HostNetwork::default() }
    }

    fn sockets(text: &str) -> EgressPolicy {
        EgressPolicy::of_sockets(&options(text), &host())
    }

    #[track_caller]
    fn check(policy: &EgressPolicy, open: &str, closed: &str) {
        for (addresses, is_open) in [(open, true), (closed, false)] {
            for address in addresses.split_whitespace() {
                assert_eq!(policy.is_open(address.parse().unwrap()), is_open, "{address}");
            }
        }
    }

    #[test]
    fn link_local_addresses_and_those_of_the_host_are_closed() {
        check(
            &sockets(""),
            "8.8.8.8 192.0.2.1 192.0.2.3 10.0.0.1 169.253.0.1 169.255.0.1 224.0.1.1 255.255.255.255 1.0.0.0 126.1.1.1 \
             2001:db8::1 fd00::1 fec0::1 fe7f::1 ff05::1 ::1:0:0:1",
            "169.254.0.0 169.254.169.254 169.254.255.255 192.0.2.2 172.17.0.1 224.0.0.251 fe80::1 febf::1 fd00::2 ff02::1 \
             ff01::1 0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.254 :: ::1 ::127.0.0.1 ::8.8.8.8",
        );
    }

    #[test]
    fn other_forms_of_closed_addresses_are_closed() {
        check(
            &sockets(""),
            "::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 64:ff9b:0:1::7f00:1 2003:a9fe:a9fe::1",
            "::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::169.254.169.254 64:ff9b::127.0.0.1 64:ff9b::172.17.0.1 \
             2002:a9fe:a9fe::1 2002:7f00:1::",
        );
        // Both the IPv6 address and the embedded address must be open.
        check(&sockets("+64:ff9b::/96"), "64:ff9b::8.8.8.8", "64:ff9b::169.254.169.254");
        check(&sockets("-64:ff9b::/96"), "8.8.8.8", "64:ff9b::8.8.8.8");
        check(&sockets("none +8.8.8.8"), "8.8.8.8 ::ffff:8.8.8.8", "64:ff9b::8.8.8.8");
        check(&sockets("none +8.8.8.8 +64:ff9b::/96"), "64:ff9b::8.8.8.8", "64:ff9b::8.8.4.4");
    }

    #[test]
    fn longest_prefix_decides_in_any_order() {
        for text in ["-10.0.0.0/8 +10.1.0.0/16 -10.1.2.0/24", "-10.1.2.0/24 +10.1.0.0/16 -10.0.0.0/8"] {
            check(&sockets(text), "10.1.0.1 10.1.3.1 11.0.0.1", "10.0.0.1 10.1.2.3 10.2.0.1");
        }
        check(&sockets("+0.0.0.0/0 +::/0"), "8.8.8.8", "169.254.169.254 192.0.2.2 fe80::1");
        check(&sockets("+169.254.169.254"), "169.254.169.254", "169.254.169.253");
        check(&sockets("+172.17.0.1 +fe80::/10"), "172.17.0.1 fe80::1", "192.0.2.2 fe80::2");
        check(&sockets("+169.254.0.0/16"), "169.254.1.1", "192.0.2.2");
        check(&sockets("-0.0.0.0/0"), "2001:db8::1", "8.8.8.8 64:ff9b::8.8.8.8");
        check(&sockets("-::/0"), "8.8.8.8", "2001:db8::1");
    }

    #[test]
    fn closed_egress_opens_what_is_allowed_only() {
        check(&sockets("none"), "", "8.8.8.8 192.0.2.1 224.0.1.1 255.255.255.255 2001:db8::1 ff05::1");
        check(&sockets("none +10.0.0.0/8 -10.1.0.0/16"), "10.0.0.1", "10.1.0.1 8.8.8.8 fd00::1");
    }

    #[test]
    fn interface_has_the_operators_rules_only() {
        assert!(EgressPolicy::of_interface(&options(""), &[]).is_none());
        assert!(EgressPolicy::of_interface(&options("+10.0.0.0/8"), &[]).is_none());
        let policy = EgressPolicy::of_interface(&options("-169.254.0.0/16"), &[]).unwrap();
        check(
            &policy,
            "127.0.0.1 fe80::1 8.8.8.8",
            "169.254.169.254 ::ffff:169.254.1.1 64:ff9b::169.254.1.1",
        );
        let server = Ipv4Addr::new(10, 0, 0, 53).into();
        let policy = EgressPolicy::of_interface(&options("none"), &[server]).unwrap();
        check(&policy, "", "8.8.8.8 10.0.0.53 fe80::1");
        assert!(policy.is_nameserver(server) && !policy.is_nameserver("10.0.0.54".parse().unwrap()));
    }

    #[test]
    fn contradictory_rules_are_errors() {
        let mut options = options("+10.0.0.0/8");
        let range: Prefix = "10.0.0.0/8".parse().unwrap();
        assert!(options.deny(range).unwrap_err().contains("10.0.0.0/8 is given twice"));
        assert!(options.allow(range).is_err());
        for text in ["127.0.0.1", "127.0.0.0/8", "0.0.0.0/8", "::1", "::ffff:127.0.0.1", "::/96"] {
            let error = EgressOptions::default().allow(text.parse().unwrap()).unwrap_err();
            assert!(error.contains("host-loopback"), "{text}: {error}");
            assert!(EgressOptions::default().deny(text.parse().unwrap()).is_ok());
        }
    }

    /// Addresses that are close to each other, so that ranges overlap.
    fn near() -> impl Strategy<Value = IpAddr> {
        let part = || prop_oneof![Just(0_u8), Just(1), Just(10), Just(169), Just(254), any::<u8>()];
        (any::<bool>(), [part(), part(), part(), part()]).prop_map(|(is_v6, bytes)| {
            let v4 = Ipv4Addr::from(bytes);
            if is_v6 { IpAddr::V6((u128::from(v4.to_bits()) << 64 | 0x20 << 120).into()) } else { v4.into() }
        })
    }

    proptest! {
        /// The reference implementation checks one rule after the other, without sorted ranges.
        #[test]
        fn policy_agrees_with_a_search_of_the_rules(
            rules in vec((near(), 0_u8..=64, any::<bool>()), 0..12),
            is_closed: bool,
            addresses in vec(near(), 1..20),
        ) {
            let mut options = EgressOptions { is_closed, ..EgressOptions::default() };
            let mut added: Vec<(Prefix, bool)> = Vec::new();
            for (address, length, is_open) in rules {
                let range = Prefix::new(address, length);
                if options.add(range, is_open).is_ok() {
                    added.push((range, is_open));
                }
            }
            let policy = EgressPolicy::new(Vec::new(), &options, &[]);
            for address in addresses {
                let own = Prefix::of_host(address);
                let mut found = (None, !is_closed);
                // A range of IPv6 that contains all of IPv4 decides nothing about IPv4.
                for (range, is_open) in &added {
                    let is_shorter = found.0.is_some_and(|length| range.length() < length);
                    let is_same_version = !address.is_ipv4() || range.length() >= 96;
                    if own.is_within(*range) && is_same_version && !is_shorter {
                        found = (Some(range.length()), *is_open);
                    }
                }
                prop_assert_eq!(policy.is_open(address), found.1, "{}", address);
            }
        }
    }
}
