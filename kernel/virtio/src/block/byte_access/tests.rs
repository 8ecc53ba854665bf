//! Byte access to a disk in memory, compared with a vector of bytes.

use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

use super::{ByteAccess, SectorDevice, WriteError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad sector {0}")]
struct BadSector(u64);

#[derive(Debug)]
struct TestDisk {
    bytes: Vec<u8>,
    sector_size: usize,
    max_transfer: usize,
    bad_sector: Option<u64>,
    /// Type (`r`ead or `w`rite), first sector and number of sectors of each transfer.
    calls: Vec<(char, u64, usize)>,
}

impl TestDisk {
    fn new(sectors: usize, sector_size: usize, max_transfer: usize) -> Self {
        let bytes = (0..sectors * sector_size).map(|range| u8::try_from(range % 251).unwrap()).collect();
        Self { bytes, sector_size, max_transfer, bad_sector: None, calls: Vec::new() }
    }

    fn range(
        &mut self,
        transfer_type: char,
        sector: u64,
        length: usize,
    ) -> Result<core::ops::Range<usize>, BadSector> {
        let count = length / self.sector_size;
        assert!(length > 0 && length <= self.max_transfer && length.is_multiple_of(self.sector_size));
        self.calls.push((transfer_type, sector, count));
        let sectors = sector..sector + u64::try_from(count).unwrap();
        if let Some(bad_sector) = self.bad_sector.filter(|bad_sector| sectors.contains(bad_sector)) {
            return Err(BadSector(bad_sector));
        }
        let start = usize::try_from(sector).unwrap() * self.sector_size;
        Ok(start..start + length)
    }
}

impl SectorDevice for TestDisk {
    type Error = BadSector;

    fn sector_size(&self) -> usize {
        self.sector_size
    }

    fn sector_count(&self) -> u64 {
        u64::try_from(self.bytes.len().checked_div(self.sector_size).unwrap_or(0)).unwrap()
    }

    fn max_transfer(&self) -> usize {
        self.max_transfer
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), BadSector> {
        let range = self.range('r', sector, buffer.len())?;
        buffer.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<(), BadSector> {
        let range = self.range('w', sector, bytes.len())?;
        self.bytes[range].copy_from_slice(bytes);
        Ok(())
    }
}

fn disk() -> ByteAccess<TestDisk> {
    ByteAccess::new(TestDisk::new(10, 512, 1536)).unwrap()
}

#[test]
fn invalid_sizes_are_refused() {
    assert!(ByteAccess::new(TestDisk::new(10, 0, 512)).is_none());
    assert!(ByteAccess::new(TestDisk::new(10, 512, 511)).is_none());
    assert_eq!(disk().size(), 5120);
}

#[test]
fn whole_sectors_are_transferred_directly() {
    let mut disk = disk();
    assert_eq!(disk.read_at(512, &mut [0; 2048]), Ok(2048));
    assert_eq!(disk.write_at(1024, &[1; 512]), Ok(512));
    assert_eq!(disk.device().calls, [('r', 1, 3), ('r', 4, 1), ('w', 2, 1)]);
}

#[test]
fn partial_sectors_are_read_modified_and_written() {
    let mut disk = disk();
    assert_eq!(disk.write_at(500, &[1; 1048]), Ok(1048));
    assert_eq!(disk.device().calls, [('r', 0, 1), ('w', 0, 1), ('w', 1, 2), ('r', 3, 1), ('w', 3, 1)]);
    let mut bytes = [0; 4];
    assert_eq!(disk.read_at(498, &mut bytes), Ok(4));
    assert_eq!(bytes, [247, 248, 1, 1]);
}

#[test]
fn transfers_stop_at_end_of_device() {
    let mut disk = disk();
    assert_eq!(disk.read_at(5100, &mut [0; 100]), Ok(20));
    assert_eq!(disk.read_at(5120, &mut [0; 100]), Ok(0));
    assert_eq!(disk.read_at(u64::MAX, &mut [0; 100]), Ok(0));
    assert_eq!(disk.write_at(5100, &[1; 100]), Ok(20));
    assert_eq!(disk.write_at(5120, &[1; 100]), Err(WriteError::NoSpace));
    assert_eq!(disk.write_at(5120, &[]), Ok(0));
}

#[test]
fn error_is_returned_only_if_nothing_was_transferred() {
    let mut disk = disk();
    disk.device.bad_sector = Some(2);
    assert_eq!(disk.read_at(1030, &mut [0; 4]), Err(BadSector(2)));
    assert_eq!(disk.read_at(500, &mut [0; 2048]), Ok(12));
    assert_eq!(disk.write_at(1024, &[0; 512]), Err(WriteError::Device(BadSector(2))));
    assert_eq!(disk.write_at(511, &[0; 512]), Ok(512));
    assert_eq!(disk.write_at(512, &[0; 513]), Ok(512));
}

proptest! {
    #[test]
    fn byte_access_behaves_like_a_vector(
        sector_size in prop_oneof![Just(512_usize), Just(1), Just(100), Just(4096)],
        max_sectors in 1_usize..4,
        writes in prop::collection::vec((0_u64..9000, 0_usize..5000, any::<u8>()), 1..12),
    ) {
        let mut disk = ByteAccess::new(TestDisk::new(8192 / sector_size, sector_size, max_sectors * sector_size)).unwrap();
        let mut model = disk.device().bytes.clone();
        for (offset, length, byte) in writes {
            let range = usize::try_from(offset).unwrap();
            let end = model.len().min(range + length);
            let count = end.saturating_sub(range);
            let written = disk.write_at(offset, &vec![byte; length]);
            prop_assert_eq!(written, if count == 0 && length > 0 { Err(WriteError::NoSpace) } else { Ok(count) });
            model[range.min(end)..end].fill(byte);
            prop_assert_eq!(&disk.device().bytes, &model);
            let mut bytes = vec![0; length];
            prop_assert_eq!(disk.read_at(offset, &mut bytes), Ok(count));
            prop_assert_eq!(&bytes[..count], &model[range.min(end)..end]);
        }
    }
}
