//! Guests under QEMU.

mod command;
mod console;
mod files;
mod guest;
mod process;

pub use command::disk_options;
pub(crate) use command::{debug_console, quote_commas};
pub use console::{Input, quoted};
pub use files::{input_fifo, send_to_monitor, status};
pub(crate) use guest::PCI_BALLOON;
pub use guest::{Accelerator, Board, Guest};
pub use process::End;

use hermit_toolchain::setup::packages;

/// Name of QEMU's executable.
pub const QEMU: &str = packages::QEMU.program;
