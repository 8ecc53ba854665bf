//! The network path between host and guest: a forwarded port, or a tap.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Error, Result};

use super::tap::{self, Tap};
use crate::test::platform::TestGuest;
use hermit_interface::port_forward::PortForward;

/// First of the [`PORTS`] ports that are tried. All of them are below the host's range of ephemeral ports.
/// Another test that binds any free port gets an ephemeral one, so it cannot take one of these ports before
/// the guest's VMM has bound it.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 10_000;

/// Address of the gateway (`docs/network.md`). It leads to the host's loopback interface if the guest may
/// reach that.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Number of ports that this process has tried.
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
    /// Returns a port that is free for TCP and for UDP. Each call returns another port.
    pub(super) fn port() -> Result<Self> {
        let free = (0..PORTS).map(|_| next_port()).find(|&port| is_free(port));
        free.map(Self::Port).context("no port is free")
    }

    /// Returns a tap if this process can create one, because a tap does not limit the number of connections.
    /// Otherwise returns a port.
    pub(super) fn best() -> Result<Self> {
        if tap::reason_against().is_none() { Tap::new().map(Self::Tap) } else { Self::port() }
    }

    /// Connects a guest. Returns the guest, and the address at which the host reaches the guest's port.
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

/// Returns the next port to try. The first port depends on the process, so that two test runs try different
/// ports.
fn next_port() -> u16 {
    let [low, ..] = process::id().to_le_bytes();
    let start = u16::from(low) * (PORTS / 256);
    FIRST_PORT + start.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % PORTS
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}
