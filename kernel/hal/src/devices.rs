//! Access to devices: virtio transports, and memory that is shared with devices.
//!
//! Drivers are services ([`hermit_virtio`]); this module implements the traits through which they reach the
//! hardware. Registers and PCI configuration space are reached through the transports alone, since a write to
//! them can make a device write to any memory.

mod dma;
mod mirror;
mod pci;
mod registers;

use hermit_virtio::transport::mmio::Mmio;
use hermit_virtio::transport::pci::{
    Function, MapRegisters, Pci, PciAddress, PciError, functions, replace_message,
};

pub use dma::{Allocator, Pages};
pub use mirror::MirroredPages;
pub use registers::Window;

use crate::fallible::OutOfMemory;
use crate::interrupts::MSI_LINES;
use crate::ops;
use pci::PciConfig;

/// Mapper of device registers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mapper;

impl MapRegisters for Mapper {
    type Registers = Window;

    fn map(&self, address: u64, length: u64) -> Result<Window, PciError> {
        let access = ops::device_access().registers(address, length).map_err(|_| PciError::OutOfMemory)?;
        access.and_then(|access| Window::new(access, length)).ok_or(PciError::NotMapped)
    }
}

/// Returns the virtio-mmio device with `size` bytes of registers at a physical address; `None` if there is
/// none.
///
/// # Errors
///
/// There is no memory to map the registers.
pub fn mmio_transport(registers: u64, size: u64) -> Result<Option<Mmio<Window>>, OutOfMemory> {
    let registers = unless_out_of_memory(Mapper.map(registers, size))?;
    Ok(registers.and_then(|registers| Mmio::new(registers).ok()))
}

/// Converts all errors but the lack of memory to `None`: then the device cannot be used.
fn unless_out_of_memory<T>(result: Result<T, PciError>) -> Result<Option<T>, OutOfMemory> {
    match result {
        Err(PciError::OutOfMemory) => Err(OutOfMemory),
        result => Ok(result.ok()),
    }
}

/// Calls `found` with the address and the virtio device ID of each virtio device on the PCI bus.
pub fn for_each_pci_device(mut found: impl FnMut(PciAddress, u16)) {
    if let Some(config) = PciConfig::find() {
        functions(&config).for_each(|function| found(function.address(), function.id()));
    }
}

/// Returns the virtio device at an address of the PCI bus, and the device's interrupt line; `None` if there
/// is no such device.
///
/// If the device can send messages, its line is `msi_line`, one of [`MSI_LINES`]. The messages go to `cpu`,
/// which must be running, or to the first CPU if messages cannot address `cpu`. If the device cannot send
/// messages, its line is a wired line of the first CPU.
///
/// # Errors
///
/// There is no memory to map the registers.
pub fn pci_transport(
    address: PciAddress,
    cpu: u32,
    msi_line: u8,
) -> Result<Option<(Pci<Window>, u8)>, OutOfMemory> {
    let Some(config) = PciConfig::find() else { return Ok(None) };
    let Some(function) = Function::new(&config, address) else { return Ok(None) };
    let message = ops::irq_chip().msi_message(cpu, msi_line).filter(|_| MSI_LINES.contains(&msi_line));
    let pci = unless_out_of_memory(Pci::new(&function, &Mapper, message))?;
    Ok(pci.and_then(|pci| {
        let line = if pci.uses_msix() { msi_line } else { function.interrupt_line()? };
        Some((pci, line))
    }))
}

/// Makes a virtio device that uses MSI-X send its messages to `cpu`, which must be running, or to the first
/// CPU if messages cannot address `cpu`. `msi_line` is the line that [`pci_transport`] has returned for the
/// device.
pub fn move_messages(address: PciAddress, cpu: u32, msi_line: u8) {
    let Some(config) = PciConfig::find() else { return };
    let message = ops::irq_chip().msi_message(cpu, msi_line).filter(|_| MSI_LINES.contains(&msi_line));
    if let (Some(function), Some(message)) = (Function::new(&config, address), message) {
        // If the table cannot be mapped, the messages still go to their present CPU.
        let _: Result<(), _> = replace_message(&function, &Mapper, message);
    }
}
