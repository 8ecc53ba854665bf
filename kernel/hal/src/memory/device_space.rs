//! Physical addresses at which there may be device registers.

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_info::{Parsed, Region};

/// End of the hole below 4 GiB in which devices have their registers; memory that does not fit below
/// continues above.
const HOLE_END: u64 = 4 << 30;

/// Physical addresses without memory: those between the end of the low memory and 4 GiB, and those above 4
/// GiB and all memory.
///
/// The kernel checks addresses from the firmware's tables and from devices against this space, so that it
/// never takes its own memory for registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceSpace {
    /// End of the memory below [`HOLE_END`].
    low_memory_end: u64,
    /// End of all memory.
    memory_end: u64,
}

impl DeviceSpace {
    /// Addresses that have no memory according to the boot information, neither free memory nor memory in
    /// use.
    pub(super) fn of(info: &Parsed<'_>) -> Self {
        let fixed = info.fixed;
        let boot_info = (&raw const *fixed).addr() as u64;
        let in_use = [
            Region { start: fixed.image.physical, size: fixed.image.size },
            Region { start: fixed.page_table_root, size: PAGE_SIZE },
            fixed.symbols.table,
            fixed.symbols.strings,
            fixed.initramfs,
            // The boot information itself. Its address in the direct map gives the physical address.
            Region { start: boot_info.saturating_sub(fixed.direct_map.start), size: fixed.size() as u64 },
        ];
        let all = || info.regions.iter().chain(&in_use).filter(|region| region.size != 0);
        let end = |limit| all().filter(|region| region.start < limit).map(|region| region.end()).max();
        Self {
            low_memory_end: end(HOLE_END).unwrap_or_default(),
            memory_end: end(u64::MAX).unwrap_or_default(),
        }
    }

    /// Returns true if there may be device registers at all addresses from `start` to before `end`.
    pub(super) const fn contains(self, start: u64, end: u64) -> bool {
        let is_above = start >= self.memory_end && start >= HOLE_END;
        is_above || start >= self.low_memory_end && end <= HOLE_END
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceSpace, HOLE_END};
    use hermit_interface::boot_info::{BootInfo, ImagePlacement, Parsed, Platform, Region, Symbols};
    use zerocopy::FromZeros;

    const MEBIBYTE: u64 = 1 << 20;
    const REGISTERS: u64 = 0xfee0_0000;

    /// The space of a machine with free memory up to 64 MiB and this fixed boot information.
    fn space(regions: &[Region], mut fixed: BootInfo) -> DeviceSpace {
        // Boot information that is mapped at its physical address, 0x1000.
        fixed.direct_map.start = (&raw const fixed).addr() as u64 - 0x1000;
        let info = Parsed { fixed: &fixed, platform: Platform::Pc, regions, devices: &[], command_line: &[] };
        DeviceSpace::of(&info)
    }

    const FREE: Region = Region { start: MEBIBYTE, size: 63 * MEBIBYTE };

    #[test]
    fn free_memory_is_no_device() {
        let space = space(&[FREE], BootInfo::new_zeroed());
        assert!(space.contains(64 * MEBIBYTE, 65 * MEBIBYTE));
        assert!(space.contains(REGISTERS, REGISTERS + 0x1000));
        for start in [0, 0x1000, MEBIBYTE, 64 * MEBIBYTE - 1] {
            assert!(!space.contains(start, start + 0x1000), "{start:#x}");
        }
        assert!(!space.contains(HOLE_END - 0x1000, HOLE_END + 0x1000), "it leaves the hole");
    }

    #[test]
    fn symbols_above_free_memory_are_no_device() {
        let (table, strings) = (64 * MEBIBYTE, 65 * MEBIBYTE);
        let symbols = Symbols {
            table: Region { start: table, size: MEBIBYTE },
            strings: Region { start: strings, size: MEBIBYTE },
        };
        let space = space(&[FREE], BootInfo { symbols, ..BootInfo::new_zeroed() });
        assert!(!space.contains(table, table + 0x1000) && !space.contains(strings, strings + 0x1000));
        assert!(space.contains(66 * MEBIBYTE, 67 * MEBIBYTE));
    }

    #[test]
    fn tree_above_free_memory_is_no_device() {
        let initramfs = Region { start: 64 * MEBIBYTE, size: MEBIBYTE };
        let space = space(&[FREE], BootInfo { initramfs, ..BootInfo::new_zeroed() });
        assert!(!space.contains(initramfs.start, initramfs.start + 0x1000));
        assert!(space.contains(initramfs.end(), initramfs.end() + 0x1000));
    }

    #[test]
    fn image_and_page_tables_above_free_memory_are_no_device() {
        let image = ImagePlacement { start: 1 << 40, physical: 64 * MEBIBYTE, size: MEBIBYTE };
        let root = 80 * MEBIBYTE;
        let fixed = BootInfo { image, page_table_root: root, ..BootInfo::new_zeroed() };
        let space = space(&[FREE], fixed);
        assert!(!space.contains(64 * MEBIBYTE, 65 * MEBIBYTE) && !space.contains(root, root + 0x1000));
        assert!(space.contains(root + 0x1000, root + 0x2000));
    }

    #[test]
    fn memory_continues_above_the_hole() {
        let high = Region { start: HOLE_END, size: MEBIBYTE };
        let space = space(&[FREE, high], BootInfo::new_zeroed());
        assert!(space.contains(REGISTERS, REGISTERS + 0x1000));
        assert!(!space.contains(HOLE_END, HOLE_END + 0x1000));
        assert!(space.contains(HOLE_END + MEBIBYTE, HOLE_END + 2 * MEBIBYTE));
    }
}
