//! What is compared.

use std::fmt;

use crate::bench::Platform;

/// What runs the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum System {
    /// Our guest in uhyve's process engine, at a tap
    Uhyve,
    /// Our guest in QEMU, at a tap
    Qemu,
    /// A Linux guest in QEMU, at a tap
    Linux,
    /// The same without segmentation offload
    LinuxPlain,
    /// A process of this host in another network namespace, at a pair of virtual Ethernet devices
    Veth,
    /// A process of this host, over the loopback device
    Loopback,
}

impl System {
    pub(super) const ALL: [Self; 6] =
        [Self::Uhyve, Self::Qemu, Self::Linux, Self::LinuxPlain, Self::Veth, Self::Loopback];

    /// It is measured when this platform is.
    pub(super) fn is_on(self, platform: Platform) -> bool {
        let is_in_qemu = matches!(self, Self::Qemu | Self::Linux | Self::LinuxPlain);
        is_in_qemu == (platform == Platform::Qemu)
    }

    /// It is a machine that takes its time to start.
    pub(super) fn is_machine(self) -> bool {
        !matches!(self, Self::Veth | Self::Loopback)
    }
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Uhyve => "uhyve",
            Self::Qemu => "QEMU",
            Self::Linux => "Linux",
            Self::LinuxPlain => "no TSO",
            Self::Veth => "veth",
            Self::Loopback => "loopback",
        })
    }
}
