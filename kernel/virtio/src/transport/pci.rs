//! Virtio over PCI, the non-legacy interface (virtio 1.2, section 4.1), which transitional devices have too.
//!
//! [`functions`] enumerates devices; [`Pci::new`] initializes the transport. The kernel chooses between
//! MSI-X, with one vector for all virtqueues and configuration changes, and the function's INTx line. An
//! MSI-X interrupt is acknowledged without access to the device, but its cause is unknown.

mod capability;
mod config_space;
#[cfg(test)]
mod tests;

pub use config_space::{ConfigSpace, Function, MapRegisters, PciAddress, functions};

use virtio_spec::DeviceStatus;

use self::capability::{Capabilities, Msix, StructureLocation};
use self::config_space::command;
use super::{DeviceConfig, Doorbell, InterruptCause, QueueAddresses, Transport, TransportError};
use crate::registers::DeviceRegisters;

/// Register offsets in the common configuration structure (section 4.1.4.3).
mod register {
    pub(super) const DEVICE_FEATURES_SELECT: usize = 0x0;
    pub(super) const DEVICE_FEATURES: usize = 0x4;
    pub(super) const DRIVER_FEATURES_SELECT: usize = 0x8;
    pub(super) const DRIVER_FEATURES: usize = 0xc;
    pub(super) const CONFIG_VECTOR: usize = 0x10;
    pub(super) const STATUS: usize = 0x14;
    pub(super) const GENERATION: usize = 0x15;
    pub(super) const QUEUE_SELECT: usize = 0x16;
    pub(super) const QUEUE_SIZE: usize = 0x18;
    pub(super) const QUEUE_VECTOR: usize = 0x1a;
    pub(super) const QUEUE_ENABLE: usize = 0x1c;
    pub(super) const QUEUE_NOTIFY_OFFSET: usize = 0x1e;
    pub(super) const QUEUE_DESCRIPTORS: usize = 0x20;
    pub(super) const QUEUE_DRIVER: usize = 0x28;
    pub(super) const QUEUE_DEVICE: usize = 0x30;
    pub(super) const END: u32 = 0x38;
}

/// Register offsets in an entry of the MSI-X table (PCI Local Bus 3.0, section 6.8.2).
mod msix_entry {
    pub(super) const ADDRESS: usize = 0x0;
    pub(super) const DATA: usize = 0x8;
    pub(super) const CONTROL: usize = 0xc;
    pub(super) const SIZE: u32 = 0x10;

    /// Bit of the control word: the function sends no message, and keeps it pending.
    pub(super) const MASKED: u32 = 1;
}

/// Index of the MSI-X table entry in use.
const VECTOR: u16 = 0;

/// Value of a vector register without a vector: `VIRTIO_MSI_NO_VECTOR` (section 4.1.4.3).
const NO_VECTOR: u16 = 0xffff;

/// Maximum number of bytes of a structure that are mapped. The rest belongs to virtqueues that drivers do not
/// use.
const MAX_MAPPED: u32 = 64 << 10;

/// Address and data of an MSI (SDM volume 3A, chapter on the APIC, "Message Signalled Interrupts").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsiMessage {
    /// Physical address that the device writes to, a multiple of 4.
    pub address: u64,
    /// Value that the device writes.
    pub data: u32,
}

/// Why the transport of a function cannot be initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PciError {
    /// A structure is missing from the capability list, as with devices that have only the legacy interface.
    #[error("the device has no modern (virtio 1.0) interface")]
    NoModernInterface,
    /// A structure cannot be mapped.
    #[error("the device's registers cannot be mapped")]
    NotMapped,
    /// There is no memory to map a structure.
    #[error("there is no memory to map the device's registers")]
    OutOfMemory,
}

/// A virtio device on a PCI bus.
#[derive(Debug)]
pub struct Pci<R> {
    id: u16,
    common: R,
    notify: R,
    notify_multiplier: u32,
    isr: R,
    device: Option<R>,
    uses_msix: bool,
}

