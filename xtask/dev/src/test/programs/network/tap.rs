//! An interface of the host that a guest is plugged into, with networks that nobody else has.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{self, Command};

use anyhow::{Context, Result, ensure};

use crate::test::tap_nic::TapNic;

/// The device by which taps are made.
const TUN: &str = "/dev/net/tun";

/// The bits of the capabilities to change networks and to send what one likes (capabilities(7)).
const CAPABILITIES: u64 = 1 << 12 | 1 << 13;

/// What comes after the network's number in the guest's address on the wire.
const GUEST_MAC: [u8; 5] = [0x54, 0x00, 0x12, 0x34, 0x56];

/// How the names of taps begin, which go on with the number of the process that has made them.
const PREFIX: &str = "hermit";

/// A tap that is gone at the end.
#[derive(Debug)]
pub(super) struct Tap {
    name: String,
    /// What tells its networks from those of others.
    number: u8,
}

/// Why no tap can be made here.
pub(super) fn reason_against() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !may_change_networks(&status) {
        return Some("it needs root".to_owned());
    }
    if !Path::new(TUN).exists() {
        return Some(format!("there is no {TUN}"));
    }
    ip("link show lo").err().map(|error| format!("it needs ip(8): {error:#}"))
}

/// Whether the description of a process says that it may.
fn may_change_networks(status: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & CAPABILITIES == CAPABILITIES)
}

impl Tap {
    /// Makes one, with addresses of both versions.
    pub(super) fn new() -> Result<Self> {
        remove_left()?;
        let [number, ..] = process::id().to_le_bytes();
        let tap = Self { name: format!("{PREFIX}{}", process::id()), number };
        let Self { name, .. } = &tap;
        ip(&format!("tuntap add {name} mode tap"))?;
        // What a guest sends to the rest of the world ends here.
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

    /// The guest's address that needs no configuration (RFC 4291, appendix A).
    pub(super) fn guest_link_local(&self) -> Ipv6Addr {
        own_address([0xfe80, 0, 0, 0])
    }

    /// The plug for a guest with an address of the older version.
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

    /// The number of the interface.
    pub(super) fn index(&self) -> Result<u32> {
        let text = fs::read_to_string(format!("/sys/class/net/{}/ifindex", self.name))?;
        text.trim().parse().context("a number of an interface")
    }

    /// A network of the newer version that no machine knows before a router speaks of it, and that the host is in from now on.
    pub(super) fn routed_network(&self) -> Result<[u16; 4]> {
        let [a, b, c, d] = [0xfd34, 0, 0, self.number.into()];
        let address = Ipv6Addr::new(a, b, c, d, 0, 0, 0, 1);
        ip(&format!("addr add {address}/64 dev {} nodad", self.name))?;
        Ok([a, b, c, d])
    }

    /// Has the host send to the guest from the first moment on, without having asked for its address on the wire.
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

/// The guest's own address in a network (RFC 4291, appendix A).
pub(super) fn own_address(network: [u16; 4]) -> Ipv6Addr {
    let [a, b, c, d] = network;
    let [e, f, g, h, i] = GUEST_MAC;
    // The first byte of the guest's is 52h, with another bit if the address is not one that was made up.
    let pair = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(a, b, c, d, pair(0x50, e), pair(f, 0xff), pair(0xfe, g), pair(h, i))
}

/// Removes the taps of runs that were killed: they would stay for ever, and so would what the host knows of their networks.
fn remove_left() -> Result<()> {
    for entry in fs::read_dir("/sys/class/net")?.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(maker);
        if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
            ip(&format!("link del {}", name.display()))?;
        }
    }
    Ok(())
}

/// The process that has made a tap of this name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Why the host cannot be reached by the newer version of the protocol.
pub(super) fn reason_against_ipv6() -> Option<&'static str> {
    let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    addresses.is_empty().then_some("this host has no IPv6")
}

/// ip(8), with these words.
fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).output().context("cannot start `ip`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {words}`: {}", errors.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{maker, may_change_networks, own_address};

    #[test]
    fn taps_are_known_by_their_names() {
        assert_eq!(maker("hermit12399"), Some(12399));
        for name in ["eth0", "hermit", "hermit1x", "tap12399"] {
            assert_eq!(maker(name), None, "{name}");
        }
    }

    #[test]
    fn rights_are_found_in_the_description() {
        assert!(may_change_networks("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_change_networks("CapEff:\t0000000000001000\n"));
        assert!(!may_change_networks("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n"));
        assert!(!may_change_networks(""));
    }

    #[test]
    fn own_addresses_are_made_of_the_one_on_the_wire() {
        assert_eq!(own_address([0xfe80, 0, 0, 0]).to_string(), "fe80::5054:ff:fe12:3456");
    }
}
