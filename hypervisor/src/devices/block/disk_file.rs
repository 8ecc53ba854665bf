//! The raw file that backs a disk.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use vm_memory::{GuestMemoryError, GuestMemoryMmap, Permissions, ReadVolatile, WriteVolatile};

use super::BlockRequestError;
use super::config::SECTOR_SIZE;
use crate::devices::virtio::DeviceError;
use crate::devices::virtio::chain::Buffers;

/// A file or a block device of the host. Data moves between it and guest memory without a bounce buffer.
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    sectors: u64,
    /// errno of the first flush that has failed.
    flush_error: OnceCell<i32>,
}

impl DiskFile {
    /// Creates a disk as large as the file, rounded down to whole sectors.
    pub(super) fn new(mut file: File) -> io::Result<Self> {
        // Seeks to the end, because stat(2) reports the size of a block device as 0.
        let sectors = file.seek(SeekFrom::End(0))? / u64::from(SECTOR_SIZE);
        Ok(Self { file, sectors, flush_error: OnceCell::new() })
    }

    /// Returns the capacity in sectors.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the offset of `sector` in the file, if `length` bytes beginning there are on the disk.
    pub(super) fn offset(&self, sector: u64, length: usize) -> Result<u64, BlockRequestError> {
        let beyond = BlockRequestError::Invalid("request beyond the end of the disk");
        let count = (length as u64).div_ceil(SECTOR_SIZE.into());
        let is_inside = sector.checked_add(count).is_some_and(|end| end <= self.sectors);
        sector.checked_mul(SECTOR_SIZE.into()).filter(|_| is_inside).ok_or(beyond)
    }

    /// Reads from `offset` of the file into `data`.
    pub(super) fn read(
        &self,
        offset: u64,
        data: &Buffers,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        let mut file = self.seek(offset)?;
        data.for_each_slice(memory, Permissions::Write, |mut slice| {
            Ok(file.read_exact_volatile(&mut slice).map_err(GuestMemoryError::from)?)
        })
    }

    /// Writes `data` to `offset` of the file.
    pub(super) fn write(
        &self,
        offset: u64,
        data: &Buffers,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        let mut file = self.seek(offset)?;
        data.for_each_slice(memory, Permissions::Read, |slice| {
            Ok(file.write_all_volatile(&slice).map_err(GuestMemoryError::from)?)
        })
    }

    /// Commits completed writes to stable storage (fdatasync(2)). After the first failure, all later calls
    /// fail, too: Linux reports a write-back error only once, drops the data, and would report success
    /// afterwards.
    pub(super) fn flush(&self) -> Result<(), DeviceError> {
        Ok(self.flush_by(File::sync_data)?)
    }

    fn flush_by(&self, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        if let Some(&error) = self.flush_error.get() {
            return Err(io::Error::from_raw_os_error(error));
        }
        sync(&self.file).inspect_err(|error| {
            // Cannot fail: after the first failure the file is not flushed again, so this is set only once.
            let _: Result<(), i32> = self.flush_error.set(error.raw_os_error().unwrap_or(libc::EIO));
        })
    }

    fn seek(&self, offset: u64) -> io::Result<&File> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::DiskFile;
    use std::io;

    #[test]
    fn flush_fails_for_good_after_its_first_error() {
        let disk = DiskFile::new(tempfile::tempfile().unwrap()).unwrap();
        disk.flush().unwrap();
        let failing = disk.flush_by(|_| Err(io::Error::from_raw_os_error(libc::ENOSPC)));
        assert_eq!(failing.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        for _ in 0..2 {
            let later = disk.flush_by(|_| panic!("the file is flushed again"));
            assert_eq!(later.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
            assert!(disk.flush().is_err());
        }
    }
}
