//! What all drivers do with their device: start it, give it queues, notice when it breaks, stop it.

#[cfg(test)]
mod tests;

use virtio_spec::{DeviceStatus, F};

use crate::dma::DmaAllocator;
use crate::transport::{DeviceConfig, InterruptCause, Transport, TransportError};
use crate::virtqueue::{DescriptorChain, QueueError, Virtqueue};

/// How often the status is read until a reset has ended. Devices that are software have ended it when asked first.
const RESET_READS: u32 = 1 << 16;

/// How often the configuration is read until it does not change meanwhile.
const CONFIG_READS: u32 = 16;

/// Windows of features that are looked at: those that virtio 1.2 knows.
const FEATURE_WINDOWS: u32 = 2;

/// Why a driver cannot take a device into use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// It is another kind of device.
    #[error("not a device of the kind that the driver is for, but of kind {0}")]
    WrongDeviceType(u16),
    /// A reset does not end.
    #[error("the device does not end its reset")]
    ResetTimeout,
    /// It does not offer `VIRTIO_F_VERSION_1`.
    #[error("the device has only the legacy interface")]
    LegacyOnly,
    /// It does not accept a part of the features that it offered.
    #[error("the device does not accept its own features")]
    FeaturesRejected,
    /// Its configuration lacks fields, has values that cannot be, or changes all the time.
    #[error("the device's configuration makes no sense")]
    InvalidConfig,
    /// There is no memory for queues or buffers.
    #[error("out of memory")]
    OutOfMemory,
    /// The transport says no.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// Why a device can no longer be used. That is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// It wrote something into a queue that cannot be.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// It says that a frame is in more buffers than it has used.
    #[error("the device uses fewer buffers than it says a frame has")]
    MissingBuffers,
    /// It says that it cannot go on (`DEVICE_NEEDS_RESET`).
    #[error("the device has failed")]
    NeedsReset,
}

/// A device that accepted its features.
///
/// When it is dropped the device is stopped. Drivers keep it in front of their queues and buffers, so that it is
/// dropped first and nothing writes to memory that has been given back.
#[derive(Debug)]
pub struct Device<T: Transport> {
    transport: T,
    features: F,
    is_driver_ok: bool,
    broken: Option<DeviceError>,
}

impl<T: Transport> Device<T> {
    /// Resets a device, says that there is a driver and negotiates features (virtio 1.2, section 3.1.1, steps 1 to 6).
    ///
    /// `wanted` are features that the driver can use; `VIRTIO_F_VERSION_1` is required and `VIRTIO_F_EVENT_IDX`
    /// wanted in any case. Queues and [`Device::set_driver_ok`] come next.
    ///
    /// # Errors
    ///
    /// It is another kind of device, or does not behave; it is told that the driver has given up.
    pub fn start(transport: T, id: virtio_spec::Id, wanted: F) -> Result<Self, InitError> {
        Self::start_with(transport, id, |_| wanted)
    }

    /// As [`Device::start`], for features that the driver can use only with others: `wanted` is told what is offered.
    ///
    /// # Errors
    ///
    /// As for [`Device::start`].
    pub fn start_with(
        transport: T,
        id: virtio_spec::Id,
        wanted: impl FnOnce(F) -> F,
    ) -> Result<Self, InitError> {
        if transport.id() != u16::from(u8::from(id)) {
            return Err(InitError::WrongDeviceType(transport.id()));
        }
        let mut device = Self { transport, features: F::empty(), is_driver_ok: false, broken: None };
        device.reset()?;
        device.add_status(DeviceStatus::ACKNOWLEDGE);
        device.add_status(DeviceStatus::DRIVER);
        device.negotiate(wanted)?;
        device.transport.set_config_vector()?;
        Ok(device)
    }

    /// Accepts those of the wanted features that are offered.
    fn negotiate(&mut self, wanted: impl FnOnce(F) -> F) -> Result<(), InitError> {
        let mut offered = 0;
        for window in 0..FEATURE_WINDOWS {
            offered |= u128::from(self.transport.offered_features(window)) << (32 * window);
        }
        let offered = F::from_bits_retain(offered.into());
        self.features = offered & (wanted(offered) | F::VERSION_1 | F::EVENT_IDX);
        if !self.features.contains(F::VERSION_1) {
            return Err(InitError::LegacyOnly);
        }
        let bytes = self.features.bits().to_le_bytes();
        for (window, features) in (0..FEATURE_WINDOWS).zip(bytes.as_chunks().0) {
            self.transport.accept_features(window, u32::from_le_bytes(*features));
        }
        self.add_status(DeviceStatus::FEATURES_OK);
        let accepted = self.transport.status().contains(DeviceStatus::FEATURES_OK);
        accepted.then_some(()).ok_or(InitError::FeaturesRejected)
    }