impl<R: DeviceRegisters> Pci<R> {
    /// Maps the structures of a function, and enables its memory space and bus mastering.
    ///
    /// If the caller passes a message and the function supports MSI-X, the function sends this message for
    /// all interrupts ([`Pci::uses_msix`]). Otherwise it raises its [line](Function::interrupt_line).
    ///
    /// # Errors
    ///
    /// A structure is missing or cannot be mapped.
    pub fn new<S: ConfigSpace>(
        function: &Function<'_, S>,
        mapper: &impl MapRegisters<Registers = R>,
        message: Option<MsiMessage>,
    ) -> Result<Self, PciError> {
        let capabilities = Capabilities::read(function);
        function.command(0, command::MEMORY | command::BUS_MASTER);
        let map = |location: Option<StructureLocation>, min_length| {
            let location = location
                .filter(|location| location.length >= min_length)
                .ok_or(PciError::NoModernInterface)?;
            let length = location.length.min(MAX_MAPPED);
            map(function, mapper, StructureLocation { length, ..location })
        };
        let device = capabilities.device.map(|location| map(Some(location), 1)).transpose()?;
        let mut pci = Self {
            id: function.id(),
            common: map(capabilities.common, register::END)?,
            notify: map(capabilities.notify, 2)?,
            notify_multiplier: capabilities.notify_multiplier,
            isr: map(capabilities.isr, 1)?,
            device,
            uses_msix: false,
        };
        pci.uses_msix = enable_msix(function, mapper, capabilities.msix, message)?;
        Ok(pci)
    }

    /// Returns true if interrupts are MSI-X.
    #[must_use]
    pub const fn uses_msix(&self) -> bool {
        self.uses_msix
    }

    /// Writes the vector in use to a vector register.
    fn set_vector(&self, register: usize) -> Result<(), TransportError> {
        let vector = if self.uses_msix { VECTOR } else { NO_VECTOR };
        self.common.write_u16(register, vector);
        // A device that is short of resources refuses vectors (section 4.1.5.1.2.1).
        let taken = !self.uses_msix || self.common.read_u16(register) == vector;
        taken.then_some(()).ok_or(TransportError::NoVector)
    }

    /// Notification register of the selected virtqueue (section 4.1.4.4).
    fn doorbell(&self, queue: u16) -> Result<Doorbell, TransportError> {
        let offset = self.common.read_u16(register::QUEUE_NOTIFY_OFFSET);
        u32::from(offset)
            .checked_mul(self.notify_multiplier)
            .and_then(|offset| usize::try_from(offset).ok())
            .filter(|offset| offset % 2 == 0 && *offset <= self.notify.size().saturating_sub(2))
            .map(|offset| Doorbell { queue, offset })
            .ok_or(TransportError::NoDoorbell)
    }
}

/// Maps a structure.
fn map<S: ConfigSpace, M: MapRegisters>(
    function: &Function<'_, S>,
    mapper: &M,
    location: StructureLocation,
) -> Result<M::Registers, PciError> {
    let base = function.base_address(location.bar).ok_or(PciError::NotMapped)?;
    let address = base.checked_add(location.offset.into()).ok_or(PciError::NotMapped)?;
    let registers = mapper.map(address, location.length.into())?;
    let fits = u64::try_from(registers.size()).is_ok_and(|size| size >= location.length.into());
    fits.then_some(registers).ok_or(PciError::NotMapped)
}

/// Enables MSI-X and disables INTx, and returns true. Without a message or the capability, does the reverse
/// and returns false.
fn enable_msix<S: ConfigSpace>(
    function: &Function<'_, S>,
    mapper: &impl MapRegisters,
    msix: Option<Msix>,
    message: Option<MsiMessage>,
) -> Result<bool, PciError> {
    let (Some(msix), Some(message)) = (msix, message) else {
        if let Some(msix) = msix {
            msix.enable(function, false);
        }
        function.command(command::INTX_DISABLE, 0);
        return Ok(false);
    };
    write_message(function, mapper, &msix, message)?;
    function.command(0, command::INTX_DISABLE);
    msix.enable(function, true);
    Ok(true)
}

