//! The kinds of machines that an image can run on: implementations of [`crate::ops`].
//!
//! | platform | machine |
//! | --- | --- |
//! | [`pc`] | a PC, or a virtual machine that looks like one |
//! | [`uhyve`] | the machine that uhyve makes on KVM |
//! | [`process`] | a process of Linux that uhyve has made |
//!
//! `native` is the common part of the first two: privileged instructions, and a local APIC for each CPU.
//! `uhyve_clock` and `uhyve_return` are common parts of the last two.

mod native;
mod pc;
mod process;
mod uhyve;
mod uhyve_clock;
mod uhyve_return;

use hermit_interface::boot_info::{self, BootInfo};
use hermit_interface::exit::NOT_STARTED;

use crate::ops::{self, Power as _};

/// Sets the platform of the boot information. The boot information is not checked yet: an unknown platform
/// counts as a PC.
pub(crate) fn choose(info: &BootInfo) {
    uhyve_return::init(info);
    match boot_info::Platform::from_number(info.platform) {
        Some(boot_info::Platform::Uhyve) => ops::set(&uhyve::UhyveKvm),
        Some(boot_info::Platform::Process) => ops::set(process::find(info)),
        Some(boot_info::Platform::Pc) | None => ops::set(&pc::Pc),
    }
}

/// Ends a machine whose boot information is invalid, as if it were a PC.
pub(crate) fn exit_without_boot_info() -> ! {
    pc::Pc.exit(NOT_STARTED)
}
