//! The device model behind virtio-mmio registers.

use super::device_model::SharedDevice;
use super::registers::{ModelRegisters, RegisterState};

impl RegisterState {
    /// Handles a write to a virtio-mmio register.
    fn mmio_write(&mut self, offset: usize, value: u32) {
        match offset {
            0x14 => self.device_features_word = value,
            0x20 => self.accept(value),
            0x24 => self.driver_features_word = value,
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

    /// Handles a read from a virtio-mmio register.
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

/// Creates virtio-mmio registers of the device model.
pub(crate) fn mmio_registers(model: &SharedDevice) -> ModelRegisters {
    let mut state = RegisterState::new(model);
    let size = 0x100 + model.lock().unwrap().config.len();
    ModelRegisters::new(size, move |offset, width, value| {
        assert!(offset >= 0x100 || width == 4, "{offset:#x}/{width}");
        match value {
            Some(value) => {
                state.mmio_write(offset, value);
                0
            }
            None if offset >= 0x100 => state.config(offset - 0x100, width),
            None => state.mmio_read(offset),
        }
    })
}
