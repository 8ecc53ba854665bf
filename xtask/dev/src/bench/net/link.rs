//! The network link between the host and a server: a tap, a pair of virtual Ethernet devices, or loopback.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::process;

use super::relay::Relay;

/// Name of the tap, or of the host's end of a veth pair.
pub(super) const DEVICE: &str = "bench0";

/// Name of the server's end of a veth pair.
const PEER_DEVICE: &str = "bench1";

/// Address of the host.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 32, 0, 1);

/// Address of the server.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 32, 0, 2);

/// Prefix length of the network of [`HOST`] and [`SERVER`].
pub(super) const PREFIX: u8 = 24;

/// MAC address of a guest.
pub(super) const MAC: &str = "52:54:00:12:34:56";

/// Linux's default congestion control, which the Linux guests also use. The host may have another default,
/// such as BBR, whose pacing then decides how many messages of a few bytes a device carries.
pub(super) const CONGESTION_CONTROL: &str = "cubic";

/// Message for a host that does not permit the congestion control. New network namespaces are restricted to
/// this list.
const CONTROL_HELP: &str = "root can add it to the list `sysctl net.ipv4.tcp_allowed_congestion_control`";

/// File that has the default congestion control of a network namespace.
pub(super) const DEFAULT_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Maximum time until `unshare` has created a namespace.
const NAMESPACE_TIMEOUT: Duration = Duration::from_secs(5);

/// A link. Its devices are removed when this value is dropped.
#[derive(Debug)]
pub(super) enum NetLink {
    /// The loopback device.
    Loopback,
    /// A tap, for a guest.
    Tap,
    /// A relay between a guest and the relay's own tap.
    Relay(Relay),
    /// Ports of the host, which uhyve or podman forwards.
    Ports,
    /// Ports of the host, which pasta forwards.
    Pasta,
    /// A veth pair. The server's end is in this namespace.
    Veth(Namespace),
}

impl NetLink {
    /// Creates a tap, and a permanent neighbor entry for the guest, so that the host sends no ARP requests
    /// while the guest boots.
    pub(super) fn tap() -> Result<Self> {
        ip(&["tuntap", "add", DEVICE, "mode", "tap"])?;
        let link = Self::Tap;
        configure_host()?;
        add_neighbor()?;
        Ok(link)
    }

    /// Creates a tap without a guest and a default route, from which pasta derives the network of its
    /// namespace.
    pub(super) fn pasta() -> Result<Self> {
        ip(&["tuntap", "add", DEVICE, "mode", "tap"])?;
        let link = Self::Pasta;
        configure_host()?;
        ip(&["route", "add", "default", "via", &SERVER.to_string()])?;
        Ok(link)
    }

    /// Starts a relay with sockets in a folder. Adds a permanent neighbor entry as [`Self::tap`] does.
    pub(super) fn relay(folder: &Path) -> Result<Self> {
        let link = Self::Relay(Relay::start(DEVICE, folder)?);
        configure_host()?;
        add_neighbor()?;
        Ok(link)
    }

    /// Returns QEMU's netdev `net` for this link.
    pub(super) fn netdev(&self) -> String {
        match self {
            Self::Relay(relay) => relay.netdev(),
            _ => format!("tap,id=net,ifname={DEVICE},script=no,downscript=no"),
        }
    }

    /// Creates a veth pair, with one end in a new namespace.
    pub(super) fn veth() -> Result<Self> {
        let namespace = Namespace::new()?;
        let id = namespace.holder.id().to_string();
        ip(&["link", "add", DEVICE, "type", "veth", "peer", "name", PEER_DEVICE, "netns", &id])?;
        configure_host()?;
        let address = format!("{SERVER}/{PREFIX}");
        for arguments in [
            &["address", "add", &address, "dev", PEER_DEVICE][..],
            &["link", "set", PEER_DEVICE, "up"],
            &["link", "set", "lo", "up"],
        ] {
            process::run(namespace.enter().arg("ip").args(arguments))?;
        }
        let set = format!("echo {CONGESTION_CONTROL} > {DEFAULT_CONTROL}");
        process::run(namespace.enter().args(["sh", "-c", &set]))?;
        Ok(Self::Veth(namespace))
    }

    /// Returns the address of the server.
    pub(super) fn server(&self) -> Ipv4Addr {
        match self {
            Self::Loopback | Self::Ports => Ipv4Addr::LOCALHOST,
            // pasta translates what other addresses than the loopback address receive. Connections to the
            // loopback address do not pass its tap.
            Self::Pasta => HOST,
            _ => SERVER,
        }
    }

    /// Returns the address at which the server reaches the host. Returns `None` if the server is behind
    /// ports.
    pub(super) fn host(&self) -> Option<Ipv4Addr> {
        match self {
            Self::Loopback => Some(Ipv4Addr::LOCALHOST),
            Self::Ports | Self::Pasta => None,
            _ => Some(HOST),
        }
    }
}

impl Drop for NetLink {
    fn drop(&mut self) {
        match self {
            // A relay's tap is removed when the relay closes it.
            Self::Loopback | Self::Ports | Self::Relay(_) => {}
            // An error is ignored: the device may not exist, and the kernel removes it with the namespace
            // anyway.
            Self::Tap | Self::Pasta | Self::Veth(_) => drop(ip(&["link", "delete", DEVICE])),
        }
    }
}

/// An unnamed network namespace. A process that waits until it is killed keeps the namespace alive.
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
            ensure!(start.elapsed() < NAMESPACE_TIMEOUT, "`unshare` creates no network namespace");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(namespace)
    }

    /// Returns a command prefix. A command appended to it is executed in the namespace.
    pub(super) fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.holder.id().to_string()]);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Both calls fail if the process has been reaped already, which is not an error.
        let _: io::Result<()> = self.holder.kill();
        let _: io::Result<ExitStatus> = self.holder.wait();
    }
}

/// Prepares a new network namespace: enables the loopback device, which is down, and sets the congestion
/// control.
pub(super) fn prepare_namespace() -> Result<()> {
    ip(&["link", "set", "lo", "up"])?;
    fs::write(DEFAULT_CONTROL, CONGESTION_CONTROL)
        .with_context(|| format!("cannot set the congestion control {CONGESTION_CONTROL}: {CONTROL_HELP}"))
}

/// Sets the host's address and enables its device.
fn configure_host() -> Result<()> {
    ip(&["address", "add", &format!("{HOST}/{PREFIX}"), "dev", DEVICE])?;
    ip(&["link", "set", DEVICE, "up"])
}

/// Adds a permanent neighbor entry for the guest.
fn add_neighbor() -> Result<()> {
    let server = SERVER.to_string();
    ip(&["neighbour", "replace", &server, "lladdr", MAC, "nud", "permanent", "dev", DEVICE])
}

/// Runs `ip`.
fn ip(arguments: &[&str]) -> Result<()> {
    process::run(Command::new("ip").args(arguments))
}
