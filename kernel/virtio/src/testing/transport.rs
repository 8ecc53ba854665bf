//! Ways to reach the model: directly, and by the registers of virtio-mmio.

use std::boxed::Box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use virtio_spec::DeviceStatus;

use super::model::{Model, Shared};
use crate::registers::Registers;
use crate::transport::{Cause, Config, Doorbell, QueueAddresses, Transport, TransportError};

/// Calls the model for each call of the driver.
#[derive(Debug)]
pub(crate) struct FakeTransport {
    model: Shared,
    /// Whether interrupts say why they come.
    tells: bool,
    config: ConfigRegisters,
}

impl FakeTransport {
    pub(crate) fn new(model: &Shared, tells: bool) -> Self {
        Self { model: model.clone(), tells, config: ConfigRegisters(model.clone()) }
    }

    /// The model, also while a test that failed cleans up.
    fn model(&self) -> MutexGuard<'_, Model> {
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

    fn offered_features(&mut self, window: u32) -> u32 {
        u32::try_from(self.model().offered >> (32 * window) & 0xffff_ffff).unwrap()
    }

    fn accept_features(&mut self, window: u32, features: u32) {
        let mut model = self.model();
        model.accepted |= u64::from(features) << (32 * window);
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

    fn acknowledge(&mut self) -> Option<Cause> {
        let bits = core::mem::take(&mut self.model().interrupt_status);
        self.tells.then(|| Cause::from_bits(bits))
    }

    fn generation(&self) -> u32 {
        self.model().generation.into()
    }

    fn config(&self) -> Config<'_> {
        Config::new(&self.config, 0)
    }
}

/// The device configuration alone.
#[derive(Debug)]
struct ConfigRegisters(Shared);

impl Registers for ConfigRegisters {
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

/// What a register does, given where it is, how wide the access is, and what is written.
type Behaviour = dyn FnMut(usize, u8, Option<u32>) -> u32 + Send;

/// Registers that behave as a function says.
#[derive(Clone)]
pub(crate) struct ModelRegisters {
    size: usize,
    behaviour: Arc<Mutex<Box<Behaviour>>>,
}

impl core::fmt::Debug for ModelRegisters {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "ModelRegisters({})", self.size)
    }
}

impl ModelRegisters {
    pub(crate) fn new(
        size: usize,
        behaviour: impl FnMut(usize, u8, Option<u32>) -> u32 + Send + 'static,
    ) -> Self {
        Self { size, behaviour: Arc::new(Mutex::new(Box::new(behaviour))) }
    }

    /// An access, which must be inside and aligned.
    fn access(&self, offset: usize, width: u8, value: Option<u32>) -> u32 {
        let bytes = usize::from(width);
        assert!(offset + bytes <= self.size && offset.is_multiple_of(bytes), "{offset:#x}/{width}");
        (self.behaviour.lock().unwrap())(offset, width, value)
    }
}

impl Registers for ModelRegisters {
    fn size(&self) -> usize {
        self.size
    }

    fn read_u8(&self, offset: usize) -> u8 {
        self.access(offset, 1, None).to_le_bytes()[0]
    }

    fn read_u16(&self, offset: usize) -> u16 {
        let [a, b, ..] = self.access(offset, 2, None).to_le_bytes();
        u16::from_le_bytes([a, b])
    }

    fn read_u32(&self, offset: usize) -> u32 {
        self.access(offset, 4, None)
    }

    fn write_u8(&self, offset: usize, value: u8) {
        self.access(offset, 1, Some(value.into()));
    }

    fn write_u16(&self, offset: usize, value: u16) {
        self.access(offset, 2, Some(value.into()));
    }

    fn write_u32(&self, offset: usize, value: u32) {
        self.access(offset, 4, Some(value));
    }
}
