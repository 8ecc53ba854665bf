//! The device as all drivers see it: initialization, feature negotiation, failure, reset.
//!
//! [`Device::start`] does the steps that are the same for all devices: reset, status bits, feature
//! negotiation. The driver then reads the configuration, sets up its virtqueues and calls
//! [`Device::set_driver_ok`]. The device is untrusted, so each result of a virtqueue is checked: the first
//! violation of the protocol marks the device as broken ([`DeviceError`]), and from then on all calls fail.
//! Dropping the driver resets the device. The order of drops matters: the reset ends all DMA, and only then
//! may the buffers be freed.

#[cfg(test)]
mod tests;

use alloc::collections::TryReserveError;

use virtio_spec::{DeviceStatus, F};

use crate::dma::{DmaAllocator, DmaPermit};
use crate::transport::{DeviceConfig, InterruptCause, Transport, TransportError};
use crate::virtqueue::{DescriptorChain, QueueError, Virtqueue};

/// Maximum number of status reads until a reset must have completed. Emulated devices complete a reset at
/// once.
const MAX_RESET_READS: u32 = if cfg!(miri) { 64 } else { 1 << 16 };

/// Maximum number of attempts to read the configuration in one generation.
const MAX_CONFIG_READS: u32 = 16;

/// Number of 32-bit words of feature bits: virtio 1.2 defines bits 0 to 63.
const FEATURE_WORDS: u32 = 2;

/// Why initialization of a device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The transport reports another virtio device ID than the driver's.
    #[error("device ID {0} is not the driver's")]
    WrongDeviceType(u16),
    /// The device did not complete its reset.
    #[error("the device does not complete its reset")]
    ResetTimeout,
    /// The device does not offer `VIRTIO_F_VERSION_1`.
    #[error("the device has only the legacy interface")]
    LegacyOnly,
    /// The device cleared `FEATURES_OK`: it rejects the subset of its features that the driver accepted.
    #[error("the device rejects the negotiated features")]
    FeaturesRejected,
    /// The device does not offer the feature that the driver is for.
    #[error("the device lacks the feature that its driver is for")]
    MissingFeature,
    /// The configuration is truncated, has invalid values, or never stops changing.
    #[error("the device's configuration is invalid")]
    InvalidConfig,
    /// There is no memory for virtqueues or buffers.
    #[error("out of memory")]
    OutOfMemory,
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl From<TryReserveError> for InitError {
    fn from(_error: TryReserveError) -> Self {
        Self::OutOfMemory
    }
}

/// Why a device can no longer be used. The state is permanent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The device violated the protocol of a virtqueue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The header of a received frame announces more buffers than the device has used.
    #[error("the device used fewer buffers than the frame's header announces")]
    MissingBuffers,
    /// The device sent a reply that its protocol does not allow.
    #[error("the device sent an invalid reply")]
    InvalidReply,
    /// The device set `DEVICE_NEEDS_RESET`.
    #[error("the device needs a reset")]
    NeedsReset,
}

/// A device whose features have been negotiated.
///
/// Dropping it resets the device. Drivers declare it before their queues and buffers, so that it is dropped
/// first: memory that is dropped before the device has been reset, or after a reset that timed out, is not
/// freed ([`DmaPermit`]).
#[derive(Debug)]
pub struct Device<T: Transport> {
    transport: T,
    offered: F,
    features: F,
    broken: Option<DeviceError>,
    permit: DmaPermit,
}

impl<T: Transport> Device<T> {
    /// Resets the device, sets `ACKNOWLEDGE` and `DRIVER`, and negotiates features (virtio 1.2, section
    /// 3.1.1, steps 1 to 6).
    ///
    /// `wanted` are the features that the driver supports, besides `VIRTIO_F_VERSION_1`, which is required,
    /// and `VIRTIO_F_EVENT_IDX`. [`Device::setup_queue`] and [`Device::set_driver_ok`] follow.
    ///
    /// # Errors
    ///
    /// The device ID differs, or initialization fails; then the status `FAILED` is set.
    pub fn start(
        transport: T,
        dma: &impl DmaAllocator,
        id: virtio_spec::Id,
        wanted: F,
    ) -> Result<Self, InitError> {
        Self::start_with(transport, dma, id, |_| wanted)
    }

    /// Like [`Device::start`], for drivers whose supported features depend on the offered ones: `wanted`
    /// receives the offered features and returns the supported ones.
    ///
    /// # Errors
    ///
    /// See [`Device::start`].
    pub fn start_with(
        transport: T,
        dma: &impl DmaAllocator,
        id: virtio_spec::Id,
        wanted: impl FnOnce(F) -> F,
    ) -> Result<Self, InitError> {
        if transport.id() != u16::from(u8::from(id)) {
            return Err(InitError::WrongDeviceType(transport.id()));
        }
        let permit = DmaPermit::new(dma).ok_or(InitError::OutOfMemory)?;
        let mut device = Self { transport, offered: F::empty(), features: F::empty(), broken: None, permit };
        device.reset()?;
        device.add_status(DeviceStatus::ACKNOWLEDGE);
        device.add_status(DeviceStatus::DRIVER);
        device.negotiate(wanted)?;
        device.transport.set_config_vector()?;
        Ok(device)
    }

