//! Finding devices: as the loader announced them, and on the PCI bus.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Display;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use hermit_hal::devices::{Mapper, Ports, Window, message};
use hermit_hal::interrupts::MESSAGES;
use hermit_interface::boot_info;
use hermit_virtio::transport::mmio::Mmio;
use hermit_virtio::transport::pci::{Function, MapRegisters as _, Pci, PciAddress, functions};

use crate::report;

/// However a device is reached.
pub(super) type Transport = Box<dyn hermit_virtio::transport::Transport + Send>;

/// A device that has no driver yet.
#[derive(Debug)]
pub(super) struct Found {
    kind: u16,
    place: Place,
}

/// Where a device is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Registers(boot_info::Device),
    Pci(PciAddress),
}

/// The next line for messages.
static NEXT_MESSAGE: AtomicU8 = AtomicU8::new(MESSAGES.start);

/// Everything there is: what was announced comes first.
pub(super) fn all(announced: &[boot_info::Device]) -> Vec<Found> {
    let mut all: Vec<_> = announced.iter().filter_map(behind_registers).collect();
    if let Some(ports) = Ports::find() {
        let place = |function: Function<'_, _>| Place::Pci(function.address());
        all.extend(functions(&ports).map(|function| Found { kind: function.id(), place: place(function) }));
    }
    all
}

fn behind_registers(device: &boot_info::Device) -> Option<Found> {
    let kind = match device.kind {
        0 => hermit_virtio::transport::Transport::id(&mmio(device)?),
        kind => u16::try_from(kind).ok()?,
    };
    Some(Found { kind, place: Place::Registers(*device) })
}

fn mmio(device: &boot_info::Device) -> Option<Mmio<Window>> {
    let registers = Mapper.map(device.registers.start, device.registers.size)?;
    let mmio = Mmio::new(registers).ok()?;
    // Who knows what a device is has made it, and promises a line of its own.
    Some(if device.kind == 0 { mmio } else { mmio.with_exclusive_line() })
}

/// Each device has a line of its own as long as there are some.
fn message_line() -> u8 {
    let next = |line: u8| Some(line + 1).filter(|next| MESSAGES.contains(next));
    NEXT_MESSAGE.fetch_update(Relaxed, Relaxed, next).unwrap_or_else(|last| last)
}

impl Found {
    /// What kind of device it is.
    pub(super) const fn kind(&self) -> u16 {
        self.kind
    }

    /// How to reach it, and its line.
    pub(super) fn transport(&self) -> Option<(Transport, u8)> {
        match self.place {
            Place::Registers(device) => {
                let line = u8::try_from(device.line).ok()?;
                Some((Box::new(mmio(&device)?), line))
            }
            Place::Pci(address) => pci(address),
        }
    }

    /// Says that the device cannot be used.
    pub(super) fn warn(&self, reason: &impl Display) {
        report::warn(format_args!("virtio device of kind {}: {reason}", self.kind));
    }
}

fn pci(address: PciAddress) -> Option<(Transport, u8)> {
    let ports = Ports::find()?;
    let function = Function::new(&ports, address)?;
    let line = message_line();
    let pci = Pci::new(&function, &Mapper, Some(message(line))).ok()?;
    let line = if pci.uses_msix() { line } else { function.interrupt_line()? };
    Some((Box::new(pci), line))
}
