//! Guests under QEMU.

mod command;
mod console;
mod files;
mod guest;
mod process;

pub(crate) use command::quote_commas;
pub use command::{debug_console, disk_options};
pub use console::{Input, quoted};
pub use files::{input_fifo, send_to_monitor, status};

pub use guest::{Accelerator, Board, Guest, PCI_BALLOON};
pub use process::End;

use hermit_toolchain::setup::packages;

/// Name of QEMU's executable.
pub const QEMU: &str = packages::QEMU.program;
