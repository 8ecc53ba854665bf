//! The model's registers, as virtio-mmio and virtio over PCI show them.

use super::model::Shared;
use super::transport::ModelRegisters;
use crate::transport::QueueAddresses;

/// What both kinds of registers have between the driver and the model.
#[derive(Debug)]
pub(super) struct Face {
    pub(super) model: Shared,
    pub(super) offered_window: u32,
    pub(super) accepted_window: u32,
    pub(super) queue: u16,
    pub(super) size: u32,
    /// Descriptors, driver and device area, the low half of each first.
    pub(super) addresses: [u32; 6],
}

impl Face {
    pub(super) fn new(model: &Shared) -> Self {
        let model = model.clone();
        Self { model, offered_window: 0, accepted_window: 0, queue: 0, size: 0, addresses: [0; 6] }
    }

    pub(super) fn offered(&self) -> u32 {
        let bits = self.model.lock().unwrap().offered >> (32 * self.offered_window);
        u32::try_from(bits & 0xffff_ffff).unwrap()
    }

    pub(super) fn accept(&self, bits: u32) {
        self.model.lock().unwrap().accepted |= u64::from(bits) << (32 * self.accepted_window);
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

    /// A write to a register of virtio-mmio.
    fn mmio_write(&mut self, offset: usize, value: u32) {
        match offset {
            0x14 => self.offered_window = value,
            0x20 => self.accept(value),
            0x24 => self.accepted_window = value,
            0x30 => self.queue = value.try_into().unwrap(),
            0x38 => self.size = value,
            0x44 => self.enable(),
            0x50 => self.model.lock().unwrap().notify(value.try_into().unwrap()),
            0x64 => self.model.lock().unwrap().interrupt_status &= !u8::try_from(value).unwrap(),
            0x70 => self.model.lock().unwrap().set_status(value.try_into().unwrap()),
            0x80 | 0x84 => self.addresses[(offset - 0x80) / 4] = value,
            0x90 | 0x94 => self.addresses[2 + (offset - 0x90) / 4] = value,
            0xa0 | 0xa4 => self.addresses[4 + (offset - 0xa0) / 4] = value,
            _ => panic!("write to {offset:#x}"),
        }
    }

    /// A read from a register of virtio-mmio.
    fn mmio_read(&mut self, offset: usize) -> u32 {
        match offset {
            0x0 => u32::from_le_bytes(*b"virt"),
            0x4 => 2,
            0x8 => self.model.lock().unwrap().id.into(),
            0x10 => self.offered(),
            0x34 => self.max_size(),
            0x44 => self.is_enabled(),
            0x60 => self.model.lock().unwrap().interrupt_status.into(),
            0x70 => self.model.lock().unwrap().status.into(),
            0xfc => self.model.lock().unwrap().generation.into(),
            _ => panic!("read from {offset:#x}"),
        }
    }
}

/// The model behind registers of virtio-mmio.
pub(crate) fn mmio(model: &Shared) -> ModelRegisters {
    let mut face = Face::new(model);
    let size = 0x100 + model.lock().unwrap().config.len();
    ModelRegisters::new(size, move |offset, width, value| {
        assert!(offset >= 0x100 || width == 4, "{offset:#x}/{width}");
        match value {
            Some(value) => {
                face.mmio_write(offset, value);
                0
            }
            None if offset >= 0x100 => face.config(offset - 0x100, width),
            None => face.mmio_read(offset),
        }
    })
}

/// Registers that read as a random sequence, but for those that are to look right.
pub(crate) fn rubbish(size: usize, seed: u64, right: &'static [(usize, u32)]) -> ModelRegisters {
    let mut state = seed | 1;
    ModelRegisters::new(size, move |offset, width, _| {
        if let Some((_, value)) = right.iter().find(|(place, _)| *place == offset && width == 4) {
            return *value;
        }
        // Xorshift (Marsaglia 2003). Every other value is small, as most that mean something are.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = u32::try_from(state & 0xffff_ffff).unwrap();
        if state >> 63 == 0 { value } else { value % 64 }
    })
}