/// Writes the message of the MSI-X table entry in use.
fn write_message<S: ConfigSpace>(
    function: &Function<'_, S>,
    mapper: &impl MapRegisters,
    msix: &Msix,
    message: MsiMessage,
) -> Result<(), PciError> {
    let location = StructureLocation { bar: msix.bar, offset: msix.table, length: msix_entry::SIZE };
    let entry = map(function, mapper, location)?;
    // Masks the entry first, since it must not change while it is unmasked. If the function signals an
    // interrupt meanwhile, the message stays pending (PCI Local Bus 3.0, section 6.8.2).
    entry.write_u32(msix_entry::CONTROL, msix_entry::MASKED);
    entry.write_u64(msix_entry::ADDRESS, message.address);
    entry.write_u32(msix_entry::DATA, message.data);
    entry.write_u32(msix_entry::CONTROL, 0);
    Ok(())
}

/// Replaces the message that a function sends, for example to move its interrupts to another CPU. The driver
/// may run meanwhile: no interrupt is lost. The function must use MSI-X ([`Pci::uses_msix`]).
///
/// # Errors
///
/// The function has no MSI-X capability, or the table cannot be mapped.
pub fn replace_message<S: ConfigSpace>(
    function: &Function<'_, S>,
    mapper: &impl MapRegisters,
    message: MsiMessage,
) -> Result<(), PciError> {
    let msix = Capabilities::read(function).msix.ok_or(PciError::NotMapped)?;
    write_message(function, mapper, &msix, message)
}

impl<R: DeviceRegisters> Transport for Pci<R> {
    fn id(&self) -> u16 {
        self.id
    }

    fn status(&self) -> DeviceStatus {
        DeviceStatus::from_bits_retain(self.common.read_u8(register::STATUS))
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.common.write_u8(register::STATUS, status.bits());
    }

    fn offered_features(&mut self, word: u32) -> u32 {
        self.common.write_u32(register::DEVICE_FEATURES_SELECT, word);
        self.common.read_u32(register::DEVICE_FEATURES)
    }

    fn accept_features(&mut self, word: u32, features: u32) {
        self.common.write_u32(register::DRIVER_FEATURES_SELECT, word);
        self.common.write_u32(register::DRIVER_FEATURES, features);
    }

    fn set_config_vector(&mut self) -> Result<(), TransportError> {
        self.set_vector(register::CONFIG_VECTOR)
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        self.common.write_u16(register::QUEUE_SELECT, queue);
        self.common.read_u16(register::QUEUE_SIZE)
    }

    fn enable_queue(&mut self, queue: u16, addresses: &QueueAddresses) -> Result<Doorbell, TransportError> {
        if self.max_queue_size(queue) < addresses.size {
            return Err(TransportError::NoQueue);
        }
        let common = &self.common;
        if common.read_u16(register::QUEUE_ENABLE) != 0 {
            return Err(TransportError::QueueInUse);
        }
        let doorbell = self.doorbell(queue)?;
        common.write_u16(register::QUEUE_SIZE, addresses.size);
        self.set_vector(register::QUEUE_VECTOR)?;
        common.write_u64(register::QUEUE_DESCRIPTORS, addresses.descriptors);
        common.write_u64(register::QUEUE_DRIVER, addresses.driver);
        common.write_u64(register::QUEUE_DEVICE, addresses.device);
        common.write_u16(register::QUEUE_ENABLE, 1);
        Ok(doorbell)
    }

    fn notify(&mut self, doorbell: Doorbell) {
        self.notify.write_u16(doorbell.offset, doorbell.queue);
    }

    fn acknowledge_interrupt(&mut self) -> Option<InterruptCause> {
        // A read clears the ISR status and deasserts the line; with MSI-X it is unused (section 4.1.4.5).
        (!self.uses_msix).then(|| InterruptCause::from_bits(self.isr.read_u8(0)))
    }

    fn config_generation(&self) -> u32 {
        self.common.read_u8(register::GENERATION).into()
    }

    fn config(&self) -> DeviceConfig<'_> {
        // Devices without a device-specific configuration lack the structure: an empty window stands for it.
        match &self.device {
            Some(device) => DeviceConfig::new(device, 0),
            None => DeviceConfig::new(&self.common, usize::MAX),
        }
    }
}
