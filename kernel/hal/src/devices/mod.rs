//! Access to devices: registers, memory that is shared with them, PCI configuration space, MSI messages.
//!
//! Drivers are services ([`hermit_virtio`]); this module implements the traits through which they reach the hardware.

mod dma;
mod mirror;
mod pci;
mod registers;

use hermit_virtio::transport::pci::{MapRegisters, MsiMessage};

pub use dma::{Allocator, Pages};
pub use mirror::MirroredPages;
pub use pci::PciConfig;
pub use registers::Window;

use crate::ops;

/// Mapper of device registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapper;

impl MapRegisters for Mapper {
    type Registers = Window;

    fn map(&self, address: u64, length: u64) -> Option<Window> {
        Window::new(ops::device_access().registers(address, length)?, length)
    }
}

/// The MSI message that raises a line on the first CPU; `None` without message-signaled interrupts.
#[must_use]
pub fn msi_message(line: u8) -> Option<MsiMessage> {
    ops::irq_chip().msi_message(line)
}
