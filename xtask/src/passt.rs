//! passt(1) as the network of guests under QEMU: connections are those of sockets of the host, as with uhyve.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, ensure};
use hermit_interface::port_forward::PortForward;
use hermit_options::passt::{self, MAX_MTU};

use crate::setup::packages::PASST;

/// A running passt, which exits when QEMU and this process have closed the other end of its socket.
#[derive(Debug)]
pub struct Passt {
    /// QEMU's end of the socket, which child processes inherit.
    socket: OwnedFd,
}

impl Passt {
    /// Whether passt is installed.
    pub fn is_installed() -> bool {
        PASST.is_installed()
    }

    /// Starts passt with these forwarded ports, and waits until it listens.
    ///
    /// # Errors
    ///
    /// Fails if passt cannot be started, or exits: a port is in use, or the host has no route.
    pub fn start(ports: &[PortForward]) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
        let output = passt::command(&theirs)?
            .args(["--mtu", &MAX_MTU.to_string()])
            .args(ports.iter().flat_map(PortForward::passt_option))
            .output()
            .context("cannot start passt")?;
        let messages = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "passt cannot connect the guest: {}", messages.trim());
        // Not earlier: passt must not hold this end.
        passt::inherit(&ours)?;
        Ok(Self { socket: ours.into() })
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
}
