//! Connections of guests whose network is uhyve's own, `--net user`.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use anyhow::{Result, bail};
use hermit_interface::net::HOST_NAME;

use super::http_client::{BODY, answer};
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

/// Address of the gateway.
const GATEWAY: &str = "10.0.2.2";

/// A test of a platform.
type Test = fn(&TestPlatform<'_>) -> Result<()>;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    if !platform.is_uhyve() {
        return;
    }
    for (name, test) in [
        ("opens the host's loopback if asked to", reaches_opened_loopback as Test),
        ("keeps the host's loopback closed", does_not_reach_closed_loopback),
        ("a closed port refuses the connection", refuses_at_a_closed_port),
        ("a closed address is refused at once", refuses_a_closed_address),
    ] {
        tests.add(format!("{platform}: user network, {name}"), move || test(platform));
    }
}

fn client<'a>(platform: &'a TestPlatform<'_>, host: &str, port: u16) -> TestGuest<'a> {
    platform.guest("http_client", &[&format!("http://{host}:{port}/")]).memory(64).user_network()
}

fn reaches_opened_loopback(platform: &TestPlatform<'_>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = client(platform, HOST_NAME, listener.local_addr()?.port()).host_loopback();
    // Without a connection the thread waits until xtask ends.
    thread::spawn(move || listener.accept().map(|(stream, _)| answer(&stream)));
    client.expect(0, &[BODY]).map(drop)
}

fn does_not_reach_closed_loopback(platform: &TestPlatform<'_>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    client(platform, GATEWAY, listener.local_addr()?.port()).expect(1, &["refused"])?;
    match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        result => bail!("the server on the loopback has {result:?}"),
    }
}

fn refuses_at_a_closed_port(platform: &TestPlatform<'_>) -> Result<()> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    client(platform, HOST_NAME, port).host_loopback().expect(1, &["refused"]).map(drop)
}

fn refuses_a_closed_address(platform: &TestPlatform<'_>) -> Result<()> {
    let warning = "the guest may not connect to 169.254.169.254";
    client(platform, "169.254.169.254", 80).expect(1, &[warning, "No route to host"]).map(drop)
}
