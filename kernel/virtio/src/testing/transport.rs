//! A transport that calls the device model directly.

use std::sync::{MutexGuard, PoisonError};

use virtio_spec::DeviceStatus;

use super::device_model::{DeviceModel, SharedDevice};
use crate::registers::DeviceRegisters;
use crate::transport::{DeviceConfig, Doorbell, InterruptCause, QueueAddresses, Transport, TransportError};

/// Calls the device model for each call of the driver.
#[derive(Debug)]
pub(crate) struct FakeTransport {
    model: SharedDevice,
    /// True if the transport reports the causes of interrupts.
    reports_cause: bool,
    config: ConfigRegisters,
}

impl FakeTransport {
    pub(crate) fn new(model: &SharedDevice, reports_cause: bool) -> Self {
        Self { model: model.clone(), reports_cause, config: ConfigRegisters(model.clone()) }
    }

    /// Locks the model, also while a failed test unwinds.
    fn model(&self) -> MutexGuard<'_, DeviceModel> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for FakeTransport {
    fn id(&self) -> u16 {
        self.model().id
    }

    fn status(&self) -> DeviceStatus {
        DeviceStatus::from_bits_retain(self.model().status)
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.model().set_status(status.bits());
    }

    fn offered_features(&mut self, word: u32) -> u32 {
        u32::try_from(self.model().offered >> (32 * word) & 0xffff_ffff).unwrap()
    }

    fn accept_features(&mut self, word: u32, features: u32) {
        let mut model = self.model();
        model.accepted |= u64::from(features) << (32 * word);
        assert_eq!(model.accepted & !model.offered, 0);
    }

    fn max_queue_size(&mut self, queue: u16) -> u16 {
        self.model().max_queue_size(queue)
    }

    fn enable_queue(&mut self, queue: u16, addresses: &QueueAddresses) -> Result<Doorbell, TransportError> {
        self.model().enable_queue(queue, *addresses)?;
        Ok(Doorbell { queue, offset: 0 })
    }

    fn notify(&mut self, doorbell: Doorbell) {
        self.model().notify(doorbell.queue);
    }

    fn acknowledge_interrupt(&mut self) -> Option<InterruptCause> {
        let bits = core::mem::take(&mut self.model().interrupt_status);
        self.reports_cause.then(|| InterruptCause::from_bits(bits))
    }

    fn config_generation(&self) -> u32 {
        self.model().generation.into()
    }

    fn config(&self) -> DeviceConfig<'_> {
        DeviceConfig::new(&self.config, 0)
    }
}

/// Registers of the device-specific configuration.
#[derive(Debug)]
struct ConfigRegisters(SharedDevice);

impl DeviceRegisters for ConfigRegisters {
    fn size(&self) -> usize {
        self.0.lock().unwrap().config.len()
    }

    fn read_u8(&self, offset: usize) -> u8 {
        u8::from_le_bytes(self.0.lock().unwrap().read_config(offset))
    }

    fn read_u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.0.lock().unwrap().read_config(offset))
    }

    fn read_u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.0.lock().unwrap().read_config(offset))
    }

    fn write_u8(&self, _offset: usize, _value: u8) {}

    fn write_u16(&self, _offset: usize, _value: u16) {}

    fn write_u32(&self, _offset: usize, _value: u32) {}
}
