//! Tests that a guest reaches the host's loopback interface only with `host-loopback`, and then by name.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use anyhow::{Result, bail};
use hermit_interface::net::HOST_NAME;

use super::http_client::{BODY, answer};
use super::path::GATEWAY;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: the host's loopback is opened to a guest if asked to"), move || {
        reaches_opened_loopback(platform)
    });
    tests.add(format!("{platform}: the host's loopback is closed to a guest"), move || {
        does_not_reach_closed_loopback(platform)
    });
}

/// Returns a guest that requests a URL of the listener by the name `host`.
fn client<'a>(platform: &'a TestPlatform<'_>, host: &str, listener: &TcpListener) -> Result<TestGuest<'a>> {
    let url = format!("http://{host}:{}/", listener.local_addr()?.port());
    Ok(platform.guest("http_client", &[&url]).memory(64).connected())
}

/// The client connects to a server on the host's loopback, by the name of the host.
fn reaches_opened_loopback(platform: &TestPlatform<'_>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = client(platform, HOST_NAME, &listener)?.host_loopback();
    // If there is no connection, the thread waits until xtask ends.
    thread::spawn(move || listener.accept().map(|(stream, _)| answer(&stream)));
    client.expect(0, &[BODY]).map(drop)
}

/// Without the option, the name of the host is unknown, and the gateway's address does not lead to the host.
fn does_not_reach_closed_loopback(platform: &TestPlatform<'_>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    client(platform, HOST_NAME, &listener)?.expect(1, &["failed to lookup address information"])?;
    client(platform, &GATEWAY.to_string(), &listener)?.expect(1, &["refused"])?;
    match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        result => bail!("the server on the loopback has {result:?}"),
    }
}
