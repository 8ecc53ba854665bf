//! The suite `bursts`: many HTTP clients connect to `examples/httpd` at the same time. The server runs as a
//! process of the host, and in guests behind a forwarded port.
//!
//! Each system serves bursts of three sizes ([`crate::burst`] is the load generator). The figures are the
//! number of clients that failed, and percentiles of the time until a client was served. The figures of the
//! host's process show how much of these times is due to the host's own TCP. The last burst of each system is
//! also drawn as a curve.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use hermit_interface::port_forward::PortForward;
use hermit_machines::qemu::{Board, Guest};
use hermit_machines::uhyve::{self, Engine, Uhyve};
use hermit_machines::user_network::UserNetwork;
use hermit_toolchain::{setup, workspace};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::chart::{self, PercentileCurve};
use super::system::System;
use super::{example, linux};
use crate::burst::{self, Burst, Pace};
use xtask::program;

/// Numbers of clients.
const CLIENTS: [usize; 3] = [200, 1_000, 5_000];

/// Number of bursts of each size, whose medians are the figures.
const RUNS: usize = 3;

/// Time limit for all clients of a burst to be served.
const LIMIT: Duration = Duration::from_secs(60);

/// Time limit for a server to accept connections.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Port of the server in a guest.
const PORT: u16 = 8080;

/// Returns the name of a system in the figures. Clients reach the process of the host over the loopback
/// device, and guests through a forwarded port.
const fn name(system: System) -> &'static str {
    match system {
        System::Linux => "Linux",
        System::Process => "process",
        System::Kvm => "KVM",
        System::Qemu => "QEMU",
    }
}

/// The programs of all systems.
#[derive(Debug)]
struct Programs {
    uhyve: Uhyve,
    loader: PathBuf,
    image: PathBuf,
    native: PathBuf,
}

/// A running server, which is killed when this value is dropped.
#[derive(Debug)]
struct Server {
    child: Child,
    address: SocketAddr,
    /// The user-mode network of a guest in QEMU. It ends after QEMU.
    _network: Option<UserNetwork>,
    /// Files of QEMU.
    _folder: TempDir,
}

impl Server {
    /// Starts a server, and waits until it serves a client.
    fn start(programs: &Programs, system: System) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let forward = format!("{address}:{PORT}").parse::<PortForward>().map_err(Error::msg)?;
        let (mut command, network) = match system {
            System::Linux => (native(&programs.native, address), None),
            System::Kvm => (uhyve(programs, Engine::Kvm, &forward), None),
            System::Process => (uhyve(programs, Engine::Process, &forward), None),
            System::Qemu => {
                let uhyve = &programs.uhyve.program;
                let network = UserNetwork::start(uhyve, Some("user"), &[forward], &[], Stdio::inherit())?;
                (qemu(programs, &network, folder.path())?, Some(network))
            }
        };
        // Standard input is a pipe that stays open, because QEMU closes the console when its standard input
        // is closed.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("cannot start the server: {}", name(system)))?;
        let server = Self { child, address, _network: network, _folder: folder };
        let start = Instant::now();
        while burst::run(address, 1, Pace::Fastest, Duration::from_secs(1))?.served() == 0 {
            ensure!(start.elapsed() < READY_TIMEOUT, "{}: the server does not respond", name(system));
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail if the process has been reaped already, which is not an error.
        let _: io::Result<()> = self.child.kill();
        let _: io::Result<ExitStatus> = self.child.wait();
    }
}

fn native(program: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.arg(address.port().to_string());
    command
}

fn uhyve(programs: &Programs, engine: Engine, forward: &PortForward) -> Command {
    let mut command = uhyve::command(&programs.uhyve.program, engine);
    command.args(["-p", &forward.to_string()]).arg(&programs.image);
    command
}

fn qemu(programs: &Programs, network: &UserNetwork, folder: &Path) -> Result<Command> {
    let name = program::name_of(&programs.image);
    let guest = Guest {
        board: Board::Pc,
        extra_options: network.qemu_options().to_vec(),
        ..Guest::new(programs.loader.clone(), Some(programs.image.clone()), name)
    };
    guest.command(folder)
}

/// Measures all systems, prints and returns the figures.
pub(super) fn main() -> Result<Value> {
    let programs = Programs {
        uhyve: Uhyve::check(setup::uhyve()?)?,
        loader: setup::loader()?,
        image: example("httpd")?,
        native: linux::native("httpd")?,
    };
    let engines = [(System::Process, Engine::Process), (System::Kvm, Engine::Kvm)];
    let works =
        |system| engines.iter().all(|&(other, engine)| other != system || programs.uhyve.works(engine));
    let systems = System::ALL.into_iter().filter(|&system| works(system));
    let (mut figures, mut curves) = (Map::new(), Vec::new());
    for system in systems {
        let server = Server::start(&programs, system)?;
        for clients in CLIENTS {
            let mut bursts = Vec::new();
            for _ in 0..RUNS {
                let burst = burst::run(server.address, clients, Pace::Fastest, LIMIT)?;
                println!("{:<8} {burst}", name(system));
                bursts.push(burst);
            }
            figures.insert(format!("{clients} clients, {}", name(system)), to_json(&bursts));
            if Some(&clients) == CLIENTS.last() {
                curves.extend(bursts.pop().map(|burst| curve(system, &burst)));
            }
        }
    }
    let file = workspace::target_dir().join("bench").join("bursts.svg");
    chart::draw_percentiles(
        &file,
        "time until served (ms), 5,000 clients at once",
        "clients served (%)",
        curves,
    )?;
    Ok(Value::Object(figures))
}

/// Returns milliseconds, rounded to tenths.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Returns the failures of all bursts, and the median of each percentile, as JSON.
fn to_json(bursts: &[Burst]) -> Value {
    let [p50, p99, max] = [50, 99, 100].map(|percent| {
        let mut times: Vec<_> = bursts.iter().map(|burst| burst.percentile(percent)).collect();
        times.sort_unstable();
        milliseconds(times.get(times.len() / 2).copied().unwrap_or_default())
    });
    let failed: usize = bursts.iter().map(Burst::failed).sum();
    json!({ "failed": failed, "p50_ms": p50, "p99_ms": p99, "max_ms": max })
}

/// Returns the curve of a burst: for each percentage, the time within which that share of the clients was
/// served.
fn curve(system: System, burst: &Burst) -> PercentileCurve {
    let milliseconds = (1..=100).map(|percent| milliseconds(burst.percentile(percent))).collect();
    PercentileCurve { name: name(system), color: system.color(), milliseconds }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::to_json;
    use crate::burst::Burst;
    use serde_json::json;

    #[test]
    fn figures_are_medians_and_all_failures() {
        let burst = |seconds: &[u64], clients| {
            Burst::new(clients, seconds.iter().map(|&seconds| Duration::from_secs(seconds)).collect())
        };
        let bursts = [burst(&[1, 5], 2), burst(&[3, 4], 3), burst(&[2, 9], 4)];
        let figures = json!({ "failed": 3, "p50_ms": 2000.0, "p99_ms": 5000.0, "max_ms": 5000.0 });
        assert_eq!(to_json(&bursts), figures);
    }
}
