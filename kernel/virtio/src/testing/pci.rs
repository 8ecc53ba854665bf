//! A PCI bus with one virtio device: configuration space, and the device model's registers behind BARs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use super::device_model::SharedDevice;
use super::registers::{ModelRegisters, RegisterState};
use crate::transport::pci::{ConfigSpace, MapRegisters, PciAddress, PciError};

/// Address in BAR 4, which is 64 bits wide; structures have QEMU's offsets in it.
const BASE: u64 = 0x80_0000_4000;

/// Address in BAR 1, which is 32 bits wide and contains the MSI-X table.
const TABLE_BASE: u64 = 0xfebf_1000;

/// `notify_off_multiplier`: distance of two notification registers, in bytes.
const STRIDE: u32 = 4;

/// Address at which the fake records writes to the MSI-X table entry in use.
pub(crate) const MSIX_ENTRY: u64 = TABLE_BASE + 0x40;

/// Address at which the fake records writes to `config_msix_vector`.
pub(crate) const CONFIG_VECTOR: u64 = BASE + 0x10;

/// A capability: its ID, and its bytes after the link to the next one.
pub(crate) type Capability = (u8, Vec<u8>);

/// Creates a virtio capability.
pub(crate) fn virtio_capability(cfg_type: u8, bar: u8, offset: u32, length: u32) -> Capability {
    let mut bytes = Vec::from([16, cfg_type, bar, 0, 0, 0]);
    bytes.extend(offset.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    if cfg_type == 2 {
        bytes[0] = 20;
        bytes.extend(STRIDE.to_le_bytes());
    }
    (9, bytes)
}

/// Creates the capabilities of a typical device: one of another ID, all structures (one of them twice),
/// MSI-X.
pub(crate) fn typical_capabilities() -> Vec<Capability> {
    let mut capabilities = Vec::from([
        (1, Vec::from([0; 6])),
        virtio_capability(5, 0, 0, 0),
        virtio_capability(1, 0, 0, 0x1000),
    ]);
    capabilities.extend([
        virtio_capability(1, 4, 0, 0x1000),
        virtio_capability(3, 4, 0x1000, 0x1000),
        virtio_capability(4, 4, 0x2000, 0x1000),
    ]);
    capabilities.extend([virtio_capability(2, 4, 0x3000, 0x1000), virtio_capability(1, 4, 0x8000, 0x1000)]);
    let table = u32::try_from(MSIX_ENTRY - TABLE_BASE).unwrap() | 1;
    let mut msix = Vec::from([1, 0]);
    msix.extend(table.to_le_bytes());
    msix.extend([0; 4]);
    capabilities.push((0x11, msix));
    capabilities
}

/// A PCI bus with one device.
#[derive(Debug)]
pub(crate) struct FakePci {
    pub(crate) model: SharedDevice,
    pub(crate) address: PciAddress,
    pub(crate) space: Mutex<[u8; 256]>,
    /// Values written to registers that the device model does not have.
    pub(crate) written: Arc<Mutex<BTreeMap<u64, u32>>>,
    /// True if the device accepts MSI-X vectors.
    pub(crate) accepts_vectors: bool,
}

impl FakePci {
    /// Creates a bus with the device model behind the given device ID, subsystem ID and capabilities.
    pub(crate) fn new(
        model: &SharedDevice,
        device: u16,
        subsystem: u16,
        capabilities: &[Capability],
    ) -> Self {
        let mut space = [0; 256];
        space[..2].copy_from_slice(&0x1af4_u16.to_le_bytes());
        space[2..4].copy_from_slice(&device.to_le_bytes());
        space[0x2e..0x30].copy_from_slice(&subsystem.to_le_bytes());
        space[0x6] = 0x10;
        // BAR 0 in I/O space, BAR 1 below 4 GiB, BAR 4 above.
        space[0x10..0x14].copy_from_slice(&0xc001_u32.to_le_bytes());
        space[0x14..0x18].copy_from_slice(&u32::try_from(TABLE_BASE).unwrap().to_le_bytes());
        space[0x20..0x28].copy_from_slice(&(BASE | 0xc).to_le_bytes());
        space[0x3c..0x3e].copy_from_slice(&[11, 1]);
        let (mut link, mut next) = (0x34, 0x40);
        for (id, bytes) in capabilities {
            space[link] = u8::try_from(next).unwrap();
            space[next] = *id;
            space[next + 2..next + 2 + bytes.len()].copy_from_slice(bytes);
            (link, next) = (next + 1, (next + 2 + bytes.len()).next_multiple_of(4));
        }
        let address = PciAddress { bus: 0, slot: 3, function: 0 };
        let written = Arc::default();
        Self { model: model.clone(), address, space: Mutex::new(space), written, accepts_vectors: true }
    }

    /// Reads a 32-bit register of configuration space.
    pub(crate) fn register(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.space.lock().unwrap()[offset..offset + 4].try_into().unwrap())
    }

    /// The value written to a register, if any.
    pub(crate) fn written(&self, address: u64) -> Option<u32> {
        self.written.lock().unwrap().get(&address).copied()
    }

    /// Behaviour of the common configuration structure.
    fn common(&self) -> impl FnMut(usize, u8, Option<u32>) -> u32 + Send + use<> {
        let mut state = RegisterState::new(&self.model);
        let written = self.written.clone();
        // A device that refuses vectors reads as `VIRTIO_MSI_NO_VECTOR`, whatever was written.
        let refused = if self.accepts_vectors { 0 } else { 0xffff };
        let mut vector = 0xffff;
        move |offset, width, value| {
            assert_eq!(usize::from(width), common_width(offset), "{offset:#x}");
            match (offset, value) {
                (0x10 | 0x1a, Some(value)) => {
                    vector = value | refused;
                    written.lock().unwrap().insert(BASE + u64::try_from(offset).unwrap(), value);
                }
                (0x10 | 0x1a, None) => return vector,
                (_, Some(value)) => common_write(&mut state, offset, value),
                (_, None) => return common_read(&state, offset),
            }
            0
        }
    }
}

