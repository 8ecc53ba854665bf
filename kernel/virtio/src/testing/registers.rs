//! Registers whose behaviour a closure defines, and the state that virtio-mmio and virtio-pci registers
//! share.

use std::boxed::Box;
use std::sync::{Arc, Mutex};

use super::device_model::SharedDevice;
use crate::registers::DeviceRegisters;
use crate::transport::QueueAddresses;

/// Behaviour of the registers. The function receives the offset, the width in bytes and, for a write, the
/// value. It returns the value of a read.
type Behaviour = dyn FnMut(usize, u8, Option<u32>) -> u32 + Send;

/// Registers whose behaviour is a closure.
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

    /// Checks that an access lies inside the window and is aligned, and performs it.
    fn access(&self, offset: usize, width: u8, value: Option<u32>) -> u32 {
        let bytes = usize::from(width);
        assert!(offset + bytes <= self.size && offset.is_multiple_of(bytes), "{offset:#x}/{width}");
        (self.behaviour.lock().unwrap())(offset, width, value)
    }
}

impl DeviceRegisters for ModelRegisters {
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

/// Registers that read as random values, except for the `fixed` ones, each an offset and a 32-bit value.
pub(crate) fn random_registers(size: usize, seed: u64, fixed: &'static [(usize, u32)]) -> ModelRegisters {
    let mut state = seed | 1;
    ModelRegisters::new(size, move |offset, width, _| {
        if let Some((_, value)) = fixed.iter().find(|(register, _)| *register == offset && width == 4) {
            return *value;
        }
        // Xorshift (Marsaglia 2003). Every other value is small, as most meaningful values are.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = u32::try_from(state & 0xffff_ffff).unwrap();
        if state >> 63 == 0 { value } else { value % 64 }
    })
}

/// State that virtio-mmio and virtio-pci registers keep between driver and device model.
#[derive(Debug)]
pub(super) struct RegisterState {
    pub(super) model: SharedDevice,
    pub(super) device_features_word: u32,
    pub(super) driver_features_word: u32,
    pub(super) queue: u16,
    pub(super) size: u32,
    /// Addresses of descriptor, driver and device area, the low half of each first.
    pub(super) addresses: [u32; 6],
}

impl RegisterState {
    pub(super) fn new(model: &SharedDevice) -> Self {
        let model = model.clone();
        Self { model, device_features_word: 0, driver_features_word: 0, queue: 0, size: 0, addresses: [0; 6] }
    }

    pub(super) fn offered(&self) -> u32 {
        let bits = self.model.lock().unwrap().offered >> (32 * self.device_features_word);
        u32::try_from(bits & 0xffff_ffff).unwrap()
    }

    pub(super) fn accept(&self, bits: u32) {
        self.model.lock().unwrap().accepted |= u64::from(bits) << (32 * self.driver_features_word);
    }

    pub(super) fn max_size(&self) -> u32 {
        self.model.lock().unwrap().max_queue_size(self.queue).into()
    }

    pub(super) fn is_enabled(&self) -> u32 {
        let model = self.model.lock().unwrap();
        u32::from(model.queues[usize::from(self.queue)].addresses.is_some())
    }

    pub(super) fn enable(&self) {
        let [a, b, c, d, e, f] = self.addresses.map(u64::from);
        let addresses = QueueAddresses {
            size: self.size.try_into().unwrap(),
            descriptors: a | b << 32,
            driver: c | d << 32,
            device: e | f << 32,
        };
        self.model.lock().unwrap().enable_queue(self.queue, addresses).unwrap();
    }

    pub(super) fn config(&self, offset: usize, width: u8) -> u32 {
        let mut model = self.model.lock().unwrap();
        match width {
            1 => u8::from_le_bytes(model.read_config(offset)).into(),
            2 => u16::from_le_bytes(model.read_config(offset)).into(),
            _ => u32::from_le_bytes(model.read_config(offset)),
        }
    }
}
