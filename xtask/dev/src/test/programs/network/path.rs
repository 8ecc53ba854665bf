//! How the host gets at a server in a guest: by a port that is passed on, or by an interface of its own.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use anyhow::{Context, Error, Result};

use super::tap::{self, Tap};
use crate::test::platform::{Guest, Platform};
use xtask::network::Port;
use xtask::setup::packages::PASST;

/// How many ports are tried.
const ATTEMPTS: usize = 10;

/// What is between host and guest.
#[derive(Debug)]
pub(super) enum NetworkPath {
    /// A port of the host, of TCP and of UDP, is passed on.
    Port(u16),
    /// An interface of the host.
    Tap(Tap),
}

impl NetworkPath {
    /// By a port that nobody uses.
    pub(super) fn port() -> Result<Self> {
        for _ in 1..ATTEMPTS {
            if let Ok(port) = free_port() {
                return Ok(Self::Port(port));
            }
        }
        free_port().map(Self::Port)
    }

    /// By an interface if one can be made, which does not tire before the guest does; else by a port.
    pub(super) fn best() -> Result<Self> {
        if tap::reason_against().is_none() { Tap::new().map(Self::Tap) } else { Self::port() }
    }

    /// The guest, reachable, and where its port is for the host.
    pub(super) fn reach<'a>(&self, guest: Guest<'a>, port: u16) -> Result<(Guest<'a>, SocketAddr)> {
        match self {
            Self::Tap(tap) => Ok((guest.nic(tap.nic()), (tap.guest(), port).into())),
            Self::Port(ours) => {
                let pass_on = |suffix: &str| {
                    let port = format!("127.0.0.1:{ours}:{port}{suffix}").parse::<Port>();
                    port.map_err(Error::msg)
                };
                let guest = guest.port(pass_on("")?).port(pass_on("/udp")?);
                Ok((guest, (Ipv4Addr::LOCALHOST, *ours).into()))
            }
        }
    }
}

/// A port that nobody uses for TCP, and by chance nobody for UDP.
fn free_port() -> Result<u16> {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = tcp.local_addr()?.port();
    UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).context("a port is free for TCP only")?;
    Ok(port)
}

/// Why this host cannot make connections for a guest, or pass its ports on.
pub(super) fn reason_against(platform: &Platform<'_>) -> Option<String> {
    // QEMU does it by itself.
    if !platform.is_uhyve() {
        return None;
    }
    if gateway().is_none() {
        return Some("passt needs a route to somewhere, and this host has none".to_owned());
    }
    PASST.ensure().err().map(|error| format!("{error:#}"))
}

/// The address by which a guest whose connections the host makes gets to the host itself.
pub(super) fn host_of(platform: &Platform<'_>) -> Option<IpAddr> {
    if platform.is_uhyve() { gateway() } else { Some(Ipv4Addr::new(10, 0, 2, 2).into()) }
}

/// The host's own way to the rest of the world.
fn gateway() -> Option<IpAddr> {
    parse_gateway(&fs::read_to_string("/proc/net/route").unwrap_or_default())
}

/// The first gateway for everything in the kernel's table of routes.
fn parse_gateway(routes: &str) -> Option<IpAddr> {
    let mut rows = routes.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let address = rows.find_map(|row| match row.as_slice() {
        [_, "00000000", gateway, ..] => u32::from_str_radix(gateway, 16).ok(),
        _ => None,
    })?;
    // The kernel writes the number that the address's bytes are in its memory.
    Some(IpAddr::V4(Ipv4Addr::from(address.to_le_bytes())))
}

#[cfg(test)]
mod tests {
    use super::parse_gateway;

    #[test]
    fn the_gateway_is_found() {
        let table =
            "Iface Destination Gateway Flags\neth0 000200C0 00000000 0001\neth0 00000000 010200C0 0003\n";
        assert_eq!(parse_gateway(table), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(parse_gateway("Iface Destination Gateway Flags\neth0 000200C0 00000000 0001\n"), None);
        assert_eq!(parse_gateway(""), None);
    }
}
