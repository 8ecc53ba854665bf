//! The systems that are compared.

use std::fmt;

use crate::bench::BenchPlatform;

/// A system that runs the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum System {
    /// A guest of this kernel in uhyve's process engine, behind ports of the host
    #[value(name = "uhyve-ports")]
    UhyvePorts,
    /// A guest of this kernel in uhyve's process engine, at a tap
    Uhyve,
    /// A guest of this kernel in QEMU, at a tap
    Qemu,
    /// A Linux guest in QEMU, at a tap
    Linux,
    /// A Linux guest in QEMU without segmentation offload, at a tap
    #[value(name = "linux-plain")]
    LinuxNoTso,
    /// A process of the host in another network namespace, at a veth pair
    Veth,
    /// A process of the host, over the loopback device
    Loopback,
}

impl System {
    pub(super) const ALL: [Self; 7] = [
        Self::UhyvePorts,
        Self::Uhyve,
        Self::Qemu,
        Self::Linux,
        Self::LinuxNoTso,
        Self::Veth,
        Self::Loopback,
    ];

    /// Returns true if the system is measured on a platform.
    pub(super) fn is_on(self, platform: BenchPlatform) -> bool {
        let is_in_qemu = matches!(self, Self::Qemu | Self::Linux | Self::LinuxNoTso);
        is_in_qemu == (platform == BenchPlatform::Qemu)
    }

    /// Returns true if the system has its own address, at which it answers pings after it has booted.
    pub(super) fn answers_pings(self) -> bool {
        !matches!(self, Self::UhyvePorts | Self::Veth | Self::Loopback)
    }
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Uhyve => "uhyve",
            Self::UhyvePorts => "uhyve -p",
            Self::Qemu => "QEMU",
            Self::Linux => "Linux",
            Self::LinuxNoTso => "no TSO",
            Self::Veth => "veth",
            Self::Loopback => "loopback",
        })
    }
}
