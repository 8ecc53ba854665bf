//! Sockets: what `std::net` does inside of a machine, and what the host sees of a server in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::network::Port;
use crate::setup::packages::PASST;
use crate::test::host::Host;
use crate::test::report::Report;
use crate::workspace;

/// Rows that are known to differ, with why, in the folder of `examples/net_calls`.
const DIFFERENT: &str = "different.txt";

/// What Linux prints.
const EXPECTED: &str = "expected.txt";

/// The table takes half a minute on Linux, most of which is waiting.
const TABLE_TIME: Duration = Duration::from_secs(240);

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The port of the server in its machine.
const PORT: u16 = 8080;

/// Connections at a time.
const CLIENTS: usize = 32;

/// Bytes of a large answer.
const LARGE: usize = 1_000_000;

/// Tests the table, and a server if the host can connect to one.
pub(super) fn test(report: &mut Report, host: &Host<'_>) {
    report.check(&format!("{host}: std::net as on Linux"), || table(host));
    let name = format!("{host}: a server behind -p");
    match reason_against(host) {
        Some(reason) => report.skip(&name, &reason),
        None => report.check(&name, || server(host)),
    }
}

/// Every row of `net_calls` is as on Linux, but for those that are known to differ; and those do.
fn table(host: &Host<'_>) -> Result<()> {
    let folder = workspace::root().join("examples/net_calls");
    let read = |name: &str| fs::read_to_string(folder.join(name)).with_context(|| format!("no {name}"));
    let (expected, different) = (read(EXPECTED)?, read(DIFFERENT)?);
    let different: Vec<_> =
        different.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let outcome = host.guest("net_calls", &[]).memory(256).more_time(TABLE_TIME).run()?;
    let printed = outcome.text();
    let printed: BTreeMap<_, _> = printed.lines().filter_map(|line| line.split_once(": ")).collect();
    let mut wrong = Vec::new();
    for (name, result) in expected.lines().filter_map(|line| line.split_once(": ")) {
        let got = printed.get(name).copied();
        let is_known = different.contains(&name);
        if (got == Some(result)) == is_known {
            let note = if is_known { " (no longer different)" } else { "" };
            wrong.push(format!("{name}{note}\n  here  {}\n  Linux {result}", got.unwrap_or("nothing")));
        }
    }
    ensure!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), String::from_utf8_lossy(&outcome.errors));
    Ok(())
}

/// Why a port of this host cannot be passed on to a guest.
fn reason_against(host: &Host<'_>) -> Option<String> {
    // QEMU does it by itself.
    if !host.is_uhyve() {
        return None;
    }
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let has_default = routes.lines().skip(1).any(|line| line.split_whitespace().nth(1) == Some("00000000"));
    if !has_default {
        return Some("passt needs a route to somewhere, and this host has none".to_owned());
    }
    PASST.ensure().err().map(|error| format!("{error:#}"))
}

/// Clients at a time get what they ask for; the guest ends when it is told to.
fn server(host: &Host<'_>) -> Result<()> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let port: Port = format!("127.0.0.1:{free}:{PORT}").parse().map_err(anyhow::Error::msg)?;
    let guest = host.guest("httpd", &[]).memory(128).port(port);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free));
    thread::scope(|scope| {
        let running = scope.spawn(|| guest.run());
        let answers = clients(address);
        // Whatever came of it: the guest is to end. Its answer may be lost with the machine, its exit code is not.
        let farewell = get(address, "/exit");
        let outcome = running.join().map_err(|_| anyhow::anyhow!("the thread of the guest panicked"))??;
        answers.with_context(|| format!("{}\nthe farewell: {farewell:?}", outcome.text()))?;
        outcome.check(0, &["listening on"])
    })
}

fn clients(address: SocketAddr) -> Result<()> {
    get_patiently(address, "/")?;
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(address, number))).collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")))
    })
}

/// Asks for so many bytes that clients differ, and one for very many.
fn client(address: SocketAddr, number: usize) -> Result<()> {
    let size = if number == 0 { LARGE } else { number * 1000 };
    let answer = get_patiently(address, &format!("/bytes/{size}"))?;
    ensure!(answer.len() >= size, "{} of {size} bytes came", answer.len());
    Ok(())
}

/// As [`get`], again and again: who passes the port on may refuse a connection that the guest would take, or may have taken it before
/// the guest was there.
fn get_patiently(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    let start = Instant::now();
    loop {
        match get(address, path) {
            Err(error) if start.elapsed() > PATIENCE => return Err(error).context(path.to_owned()),
            Err(_) => thread::sleep(Duration::from_millis(20)),
            answer => return answer,
        }
    }
}

/// The answer to a request, head and all.
fn get(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset || answer.is_empty() => {
            return Err(error.into());
        }
        _ => {}
    }
    ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{path}: {}", String::from_utf8_lossy(&answer));
    Ok(answer)
}
