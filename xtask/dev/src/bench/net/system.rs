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
    /// A rootless container of podman on slirp4netns, behind ports that podman's proxy forwards (its default)
    Podman,
    /// A rootless container of podman, behind ports that slirp4netns forwards
    Slirp,
    /// A process of the host in another network namespace, behind ports that pasta forwards
    Pasta,
}

impl System {
    pub(super) const ALL: [Self; 10] = [
        Self::UhyvePorts,
        Self::Uhyve,
        Self::Qemu,
        Self::Linux,
        Self::LinuxNoTso,
        Self::Veth,
        Self::Loopback,
        Self::Podman,
        Self::Slirp,
        Self::Pasta,
    ];

    /// Returns true if the system is measured on a platform.
    pub(super) fn is_on(self, platform: BenchPlatform) -> bool {
        let is_in_qemu = matches!(self, Self::Qemu | Self::Linux | Self::LinuxNoTso);
        is_in_qemu == (platform == BenchPlatform::Qemu)
    }

    /// Returns true if the system has its own address, at which it answers pings after it has booted.
    pub(super) fn answers_pings(self) -> bool {
        !self.is_container() && !matches!(self, Self::UhyvePorts | Self::Veth | Self::Loopback)
    }

    /// Returns true if the system is a container, whose network is a program in user space.
    pub(super) fn is_container(self) -> bool {
        matches!(self, Self::Podman | Self::Slirp | Self::Pasta)
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
            Self::Podman => "podman",
            Self::Slirp => "slirp",
            Self::Pasta => "pasta",
        })
    }
}
