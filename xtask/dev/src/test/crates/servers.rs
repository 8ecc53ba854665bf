//! Tests of clients of real servers, on Linux and in guests. The servers are at the host's loopback
//! interface.
//!
//! The crates `redis` and `tokio-postgres` need a server to be tested. These tests use the servers of the
//! host's distribution; a test is skipped if its server is not installed. Each test starts its server on a
//! free port with an empty data directory, and runs the same client as a process and as a guest. Both must
//! print the same.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hermit_interface::net::HOST_NAME;
use hermit_toolchain::process;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::test::platform::TestPlatform;

/// The package of the clients.
pub(super) const PACKAGE: &str = "crates_servers";

/// Maximum time until a server accepts connections.
const TIMEOUT: Duration = Duration::from_secs(60);

/// User and group without privileges. PostgreSQL needs them, because it refuses to run as root.
const UNPRIVILEGED: u32 = 65534;

/// A server that a test uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Redis,
    PostgreSql,
}

impl Server {
    pub(super) const ALL: [Self; 2] = [Self::Redis, Self::PostgreSql];

    /// Returns the name of the client crate.
    const fn client(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::PostgreSql => "tokio-postgres",
        }
    }

    pub(super) fn test_name(self) -> String {
        format!("{PACKAGE}: {} with its server", self.client())
    }

    /// Returns true if the options of the test ring select the test.
    pub(super) fn is_selected(self, long: bool, only: Option<&str>) -> bool {
        only.map_or(long, |text| self.test_name().contains(text))
    }

    /// Returns the reason why this host cannot run the test, if it cannot.
    pub(super) fn reason_against(self) -> Option<String> {
        let package = match self {
            Self::Redis => "redis-server",
            Self::PostgreSql => "postgresql",
        };
        self.program().is_none().then(|| format!("the server is not installed: apt-get install {package}"))
    }

    /// Returns the server's program. For PostgreSQL it is `initdb`, which creates the data; the server's
    /// program is beside it.
    fn program(self) -> Option<PathBuf> {
        match self {
            Self::Redis => process::find("redis-server"),
            Self::PostgreSql => process::find("initdb").or_else(debian_initdb),
        }
    }

    /// Fails unless the client prints the same in a guest as on Linux.
    pub(super) fn test(self, platform: &TestPlatform<'_>, host: &Path, guest: &Path) -> Result<()> {
        let server = Running::start(self)?;
        let port = server.address.port();
        let mut on_linux = Command::new(host);
        on_linux.arg(self.client()).env("SERVER", server.address.to_string());
        let guest = platform.guest_of(guest, &[self.client()]).host_loopback();
        let compared = super::compare(&mut on_linux, guest.variable(&format!("SERVER={HOST_NAME}:{port}")));
        compared.with_context(|| server.log())
    }
}

/// Returns the `initdb` of the newest PostgreSQL that Debian's packages have installed.
fn debian_initdb() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.flatten().filter_map(|version| {
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        Some((number, version.path().join("bin/initdb")))
    });
    programs.max().map(|(_, initdb)| initdb).filter(|initdb| initdb.is_file())
}

/// A running server, which is ended when this value is dropped.
struct Running {
    process: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Running {
    /// Starts a server, and waits until it accepts connections.
    fn start(server: Server) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        drop(listener);
        let program = server.program().context("the server is not installed")?;
        let mut command = match server {
            Server::Redis => redis(&program, folder.path(), address.port()),
            Server::PostgreSql => postgresql(&program, folder.path(), address.port())?,
        };
        let log = fs::File::create(folder.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut running = Self { process, address, folder };
        running.wait(server)?;
        Ok(running)
    }

    /// Waits until the server accepts connections.
    fn wait(&mut self, server: Server) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(self.address).is_err() || !self.has_started(server) {
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                bail!("the server does not start: {}", self.log());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns true if the server answers queries. The server accepts connections already.
    fn has_started(&self, server: Server) -> bool {
        server == Server::Redis || self.log().contains("ready to accept connections")
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log"));
        format!("the server's log: {}", log.unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast shutdown: it disconnects clients, ends all processes of the server, and
        // removes its shared memory. After SIGKILL, child processes and shared memory would stay.
        let pid = Pid::from_child(&self.process);
        let _ = kill_process(pid, Signal::INT);
        let _ = self.process.wait();
    }
}

fn redis(program: &Path, folder: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    command.args([
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--port",
        &port.to_string(),
        "--dir",
    ]);
    command.arg(folder);
    command
}

/// Creates the data of a PostgreSQL server with the user `ada` and the password "secret". Returns the command
/// of the server.
fn postgresql(initdb: &Path, folder: &Path, port: u16) -> Result<Command> {
    let (data, password) = (folder.join("data"), folder.join("password"));
    fs::write(&password, "secret")?;
    fs::create_dir(&data)?;
    if geteuid().is_root() {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        chown(&data, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    }
    let mut create = unprivileged(initdb);
    create.args(["-U", "ada", "-A", "scram-sha-256", "--no-sync", "--locale=C", "-E", "UTF8", "--pwfile"]);
    let created = create.arg(&password).arg("-D").arg(&data).stdin(Stdio::null()).output()?;
    ensure!(created.status.success(), "initdb failed: {}", String::from_utf8_lossy(&created.stderr));
    let mut command = unprivileged(&initdb.with_file_name("postgres"));
    command
        .args(["-F", "-h", "127.0.0.1", "-c", "unix_socket_directories=", "-p", &port.to_string(), "-D"])
        .arg(data);
    Ok(command)
}

/// Returns a command that runs a program without root's privileges.
fn unprivileged(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([
        format!("--reuid={UNPRIVILEGED}"),
        format!("--regid={UNPRIVILEGED}"),
        "--clear-groups".to_owned(),
    ]);
    command.arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::Server;

    #[test]
    fn servers_are_used_with_long_or_by_name() {
        let selected =
            |long, only| Server::ALL.into_iter().filter(|server| server.is_selected(long, only)).count();
        assert_eq!([selected(false, None), selected(true, None)], [0, 2]);
        assert_eq!([selected(false, Some("servers")), selected(true, Some("tokio-postgres"))], [2, 1]);
        assert_eq!(selected(true, Some("regex")), 0);
    }
}
