//! Virtio over MMIO, version 2 (virtio 1.2, section 4.2).

#[cfg(test)]
mod tests;

use virtio_spec::DeviceStatus;

use super::{DeviceConfig, Doorbell, InterruptCause, QueueAddresses, Transport, TransportError};
use crate::registers::DeviceRegisters;

/// Register offsets (section 4.2.2). Registers are 32 bits wide, addresses are pairs of them.
mod register {
    pub(super) const MAGIC: usize = 0x0;
    pub(super) const VERSION: usize = 0x4;
    pub(super) const DEVICE_ID: usize = 0x8;
    pub(super) const DEVICE_FEATURES: usize = 0x10;
    pub(super) const DEVICE_FEATURES_SELECT: usize = 0x14;
    pub(super) const DRIVER_FEATURES: usize = 0x20;
    pub(super) const DRIVER_FEATURES_SELECT: usize = 0x24;
    pub(super) const QUEUE_SELECT: usize = 0x30;
    pub(super) const QUEUE_SIZE_MAX: usize = 0x34;
    pub(super) const QUEUE_SIZE: usize = 0x38;
    pub(super) const QUEUE_READY: usize = 0x44;
    pub(super) const QUEUE_NOTIFY: usize = 0x50;
    pub(super) const INTERRUPT_STATUS: usize = 0x60;
    pub(super) const INTERRUPT_ACKNOWLEDGE: usize = 0x64;
    pub(super) const STATUS: usize = 0x70;
    pub(super) const QUEUE_DESCRIPTORS: usize = 0x80;
    pub(super) const QUEUE_DRIVER: usize = 0x90;
    pub(super) const QUEUE_DEVICE: usize = 0xa0;
    pub(super) const GENERATION: usize = 0xfc;
    pub(super) const CONFIG: usize = 0x100;
}

/// Value of the magic register: "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;

/// Value of the version register for the non-legacy interface.
const VERSION: u32 = 2;

/// Why a register window is no usable device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MmioError {
    /// The window is too small, or has another magic value.
    #[error("no virtio-mmio registers")]
    NotVirtio,
    /// The device implements another version, such as the legacy one.
    #[error("version {0} of virtio-mmio is not supported")]
    Version(u32),
    /// The window is a placeholder without a device (device ID 0).
    #[error("there is no device")]
    NoDevice,
}

/// A device behind virtio-mmio registers.
#[derive(Debug)]
pub struct Mmio<R> {
    registers: R,
    id: u16,
    /// True if the interrupt line is edge-triggered and not shared.
    has_exclusive_line: bool,
}

impl<R: DeviceRegisters> Mmio<R> {
    /// Probes a window of registers.
    ///
    /// # Errors
    ///
    /// The window is no usable device.
    pub fn new(registers: R) -> Result<Self, MmioError> {
        if registers.size() < register::CONFIG || registers.read_u32(register::MAGIC) != MAGIC {
            return Err(MmioError::NotVirtio);
        }
        match registers.read_u32(register::VERSION) {
            VERSION => {}
            other => return Err(MmioError::Version(other)),
        }
        match u16::try_from(registers.read_u32(register::DEVICE_ID)) {
            Ok(0) | Err(_) => Err(MmioError::NoDevice),
            Ok(id) => Ok(Self { registers, id, has_exclusive_line: false }),
        }
    }

    /// Declares that the device's interrupt line is edge-triggered and not shared. Interrupts are then
    /// acknowledged without an access to the device, as with MSI-X. This avoids an exit to the hypervisor.
    #[must_use]
    pub fn with_exclusive_line(self) -> Self {
        Self { has_exclusive_line: true, ..self }
    }
}

impl<R: DeviceRegisters> Transport for Mmio<R> {
    fn id(&self) -> u16 {
        self.id
    }

    fn status(&self) -> DeviceStatus {
        let [status, ..] = self.registers.read_u32(register::STATUS).to_le_bytes();
        DeviceStatus::from_bits_retain(status)
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.registers.write_u32(register::STATUS, status.bits().into());
    }

    fn offered_features(&mut self, word: u32) -> u32 {
        self.registers.write_u32(register::DEVICE_FEATURES_SELECT, word);
        self.registers.read_u32(register::DEVICE_FEATURES)
    }

    fn accept_features(&mut self, word: u32, features: u32) {
        self.registers.write_u32(register::DRIVER_FEATURES_SELECT, word);
        self.registers.write_u32(register::DRIVER_FEATURES, features);
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        self.registers.write_u32(register::QUEUE_SELECT, queue.into());
        u16::try_from(self.registers.read_u32(register::QUEUE_SIZE_MAX)).unwrap_or(u16::MAX)
    }

    fn enable_queue(&mut self, queue: u16, addresses: &QueueAddresses) -> Result<Doorbell, TransportError> {
        if self.max_queue_size(queue) < addresses.size {
            return Err(TransportError::NoQueue);
        }
        let registers = &self.registers;
        if registers.read_u32(register::QUEUE_READY) != 0 {
            return Err(TransportError::QueueInUse);
        }
        registers.write_u32(register::QUEUE_SIZE, addresses.size.into());
        registers.write_u64(register::QUEUE_DESCRIPTORS, addresses.descriptors);
        registers.write_u64(register::QUEUE_DRIVER, addresses.driver);
        registers.write_u64(register::QUEUE_DEVICE, addresses.device);
        registers.write_u32(register::QUEUE_READY, 1);
        Ok(Doorbell { queue, offset: register::QUEUE_NOTIFY })
    }

    fn notify(&mut self, doorbell: Doorbell) {
        self.registers.write_u32(doorbell.offset, doorbell.queue.into());
    }

    fn acknowledge_interrupt(&mut self) -> Option<InterruptCause> {
        if self.has_exclusive_line {
            return None;
        }
        let bits = self.registers.read_u32(register::INTERRUPT_STATUS);
        if bits != 0 {
            self.registers.write_u32(register::INTERRUPT_ACKNOWLEDGE, bits);
        }
        let [low, ..] = bits.to_le_bytes();
        Some(InterruptCause::from_bits(low))
    }

    fn config_generation(&self) -> u32 {
        self.registers.read_u32(register::GENERATION)
    }

    fn config(&self) -> DeviceConfig<'_> {
        DeviceConfig::new(&self.registers, register::CONFIG)
    }
}
