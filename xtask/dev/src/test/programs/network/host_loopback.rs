//! Whether a guest reaches the host's loopback: only if it is opened to it, and then by name.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use anyhow::{Context, Result, bail};
use hermit_interface::net::HOST_NAME;

use super::http_client::{BODY, answer};
use super::path;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    // QEMU has two networks.
    let others = if platform.is_uhyve() { &[true][..] } else { &[false, true] };
    for &has_passt in others {
        let reason = if has_passt { path::reason_against_passt() } else { None };
        let through = if has_passt { "passt" } else { "QEMU's user network" };
        tests.add_unless(
            reason.clone(),
            format!("{platform}: {through} opens the host's loopback if asked to"),
            move || reaches_opened_loopback(platform, has_passt),
        );
        tests.add_unless(
            reason,
            format!("{platform}: {through} keeps the host's loopback closed"),
            move || does_not_reach_closed_loopback(platform, has_passt),
        );
    }
}

/// The client of a URL.
fn client<'a>(
    platform: &'a TestPlatform<'_>,
    has_passt: bool,
    host: &str,
    listener: &TcpListener,
) -> Result<TestGuest<'a>> {
    let url = format!("http://{host}:{}/", listener.local_addr()?.port());
    let guest = platform.guest("http_client", &[&url]).memory(64).connected();
    Ok(if has_passt { guest.passt() } else { guest })
}

/// The client connects to a server on the host's loopback, by the name of the host.
fn reaches_opened_loopback(platform: &TestPlatform<'_>, has_passt: bool) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = client(platform, has_passt, HOST_NAME, &listener)?.host_loopback();
    // Without a connection the thread waits until xtask ends.
    thread::spawn(move || listener.accept().map(|(stream, _)| answer(&stream)));
    client.expect(0, &[BODY]).map(drop)
}

/// The name of the host is unknown, and the gateway is not the host.
fn does_not_reach_closed_loopback(platform: &TestPlatform<'_>, has_passt: bool) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    client(platform, has_passt, HOST_NAME, &listener)?
        .expect(1, &["failed to lookup address information"])?;
    let gateway = if has_passt { path::gateway() } else { path::host_of(platform) };
    let gateway = gateway.context("the host has no gateway")?.to_string();
    // passt connects to the gateway, which may never answer. It connects to a server on the loopback at once: if the client gave
    // up earlier, an opened loopback could be missed, but a closed one is never reported as open.
    let client = client(platform, has_passt, &gateway, &listener)?.variable("HTTP_CLIENT_TIMEOUT=5");
    client.expect(1, &[&gateway])?;
    match listener.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        result => bail!("the server on the loopback has {result:?}"),
    }
}