/// Width of a register of the common configuration, in bytes.
fn common_width(offset: usize) -> usize {
    match offset {
        0x0..0x10 | 0x20..0x38 => 4,
        0x14 | 0x15 => 1,
        _ => 2,
    }
}

fn common_write(state: &mut RegisterState, offset: usize, value: u32) {
    match offset {
        0x0 => state.device_features_word = value,
        0x8 => state.driver_features_word = value,
        0xc => state.accept(value),
        0x14 => state.model.lock().unwrap().set_status(value.try_into().unwrap()),
        0x16 => state.queue = value.try_into().unwrap(),
        0x18 => state.size = value,
        0x1c => state.enable(),
        0x20..0x38 => state.addresses[(offset - 0x20) / 4] = value,
        _ => panic!("write to {offset:#x}"),
    }
}

fn common_read(state: &RegisterState, offset: usize) -> u32 {
    match offset {
        0x4 => state.offered(),
        0x14 => state.model.lock().unwrap().status.into(),
        0x15 => state.model.lock().unwrap().generation.into(),
        0x18 => state.max_size(),
        0x1c => state.is_enabled(),
        // `queue_notify_off` differs from the virtqueue's index, so that a driver that uses the index instead
        // fails.
        0x1e => u32::from(state.queue) + 2,
        _ => panic!("read from {offset:#x}"),
    }
}

impl ConfigSpace for FakePci {
    fn read(&self, address: PciAddress, offset: u8) -> u32 {
        assert_eq!(offset % 4, 0);
        if address == self.address { self.register(offset.into()) } else { u32::MAX }
    }

    fn write(&self, address: PciAddress, offset: u8, value: u32) {
        assert!(address == self.address && offset.is_multiple_of(4));
        let start = usize::from(offset);
        let mut value = value.to_le_bytes();
        let mut space = self.space.lock().unwrap();
        if offset == 4 {
            // In the status half, a few bits are fixed. Writing ones clears the others.
            value[2] = space[6];
            value[3] = space[7] & !value[3];
        }
        space[start..start + 4].copy_from_slice(&value);
    }
}

impl MapRegisters for FakePci {
    type Registers = ModelRegisters;

    fn map(&self, address: u64, length: u64) -> Result<ModelRegisters, PciError> {
        assert!(self.register(4) & 2 != 0, "the function does not answer yet");
        let size = usize::try_from(length).unwrap();
        let state = RegisterState::new(&self.model);
        let written = self.written.clone();
        Ok(match address.checked_sub(BASE) {
            Some(0) => ModelRegisters::new(size, self.common()),
            Some(0x1000) => ModelRegisters::new(size, move |_, _, _| {
                core::mem::take(&mut state.model.lock().unwrap().interrupt_status).into()
            }),
            Some(0x2000) => ModelRegisters::new(size, move |offset, width, _| state.config(offset, width)),
            Some(0x3000) => ModelRegisters::new(size, move |offset, width, value| {
                let queue = u16::try_from(value.unwrap()).unwrap();
                assert_eq!((offset, width), (usize::from(queue + 2) * 4, 2));
                state.model.lock().unwrap().notify(queue);
                0
            }),
            _ if address == MSIX_ENTRY => ModelRegisters::new(size, move |offset, _, value| {
                written.lock().unwrap().insert(address + u64::try_from(offset).unwrap(), value.unwrap());
                0
            }),
            _ => return Err(PciError::NotMapped),
        })
    }
}
