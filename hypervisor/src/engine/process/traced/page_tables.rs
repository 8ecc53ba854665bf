//! Address translation with the guest's page tables.

use hermit_paging::{PageTable, TableMemory};
use vm_memory::{Bytes, GuestAddress};

use crate::memory::Memory;

/// Read-only view of the guest's page tables. Their entries are untrusted, and may hold any address.
#[derive(Debug)]
struct GuestTables<'a>(&'a Memory);

impl TableMemory for GuestTables<'_> {
    fn read(&self, slot: u64) -> u64 {
        // An address without memory reads as 0, an entry that is not present.
        self.0.guest().read_obj(GuestAddress(slot)).unwrap_or(0)
    }

    fn write(&mut self, _slot: u64, _entry: u64) {}

    fn allocate(&mut self) -> Option<u64> {
        None
    }

    fn free(&mut self, _table: u64) {}
}

/// Translates a virtual address with the page tables at physical address `root`. Returns `None` if it is not
/// mapped.
pub(super) fn translate(memory: &Memory, root: u64, address: u64) -> Option<u64> {
    let found = PageTable::at(root).translate(&GuestTables(memory), address)?;
    Some(found.physical)
}

#[cfg(test)]
mod tests {
    use super::translate;
    use crate::memory::Memory;
    use hermit_boot::PhysicalMemory;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::proptest;

    #[test]
    fn translate_finds_nothing_in_absent_tables() {
        let memory = Memory::new("8M".parse().unwrap()).unwrap();
        assert_eq!(translate(&memory, 0x1000, 1 << 40), None);
        assert_eq!(translate(&memory, 1 << 40, 1 << 40), None);
        assert_eq!(translate(&memory, u64::MAX - 0xfff, 0x7fff_ffff_ffff), None);
    }

    proptest! {
        #[test]
        fn translate_survives_arbitrary_entries(root in 0_u64..0x4000, address: u64, entries in vec(any::<u64>(), 0x800)) {
            let mut memory = Memory::new("8M".parse().unwrap()).unwrap();
            for (slot, entry) in (0..).step_by(8).zip(entries) {
                // Half of the entries point into memory.
                memory.write_word(slot, if entry & 0x100 == 0 { entry & 0x3fff } else { entry });
            }
            let _: Option<u64> = translate(&memory, root & !0xfff, address);
        }
    }
}
