//! The MMIO bus: dispatches accesses to guest physical addresses to devices.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermit_interface::boot_info::Region;

/// A device with memory-mapped registers. Several vCPUs may access the device at the same time, so it does
/// its own locking.
///
/// `offset` is relative to the start of the device's range. The bus ensures that an access lies within the
/// range; width and alignment are arbitrary.
pub trait BusDevice: Debug + Send + Sync {
    /// Reads `data.len()` bytes at `offset`.
    fn read(&self, offset: u64, data: &mut [u8]);

    /// Writes `data` at `offset`.
    fn write(&self, offset: u64, data: &[u8]);
}

/// Reason why a device cannot be added to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The range is empty, or exceeds the address space.
    #[error("the range of a device is empty or leaves the address space")]
    Range,
    /// The range overlaps that of another device.
    #[error("the ranges of two devices overlap")]
    Overlap,
}

/// A device, and the size of its range in bytes.
#[derive(Debug)]
struct MappedDevice {
    size: u64,
    device: Arc<dyn BusDevice>,
}

/// Devices by address. A read outside all ranges returns all ones, and a write there is dropped, as on PCI.
#[derive(Debug, Default)]
pub struct Bus {
    devices: BTreeMap<u64, MappedDevice>,
    unclaimed_reads: AtomicU64,
    unclaimed_writes: AtomicU64,
}

impl Bus {
    /// Creates a bus without devices.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a device at a range of addresses.
    ///
    /// # Errors
    ///
    /// See [`BusError`].
    pub fn insert(&mut self, range: Region, device: Arc<dyn BusDevice>) -> Result<(), BusError> {
        let last = range.size.checked_sub(1).and_then(|rest| range.start.checked_add(rest));
        let last = last.ok_or(BusError::Range)?;
        // Ranges on the bus do not overlap each other. So if a device overlaps the new range, the last device
        // that starts at or before `last` does.
        let before = self.devices.range(..=last).next_back();
        if before.is_some_and(|(&start, entry)| range.start < start.saturating_add(entry.size)) {
            return Err(BusError::Overlap);
        }
        self.devices.insert(range.start, MappedDevice { size: range.size, device });
        Ok(())
    }

    /// Reads `data.len()` bytes at a guest physical address.
    pub fn read(&self, address: u64, data: &mut [u8]) {
        match self.find(address, data.len()) {
            Some((device, offset)) => device.read(offset, data),
            None => {
                self.unclaimed_reads.fetch_add(1, Ordering::Relaxed);
                data.fill(0xff);
            }
        }
    }

    /// Writes `data` at a guest physical address.
    pub fn write(&self, address: u64, data: &[u8]) {
        match self.find(address, data.len()) {
            Some((device, offset)) => device.write(offset, data),
            None => {
                self.unclaimed_writes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of reads outside all ranges.
    #[must_use]
    pub fn unclaimed_reads(&self) -> u64 {
        self.unclaimed_reads.load(Ordering::Relaxed)
    }

    /// Returns the number of writes outside all ranges.
    #[must_use]
    pub fn unclaimed_writes(&self) -> u64 {
        self.unclaimed_writes.load(Ordering::Relaxed)
    }

    /// Returns the device whose range contains the whole access, and the offset of the access in this range.
    fn find(&self, address: u64, length: usize) -> Option<(&dyn BusDevice, u64)> {
        // The last device that starts at or before the address is the only candidate.
        let (start, entry) = self.devices.range(..=address).next_back()?;
        let offset = address - start;
        let end = offset.checked_add(u64::try_from(length).ok()?)?;
        (offset < entry.size && end <= entry.size).then_some((&*entry.device, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bus, BusDevice, BusError, Region};
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    /// Device that records writes. A read at an offset returns the low byte of the offset.
    #[derive(Debug, Default)]
    struct MockDevice(Mutex<Vec<(u64, Vec<u8>)>>);

    impl BusDevice for MockDevice {
        fn read(&self, offset: u64, data: &mut [u8]) {
            data.fill(offset.to_le_bytes()[0]);
        }

        fn write(&self, offset: u64, data: &[u8]) {
            self.0.lock().unwrap().push((offset, data.to_vec()));
        }
    }

    fn range(start: u64, size: u64) -> Region {
        Region { start, size }
    }

    fn read(bus: &Bus, address: u64, length: usize) -> Vec<u8> {
        let mut data = vec![0x55; length];
        bus.read(address, &mut data);
        data
    }

    #[test]
    fn accesses_reach_the_device_at_its_offset() {
        let (mut bus, first, second) =
            (Bus::new(), Arc::new(MockDevice::default()), Arc::new(MockDevice::default()));
        bus.insert(range(0x1000, 0x100), first.clone()).unwrap();
        bus.insert(range(0x1100, 0x100), second.clone()).unwrap();
        assert_eq!(read(&bus, 0x1002, 4), [2; 4]);
        assert_eq!(read(&bus, 0x1103, 3), [3; 3]);
        bus.write(0x11ff, &[7]);
        assert_eq!(*second.0.lock().unwrap(), [(0xff, vec![7])]);
        assert!(first.0.lock().unwrap().is_empty());
        assert_eq!((bus.unclaimed_reads(), bus.unclaimed_writes()), (0, 0));
    }

    #[test]
    fn unclaimed_accesses_read_as_ones_and_are_counted() {
        let (mut bus, device) = (Bus::new(), Arc::new(MockDevice::default()));
        bus.insert(range(0x1000, 0x100), device.clone()).unwrap();
        // Below, across the start, across the end, above, and at the end of the address space.
        for address in [0, 0xfff, 0x10ff, 0x1100, u64::MAX] {
            assert_eq!(read(&bus, address, 2), [0xff; 2]);
            bus.write(address, &[1, 2]);
        }
        assert_eq!((bus.unclaimed_reads(), bus.unclaimed_writes()), (5, 5));
        assert!(device.0.lock().unwrap().is_empty());
    }

    #[test]
    fn empty_overlapping_and_overflowing_ranges_are_rejected() {
        let mut bus = Bus::new();
        let mut insert = |start, size| bus.insert(range(start, size), Arc::new(MockDevice::default()));
        assert_eq!(insert(0x1000, 0), Err(BusError::Range));
        assert_eq!(insert(u64::MAX, 2), Err(BusError::Range));
        assert_eq!(insert(u64::MAX, 1), Ok(()));
        assert_eq!(insert(0x1000, 0x100), Ok(()));
        for start in [0xf01, 0x1000, 0x1001, 0x10ff] {
            assert_eq!(insert(start, 0x100), Err(BusError::Overlap));
        }
        assert_eq!(insert(0x800, 0x10000), Err(BusError::Overlap));
        assert_eq!(insert(0xf00, 0x100), Ok(()));
        assert_eq!(insert(0x1100, 0x100), Ok(()));
    }

    proptest! {
        #[test]
        fn access_is_claimed_exactly_within_a_range(address in 0xff0u64..0x1110, length in 0usize..32) {
            let mut bus = Bus::new();
            bus.insert(range(0x1000, 0x100), Arc::new(MockDevice::default())).unwrap();
            read(&bus, address, length);
            let end = address + u64::try_from(length).unwrap();
            let inside = (0x1000..0x1100).contains(&address) && end <= 0x1100;
            prop_assert_eq!(bus.unclaimed_reads() == 0, inside);
        }
    }
}