    /// Accepts the features that are both offered and wanted (section 2.2).
    fn negotiate(&mut self, wanted: impl FnOnce(F) -> F) -> Result<(), InitError> {
        let mut offered = 0;
        for word in 0..FEATURE_WORDS {
            offered |= u128::from(self.transport.offered_features(word)) << (32 * word);
        }
        let offered = F::from_bits_retain(offered.into());
        self.offered = offered;
        self.features = offered & (wanted(offered) | F::VERSION_1 | F::EVENT_IDX);
        if !self.features.contains(F::VERSION_1) {
            return Err(InitError::LegacyOnly);
        }
        let bytes = self.features.bits().to_le_bytes();
        for (word, features) in (0..FEATURE_WORDS).zip(bytes.as_chunks().0) {
            self.transport.accept_features(word, u32::from_le_bytes(*features));
        }
        self.add_status(DeviceStatus::FEATURES_OK);
        let accepted = self.transport.status().contains(DeviceStatus::FEATURES_OK);
        accepted.then_some(()).ok_or(InitError::FeaturesRejected)
    }

    /// The features that the device offers, read once.
    #[must_use]
    pub const fn offered(&self) -> F {
        self.offered
    }

    /// The negotiated features.
    #[must_use]
    pub const fn features(&self) -> F {
        self.features
    }

    /// The permission to access DMA memory, for allocations.
    pub(crate) const fn permit(&self) -> &DmaPermit {
        &self.permit
    }

    /// Sets up a virtqueue of `size` descriptors, or of the device's maximum if that is less (step 7).
    ///
    /// # Errors
    ///
    /// The device has no such virtqueue, or there is no memory.
    pub(crate) fn setup_queue<D: DmaAllocator, C: DescriptorChain>(
        &mut self,
        dma: &D,
        index: u16,
        size: u16,
    ) -> Result<Virtqueue<D::Memory, C>, InitError> {
        let size = self.transport.max_queue_size(index).min(size);
        if size == 0 {
            return Err(TransportError::NoQueue.into());
        }
        let has_event_index = self.features.contains(F::EVENT_IDX);
        let mut queue =
            Virtqueue::new(dma, size, has_event_index, &self.permit).ok_or(InitError::OutOfMemory)?;
        queue.set_doorbell(self.transport.enable_queue(index, &queue.addresses())?);
        Ok(queue)
    }

    /// Sets `DRIVER_OK`: the device is live (step 8).
    pub fn set_driver_ok(&mut self) {
        self.permit.grant();
        self.add_status(DeviceStatus::DRIVER_OK);
    }

    /// Reads fields of the device configuration within one generation, so that they are consistent (section
    /// 2.5.3).
    ///
    /// # Errors
    ///
    /// `read` returned `None`, since a field is missing; or the configuration never stops changing.
    pub fn config<V>(&self, read: impl Fn(DeviceConfig<'_>) -> Option<V>) -> Result<V, InitError> {
        for _ in 0..MAX_CONFIG_READS {
            let before = self.transport.config_generation();
            let value = read(self.transport.config()).ok_or(InitError::InvalidConfig)?;
            if self.transport.config_generation() == before {
                return Ok(value);
            }
        }
        Err(InitError::InvalidConfig)
    }

    /// The transport, for notifications.
    pub const fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Acknowledges an interrupt and returns its cause.
    ///
    /// If the transport does not report the cause, `has_used` tells if a virtqueue raised the interrupt. If
    /// none did, this takes the interrupt for a configuration change, and checks the device status.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self, has_used: impl FnOnce() -> bool) -> Result<InterruptCause, DeviceError> {
        // A broken device's interrupt is acknowledged too: a level-triggered line would stay asserted.
        let cause = self.transport.acknowledge_interrupt().unwrap_or_else(|| {
            let queues = has_used();
            InterruptCause { queues, config: !queues }
        });
        if cause.config {
            self.check_status()?;
        }
        self.ensure_usable().map(|()| cause)
    }

    /// Checks `DEVICE_NEEDS_RESET`: on interrupts, and when a request times out.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn check_status(&mut self) -> Result<(), DeviceError> {
        self.ensure_usable()?;
        let has_failed = self.transport.status().contains(DeviceStatus::DEVICE_NEEDS_RESET);
        if has_failed { Err(self.fail(DeviceError::NeedsReset)) } else { Ok(()) }
    }

    /// Checks that the device has not failed.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn ensure_usable(&self) -> Result<(), DeviceError> {
        self.broken.map_or(Ok(()), Err)
    }

    /// Returns the result of a virtqueue's operation. An error breaks the device.
    pub(crate) fn checked<V>(&mut self, result: Result<V, QueueError>) -> Result<V, DeviceError> {
        result.map_err(|error| self.fail(error.into()))
    }

    /// Breaks the device and sets `FAILED`. Returns the first error that broke the device.
    pub(crate) fn fail(&mut self, error: DeviceError) -> DeviceError {
        if let Some(first) = self.broken {
            return first;
        }
        self.broken = Some(error);
        self.add_status(DeviceStatus::FAILED);
        error
    }

    /// Breaks the device and resets it. Does not wait for the reset, so the device keeps its memory.
    pub(crate) fn stop(&mut self, error: DeviceError) {
        if self.broken.is_none() {
            self.fail(error);
            self.transport.set_status(DeviceStatus::empty());
        }
    }

    fn add_status(&mut self, status: DeviceStatus) {
        let before = self.transport.status();
        self.transport.set_status(before | status);
    }

    fn reset(&mut self) -> Result<(), InitError> {
        self.transport.set_status(DeviceStatus::empty());
        for _ in 0..MAX_RESET_READS {
            if self.transport.status().is_empty() {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        Err(InitError::ResetTimeout)
    }
}

impl<T: Transport> Drop for Device<T> {
    fn drop(&mut self) {
        if !self.permit.is_granted() {
            self.add_status(DeviceStatus::FAILED);
        } else if self.reset().is_ok() {
            self.permit.revoke();
        }
        // A device that does not complete its reset keeps the permit: its memory is never freed.
    }
}
