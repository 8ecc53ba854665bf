//! Tests of `kv`, the service of `docs/tutorial.md`: requests of several clients, metrics, and an orderly end
//! by SIGTERM.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use anyhow::{Context, Result, ensure};
use hermit_interface::net::HOST_NAME;

use super::{TIMEOUT, free_port, http};
use crate::test::build_tool::xtask;
use crate::test::child::{ChildInput, ChildProcess};
use crate::test::platform::{LIMIT, TestPlatform};
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: kv serves clients until SIGTERM"), move || serves(platform));
    tests.add(format!("{platform}: kv sends metrics to the host by name"), move || reports(platform));
}

/// Starts kv with options of `cargo xtask run`.
fn start(platform: &TestPlatform<'_>, options: &[&str]) -> Result<ChildProcess> {
    let (image, name) = (platform.images.image("kv").display().to_string(), platform.to_string());
    let words = [&["run", &image, "--platform", &name, "--grace", "1000"], options].concat();
    ChildProcess::start(xtask(&words)?, ChildInput::Nothing, LIMIT)
}

/// The service sends its metrics to a collector on the host's loopback interface, which the guest may reach.
fn reports(platform: &TestPlatform<'_>) -> Result<()> {
    let collector = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    collector.set_read_timeout(Some(LIMIT))?;
    let metrics = format!("METRICS={HOST_NAME}:{}", collector.local_addr()?.port());
    let running = start(platform, &["--net", "user,host-loopback", "--env", &metrics])?;
    let mut datagram = [0; 256];
    running.has_printed(b"listening on port 7379\n")?;
    // The second datagram is sent 1 s later. By then, the program waits for the signal.
    receive(&collector, &mut datagram).context("the collector")?;
    let length = receive(&collector, &mut datagram).context("the collector")?;
    let text = String::from_utf8_lossy(&datagram[..length]);
    ensure!(text == "kv.keys:0|g\nkv.requests:0|g\n", "the collector received {text:?}");
    running.signal("TERM")?;
    running.end()?.check(0, &["0 keys after 0 requests"])
}

/// Receives a datagram. Repeats the call if a signal interrupts it: Linux does not restart a call with a
/// timeout.
fn receive(socket: &UdpSocket, datagram: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.recv(datagram) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn serves(platform: &TestPlatform<'_>) -> Result<()> {
    let running = start(platform, &["-p", "127.0.0.1:0:7379"])?;
    let address = free_port::address_of(&running, 7379)?;
    running.has_printed(b"listening on port 7379\n")?;
    let setter = http::with_retries(|| ask(address, "SET colour light blue\n"))?;
    ensure!(setter == ["OK"], "{setter:?}");
    let answers = ask(address, "GET colour\nEXPIRE colour 0\nGET colour\nSET shape round\n")?;
    ensure!(answers == ["VALUE light blue", "OK", "NONE", "OK"], "{answers:?}");
    running.signal("TERM")?;
    // The number of keys is not checked, because the expired value may have been removed already.
    let outcome = running.end()?;
    outcome.check(0, &[" keys after "])
}

/// Sends requests, one per line, on a new connection. Returns the answers.
fn ask(address: SocketAddr, requests: &str) -> Result<Vec<String>> {
    let mut client = TcpStream::connect(address)?;
    client.set_read_timeout(Some(TIMEOUT))?;
    client.write_all(requests.as_bytes())?;
    let lines = BufReader::new(client).lines().take(requests.lines().count());
    let answers = lines.collect::<Result<Vec<_>, _>>()?;
    ensure!(answers.len() == requests.lines().count(), "the connection ended after {answers:?}");
    Ok(answers)
}