    /// What driver and device agreed on.
    #[must_use]
    pub const fn features(&self) -> F {
        self.features
    }

    /// Gives the device a queue of `size` descriptors or, if it cannot have that many, fewer (step 7).
    ///
    /// # Errors
    ///
    /// The device has no such queue, or there is no memory.
    pub fn setup_queue<D: DmaAllocator, C: DescriptorChain>(
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
        let mut queue = Virtqueue::new(dma, size, has_event_index).ok_or(InitError::OutOfMemory)?;
        queue.set_doorbell(self.transport.enable_queue(index, &queue.addresses())?);
        Ok(queue)
    }

    /// Says that the driver is ready: the device begins to work (step 8).
    pub fn set_driver_ok(&mut self) {
        self.add_status(DeviceStatus::DRIVER_OK);
        self.is_driver_ok = true;
    }

    /// Reads from the configuration until it did not change meanwhile (section 2.5.3).
    ///
    /// # Errors
    ///
    /// `read` gave `None` since a field is missing, or it changes all the time.
    pub fn config<V>(&self, read: impl Fn(DeviceConfig<'_>) -> Option<V>) -> Result<V, InitError> {
        for _ in 0..CONFIG_READS {
            let before = self.transport.config_generation();
            let value = read(self.transport.config()).ok_or(InitError::InvalidConfig)?;
            if self.transport.config_generation() == before {
                return Ok(value);
            }
        }
        Err(InitError::InvalidConfig)
    }

    /// The transport, to notify the device.
    pub const fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Takes an interrupt: why it came.
    ///
    /// Where the transport cannot tell, `has_used` says whether it was one of the queues; if not it may have been the
    /// configuration, and the device's status is looked at.
    ///
    /// # Errors
    ///
    /// The device has failed, now or earlier.
    pub fn interrupt(&mut self, has_used: impl FnOnce() -> bool) -> Result<InterruptCause, DeviceError> {
        // A broken device's interrupt is acknowledged too, or its line would never be silent.
        let cause = self.transport.acknowledge_interrupt().unwrap_or_else(|| {
            let queues = has_used();
            InterruptCause { queues, config: !queues }
        });
        if cause.config {
            self.check_status()?;
        }
        self.ensure_usable().map(|()| cause)
    }

    /// Looks whether the device says that it has failed: for interrupts, and for those who have waited too long.
    ///
    /// # Errors
    ///
    /// It has failed, now or earlier.
    pub fn check_status(&mut self) -> Result<(), DeviceError> {
        self.ensure_usable()?;
        let has_failed = self.transport.status().contains(DeviceStatus::DEVICE_NEEDS_RESET);
        if has_failed { Err(self.fail(DeviceError::NeedsReset)) } else { Ok(()) }
    }

    /// Whether the device can be used.
    ///
    /// # Errors
    ///
    /// It has failed.
    pub fn ensure_usable(&self) -> Result<(), DeviceError> {
        self.broken.map_or(Ok(()), Err)
    }

    /// Passes on what a queue says; an error means that the device has failed.
    pub(crate) fn checked<V>(&mut self, result: Result<V, QueueError>) -> Result<V, DeviceError> {
        result.map_err(|error| self.fail(error.into()))
    }

    /// Gives the device up; the first reason stays.
    pub(crate) fn fail(&mut self, error: DeviceError) -> DeviceError {
        if let Some(first) = self.broken {
            return first;
        }
        self.broken = Some(error);
        self.add_status(DeviceStatus::FAILED);
        error
    }

    fn add_status(&mut self, status: DeviceStatus) {
        let before = self.transport.status();
        self.transport.set_status(before | status);
    }

    fn reset(&mut self) -> Result<(), InitError> {
        self.transport.set_status(DeviceStatus::empty());
        for _ in 0..RESET_READS {
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
        if self.is_driver_ok {
            // Nothing is left to be done about a device that does not end its reset.
            let _stopped = self.reset();
        } else {
            self.add_status(DeviceStatus::FAILED);
        }
    }
}
