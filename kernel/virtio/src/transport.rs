//! The trait that all transports implement: access to device status, features, virtqueues, notifications and
//! configuration.
//!
//! [`Device`](crate::device::Device) calls it in the order that virtio 1.2, section 3.1.1, demands; drivers
//! use only `Device`. Implementations are [`mmio::Mmio`] and [`pci::Pci`].

pub mod mmio;
pub mod pci;

use alloc::boxed::Box;
use core::fmt::{self, Debug, Formatter};

use virtio_spec::DeviceStatus;

use crate::registers::DeviceRegisters;

/// Access to a device, independent of the bus.
pub trait Transport {
    /// Virtio device ID (virtio 1.2, section 5).
    fn id(&self) -> u16;

    /// Reads the device status.
    fn status(&self) -> DeviceStatus;

    /// Writes the device status. Writing 0 starts a reset. The reset has completed once the status reads as
    /// 0.
    fn set_status(&mut self, status: DeviceStatus);

    /// Reads 32 of the device's feature bits, from bit `32 * word` on.
    fn offered_features(&mut self, word: u32) -> u32;

    /// Writes 32 of the driver's feature bits, from bit `32 * word` on.
    fn accept_features(&mut self, word: u32, features: u32);

    /// Assigns the interrupt vector for configuration changes, after a reset and before any virtqueue is set
    /// up.
    ///
    /// # Errors
    ///
    /// The device refuses the vector.
    fn set_config_vector(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// Maximum size of a virtqueue, in descriptors; 0 if the device has no such virtqueue.
    fn max_queue_size(&mut self, queue: u16) -> u16;

    /// Writes size and addresses of a virtqueue to the device and enables it.
    ///
    /// # Errors
    ///
    /// The device cannot use the virtqueue.
    fn enable_queue(&mut self, queue: u16, addresses: &QueueAddresses) -> Result<Doorbell, TransportError>;

    /// Notifies the device of available buffers in a virtqueue.
    fn notify(&mut self, doorbell: Doorbell);

    /// Acknowledges an interrupt and returns its cause. The device then deasserts a level-triggered line.
    /// Returns `None` if the transport does not know the cause, as with MSI-X.
    fn acknowledge_interrupt(&mut self) -> Option<InterruptCause>;

    /// Configuration generation, which changes whenever the device configuration does (section 2.5).
    fn config_generation(&self) -> u32;

    /// The device-specific configuration.
    fn config(&self) -> DeviceConfig<'_>;
}

impl Debug for dyn Transport + Send {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

/// A transport whose implementation is chosen at run time.
impl<T: Transport + ?Sized> Transport for Box<T> {
    fn id(&self) -> u16 {
        (**self).id()
    }

    fn status(&self) -> DeviceStatus {
        (**self).status()
    }

    fn set_status(&mut self, status: DeviceStatus) {
        (**self).set_status(status);
    }

    fn offered_features(&mut self, word: u32) -> u32 {
        (**self).offered_features(word)
    }

    fn accept_features(&mut self, word: u32, features: u32) {
        (**self).accept_features(word, features);
    }

    fn set_config_vector(&mut self) -> Result<(), TransportError> {
        (**self).set_config_vector()
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        (**self).max_queue_size(queue)
    }

    fn enable_queue(&mut self, queue: u16, addresses: &QueueAddresses) -> Result<Doorbell, TransportError> {
        (**self).enable_queue(queue, addresses)
    }

    fn notify(&mut self, doorbell: Doorbell) {
        (**self).notify(doorbell);
    }

    fn acknowledge_interrupt(&mut self) -> Option<InterruptCause> {
        (**self).acknowledge_interrupt()
    }

    fn config_generation(&self) -> u32 {
        (**self).config_generation()
    }

    fn config(&self) -> DeviceConfig<'_> {
        (**self).config()
    }
}

/// Size and DMA addresses of a virtqueue's parts (section 2.7). Devices write to these addresses, so only
/// this crate creates the value, for memory that the virtqueue owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueAddresses {
    /// Number of descriptors, a power of two.
    pub(crate) size: u16,
    /// Descriptor area: the descriptor table.
    pub(crate) descriptors: u64,
    /// Driver area: the available ring.
    pub(crate) driver: u64,
    /// Device area: the used ring.
    pub(crate) device: u64,
}

/// Notification register of a virtqueue, for the transport that returned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doorbell {
    pub(crate) queue: u16,
    /// Offset of the register in the transport's notification window, in bytes.
    pub(crate) offset: usize,
}

/// Cause of an interrupt. With neither field set the interrupt was raised by another device on the same line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptCause {
    /// The device has used buffers of a virtqueue.
    pub queues: bool,
    /// The device configuration or the device status has changed.
    pub config: bool,
}

impl InterruptCause {
    /// Decodes the ISR status, which both transports have (virtio 1.2, sections 4.1.4.5 and 4.2.2).
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self { queues: bits & 1 != 0, config: bits & 2 != 0 }
    }
}

/// Why a transport operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The device has no such virtqueue, or does not support the size.
    #[error("the device has no such virtqueue")]
    NoQueue,
    /// The virtqueue is enabled already, though the device has been reset.
    #[error("the virtqueue is enabled already")]
    QueueInUse,
    /// The notification register lies outside its window.
    #[error("the virtqueue's notification register is out of range")]
    NoDoorbell,
    /// The device refused the interrupt vector.
    #[error("the device refuses the interrupt vector")]
    NoVector,
}

/// The device-specific configuration: its layout depends on the device ID.
#[derive(Clone, Copy, Debug)]
pub struct DeviceConfig<'transport> {
    registers: &'transport dyn DeviceRegisters,
    start: usize,
    size: usize,
}

impl<'transport> DeviceConfig<'transport> {
    /// The configuration that begins `start` bytes into `registers`.
    #[must_use]
    pub fn new(registers: &'transport dyn DeviceRegisters, start: usize) -> Self {
        Self { registers, start, size: registers.size().saturating_sub(start) }
    }

    /// Offset of a field in `registers`; `None` if it does not lie inside the configuration.
    fn field_offset(&self, offset: usize, size: usize) -> Option<usize> {
        let inside = offset.checked_add(size)? <= self.size;
        inside.then(|| self.start + offset)
    }

    /// Reads a field of one byte; `None` if the device does not have it.
    #[must_use]
    pub fn read_u8(&self, offset: usize) -> Option<u8> {
        self.field_offset(offset, 1).map(|field_offset| self.registers.read_u8(field_offset))
    }

    /// Reads a field of two bytes.
    #[must_use]
    pub fn read_u16(&self, offset: usize) -> Option<u16> {
        self.field_offset(offset, 2).map(|field_offset| self.registers.read_u16(field_offset))
    }

    /// Reads a field of four bytes.
    #[must_use]
    pub fn read_u32(&self, offset: usize) -> Option<u32> {
        self.field_offset(offset, 4).map(|field_offset| self.registers.read_u32(field_offset))
    }

    /// Reads a field of eight bytes in two halves; see [`Transport::config_generation`].
    #[must_use]
    pub fn read_u64(&self, offset: usize) -> Option<u64> {
        let (low, high) = (self.read_u32(offset)?, self.read_u32(offset.checked_add(4)?)?);
        Some(u64::from(low) | u64::from(high) << 32)
    }
}
