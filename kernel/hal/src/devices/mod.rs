//! Devices: their registers, memory that they share with drivers, their interrupts.
//!
//! Drivers are services ([`hermit_virtio`]); here is what they need of the hardware.

mod dma;
mod mirror;
mod pci;
mod registers;

use hermit_virtio::transport::pci::{MapRegisters, MsiMessage};

pub use dma::{Allocator, Pages};
pub use mirror::Mirror;
pub use pci::Ports;
pub use registers::Window;

use crate::arch::trap::FIRST_LINE;
use crate::platform;

/// Where messages to the local APIC of the CPU with identifier 0 go (SDM volume 3, section 12.11.1).
const MESSAGES: u64 = 0xfee0_0000;

/// Gives access to registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapper;

impl MapRegisters for Mapper {
    type Registers = Window;

    fn map(&self, address: u64, length: u64) -> Option<Window> {
        platform::current().registers(address, length)
    }
}

/// The message that raises a line of the first CPU.
#[must_use]
pub fn message(line: u8) -> MsiMessage {
    MsiMessage { address: MESSAGES, data: u32::from(FIRST_LINE + line) }
}
