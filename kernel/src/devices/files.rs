//! The device files in `/dev`.

use alloc::sync::Arc;

use hermit_fs::{DeviceFile, Devices, FileType};
use hermit_interface::Errno;
use hermit_io::{MemoryDevice, MemoryDeviceFile, Object};
use hermit_virtio::Id;

use super::{block, entropy, find};
use crate::fallible;

/// The devices of the machine, and devices without hardware.
#[derive(Debug)]
pub(crate) struct DeviceFiles;

/// Devices without hardware, in the order of their files.
const MEMORY_DEVICES: [MemoryDevice; 5] = [
    MemoryDevice::Null,
    MemoryDevice::Zero,
    MemoryDevice::Full,
    MemoryDevice::Random(crate::entropy::fill),
    MemoryDevice::Random(crate::entropy::fill),
];

/// Index of the entropy device.
const HWRNG: usize = MEMORY_DEVICES.len();

/// Index of the first disk.
const FIRST_DISK: usize = HWRNG + 1;

const fn character(name: &'static str, permissions: u32) -> DeviceFile {
    DeviceFile { name, file_type: FileType::CharDevice, permissions }
}

const fn disk(name: &'static str) -> DeviceFile {
    DeviceFile { name, file_type: FileType::BlockDevice, permissions: 0o600 }
}

static FILES: [DeviceFile; FIRST_DISK + block::MAX_DISKS] = [
    character("null", 0o666),
    character("zero", 0o666),
    character("full", 0o666),
    character("random", 0o666),
    character("urandom", 0o666),
    character("hwrng", 0o400),
    disk("vda"),
    disk("vdb"),
    disk("vdc"),
    disk("vdd"),
    disk("vde"),
    disk("vdf"),
    disk("vdg"),
    disk("vdh"),
    disk("vdi"),
    disk("vdj"),
    disk("vdk"),
    disk("vdl"),
    disk("vdm"),
    disk("vdn"),
    disk("vdo"),
    disk("vdp"),
    disk("vdq"),
    disk("vdr"),
    disk("vds"),
    disk("vdt"),
    disk("vdu"),
    disk("vdv"),
    disk("vdw"),
    disk("vdx"),
    disk("vdy"),
    disk("vdz"),
];

impl Devices for DeviceFiles {
    fn files(&self) -> &'static [DeviceFile] {
        &FILES
    }

    fn exists(&self, index: usize) -> bool {
        match index {
            ..HWRNG => true,
            HWRNG => find(Id::Rng, 0).is_ok(),
            _ => find(Id::Block, index - FIRST_DISK).is_ok(),
        }
    }

    fn open(&self, index: usize, flags: i32) -> Result<Arc<dyn Object>, Errno> {
        match MEMORY_DEVICES.get(index) {
            Some(device) => {
                let file: Arc<dyn Object> =
                    fallible::arc(MemoryDeviceFile::new(*device, flags)).ok_or(Errno::ENOMEM)?;
                Ok(file)
            }
            None if index == HWRNG => entropy::open(flags),
            None => block::open(index - FIRST_DISK, flags),
        }
    }
}
