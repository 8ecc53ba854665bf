//! The wire between this host and a server.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use xtask::process;

/// The tap, or this host's end of a pair of Ethernet devices.
pub(super) const DEVICE: &str = "bench0";

/// The other end of a pair.
const OTHER_END: &str = "bench1";

/// This host's address.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 32, 0, 1);

/// The server's.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 32, 0, 2);

/// How long the network of both is.
pub(super) const PREFIX: u8 = 24;

/// The hardware address of a guest.
pub(super) const HARDWARE: &str = "52:54:00:12:34:56";

/// How long it may take to make a namespace.
const PATIENCE: Duration = Duration::from_secs(5);

/// A wire; it is gone when this is dropped.
#[derive(Debug)]
pub(super) enum Link {
    Loopback,
    Tap,
    Pair(Namespace),
}

impl Link {
    /// Makes a tap. This host knows who is behind it, and need not ask again and again until he is there.
    pub(super) fn tap() -> Result<Self> {
        ip(&["tuntap", "add", DEVICE, "mode", "tap"])?;
        let link = Self::Tap;
        configure_host()?;
        let server = SERVER.to_string();
        ip(&["neighbour", "replace", &server, "lladdr", HARDWARE, "nud", "permanent", "dev", DEVICE])?;
        Ok(link)
    }

    /// Makes two devices that are each other's other end, and a namespace for one of them.
    pub(super) fn pair() -> Result<Self> {
        let namespace = Namespace::new()?;
        let id = namespace.holder.id().to_string();
        ip(&["link", "add", DEVICE, "type", "veth", "peer", "name", OTHER_END, "netns", &id])?;
        configure_host()?;
        let address = format!("{SERVER}/{PREFIX}");
        for arguments in [
            &["address", "add", &address, "dev", OTHER_END][..],
            &["link", "set", OTHER_END, "up"],
            &["link", "set", "lo", "up"],
        ] {
            process::run(namespace.enter().arg("ip").args(arguments))?;
        }
        Ok(Self::Pair(namespace))
    }

    /// The server's address.
    pub(super) fn server(&self) -> Ipv4Addr {
        if let Self::Loopback = self { Ipv4Addr::LOCALHOST } else { SERVER }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        match self {
            Self::Loopback => {}
            // It may never have come to be; and the namespace will end anyway.
            Self::Tap | Self::Pair(_) => drop(ip(&["link", "delete", DEVICE])),
        }
    }
}

/// A network namespace without a name: that of a process which waits for its end.
#[derive(Debug)]
pub(super) struct Namespace {
    holder: Child,
}

impl Namespace {
    fn new() -> Result<Self> {
        let mut holder = Command::new("unshare");
        holder.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let namespace = Self { holder: holder.spawn().context("cannot start `unshare`")? };
        let start = Instant::now();
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
        while of("self")? == of(&namespace.holder.id().to_string())? {
            ensure!(start.elapsed() < PATIENCE, "`unshare` makes no network namespace");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(namespace)
    }

    /// A command that is given to it runs inside.
    pub(super) fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.holder.id().to_string()]);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _: io::Result<()> = self.holder.kill();
        let _: io::Result<ExitStatus> = self.holder.wait();
    }
}

/// A network namespace begins with a loopback device that is off.
pub(super) fn switch_on_loopback() -> Result<()> {
    ip(&["link", "set", "lo", "up"])
}

fn configure_host() -> Result<()> {
    ip(&["address", "add", &format!("{HOST}/{PREFIX}"), "dev", DEVICE])?;
    ip(&["link", "set", DEVICE, "up"])
}

fn ip(arguments: &[&str]) -> Result<()> {
    process::run(Command::new("ip").args(arguments))
}
