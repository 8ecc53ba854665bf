//! The systems that the suites `bursts` and `starts` compare, and their colours in charts.

use plotters::prelude::RGBColor;

use super::chart;

/// A system that runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// A process of the host.
    Linux,
    /// A guest in uhyve's process engine.
    Process,
    /// A guest in uhyve on KVM.
    Kvm,
    /// A guest in QEMU with TCG.
    Qemu,
}

impl System {
    pub(super) const ALL: [Self; 4] = [Self::Linux, Self::Process, Self::Kvm, Self::Qemu];

    pub(super) const fn color(self) -> RGBColor {
        match self {
            Self::Linux => chart::BLUE,
            Self::Process => chart::RED,
            Self::Kvm => chart::PURPLE,
            Self::Qemu => chart::ORANGE,
        }
    }
}
