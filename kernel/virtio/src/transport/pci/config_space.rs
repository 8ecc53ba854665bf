//! Access to PCI configuration space, and discovery of virtio functions on a bus (virtio 1.2, section 4.1.2).

use core::fmt::{self, Debug, Formatter};

use super::PciError;
use crate::registers::DeviceRegisters;

/// Address of a function: bus, device, function (BDF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciAddress {
    /// Bus number.
    pub bus: u8,
    /// Device number, below 32.
    pub slot: u8,
    /// Function number, below 8.
    pub function: u8,
}

/// Access to configuration space; implemented by the hal.
///
/// Used for discovery and initialization only, never for requests or interrupts.
pub trait ConfigSpace {
    /// Reads 32 bits; all ones if there is no such function. `offset` is a multiple of 4 below 256.
    fn read(&self, address: PciAddress, offset: u8) -> u32;

    /// Writes 32 bits. `offset` is a multiple of 4 below 256.
    fn write(&self, address: PciAddress, offset: u8, value: u32);
}

impl Debug for dyn ConfigSpace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("ConfigSpace")
    }
}

/// Maps device registers; implemented by the hal.
pub trait MapRegisters {
    /// The mapped registers.
    type Registers: DeviceRegisters;

    /// Maps `length` bytes of registers at a physical address, which need not be page-aligned.
    ///
    /// Both values come from the device, so they are untrusted.
    ///
    /// # Errors
    ///
    /// [`PciError::NotMapped`] if the range is not device memory (RAM, for instance),
    /// [`PciError::OutOfMemory`] if there is no memory for the page tables.
    fn map(&self, address: u64, length: u64) -> Result<Self::Registers, PciError>;
}

/// Offsets of 32-bit registers in a type 0 header (PCI Local Bus 3.0, section 6.1).
pub(super) mod register {
    /// Vendor ID, device ID.
    pub(in super::super) const ID: u8 = 0x0;
    /// Command, status.
    pub(in super::super) const COMMAND: u8 = 0x4;
    /// Cache line size, latency timer, header type, BIST.
    pub(in super::super) const HEADER: u8 = 0xc;
    /// The first of six base address registers (BARs).
    pub(in super::super) const BASE_ADDRESS: u8 = 0x10;
    /// Subsystem vendor ID, subsystem ID.
    pub(in super::super) const SUBSYSTEM: u8 = 0x2c;
    /// Capabilities pointer.
    pub(in super::super) const CAPABILITIES: u8 = 0x34;
    /// Interrupt line, interrupt pin.
    pub(in super::super) const INTERRUPT: u8 = 0x3c;
}

/// Bits of the command register (PCI Local Bus 3.0, section 6.2.2).
pub(super) mod command {
    /// Memory Space Enable.
    pub(in super::super) const MEMORY: u32 = 1 << 1;
    /// Bus Master Enable: the function may access memory (DMA).
    pub(in super::super) const BUS_MASTER: u32 = 1 << 2;
    /// Interrupt Disable: the function does not assert its INTx line.
    pub(in super::super) const INTX_DISABLE: u32 = 1 << 10;
    /// The status register, in the upper half. Writing a one clears its bit, so the driver writes zeros.
    pub(in super::super) const STATUS: u32 = 0xffff_0000;
}

/// PCI vendor ID of virtio devices (Red Hat).
const VENDOR: u16 = 0x1af4;

/// PCI device IDs of transitional devices: the subsystem ID is the virtio device ID.
const TRANSITIONAL: core::ops::RangeInclusive<u16> = 0x1000..=0x103f;

/// PCI device ID of a non-transitional device minus its virtio device ID. Virtio device IDs are below 64.
const NON_TRANSITIONAL: u16 = 0x1040;

/// Number of device numbers on a bus.
const SLOTS: u8 = 32;

/// Number of functions of a multi-function device.
const FUNCTIONS: u8 = 8;

/// A PCI function that is a virtio device.
#[derive(Clone, Copy, Debug)]
pub struct Function<'space, S> {
    space: &'space S,
    address: PciAddress,
    id: u16,
}

/// Enumerates the virtio devices on bus 0. Buses behind bridges are not scanned.
pub fn functions<S: ConfigSpace>(space: &S) -> impl Iterator<Item = Function<'_, S>> {
    (0..SLOTS).flat_map(move |slot| {
        let at = move |function| PciAddress { bus: 0, slot, function };
        (0..functions_of(space, at(0))).filter_map(move |function| Function::new(space, at(function)))
    })
}

/// Number of functions to probe: 0 without a device, 1 unless it is a multi-function device.
fn functions_of(space: &impl ConfigSpace, first: PciAddress) -> u8 {
    if space.read(first, register::ID) == u32::MAX {
        return 0;
    }
    let [.., header, _] = space.read(first, register::HEADER).to_le_bytes();
    if header & 0x80 == 0 { 1 } else { FUNCTIONS }
}

impl<'space, S: ConfigSpace> Function<'space, S> {
    /// Probes the function at an address; `None` if it is no virtio device.
    pub fn new(space: &'space S, address: PciAddress) -> Option<Self> {
        let [vendor, device] = halves(space.read(address, register::ID));
        let [.., header, _] = space.read(address, register::HEADER).to_le_bytes();
        if vendor != VENDOR || header & 0x7f != 0 {
            return None;
        }
        let id = if TRANSITIONAL.contains(&device) {
            halves(space.read(address, register::SUBSYSTEM))[1]
        } else {
            device.checked_sub(NON_TRANSITIONAL).filter(|id| *id < 64)?
        };
        (id != 0).then_some(Self { space, address, id })
    }

    /// Virtio device ID (virtio 1.2, section 5).
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// Address of the function.
    #[must_use]
    pub const fn address(&self) -> PciAddress {
        self.address
    }

    /// Interrupt line that the firmware assigned to the function's INTx pin, if any. It is level-triggered.
    #[must_use]
    pub fn interrupt_line(&self) -> Option<u8> {
        let [line, pin, ..] = self.read(register::INTERRUPT).to_le_bytes();
        (pin != 0 && line != u8::MAX).then_some(line)
    }

    pub(super) fn read(&self, offset: u8) -> u32 {
        self.space.read(self.address, offset)
    }

    pub(super) fn write(&self, offset: u8, value: u32) {
        self.space.write(self.address, offset, value);
    }

    /// Clears and sets bits of the command register.
    pub(super) fn command(&self, clear: u32, set: u32) {
        let command = self.read(register::COMMAND) & !(clear | command::STATUS);
        self.write(register::COMMAND, command | set);
    }

    /// Physical address of a BAR; `None` if the BAR is unassigned or in I/O space.
    pub(super) fn base_address(&self, number: u8) -> Option<u64> {
        if number >= 6 {
            return None;
        }
        let offset = register::BASE_ADDRESS + 4 * number;
        let low = self.read(offset);
        let high = match low & 0b111 {
            0b000 => 0,
            0b100 if number < 5 => self.read(offset + 4),
            _ => return None,
        };
        let address = u64::from(high) << 32 | u64::from(low & !0xf);
        (address != 0).then_some(address)
    }
}

/// Splits a register into its low and its high half.
pub(super) fn halves(value: u32) -> [u16; 2] {
    let [a, b, c, d] = value.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}
