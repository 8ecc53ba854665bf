//! Tests `-p 0:PORT`: `run` chooses a free port of the host, forwards it, and prints it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};

use super::{http, server_guest};
use crate::test::build_tool::xtask;
use crate::test::child::{ChildInput, ChildProcess};
use crate::test::platform::{LIMIT, TestPlatform};
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: run forwards a free port"), move || {
        is_served(&platform.to_string(), &platform.images.image("httpd"))
    });
}

fn is_served(platform: &str, image: &Path) -> Result<()> {
    let image = image.display().to_string();
    let words = ["run", &image, "--platform", platform, "--publish", "127.0.0.1:0:8080", "--quiet"];
    let running = ChildProcess::start(xtask(&words)?, ChildInput::Nothing, LIMIT)?;
    let address = address_of(&running, 8080)?;
    // The port is printed before the machine starts.
    running.has_printed(server_guest::READY.as_bytes())?;
    http::get_with_retries(address, "/")?;
    http::exit(address)?;
    running.end()?.check(0, &[])
}

/// Returns the address at which the host reaches a port of the guest, from the line that `run` prints about
/// that port.
pub(super) fn address_of(running: &ChildProcess, guest_port: u16) -> Result<SocketAddr> {
    let line = running.error_line(&format!("is forwarded to port {guest_port} of the guest"))?;
    let port = line.split_once("port ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let port: u16 = port.with_context(|| format!("there is no port in {line:?}"))?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}
