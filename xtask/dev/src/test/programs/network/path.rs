//! The network path between host and guest: a forwarded port, or a tap.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Error, Result};

use super::tap::{self, Tap};
use crate::test::platform::{TestGuest, TestPlatform};
use hermit_interface::port_forward::PortForward;
use xtask::setup::packages::PASST;

/// First of the ports that are tried. Hosts give neither these nor the [`PORTS`] behind it to sockets that ask for any port, as
/// those of other tests do until a guest's VMM has bound the port.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 10_000;

/// Number of ports that were tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// The network path between host and guest.
#[derive(Debug)]
pub(super) enum NetworkPath {
    /// A port of the host, for TCP and UDP, is forwarded to the guest.
    Port(u16),
    /// The guest is connected to a tap.
    Tap(Tap),
}

impl NetworkPath {
    /// A port that is free for TCP and for UDP, another one each time.
    pub(super) fn port() -> Result<Self> {
        let free = (0..PORTS).map(|_| next_port()).find(|&port| is_free(port));
        free.map(Self::Port).context("no port is free")
    }

    /// A tap if one can be created, because it does not limit the number of connections; otherwise a port.
    pub(super) fn best() -> Result<Self> {
        if tap::reason_against().is_none() { Tap::new().map(Self::Tap) } else { Self::port() }
    }

    /// Connects a guest; returns it, and the address by which the host reaches its port.
    pub(super) fn reach<'a>(&self, guest: TestGuest<'a>, port: u16) -> Result<(TestGuest<'a>, SocketAddr)> {
        match self {
            Self::Tap(tap) => Ok((guest.nic(tap.nic()), (tap.guest(), port).into())),
            Self::Port(ours) => {
                let forward = |suffix: &str| {
                    let port = format!("127.0.0.1:{ours}:{port}{suffix}").parse::<PortForward>();
                    port.map_err(Error::msg)
                };
                let guest = guest.port(forward("")?).port(forward("/udp")?);
                Ok((guest, (Ipv4Addr::LOCALHOST, *ours).into()))
            }
        }
    }
}

/// The next port to try. Test runs begin at different ones.
fn next_port() -> u16 {
    let [low, ..] = process::id().to_le_bytes();
    let start = u16::from(low) * (PORTS / 256);
    FIRST_PORT + start.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % PORTS
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

/// Why this host cannot connect a guest without a tap.
pub(in crate::test) fn reason_against(platform: &TestPlatform<'_>) -> Option<String> {
    // QEMU has a user-mode network stack of its own.
    if platform.is_uhyve() { reason_against_passt() } else { None }
}

/// Why passt cannot connect a guest on this host.
pub(in crate::test) fn reason_against_passt() -> Option<String> {
    if gateway().is_none() {
        return Some("passt needs a route to somewhere, and this host has none".to_owned());
    }
    PASST.ensure().err().map(|error| format!("{error:#}"))
}

/// The address of the host for a guest that is connected by passt or QEMU.
pub(super) fn host_of(platform: &TestPlatform<'_>) -> Option<IpAddr> {
    if platform.is_uhyve() { gateway() } else { Some(Ipv4Addr::new(10, 0, 2, 2).into()) }
}

/// The host's default gateway.
pub(super) fn gateway() -> Option<IpAddr> {
    parse_gateway(&fs::read_to_string("/proc/net/route").unwrap_or_default())
}

/// The first default gateway in the kernel's routing table.
fn parse_gateway(routes: &str) -> Option<IpAddr> {
    let mut rows = routes.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let address = rows.find_map(|row| match row.as_slice() {
        [_, "00000000", gateway, ..] => u32::from_str_radix(gateway, 16).ok(),
        _ => None,
    })?;
    // The kernel prints the bytes of the address as a little-endian number.
    Some(IpAddr::V4(Ipv4Addr::from(address.to_le_bytes())))
}

#[cfg(test)]
mod tests {
    use super::parse_gateway;

    #[test]
    fn default_gateway_is_found() {
        let table =
            "Iface Destination Gateway Flags\neth0 000200C0 00000000 0001\neth0 00000000 010200C0 0003\n";
        assert_eq!(parse_gateway(table), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(parse_gateway("Iface Destination Gateway Flags\neth0 000200C0 00000000 0001\n"), None);
        assert_eq!(parse_gateway(""), None);
    }
}
