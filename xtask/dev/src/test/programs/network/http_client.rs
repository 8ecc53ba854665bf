//! Tests of `http_client` in a guest, with servers on the host.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::process;

use super::dns_server::DnsServer;
use super::http;
use super::path::GATEWAY;
use crate::test::child::Outcome;
use crate::test::platform::TestPlatform;
use crate::test::report::note;
use crate::test::schedule::Tests;

/// Body of the server's responses.
pub(super) const BODY: &str = "as it was sent\n";

/// Maximum time until the response. It is below ten seconds, the time that a guest would lose if it waited
/// for a timeout of its first attempt to get an address.
const MAX_TIME: Duration = Duration::from_secs(8);

/// Number of attempts. A busy machine may take longer than [`MAX_TIME`], but not in each attempt.
const ATTEMPTS: usize = 3;

/// Program that creates certificates and serves HTTPS.
const OPENSSL: &str = "openssl";

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: http_client connects before it has an address"), move || {
        responds_in_time(platform)
    });
    let no_server = name_server().err();
    for (name, what) in [("server.test", "a name"), ("many.test", "a name with many addresses")] {
        tests.add_unless(no_server.clone(), format!("{platform}: http_client resolves {what}"), move || {
            resolves_name(platform, name)
        });
    }
    if !platform.is_uhyve() {
        tests.add(format!("{platform}: http_client ignores an invalid name server"), move || {
            ignores_invalid_setting(platform)
        });
    }
    let no_openssl = process::find(OPENSSL).is_none().then(|| format!("there is no {OPENSSL}"));
    tests.add_unless(no_openssl, format!("{platform}: http_client verifies certificates"), move || {
        verifies_certificate(platform)
    });
}

/// The client gets the response within [`MAX_TIME`].
fn responds_in_time(platform: &TestPlatform<'_>) -> Result<()> {
    for _ in 1..ATTEMPTS {
        let (time, _) = connect_at_start(platform)?;
        if time < MAX_TIME {
            return Ok(());
        }
        note(format!("it took {time:?}"));
    }
    let (time, outcome) = connect_at_start(platform)?;
    ensure!(time < MAX_TIME, "it took {time:?}\n{outcome}");
    Ok(())
}

/// Runs a client that connects before the guest has an address. The client gets the response. Returns the
/// time that it took.
fn connect_at_start(platform: &TestPlatform<'_>) -> Result<(Duration, Outcome)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let url = format!("http://{GATEWAY}:{port}/");
    // Without a connection the thread waits until xtask ends.
    thread::spawn(move || listener.accept().map(|(stream, _)| answer(&stream)));
    let start = Instant::now();
    let outcome = platform.guest("http_client", &[&url]).memory(64).host_loopback().expect(0, &[BODY])?;
    Ok((start.elapsed(), outcome))
}

/// Starts a DNS server on the host's loopback interface, which resolves every name to the gateway. Returns
/// the reason if it cannot be started.
fn name_server() -> Result<DnsServer, String> {
    DnsServer::serve(GATEWAY).map_err(|error| format!("the port of name servers: {error}"))
}

/// The client resolves a name. For that, the guest first needs its own address. If the name has many
/// addresses, it also needs a TCP connection to the name server.
fn resolves_name(platform: &TestPlatform<'_>, name: &str) -> Result<()> {
    let _server = name_server().map_err(anyhow::Error::msg)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://{name}:{}/", listener.local_addr()?.port());
    // Without a connection the thread waits until xtask ends.
    thread::spawn(move || listener.accept().map(|(stream, _)| answer(&stream)));
    let guest = platform.guest("http_client", &[&url]).memory(64).host_loopback().nameserver(GATEWAY.into());
    guest.expect(0, &[BODY]).map(drop)
}

/// The guest warns of an invalid setting and ignores it. uhyve refuses the setting.
fn ignores_invalid_setting(platform: &TestPlatform<'_>) -> Result<()> {
    let url = format!("http://{GATEWAY}:1/");
    let guest = platform.guest("http_client", &[&url]).memory(64).host_loopback();
    let texts = &["`nameserver=255.255.255.255` on the command line", "refused"];
    guest.kernel_option("nameserver=255.255.255.255").expect(1, texts).map(drop)
}

/// Reads a request and sends a chunked response.
pub(super) fn answer(mut stream: &TcpStream) -> Result<()> {
    for line in BufReader::new(stream).lines() {
        if line?.is_empty() {
            break;
        }
    }
    let (first, last) = BODY.split_at(BODY.len() / 2);
    write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for piece in [first, last] {
        write!(stream, "{:x}\r\n{piece}\r\n", piece.len())?;
    }
    write!(stream, "0\r\n\r\n")?;
    Ok(())
}

/// An HTTPS server, which is killed when this value is dropped.
struct HttpsServer(Child);

impl HttpsServer {
    fn start(folder: &Path, port: u16) -> Result<Self> {
        let child = Command::new(OPENSSL)
            .args(["s_server", "-quiet", "-www", "-cert", "certificate", "-key", "key", "-accept"])
            .arg(format!("127.0.0.1:{port}"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.map(Self).context("cannot start a server for HTTPS")
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        // Both calls may fail if the server has ended already, which is not an error.
        let _: std::io::Result<()> = self.0.kill();
        let _: std::io::Result<std::process::ExitStatus> = self.0.wait();
    }
}

/// The client accepts a server whose certificate it knows, and rejects a server whose certificate it does not
/// know.
fn verifies_certificate(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let name = format!("subjectAltName=IP:{GATEWAY}");
    let mut openssl = Command::new(OPENSSL);
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-subj", "/CN=test", "-days", "2", "-keyout", "key", "-out", "certificate"]);
    openssl.args(["-addext", &name, "-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = openssl.current_dir(folder.path()).output().context("cannot start openssl")?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let certificate = fs::read_to_string(folder.path().join("certificate"))?;
    let certificate: String = certificate.lines().filter(|line| !line.starts_with("--")).collect();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let _server = HttpsServer::start(folder.path(), port)?;
    http::with_retries(|| http::connect((Ipv4Addr::LOCALHOST, port).into()))?;
    let url = format!("https://{GATEWAY}:{port}/");
    let client = || platform.guest("http_client", &[&url]).memory(64).host_loopback();
    client().variable(&format!("HTTP_CLIENT_ROOT={certificate}")).expect(0, &["TLSv1.3"])?;
    client().expect(1, &["certificate"]).map(drop)
}
