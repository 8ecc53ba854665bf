//! Memory map of a guest's process before its kernel runs.
//!
//! The loader builds page tables in guest memory, as for a real machine. A process cannot install page
//! tables, so the hypervisor reads them, and turns each range of pages into a file mapping (mmap(2)) with the
//! same address and protection. The file is that of the VM's memory.

use hermit_boot::PhysicalMemory;
use hermit_interface::address::{LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_interface::boot_info::Region;
use hermit_interface::process::memory_offset;
use hermit_paging::{Access, MappedPage, PageTable};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion};

use crate::memory::Memory;

/// Mapping of a part of the memory's file into the guest's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Offset in the file.
    pub(super) offset: u64,
    /// Protection (mmap(2)).
    pub(super) protection: i32,
}

impl Mapping {
    /// Returns true if `next` begins where this mapping ends, in the address space and in the file, and has
    /// the same protection.
    const fn continues(&self, next: &Self) -> bool {
        self.address + self.size == next.address
            && self.offset + self.size == next.offset
            && self.protection == next.protection
    }
}

/// Reads the mappings from the page tables at physical address `root`, and merges adjacent ones.
pub(super) fn read(memory: &Memory, root: u64) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    PageTable::at(root).for_each_page(&|slot| memory.read_word(slot), &mut |page, attributes| {
        let Some(next) = mapping(memory, page, attributes.access) else { return };
        match mappings.last_mut() {
            Some(last) if last.continues(&next) => last.size += next.size,
            _ => mappings.push(next),
        }
    });
    mappings
}

/// Returns a mapping at `address` of the first page of memory, which holds the `SharedCpu` array.
pub(super) const fn first_page(address: u64) -> Mapping {
    Mapping { address, size: PAGE_SIZE, offset: 0, protection: libc::PROT_READ | libc::PROT_WRITE }
}

/// Returns the address range of a direct map that starts at `start`: the size of memory, rounded up to large
/// pages.
pub(super) fn direct_map(memory: &Memory, start: u64) -> Region {
    let end = memory.guest().last_addr().0 + 1;
    Region { start, size: end.next_multiple_of(LARGE_PAGE_SIZE) }
}

/// Converts a page of the page tables into a mapping, truncated at the end of memory.
fn mapping(memory: &Memory, page: MappedPage, access: Access) -> Option<Mapping> {
    let mut regions = memory.guest().iter();
    let last = regions.find_map(|region| {
        let (start, end) = (region.start_addr().0, region.start_addr().0 + region.len());
        (start..end).contains(&page.physical).then_some(end)
    })?;
    let size = page.size.min(last - page.physical);
    let offset = memory_offset(page.physical);
    Some(Mapping { address: page.address, size, offset, protection: protection(access)? })
}

const fn protection(access: Access) -> Option<i32> {
    match access {
        Access::None => Some(libc::PROT_NONE),
        Access::Read => Some(libc::PROT_READ),
        Access::Write => Some(libc::PROT_READ | libc::PROT_WRITE),
        Access::Execute => Some(libc::PROT_READ | libc::PROT_EXEC),
        // The loader never creates such a page, and the filter does not allow it.
        Access::WriteExecute => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Mapping, read};
    use crate::memory::Memory;
    use hermit_boot::PhysicalMemory;
    use hermit_paging::{Access, PageTable, TableMemory};

    struct TestTables(Memory, u64);

    impl TableMemory for TestTables {
        fn read(&self, slot: u64) -> u64 {
            self.0.read_word(slot)
        }

        fn write(&mut self, slot: u64, entry: u64) {
            self.0.write_word(slot, entry);
        }

        fn allocate(&mut self) -> Option<u64> {
            self.1 += 0x1000;
            Some(self.1)
        }

        fn free(&mut self, _: u64) {}
    }

    #[test]
    fn adjacent_pages_are_merged_and_cut_to_memory() {
        const START: u64 = 1 << 40;
        let mut tree = TestTables(Memory::new("9M".parse().unwrap()).unwrap(), 0x10_0000);
        let mut table = PageTable::new(&mut tree).unwrap();
        let mut map = |address, physical, size, access: Access| {
            table.map(&mut tree, START + address, physical, size, access.into()).unwrap();
        };
        map(0, 0, 10 << 20, Access::Write);
        map(16 << 20, 0x5000, 0x2000, Access::Execute);
        map((16 << 20) + 0x2000, 0x7000, 0x1000, Access::Read);
        map((16 << 20) + 0x3000, 0xa000, 0x1000, Access::Read);
        map((16 << 20) + 0x4000, 0xb000, 0x1000, Access::WriteExecute);
        let found: Vec<_> = read(&tree.0, table.root());
        let expected = [
            (0, 9 << 20, 0, 3),
            (16 << 20, 0x2000, 0x5000, 5),
            ((16 << 20) + 0x2000, 0x1000, 0x7000, 1),
            ((16 << 20) + 0x3000, 0x1000, 0xa000, 1),
        ];
        let expected = expected.map(|(address, size, offset, protection)| Mapping {
            address: START + address,
            size,
            offset,
            protection,
        });
        assert_eq!(found, expected);
    }
}
