//! Taps: network interfaces of the host to which guests are connected. Each tap has its own subnets.
//!
//! With a tap, host and guest share an Ethernet link. Tests need a tap for traffic that the user-mode network
//! cannot carry: raw packets, ICMP, neighbour discovery, and connections to the guest's own addresses. A
//! process needs the capabilities CAP_NET_ADMIN and CAP_NET_RAW to create a tap. Several tests, even of two
//! processes, may run at the same time, so names and subnets contain the process ID and a counter. Taps that
//! a killed process has left are removed first.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, ensure};

use crate::test::tap_nic::TapNic;

/// The device by which processes create taps.
const TUN: &str = "/dev/net/tun";

/// The bits of `CAP_NET_ADMIN` and `CAP_NET_RAW` (capabilities(7)).
const CAPABILITIES: u64 = 1 << 12 | 1 << 13;

/// The last five bytes of the guest's MAC address.
const GUEST_MAC: [u8; 5] = [0x54, 0x00, 0x12, 0x34, 0x56];

/// Prefix of the names of taps. The ID of the process that created the tap follows, then a letter.
const PREFIX: &str = "hermit";

/// Number of taps that this process has created.
static CREATED: AtomicU8 = AtomicU8::new(0);

/// A tap, which is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Tap {
    name: String,
    /// The byte in the tap's subnets that distinguishes them from the subnets of other taps.
    number: u8,
}

/// Returns the reason why this process cannot create taps, if it cannot.
pub(super) fn reason_against() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !has_capabilities(&status) {
        return Some("it needs root".to_owned());
    }
    if !Path::new(TUN).exists() {
        return Some(format!("there is no {TUN}"));
    }
    ip("link show lo").err().map(|error| format!("it needs ip(8): {error:#}"))
}

/// Returns true if the text of a file `/proc/PID/status` lists the capabilities.
fn has_capabilities(status: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & CAPABILITIES == CAPABILITIES)
}

impl Tap {
    /// Creates a tap with an IPv4 and an IPv6 address of the host.
    pub(super) fn new() -> Result<Self> {
        remove_stale()?;
        let [number, ..] = process::id().to_le_bytes();
        let count = CREATED.fetch_add(1, Ordering::Relaxed);
        let letter = char::from(b'a' + count % 26);
        let tap =
            Self { name: format!("{PREFIX}{}{letter}", process::id()), number: number.wrapping_add(count) };
        let Self { name, .. } = &tap;
        ip(&format!("tuntap add {name} mode tap"))?;
        // Makes sure that the host does not forward the guest's packets to other networks.
        fs::write(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"), "0")
            .context("cannot set up a tap")?;
        ip(&format!("addr add {}/24 dev {name}", tap.host()))?;
        if reason_against_ipv6().is_none() {
            ip(&format!("addr add {}/64 dev {name} nodad", tap.host_v6()))?;
        }
        ip(&format!("link set {name} up"))?;
        Ok(tap)
    }

    pub(super) fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 33, self.number, 1)
    }

    pub(super) fn guest(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 33, self.number, 2)
    }

    pub(super) fn host_v6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd33, 0, 0, self.number.into(), 0, 0, 0, 1)
    }

    pub(super) fn guest_v6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd33, 0, 0, self.number.into(), 0, 0, 0, 2)
    }

    /// Returns the guest's link-local address (RFC 4291, appendix A).
    pub(super) fn guest_link_local(&self) -> Ipv6Addr {
        own_address([0xfe80, 0, 0, 0])
    }

    /// Returns the configuration of a guest on this tap, with an IPv4 address.
    pub(super) fn nic(&self) -> TapNic {
        let mac = [0x52].iter().chain(&GUEST_MAC).map(|byte| format!("{byte:02x}"));
        TapNic {
            tap: self.name.clone(),
            mac: mac.collect::<Vec<_>>().join(":"),
            addresses: vec![(IpAddr::V4(self.guest()), 24)],
            gateway: IpAddr::V4(self.host()),
            properties: String::new(),
        }
    }

    /// Returns the interface index of the tap.
    pub(super) fn index(&self) -> Result<u32> {
        let text = fs::read_to_string(format!("/sys/class/net/{}/ifindex", self.name))?;
        text.trim().parse().context("an interface index")
    }

    /// Returns the prefix of an IPv6 subnet that guests can learn only from a router advertisement. Adds an
    /// address of the host in that subnet.
    pub(super) fn routed_network(&self) -> Result<[u16; 4]> {
        let [a, b, c, d] = [0xfd34, 0, 0, self.number.into()];
        let address = Ipv6Addr::new(a, b, c, d, 0, 0, 0, 1);
        ip(&format!("addr add {address}/64 dev {} nodad", self.name))?;
        Ok([a, b, c, d])
    }

    /// Adds a permanent neighbor entry for the guest, so that the host sends to the guest without address
    /// resolution.
    pub(super) fn know_guest(&self) -> Result<()> {
        let mac = self.nic().mac;
        ip(&format!("neigh replace {} lladdr {mac} dev {} nud permanent", self.guest(), self.name))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if let Err(error) = ip(&format!("link del {}", self.name)) {
            eprintln!("{error:#}");
        }
    }
}

/// Returns the address that the guest derives from a prefix and its MAC address (modified EUI-64, RFC 4291,
/// appendix A).
pub(super) fn own_address(network: [u16; 4]) -> Ipv6Addr {
    let [a, b, c, d] = network;
    let [e, f, g, h, i] = GUEST_MAC;
    // The first byte of the MAC address is 52h; modified EUI-64 inverts the universal/local bit.
    let pair = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(a, b, c, d, pair(0x50, e), pair(f, 0xff), pair(0xfe, g), pair(h, i))
}

/// Removes the taps of test runs that were killed. Their routes are removed with them.
fn remove_stale() -> Result<()> {
    for entry in fs::read_dir("/sys/class/net")?.flatten() {
        let name = entry.file_name();
        let creator = name.to_str().and_then(creator);
        if creator.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            ip(&format!("link del {}", name.display()))?;
        }
    }
    Ok(())
}

/// Returns the ID of the process that created the tap with this name.
fn creator(name: &str) -> Option<u32> {
    let process = name.strip_prefix(PREFIX)?;
    process.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(process).parse().ok()
}

/// Returns the reason why the host cannot be reached over IPv6, if it cannot.
pub(super) fn reason_against_ipv6() -> Option<&'static str> {
    let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    addresses.is_empty().then_some("this host has no IPv6")
}

/// Runs ip(8) with these words as arguments.
fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).output().context("cannot start `ip`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {words}`: {}", errors.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{creator, has_capabilities, own_address};

    #[test]
    fn tap_name_contains_its_creator() {
        assert_eq!(creator("hermit12399"), Some(12399));
        assert_eq!(creator("hermit12399b"), Some(12399));
        for name in ["eth0", "hermit", "hermita", "hermit1xy", "hermit1X", "tap12399"] {
            assert_eq!(creator(name), None, "{name}");
        }
    }

    #[test]
    fn capabilities_are_found_in_status() {
        assert!(has_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_capabilities("CapEff:\t0000000000001000\n"));
        assert!(!has_capabilities("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n"));
        assert!(!has_capabilities(""));
    }

    #[test]
    fn address_is_derived_from_mac_address() {
        assert_eq!(own_address([0xfe80, 0, 0, 0]).to_string(), "fe80::5054:ff:fe12:3456");
    }
}
