//! `kv`, the service of `docs/tutorial.md`: requests of several clients, and an end in order by SIGTERM.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, ensure};

use super::{TIMEOUT, free_port, http, path};
use crate::test::build_tool::xtask;
use crate::test::child::{ChildInput, ChildProcess};
use crate::test::platform::{LIMIT, TestPlatform};
use crate::test::schedule::Tests;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let reason = path::reason_against(platform);
    tests
        .add_unless(reason, format!("{platform}: kv serves clients until SIGTERM"), move || serves(platform));
}

fn serves(platform: &TestPlatform<'_>) -> Result<()> {
    let (image, name) = (platform.images.image("kv").display().to_string(), platform.to_string());
    let words = ["run", &image, "--platform", &name, "-p", "127.0.0.1:0:7379", "--grace", "1000"];
    let running = ChildProcess::start(xtask(&words)?, ChildInput::Nothing, LIMIT)?;
    let address = free_port::address_of(&running, 7379)?;
    running.has_printed(b"listening on port 7379\n")?;
    let setter = http::with_retries(|| ask(address, "SET colour light blue\n"))?;
    ensure!(setter == ["OK"], "{setter:?}");
    let answers = ask(address, "GET colour\nEXPIRE colour 0\nGET colour\nSET shape round\n")?;
    ensure!(answers == ["VALUE light blue", "OK", "NONE", "OK"], "{answers:?}");
    running.signal("TERM")?;
    // The expired value may be swept before.
    let outcome = running.end()?;
    outcome.check(0, &[" keys after "])
}

/// The answers to requests, a line each, on a connection of their own.
fn ask(address: SocketAddr, requests: &str) -> Result<Vec<String>> {
    let mut client = TcpStream::connect(address)?;
    client.set_read_timeout(Some(TIMEOUT))?;
    client.write_all(requests.as_bytes())?;
    let lines = BufReader::new(client).lines().take(requests.lines().count());
    let answers = lines.collect::<Result<Vec<_>, _>>()?;
    ensure!(answers.len() == requests.lines().count(), "the connection ended after {answers:?}");
    Ok(answers)
}
