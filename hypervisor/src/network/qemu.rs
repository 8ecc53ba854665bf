//! The command `uhyve net`: the network of a guest that QEMU runs.
//!
//! QEMU connects to a socket and exchanges frames over it (`-netdev stream`). The frames go to the same
//! backend as those of a uhyve guest. The thread that moves them is confined like the network thread of a
//! uhyve guest.

mod connection;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use anyhow::{Context, Result, anyhow, bail};
use hermit_options::network::{self, NetworkOption};
use hermit_options::ports::PortOptions;

use self::connection::Connection;
use super::open_sockets;
use crate::config::network::{BackendConfig, MacAddress, NetworkConfig};
use crate::devices::net::backend::Disconnected;
use crate::sandbox::{self, Role, Rules, Sandbox, Threads};

/// Arguments of `uhyve net`.
#[derive(clap::Args, Debug)]
pub struct NetArguments {
    /// The UNIX socket to listen at, to which QEMU connects:
    /// `-netdev stream,id=net,server=off,addr.type=unix,addr.path=PATH`
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Ports of the host that are forwarded to the guest.
    #[command(flatten)]
    ports: PortOptions,
    /// The network, as for uhyve; mac= is the address that QEMU gives to the guest, 52:54:00:12:34:56 by
    /// default
    #[arg(long, value_name = "user[,KEY[=VALUE]...]", default_value = "user")]
    net: NetworkOption,
    /// Print each step, and why
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print only errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Do not confine this process, to debug it
    #[arg(long)]
    no_sandbox: bool,
}

impl NetArguments {
    /// Converts the arguments into the configuration of a network.
    ///
    /// # Errors
    ///
    /// A message about options that exclude each other, or that only a uhyve guest has.
    pub fn config(&self) -> Result<NetworkConfig, String> {
        let network = network::device(Some(self.net.clone()), self.ports.clone().into())?;
        let network = network.filter(|network| matches!(network.backend, BackendConfig::User(_)));
        let Some(network) = network else {
            return Err("uhyve net has the network user only: write --net user".to_owned());
        };
        if !network.limits.is_unlimited() {
            return Err("bps= and pps= are for guests of uhyve's, not of QEMU's".to_owned());
        }
        if network.congestion.is_some() {
            return Err("congestion= is an option of the guest's kernel: -append congestion=...".to_owned());
        }
        Ok(network)
    }
}

/// Serves one guest, until QEMU closes the connection.
///
/// # Errors
///
/// A port cannot be bound, or the socket; the host does not confine this process; QEMU sends no frames.
pub fn serve(arguments: &NetArguments, network: &NetworkConfig) -> Result<()> {
    let BackendConfig::User(forwards) = &network.backend else { bail!("this network has no sockets") };
    sandbox::close_inherited()?;
    let user = open_sockets(network, (forwards, &[]), network.mac.unwrap_or(MacAddress::QEMU))?;
    let stream = accept(&arguments.socket)?;
    let mut connection = Connection::new(stream, user).context("cannot wait for frames")?;
    let sandbox = if arguments.no_sandbox {
        Sandbox::off()
    } else {
        Sandbox::new(Rules { sockets: true, allow_partial: true, ..Rules::default() })
    };
    let (ended, end) = mpsc::channel();
    let mut threads = Threads::new(sandbox)?;
    threads.spawn(Role::Network.to_string(), Role::Network, move || {
        // Cannot fail: the receiver exists until this thread has ended.
        let _: Result<(), mpsc::SendError<_>> = ended.send(connection.serve());
    })?;
    threads.start()?;
    match end.recv() {
        Ok(Disconnected(error)) if error.kind() == ErrorKind::UnexpectedEof => Ok(()),
        Ok(Disconnected(error)) => Err(anyhow!("the connection to QEMU: {error}")),
        Err(mpsc::RecvError) => Err(anyhow!("the network thread has ended")),
    }
}

/// Listens at a path, and accepts a connection. Closes standard output as soon as it listens: the end of the
/// output tells the program that has started this process that QEMU can connect.
fn accept(path: &Path) -> Result<UnixStream> {
    let failed = || format!("--socket {}", path.display());
    let listener = UnixListener::bind(path).with_context(failed)?;
    let stream = end_output().and_then(|()| listener.accept());
    // Only one guest is served, so the socket is removed. This fails if the starter has already removed it.
    let _: io::Result<()> = fs::remove_file(path);
    Ok(stream.with_context(failed)?.0)
}

/// Replaces standard output by `/dev/null`, so that its reader finds the end.
fn end_output() -> io::Result<()> {
    let null = fs::File::options().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}

#[cfg(test)]
mod tests {
    use super::NetArguments;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        net: NetArguments,
    }

    fn config(words: &str) -> Result<(), String> {
        let words = ["net", "--socket", "s"].into_iter().chain(words.split_ascii_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        command.net.config().map(drop)
    }

    #[test]
    fn options_are_those_of_sockets() {
        for words in ["", "-p 8080:80 -p 0:53/udp", "--net user,mtu=1500,host-loopback,egress=none -p 1:1"] {
            assert_eq!(config(words), Ok(()), "{words}");
        }
        for (words, text) in [
            ("--net tap=tap0", "write --net user"),
            ("--net none", "write --net user"),
            ("--net none -p 1:1", "--net none"),
            ("--net user,bps=1M", "bps= and pps="),
            ("--net user,congestion=bbr", "congestion="),
            ("-p 80", "no pair of ports"),
            ("-p 80:1 -p 80:2", "given twice"),
        ] {
            let error = config(words).unwrap_err();
            assert!(error.contains(text), "{words}: {error}");
        }
    }
}
