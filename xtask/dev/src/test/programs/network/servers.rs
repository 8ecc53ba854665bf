//! Tests of servers behind a forwarded port of the host: `httpd`, `web`, `poll_server` and `udp_echo`.
//!
//! Each test boots a server with `-p`, and acts as its clients, with std's sockets on the host. The first
//! request is repeated until the server is ready. Then most tests open many connections one by one, and use
//! all of them at the same time. The last request ends the server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hermit_toolchain::process;

use super::http::{self, Connection, Response};
use super::path::NetworkPath;
use super::{TIMEOUT, server_guest};
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Number of connections at a time.
const CLIENTS: usize = 32;

/// Size of a large response, in bytes.
const LARGE: usize = 1_000_000;

/// Number of bytes that a client of an echo server sends.
const ECHO: usize = 50_000;

/// Size of a large datagram, in bytes. Larger datagrams might not fit into a packet of the guest's network.
const LARGE_DATAGRAM: usize = 65_000;

/// Time limit for opening all connections. Servers close connections that are idle for about ten seconds.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(5);

/// Number of attempts to open all connections in time, on a busy machine.
const ATTEMPTS: usize = 3;

/// Extension of the time limit of the guest.
const MORE_TIME: Duration = Duration::from_secs(120);

/// Time after which a datagram or its echo counts as lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(500);

/// A server: its name, its port, the test, and the function that requests its end.
type Case = (&'static str, u16, fn(SocketAddr) -> Result<()>, fn(SocketAddr) -> Result<()>);

const SERVERS: [Case; 4] = [
    ("httpd", 8080, httpd, http::exit),
    ("web", 8080, web, http::exit),
    ("poll_server", 7070, poll_server, end_poll_server),
    ("udp_echo", 7007, udp_echo, end_udp_echo),
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    for case in SERVERS {
        behind_a_port(tests, platform, case);
    }
    if !platform.is_uhyve() {
        tests.add(format!("{platform}, q35: httpd behind -p"), move || on_q35(platform));
    }
    let reason = process::find("curl").is_none().then(|| "there is no curl".to_owned());
    tests.add_unless(reason, format!("{platform}: httpd and curl"), move || {
        served(platform, ("httpd", 8080, curl, http::exit))
    });
}

/// A server on QEMU's machine with PCI Express (q35) answers one client after the other.
fn on_q35(platform: &TestPlatform<'_>) -> Result<()> {
    let path = NetworkPath::port()?;
    let guest =
        platform.guest("httpd", &[]).memory(128).qemu_options(&["-machine", "q35"]).more_time(MORE_TIME);
    let (guest, address) = path.reach(guest, 8080)?;
    server_guest::during(&guest, || greetings(address), || http::exit(address)).map(drop)
}

/// Adds a test in which a server answers one client after the other.
pub(super) fn test_light<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    behind_a_port(tests, platform, ("httpd", 8080, greetings, http::exit));
}

fn behind_a_port<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, case: Case) {
    tests.add(format!("{platform}: {} behind -p", case.0), move || served(platform, case));
}

fn served(platform: &TestPlatform<'_>, (name, port, test, request_exit): Case) -> Result<()> {
    let path = NetworkPath::port()?;
    let (guest, address) = path.reach(platform.guest(name, &[]).memory(128), port)?;
    // A longer timeout: on a slow machine, httpd must not close idle connections while others are being
    // opened.
    let guest = guest.variable("HTTPD_TIMEOUT=60000").more_time(MORE_TIME);
    server_guest::during(&guest, || test(address), || request_exit(address)).map(drop)
}

/// Opens connections one by one, then uses all of them at the same time.
fn at_once<C: Send>(
    open: impl Fn() -> Result<C>,
    talk: impl Fn(usize, C) -> Result<()> + Sync,
) -> Result<()> {
    let connections = all_at_once(&open)?;
    let talk = &talk;
    thread::scope(|scope| {
        let numbered = connections.into_iter().enumerate();
        let clients: Vec<_> =
            numbered.map(|(number, connection)| scope.spawn(move || talk(number, connection))).collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")))
    })
}

/// Opens connections, all of them within [`MAX_CONNECT_TIME`].
fn all_at_once<C>(open: impl Fn() -> Result<C>) -> Result<Vec<C>> {
    let mut attempt = 0;
    loop {
        let start = Instant::now();
        let connections = (0..CLIENTS).map(|_| http::with_retries(&open)).collect::<Result<Vec<_>>>()?;
        attempt += 1;
        if start.elapsed() < MAX_CONNECT_TIME || attempt == ATTEMPTS {
            return Ok(connections);
        }
    }
}

/// Opens a connection, and makes one request on it.
fn greeted(address: SocketAddr, path: &str) -> Result<Connection> {
    let mut connection = Connection::new(address)?;
    connection.ask(&format!("GET {path}"), b"")?;
    Ok(connection)
}

/// Sequential clients get their responses.
fn greetings(address: SocketAddr) -> Result<()> {
    http::get_with_retries(address, "/")?;
    for _ in 0..3 {
        greeted(address, "/")?;
    }
    Ok(())
}

/// Concurrent clients get several responses on their connections.
fn httpd(address: SocketAddr) -> Result<()> {
    http::get_with_retries(address, "/")?;
    at_once(
        || greeted(address, "/"),
        |number, mut connection| {
            let size = if number == 0 { LARGE } else { number * 1000 };
            let answer = connection.ask(&format!("GET /bytes/{size}"), b"")?;
            ensure!(answer.body.len() == size, "{} of {size} bytes came", answer.body.len());
            let body = vec![b'a'; size.min(LARGE)];
            ensure!(connection.ask("POST /echo", &body)?.body == body, "an echo is not what was sent");
            ensure!(connection.ask("GET /nothing", b"")?.status == 404, "there is nothing at that path");
            Ok(())
        },
    )
}

