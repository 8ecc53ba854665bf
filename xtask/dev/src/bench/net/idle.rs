//! Measures the time from request to answer on an otherwise idle machine, with `xtask/bench/idle_latency`. No
//! other packet or timer wakes the network.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::client;
use super::figures::Figures;
use super::plan::NetBenchPlan;
use super::server::RunningServer;
use super::server_program::ServerProgram;
use super::system::System;
use super::topic::Table;

/// Runtimes, in the order of their ports. These ports follow the port of the control connection.
pub(super) const RUNTIMES: [&str; 3] = ["std", "tokio", "smol"];

/// Port of the control connection of the peer on the host; the ports of its runtimes follow. It differs from
/// the server's port, because the server may be on the host, too.
const PEER_PORT: u16 = 7790;

/// Number of requests. Each request uses a new connection.
const COUNT: &str = "300";

/// Time limit of a measurement.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Quantiles: the key in the program's result, and the end of the row's name.
const QUANTILES: [(&str, &str); 4] =
    [("p50_us", "p50"), ("p90_us", "p90"), ("p99_us", "p99"), ("max_us", "maximum")];

/// Measures the machine as the client and as the server of each runtime. A machine behind ports is measured
/// only as a server.
pub(super) fn measure(plan: &NetBenchPlan, system: System, figures: &mut Figures) -> Result<()> {
    let program = ServerProgram::IdleLatency.of(&plan.programs)?;
    let server = RunningServer::ready(plan, system, ServerProgram::IdleLatency)?;
    if let Some(host) = server.host() {
        let _peer = Peer::start(program)?;
        // The blocking server of the peer answers the clients of all runtimes.
        let peer = SocketAddr::from((host, PEER_PORT + 1));
        for runtime in RUNTIMES {
            let result = order(server.socket_address(), &format!("{runtime} {COUNT} {peer}"))?;
            add(figures, &format!("{runtime} asks"), system, &result)?;
        }
    }
    for (port, runtime) in (server.socket_address().port() + 1..).zip(RUNTIMES) {
        let address = SocketAddr::from((server.address(), port));
        wait_for_answer(address)?;
        let address = address.to_string();
        let measured = client::run(Command::new(program).args(["client", "std", COUNT, &address]), TIMEOUT)?;
        measured.result?;
        add(figures, &format!("{runtime} answers"), system, &measured.text)?;
    }
    Ok(())
}

/// Waits until a server answers a request. A connection alone does not show that, because forwarded ports of
/// the host accept connections before the guest does.
fn wait_for_answer(address: SocketAddr) -> Result<()> {
    let start = Instant::now();
    let request = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0; 6])
    };
    while let Err(error) = request() {
        if start.elapsed() > TIMEOUT {
            return Err(error).with_context(|| format!("{address} does not answer"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Makes the server measure as a client, and returns its answer.
fn order(server: SocketAddr, line: &str) -> Result<String> {
    let mut stream = TcpStream::connect(server).context("cannot connect to the server")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    writeln!(stream, "{line}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context("the server does not answer")?;
    Ok(answer)
}

fn add(figures: &mut Figures, row: &str, system: System, result: &str) -> Result<()> {
    let result: Value = serde_json::from_str(result).with_context(|| format!("cannot parse `{result}`"))?;
    for (key, name) in QUANTILES {
        let time = result[key].as_f64().with_context(|| format!("{key} is missing"))?;
        figures.add(Table::Idle, &format!("{row}, {name}"), system, time);
    }
    Ok(())
}

/// The program as a server on the host, which is killed when this value is dropped.
struct Peer(Child);

impl Peer {
    fn start(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["server", &PEER_PORT.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut peer = Self(command.spawn().context("cannot start the peer")?);
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", PEER_PORT)).is_err() {
            if peer.0.try_wait()?.is_some() || start.elapsed() > TIMEOUT {
                bail!("the peer does not listen");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both calls fail if the process has been reaped already, which is not an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
