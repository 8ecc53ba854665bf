//! A program that ends: what it has written arrives, and who waits for it learns that there is no more.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, ensure};

use super::http::{self, Connection};
use super::path::NetworkPath;
use super::server_guest;
use super::tap::Tap;
use crate::test::platform::Platform;

/// The port of `httpd`.
const PORT: u16 = 8080;

/// More than the host takes before somebody reads it (64 KiB), less than the guest keeps for its second peer (256 KiB): when
/// the first byte arrives, the program has written the last one.
const SIZE: usize = 200_000;

pub(super) fn test(platform: &Platform<'_>) -> Result<()> {
    let path = NetworkPath::Tap(Tap::new()?);
    let (guest, address) = path.reach(platform.guest("httpd", &[]).memory(64), PORT)?;
    let mut parted = Ok(());
    let end = || {
        parted = farewell(address);
        Ok(())
    };
    server_guest::during(&guest, || Ok(()), end)?;
    parted
}

fn farewell(address: SocketAddr) -> Result<()> {
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

/// The connection has ended, and not because nobody was heard of.
fn is_over(stream: &TcpStream) -> Result<()> {
    let rest = http::rest(stream)?;
    ensure!(rest.is_empty(), "{rest:?} came of itself");
    Ok(())
}
