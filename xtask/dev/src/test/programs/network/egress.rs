//! Which hosts a guest behind passt connects to: the egress policy of uhyve.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::thread;

use anyhow::{Context, Result, bail};
use hermit_interface::net::HOST_NAME;
use hermit_options::host_network;

use super::http;
use super::http_client::{BODY, answer};
use super::path::{self, NetworkPath};
use super::server_guest;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

/// Another address for the guest than the host's, which a guest behind passt has by default.
const ANOTHER: [&str; 2] = ["ip=10.99.0.2/24", "gateway=10.99.0.1"];

/// A test of a platform.
type Test = fn(&TestPlatform<'_>) -> Result<()>;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    if !platform.is_uhyve() {
        return;
    }
    let own = || own_address().is_none().then(|| "the host has no address of IPv4".to_owned());
    let reason = path::reason_against_passt().or_else(own);
    for (name, test) in [
        ("an address of the host is closed", closes_address_of_the_host as Test),
        ("an address of the host is opened by allow=", opens_address_of_the_host),
        ("egress=none leaves ports of -p open", serves_without_egress),
        ("a closed port refuses the connection", refuses_at_a_closed_port),
    ] {
        tests.add_unless(reason.clone(), format!("{platform}: passt, {name}"), move || test(platform));
    }
}

/// An address of the host that is not its loopback's.
fn own_address() -> Option<IpAddr> {
    let addresses = host_network::addresses().ok()?;
    addresses.into_iter().find(|address| address.is_ipv4() && !address.is_loopback())
}

/// A server at an address of the host, and its client, which has another address.
fn server_and_client<'a>(
    platform: &'a TestPlatform<'_>,
    keys: &[&str],
) -> Result<(TcpListener, TestGuest<'a>)> {
    let listener = TcpListener::bind((own_address().context("no address")?, 0))?;
    let url = format!("http://{}/", listener.local_addr()?);
    let client = platform.guest("http_client", &[&url]).memory(64);
    Ok((listener, client.network_keys(&[&ANOTHER, keys].concat())))
}

fn opens_address_of_the_host(platform: &TestPlatform<'_>) -> Result<()> {
    let allow = format!("allow={}", own_address().context("no address")?);
    let (listener, client) = server_and_client(platform, &["egress=none", &allow])?;
    // Without a connection the thread waits until xtask ends.
    thread::spawn(move || listener.accept().map(|(stream, _)| answer(&stream)));
    client.expect(0, &[BODY]).map(drop)
}

/// With the same options as above, but for the rule.
fn closes_address_of_the_host(platform: &TestPlatform<'_>) -> Result<()> {
    let (listener, client) = server_and_client(platform, &[])?;
    let address = listener.local_addr()?;
    let dropped = format!("packets to {} are dropped", address.ip());
    client.variable("HTTP_CLIENT_TIMEOUT=2").expect(1, &[&dropped])?;
    listener.set_nonblocking(true)?;
    match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        result => bail!("the server has {result:?}"),
    }
}

fn serves_without_egress(platform: &TestPlatform<'_>) -> Result<()> {
    let path = NetworkPath::port()?;
    let (guest, address) = path.reach(platform.guest("httpd", &[]).memory(64), 8080)?;
    let guest = guest.network_keys(&["egress=none"]);
    let greet = || http::get_with_retries(address, "/").map(drop);
    server_guest::during(&guest, greet, || http::exit(address)).map(drop)
}

/// passt 2023-03 answers with a reset that a host ignores.
fn refuses_at_a_closed_port(platform: &TestPlatform<'_>) -> Result<()> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let url = format!("http://{HOST_NAME}:{port}/");
    platform.guest("http_client", &[&url]).memory(64).host_loopback().expect(1, &["refused"]).map(drop)
}