/// Concurrent clients create, change, find and remove notes. Afterwards no note is left.
fn web(address: SocketAddr) -> Result<()> {
    http::get_with_retries(address, "/health")?;
    at_once(
        || greeted(address, "/health"),
        |number, mut connection| {
            let mut ask = |request: &str, body: &str, status: u16| {
                let answer = connection.ask(request, body.as_bytes())?;
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                ensure!(answer.status == status, "{request}: {} instead of {status}, {text}", answer.status);
                Ok(text)
            };
            let note = ask("POST /notes", &format!(r#"{{"text":"note <{number}>"}}"#), 201)?;
            let name = note.split([':', ',']).nth(1).unwrap_or_default().to_owned();
            let found = ask(&format!("GET /notes?contains=%3C{number}%3E"), "", 200)?;
            ensure!(found == format!("[{note}]"), "{found} instead of {note}");
            ask(&format!("PUT /notes/{name}"), r#"{"text":"another"}"#, 200)?;
            ask(&format!("DELETE /notes/{name}"), "", 200)?;
            ask(&format!("GET /notes/{name}"), "", 404).map(drop)
        },
    )?;
    let answer = http::get(address, "/notes")?;
    ensure!(answer == b"[]", "there are notes: {}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Concurrent clients receive the echo while they are still sending.
fn poll_server(address: SocketAddr) -> Result<()> {
    let hello = |mut stream: TcpStream| {
        let mut answer = [0; 2];
        stream.write_all(b"hi")?;
        stream.read_exact(&mut answer)?;
        ensure!(answer == *b"hi", "{answer:?}");
        Ok(stream)
    };
    http::with_timeouts(|timeout| hello(http::connect_within(address, timeout)?))?;
    at_once(
        || hello(http::connect(address)?),
        |number, stream| {
            let bytes: Vec<u8> =
                (0..ECHO).map(|index| b'a' + u8::try_from((index + number) % 26).unwrap_or(0)).collect();
            thread::scope(|scope| {
                let writer = scope
                    .spawn(|| (&stream).write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write)));
                let echo = http::rest(&stream)?;
                writer.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
                ensure!(echo == bytes, "{} bytes came back, or others than were sent", echo.len());
                Ok(())
            })
        },
    )
}

/// Sends the line that ends `poll_server`.
pub(super) fn end_poll_server(address: SocketAddr) -> Result<()> {
    let mut stream = http::connect(address)?;
    stream.write_all(b"exit\n")?;
    http::rest(&stream).map(drop)
}

/// Datagrams of all sizes are returned to their senders.
fn udp_echo(address: SocketAddr) -> Result<()> {
    at_once(
        || udp_socket(address),
        |number, socket| {
            for size in [0, 1, 1472, 1473, 8000 + number] {
                let datagram = vec![u8::try_from(number)?; size];
                exchange(&socket, &datagram)?;
            }
            Ok(())
        },
    )?;
    exchange(&udp_socket(address)?, &vec![7; LARGE_DATAGRAM])
}

/// Repeats the request to end until the server answers it or closes the port.
fn end_udp_echo(address: SocketAddr) -> Result<()> {
    let (socket, start) = (udp_socket(address)?, Instant::now());
    while start.elapsed() < TIMEOUT && socket.send(b"exit").is_ok() {
        if socket.recv(&mut [0; 8]).is_ok() {
            break;
        }
    }
    Ok(())
}

fn udp_socket(address: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(LOSS_TIMEOUT))?;
    Ok(socket)
}

/// Sends a datagram until its echo arrives, because the datagram or the echo may be lost.
fn exchange(socket: &UdpSocket, datagram: &[u8]) -> Result<()> {
    let start = Instant::now();
    let mut answer = vec![0; LARGE_DATAGRAM + 1];
    while start.elapsed() < TIMEOUT {
        // The host reports an ICMP error if the port is not open yet.
        if socket.send(datagram).is_err() {
            continue;
        }
        // Ignores other datagrams: they are late echoes of earlier datagrams.
        while let Ok(size) = socket.recv(&mut answer) {
            if answer.get(..size) == Some(datagram) {
                return Ok(());
            }
        }
    }
    bail!("a datagram of {} bytes does not come back", datagram.len())
}

/// curl gets responses and sends a large body.
fn curl(address: SocketAddr) -> Result<()> {
    http::get_with_retries(address, "/")?;
    let url = format!("http://{address}");
    let curl = |words: &[&str]| {
        let limit = TIMEOUT.as_secs().to_string();
        process::output(
            Command::new("curl")
                .args(["--silent", "--show-error", "--fail", "--max-time", &limit])
                .args(words),
        )
    };
    // curl makes both requests on the same connection.
    let text = curl(&["--write-out", "%{num_connects}\n", &url, &format!("{url}/bytes/3")])?;
    ensure!(text == "Hello from hermit\n1\nxxx0\n", "{text}");
    // curl sends `Expect: 100-continue` before a large body.
    let body = "b".repeat(LARGE);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("body");
    std::fs::write(&file, &body)?;
    let text = curl(&["--data-binary", &format!("@{}", file.display()), &format!("{url}/echo")])?;
    ensure!(text == body, "the echo of {LARGE} bytes has {}", text.len());
    let answer = Connection::new(address)?.ask("GET /", b"")?;
    ensure!(answer == Response { status: 200, body: b"Hello from hermit\n".to_vec() }, "{answer:?}");
    Ok(())
}
