//! The file behind a disk.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use vm_memory::{GuestMemoryError, GuestMemoryMmap, Permissions, ReadVolatile, WriteVolatile};

use super::{Failure, SECTOR};
use crate::devices::virtio::DeviceError;
use crate::devices::virtio::chain::Buffers;

/// A file or a block device of the host. Data moves between it and guest memory without a copy in between.
#[derive(Debug)]
pub(super) struct Disk {
    file: File,
    sectors: u64,
}

impl Disk {
    /// As large as the file, in whole sectors.
    pub(super) fn new(mut file: File) -> io::Result<Self> {
        // A block device has a size, but its metadata does not say so.
        let sectors = file.seek(SeekFrom::End(0))? / u64::from(SECTOR);
        Ok(Self { file, sectors })
    }

    /// How many sectors there are.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Where `length` bytes from `sector` on lie, if they are all on the disk.
    pub(super) fn position(&self, sector: u64, length: usize) -> Result<u64, Failure> {
        let beyond = Failure::Request("request beyond the end of the disk");
        let count = (length as u64).div_ceil(SECTOR.into());
        let is_inside = sector.checked_add(count).is_some_and(|end| end <= self.sectors);
        sector.checked_mul(SECTOR.into()).filter(|_| is_inside).ok_or(beyond)
    }

    /// Fills `data` from the file.
    pub(super) fn read(
        &self,
        position: u64,
        data: &Buffers,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        let mut file = self.at(position)?;
        data.for_each_slice(memory, Permissions::Write, |mut slice| {
            Ok(file.read_exact_volatile(&mut slice).map_err(GuestMemoryError::from)?)
        })
    }

    /// Stores `data` in the file.
    pub(super) fn write(
        &self,
        position: u64,
        data: &Buffers,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        let mut file = self.at(position)?;
        data.for_each_slice(memory, Permissions::Read, |slice| {
            Ok(file.write_all_volatile(&slice).map_err(GuestMemoryError::from)?)
        })
    }

    /// Makes sure that what was written stays.
    pub(super) fn flush(&self) -> Result<(), DeviceError> {
        Ok(self.file.sync_data()?)
    }

    fn at(&self, position: u64) -> io::Result<&File> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(position))?;
        Ok(file)
    }
}
