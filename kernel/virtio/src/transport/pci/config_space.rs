//! The seam to PCI configuration space, and which functions on a bus are virtio devices (virtio 1.2, section 4.1.2).

use core::fmt::Debug;

use crate::registers::DeviceRegisters;

/// Where a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciAddress {
    /// The bus.
    pub bus: u8,
    /// The device's place on the bus, below 32.
    pub slot: u8,
    /// The function of the device, below 8.
    pub function: u8,
}

/// Access to configuration space; the hal implements it.
///
/// Drivers call it only when they are made, never to handle a request or an interrupt.
pub trait ConfigSpace: Debug {
    /// Reads 32 bits; all ones if there is no such function. `offset` is a multiple of 4 below 256.
    fn read(&self, address: PciAddress, offset: u8) -> u32;

    /// Writes 32 bits. `offset` is a multiple of 4 below 256.
    fn write(&self, address: PciAddress, offset: u8, value: u32);
}

/// Makes device registers accessible; the hal implements it.
pub trait MapRegisters {
    /// What accesses them.
    type Registers: DeviceRegisters;

    /// The `length` bytes of registers from a physical address on, which need not be that of a page.
    ///
    /// Both were told by the device: the implementation gives `None` if there is memory, or anything else that the
    /// driver of a device has no business with, or if it cannot map them.
    fn map(&self, address: u64, length: u64) -> Option<Self::Registers>;
}

/// Offsets of 32-bit registers of a function with a header of type 0 (PCI Local Bus 3.0, section 6.1).
pub(super) mod register {
    /// Vendor, device.
    pub(in super::super) const ID: u8 = 0x0;
    /// Command, status.
    pub(in super::super) const COMMAND: u8 = 0x4;
    /// Cache line, latency, header type, self test.
    pub(in super::super) const HEADER: u8 = 0xc;
    /// The first of six base addresses.
    pub(in super::super) const BASE_ADDRESS: u8 = 0x10;
    /// Vendor and device of the subsystem.
    pub(in super::super) const SUBSYSTEM: u8 = 0x2c;
    /// The first capability.
    pub(in super::super) const CAPABILITIES: u8 = 0x34;
    /// Interrupt line, interrupt pin.
    pub(in super::super) const INTERRUPT: u8 = 0x3c;
}

/// Bits of the command register (PCI Local Bus 3.0, section 6.2.2).
pub(super) mod command {
    /// The function answers at its addresses in memory.
    pub(in super::super) const MEMORY: u32 = 1 << 1;
    /// The function may access memory.
    pub(in super::super) const MASTER: u32 = 1 << 2;
    /// The function does not use its interrupt line.
    pub(in super::super) const NO_LINE: u32 = 1 << 10;
    /// The status half: writing ones clears bits, so they are written as zeros.
    pub(in super::super) const STATUS: u32 = 0xffff_0000;
}

/// Red Hat's vendor identifier, that of virtio devices.
const VENDOR: u16 = 0x1af4;

/// Device identifiers of transitional devices: the kind of device is in the subsystem's identifier.
const TRANSITIONAL: core::ops::RangeInclusive<u16> = 0x1000..=0x103f;

/// Device identifiers of other devices: this plus the kind of device, which is below 64.
const MODERN: u16 = 0x1040;

/// How many slots a bus has.
const SLOTS: u8 = 32;

/// How many functions a slot has.
const FUNCTIONS: u8 = 8;

/// A function that is a virtio device.
#[derive(Clone, Copy, Debug)]
pub struct Function<'space, S> {
    space: &'space S,
    address: PciAddress,
    id: u16,
}

/// The virtio devices on bus 0. Buses behind bridges are not looked at.
pub fn functions<S: ConfigSpace>(space: &S) -> impl Iterator<Item = Function<'_, S>> {
    (0..SLOTS).flat_map(move |slot| {
        let at = move |function| PciAddress { bus: 0, slot, function };
        (0..functions_of(space, at(0))).filter_map(move |function| Function::new(space, at(function)))
    })
}

/// How many functions of a slot to look at.
fn functions_of(space: &impl ConfigSpace, first: PciAddress) -> u8 {
    if space.read(first, register::ID) == u32::MAX {
        return 0;
    }
    let [.., header, _] = space.read(first, register::HEADER).to_le_bytes();
    if header & 0x80 == 0 { 1 } else { FUNCTIONS }
}

impl<'space, S: ConfigSpace> Function<'space, S> {
    /// The function at an address, if it is a virtio device.
    pub fn new(space: &'space S, address: PciAddress) -> Option<Self> {
        let [vendor, device] = halves(space.read(address, register::ID));
        let [.., header, _] = space.read(address, register::HEADER).to_le_bytes();
        if vendor != VENDOR || header & 0x7f != 0 {
            return None;
        }
        let id = if TRANSITIONAL.contains(&device) {
            halves(space.read(address, register::SUBSYSTEM))[1]
        } else {
            device.checked_sub(MODERN).filter(|id| *id < 64)?
        };
        (id != 0).then_some(Self { space, address, id })
    }

    /// What kind of device it is (virtio 1.2, section 5).
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// Where it is.
    #[must_use]
    pub const fn address(&self) -> PciAddress {
        self.address
    }

    /// The number that the firmware gave its interrupt line, if it has one. The line is level-triggered.
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

    /// The physical address of a base address register; `None` if it has none in memory.
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

/// The low and the high half.
pub(super) fn halves(value: u32) -> [u16; 2] {
    let [a, b, c, d] = value.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}
