//! A server that is reached by IPv6: by an address that its machine was told, the one it has anyway, and one in a router's
//! network.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use anyhow::{Result, ensure};
use rustix::net::sockopt::set_ipv6_unicast_hops;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use super::load::PORT;
use super::tap::{self, Tap};
use super::{http, packets, server_guest};
use crate::test::platform::Platform;
use crate::test::tap_nic::TapNic;

/// By which routers show that they are on the same link (RFC 4861, section 6.1.2).
const HOPS: u8 = 255;

/// By the address that the machine is told.
pub(super) fn told(platform: &Platform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let (addresses, gateway) = (vec![(IpAddr::V6(tap.guest_v6()), 64)], IpAddr::V6(tap.host_v6()));
    let nic = TapNic { addresses, gateway, ..tap.nic() };
    served(platform, nic, (tap.guest_v6(), PORT).into(), || Ok(()))
}

/// By the address that every machine has on its link.
pub(super) fn link(platform: &Platform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    served(platform, tap.nic(), link_local(&tap)?.into(), || Ok(()))
}

/// By the address that the machine makes for itself in a network of which a router speaks.
pub(super) fn router(platform: &Platform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let guest = link_local(&tap)?;
    let network = tap.routed_network()?;
    let address = SocketAddr::from((tap::own_address(network), PORT));
    served(platform, tap.nic(), address, || advertise(network, guest))
}

fn link_local(tap: &Tap) -> Result<SocketAddrV6> {
    Ok(SocketAddrV6::new(tap.guest_link_local(), PORT, 0, tap.index()?))
}

/// Runs a server and asks it, again and again with something else in front.
fn served(
    platform: &Platform<'_>,
    nic: TapNic,
    address: SocketAddr,
    before: impl Fn() -> Result<()>,
) -> Result<()> {
    let guest = platform.guest("httpd", &[]).memory(64).nic(nic);
    let ask = || {
        let answer = http::patiently(|| before().and_then(|()| http::get_first(address, "/bytes/100000")))?;
        ensure!(answer.len() == 100_000, "{} bytes", answer.len());
        Ok(())
    };
    server_guest::during(&guest, ask, || http::exit(address)).map(drop)
}

/// Says what routers of a network say.
fn advertise(network: [u16; 4], to: SocketAddrV6) -> Result<()> {
    let socket = socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6))?;
    set_ipv6_unicast_hops(&socket, Some(HOPS))?;
    let to = SocketAddrV6::new(*to.ip(), 0, 0, to.scope_id());
    sendto(&socket, &packets::router_advertisement(network), SendFlags::empty(), &to)?;
    Ok(())
}
