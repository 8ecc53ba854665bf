//! The network path between host and guest: a forwarded port, or a tap.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Error, Result};

use super::tap::{self, Tap};
use crate::test::platform::TestGuest;
use hermit_interface::port_forward::PortForward;

/// First of the ports that are tried. Hosts give neither these nor the [`PORTS`] behind it to sockets that ask for any port, as
/// those of other tests do until a guest's VMM has bound the port.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 10_000;

/// Address of the gateway (`docs/network.md`). It leads to the host's loopback if that is open to the guest.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// First version of Linux that can peek at TCP sockets from an offset on, over IPv6, too.
const MIN_LINUX: (u32, u32) = (6, 12);

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
pub(in crate::test) fn reason_against() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // An unknown form is no reason.
    let is_old = version(&release).is_some_and(|version| version < MIN_LINUX);
    is_old.then(|| format!("uhyve connects guests on Linux 6.12 and later, and this is {}", release.trim()))
}

/// The first two numbers of Linux's version.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn version_is_the_start_of_the_release() {
        for (release, expected) in [
            ("6.18.44-fc-v657\n", Some((6, 18))),
            ("6.9\n", Some((6, 9))),
            ("6.12-rc1", Some((6, 12))),
            ("", None),
            ("x.y", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }
}
