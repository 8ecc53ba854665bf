//! passt(1) as the network of guests under QEMU: connections are those of sockets of the host, as with uhyve.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use hermit_interface::port_forward::PortForward;
use hermit_options::passt::{self, DNS_FORWARD, MAX_MTU};
use hermit_options::ports;

use crate::network::HOST_IS_GATEWAY;
use crate::setup::packages::PASST;

/// A running passt, which exits when QEMU and this process have closed the other end of its socket.
#[derive(Debug)]
pub struct Passt {
    /// QEMU's end of the socket, which child processes inherit.
    socket: OwnedFd,
    /// Options of the guest's kernel.
    kernel_options: Vec<String>,
}

impl Passt {
    /// Whether passt is installed.
    pub fn is_installed() -> bool {
        PASST.is_installed()
    }

    /// Starts passt with these forwarded ports, and waits until it listens. With `host_loopback`, the guest reaches the host's
    /// loopback. The executable of this process must call [`passt::supervise`] first.
    ///
    /// # Errors
    ///
    /// Fails if passt cannot be started, or exits: a port is in use, or the host has no route.
    pub fn start(forwards: &[PortForward], host_loopback: bool) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
        if let Some(note) = passt::udp_note(forwards, host_loopback) {
            eprintln!("{note}");
        }
        let has_dns_forward = passt::needs_dns_forward(host_loopback);
        let mut arguments = vec!["--mtu".to_owned(), MAX_MTU.to_string()];
        arguments.extend(passt::arguments(host_loopback, has_dns_forward));
        arguments.extend(forwards.iter().flat_map(PortForward::passt_option));
        let users = passt::start(theirs, arguments)?.finish()?;
        ports::verify(forwards, &users)?;
        // Not earlier: passt must not hold this end.
        passt::inherit(&ours)?;
        let host = host_loopback.then(|| HOST_IS_GATEWAY.to_owned());
        let nameserver = has_dns_forward.then(|| format!("nameserver={DNS_FORWARD}"));
        Ok(Self { socket: ours.into(), kernel_options: host.into_iter().chain(nameserver).collect() })
    }

    /// QEMU's options for the guest's network device.
    pub fn qemu_options(&self) -> [String; 4] {
        let socket = self.socket.as_raw_fd();
        [
            "-netdev".to_owned(),
            format!("stream,id=net,server=off,addr.type=fd,addr.str={socket}"),
            "-device".to_owned(),
            format!("virtio-net-pci,disable-legacy=on,netdev=net,host_mtu={MAX_MTU}"),
        ]
    }

    /// Options of the guest's kernel.
    pub fn kernel_options(&self) -> &[String] {
        &self.kernel_options
    }
}
