//! Tests the end of a program: its peers receive all data that it has written, and the end of their
//! connections.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, ensure};

use super::http::{self, Connection};
use super::path::NetworkPath;
use super::server_guest;
use super::tap::Tap;
use crate::test::platform::TestPlatform;

/// The port of `httpd`.
const PORT: u16 = 8080;

/// Size of the response in bytes. It is larger than the host's receive buffer (64 KiB) and smaller than the
/// guest's send buffer (256 KiB). So when the first byte arrives, the program has written the last byte, but
/// cannot have sent it.
const SIZE: usize = 200_000;

pub(super) fn test(platform: &TestPlatform<'_>) -> Result<()> {
    let path = NetworkPath::Tap(Tap::new()?);
    let (guest, address) = path.reach(platform.guest("httpd", &[]).memory(64), PORT)?;
    let mut received = Ok(());
    let end = || {
        received = end_with_unsent_data(address);
        Ok(())
    };
    server_guest::during(&guest, || Ok(()), end)?;
    received
}

/// Ends the server while a response is in its send buffer, and an idle connection is open.
fn end_with_unsent_data(address: SocketAddr) -> Result<()> {
    let idle = http::connect(address)?;
    let mut large = Connection::new(address)?;
    let body = vec![b'x'; SIZE];
    large.send("POST /echo", &body)?;
    large.await_first_byte()?;
    http::exit(address)?;
    let answer = large.receive()?;
    ensure!(answer.body == body, "{} of {SIZE} bytes arrived", answer.body.len());
    is_over(&idle)
}

/// The connection has ended by FIN or RST, not by a timeout.
fn is_over(stream: &TcpStream) -> Result<()> {
    let rest = http::rest(stream)?;
    ensure!(rest.is_empty(), "{rest:?} arrived without a request");
    Ok(())
}
