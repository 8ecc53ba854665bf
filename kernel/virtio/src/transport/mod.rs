//! How a driver reaches its device: the trait that all transports share.
//!
//! [`Device`](crate::device::Device) calls it in the order that virtio 1.2, section 3.1.1, demands; drivers see only
//! `Device`. There are two implementations: [`mmio::Mmio`] and [`pci::Pci`].

pub mod mmio;
pub mod pci;

use alloc::boxed::Box;
use core::fmt::Debug;

use virtio_spec::DeviceStatus;

use crate::registers::DeviceRegisters;

/// DeviceRegisters, status and queues of a device.
pub trait Transport: Debug {
    /// What kind of device it is (virtio 1.2, section 5).
    fn id(&self) -> u16;

    /// The device status.
    fn status(&self) -> DeviceStatus;

    /// Sets the device status; the empty one begins a reset, which has ended once it is read back.
    fn set_status(&mut self, status: DeviceStatus);

    /// 32 of the features that the device offers, from feature `32 * window` on.
    fn offered_features(&mut self, window: u32) -> u32;

    /// Accepts features, 32 at a time.
    fn accept_features(&mut self, window: u32, features: u32);

    /// Prepares for interrupts, after a reset and before any queue is set up.
    ///
    /// # Errors
    ///
    /// The device does not take the vector.
    fn set_config_vector(&mut self) -> Result<(), TransportError> {
        Ok(())
    }

    /// The largest size that a queue may have; 0 if there is no such queue.
    fn max_queue_size(&mut self, queue: u16) -> u16;

    /// Tells the device where a queue is and enables it.
    ///
    /// # Errors
    ///
    /// The queue cannot be used.
    fn enable_queue(&mut self, queue: u16, addresses: &QueueAddresses) -> Result<Doorbell, TransportError>;

    /// Notifies the device that there is something new in a queue.
    fn notify(&mut self, doorbell: Doorbell);

    /// Takes an interrupt: why it came, after which its line is silent; `None` if the transport cannot tell, as with
    /// messages.
    fn acknowledge_interrupt(&mut self) -> Option<InterruptCause>;

    /// Changes whenever the device configuration does (section 2.5).
    fn config_generation(&self) -> u32;

    /// The device configuration.
    fn config(&self) -> DeviceConfig<'_>;
}

/// Any transport, for those who find out at run time which one it is.
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

    fn offered_features(&mut self, window: u32) -> u32 {
        (**self).offered_features(window)
    }

    fn accept_features(&mut self, window: u32, features: u32) {
        (**self).accept_features(window, features);
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

/// Where a queue's parts are, as the device sees addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueAddresses {
    /// How many descriptors there are: a power of two.
    pub size: u16,
    /// The descriptors.
    pub descriptors: u64,
    /// What the driver writes: the available ring.
    pub driver: u64,
    /// What the device writes: the used ring.
    pub device: u64,
}

/// How to notify the device of a queue. Only the transport that made it can use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doorbell {
    pub(crate) queue: u16,
    /// Of the register in the transport's window for notifications.
    pub(crate) offset: usize,
}

/// Why an interrupt came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptCause {
    /// A queue has used buffers. Neither this nor `config`: it was another device's interrupt.
    pub queues: bool,
    /// The device configuration or the device status has changed.
    pub config: bool,
}

impl InterruptCause {
    /// What the bits of both transports' interrupt status mean (virtio 1.2, sections 4.1.4.5 and 4.2.2).
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self { queues: bits & 1 != 0, config: bits & 2 != 0 }
    }
}

/// What a device refuses to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// It has no such queue, or none that is large enough.
    #[error("the device has no such queue")]
    NoQueue,
    /// The queue is in use already, though the device has been reset.
    #[error("the queue is in use already")]
    QueueInUse,
    /// The register for notifications is not where any can be.
    #[error("the queue has no register for notifications")]
    NoDoorbell,
    /// It does not take the interrupt vector.
    #[error("the device does not take the interrupt vector")]
    NoVector,
}

/// The device configuration: fields whose places depend on the kind of device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceConfig<'transport> {
    registers: &'transport dyn DeviceRegisters,
    start: usize,
    size: usize,
}

impl<'transport> DeviceConfig<'transport> {
    /// The part of `registers` from `start` on.
    #[must_use]
    pub fn new(registers: &'transport dyn DeviceRegisters, start: usize) -> Self {
        Self { registers, start, size: registers.size().saturating_sub(start) }
    }

    /// Where a field is; `None` if it is not all there.
    fn place(&self, offset: usize, size: usize) -> Option<usize> {
        let inside = offset.checked_add(size)? <= self.size;
        inside.then(|| self.start + offset)
    }

    /// A field of one byte; `None` if the device does not have it.
    #[must_use]
    pub fn read_u8(&self, offset: usize) -> Option<u8> {
        self.place(offset, 1).map(|place| self.registers.read_u8(place))
    }

    /// A field of two bytes.
    #[must_use]
    pub fn read_u16(&self, offset: usize) -> Option<u16> {
        self.place(offset, 2).map(|place| self.registers.read_u16(place))
    }

    /// A field of four bytes.
    #[must_use]
    pub fn read_u32(&self, offset: usize) -> Option<u32> {
        self.place(offset, 4).map(|place| self.registers.read_u32(place))
    }

    /// A field of eight bytes, read in two halves; see [`Transport::config_generation`].
    #[must_use]
    pub fn read_u64(&self, offset: usize) -> Option<u64> {
        let (low, high) = (self.read_u32(offset)?, self.read_u32(offset.checked_add(4)?)?);
        Some(u64::from(low) | u64::from(high) << 32)
    }
}
