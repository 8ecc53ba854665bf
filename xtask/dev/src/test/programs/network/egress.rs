//! Tests of uhyve's egress policy, which limits the hosts to which a guest can connect. The policy also holds
//! for guests in QEMU.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::thread;

use anyhow::{Context, Result, bail};
use hermit_interface::net::HOST_NAME;
use hermit_options::host_network;

use super::http;
use super::http_client::{BODY, answer};
use super::path::NetworkPath;
use super::server_guest;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

/// Error text of a connection to an address that the policy denies.
const UNREACHABLE: &str = "No route to host";

/// A test that runs on a platform.
type Test = fn(&TestPlatform<'_>) -> Result<()>;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let no_address = own_address().is_none().then(|| "the host has no address of IPv4".to_owned());
    for (name, reason, test) in [
        ("an address of the host is closed", &no_address, closes_address_of_the_host as Test),
        ("an address of the host is opened by allow=", &no_address, opens_address_of_the_host),
        ("egress=none leaves ports of -p open", &None, serves_without_egress),
        ("a closed address is refused at once", &None, refuses_a_closed_address),
        ("a closed port refuses the connection", &None, refuses_at_a_closed_port),
    ] {
        tests.add_unless(reason.clone(), format!("{platform}: egress, {name}"), move || test(platform));
    }
}

/// Returns an address of the host that is not on its loopback interface.
fn own_address() -> Option<IpAddr> {
    let addresses = host_network::addresses().ok()?;
    addresses.into_iter().find(|address| address.is_ipv4() && !address.is_loopback())
}

/// Returns a listener at an address of the host, and a guest that connects to it.
fn server_and_client<'a>(
    platform: &'a TestPlatform<'_>,
    keys: &[&str],
) -> Result<(TcpListener, TestGuest<'a>)> {
    let listener = TcpListener::bind((own_address().context("no address")?, 0))?;
    let url = format!("http://{}/", listener.local_addr()?);
    let client = platform.guest("http_client", &[&url]).memory(64);
    Ok((listener, client.network_keys(keys)))
}

/// Returns the warning about an address that the policy denies.
fn warning(address: IpAddr) -> String {
    format!("the guest may not connect to {address}")
}

fn opens_address_of_the_host(platform: &TestPlatform<'_>) -> Result<()> {
    let allow = format!("allow={}", own_address().context("no address")?);
    let (listener, client) = server_and_client(platform, &["egress=none", &allow])?;
    // If there is no connection, the thread waits until xtask ends.
    thread::spawn(move || listener.accept().map(|(stream, _)| answer(&stream)));
    client.expect(0, &[BODY]).map(drop)
}

/// Without a rule that allows the host's address, the guest cannot connect to it.
fn closes_address_of_the_host(platform: &TestPlatform<'_>) -> Result<()> {
    let (listener, client) = server_and_client(platform, &[])?;
    let address = listener.local_addr()?;
    client.expect(1, &[&warning(address.ip()), UNREACHABLE])?;
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

/// The guest cannot connect to the link-local address at which clouds have a service that hands out the
/// host's credentials.
fn refuses_a_closed_address(platform: &TestPlatform<'_>) -> Result<()> {
    let address = Ipv4Addr::new(169, 254, 169, 254);
    let client = platform.guest("http_client", &[&format!("http://{address}/")]).memory(64).connected();
    client.expect(1, &[&warning(address.into()), UNREACHABLE]).map(drop)
}

fn refuses_at_a_closed_port(platform: &TestPlatform<'_>) -> Result<()> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let url = format!("http://{HOST_NAME}:{port}/");
    platform.guest("http_client", &[&url]).memory(64).host_loopback().expect(1, &["refused"]).map(drop)
}
