//! Tests of a server that clients reach over IPv6: at a configured address, at its link-local address, and at
//! an autoconfigured address.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use anyhow::{Result, ensure};
use rustix::net::sockopt::set_ipv6_unicast_hops;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use super::load::PORT;
use super::tap::{self, Tap};
use super::{http, packets, server_guest};
use crate::test::platform::TestPlatform;
use crate::test::tap_nic::TapNic;

/// Hop limit of router advertisements. This value shows the receiver that the router is on the same link (RFC
/// 4861, section 6.1.2).
const HOP_LIMIT: u8 = 255;

/// The server has a configured address.
pub(super) fn configured(platform: &TestPlatform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let (addresses, gateway) = (vec![(IpAddr::V6(tap.guest_v6()), 64)], IpAddr::V6(tap.host_v6()));
    let nic = TapNic { addresses, gateway, ..tap.nic() };
    served(platform, nic, (tap.guest_v6(), PORT).into(), || Ok(()))
}

/// Clients use the server's link-local address.
pub(super) fn link_local(platform: &TestPlatform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    served(platform, tap.nic(), link_local_address(&tap)?.into(), || Ok(()))
}

/// The guest derives the server's address from a router advertisement.
pub(super) fn autoconfigured(platform: &TestPlatform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let guest = link_local_address(&tap)?;
    let network = tap.routed_network()?;
    let address = SocketAddr::from((tap::own_address(network), PORT));
    served(platform, tap.nic(), address, || advertise(network, guest))
}

fn link_local_address(tap: &Tap) -> Result<SocketAddrV6> {
    Ok(SocketAddrV6::new(tap.guest_link_local(), PORT, 0, tap.index()?))
}

/// Runs a server, and sends it requests until a request succeeds. Calls `before` before each request.
fn served(
    platform: &TestPlatform<'_>,
    nic: TapNic,
    address: SocketAddr,
    before: impl Fn() -> Result<()>,
) -> Result<()> {
    let guest = platform.guest("httpd", &[]).memory(64).nic(nic);
    let ask = || {
        let answer = http::with_timeouts(|timeout| {
            before()?;
            http::get_within(address, "/bytes/100000", timeout)
        })?;
        ensure!(answer.len() == 100_000, "{} bytes", answer.len());
        Ok(())
    };
    server_guest::during(&guest, ask, || http::exit(address)).map(drop)
}

/// Sends a router advertisement.
fn advertise(network: [u16; 4], to: SocketAddrV6) -> Result<()> {
    let socket = socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6))?;
    set_ipv6_unicast_hops(&socket, Some(HOP_LIMIT))?;
    let to = SocketAddrV6::new(*to.ip(), 0, 0, to.scope_id());
    sendto(&socket, &packets::router_advertisement(network), SendFlags::empty(), &to)?;
    Ok(())
}
