//! The guest's page tables, which say what its mappings are.

use hermit_paging::{PageTable, TableMemory};
use vm_memory::{Bytes, GuestAddress};

use crate::memory::Memory;

/// Tables that are only read, wherever the guest says they are.
#[derive(Debug)]
struct Seen<'a>(&'a Memory);

impl TableMemory for Seen<'_> {
    fn read(&self, slot: u64) -> u64 {
        // Where there is no memory there is no table.
        self.0.guest().read_obj(GuestAddress(slot)).unwrap_or(0)
    }

    fn write(&mut self, _slot: u64, _entry: u64) {}

    fn allocate(&mut self) -> Option<u64> {
        None
    }

    fn free(&mut self, _table: u64) {}
}

/// The physical address behind a virtual one, if there is one.
pub(super) fn translate(memory: &Memory, root: u64, address: u64) -> Option<u64> {
    let found = PageTable::at(root).translate(&Seen(memory), address)?;
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
    fn nothing_is_mapped_by_tables_that_are_not_there() {
        let memory = Memory::new("8M".parse().unwrap()).unwrap();
        assert_eq!(translate(&memory, 0x1000, 1 << 40), None);
        assert_eq!(translate(&memory, 1 << 40, 1 << 40), None);
        assert_eq!(translate(&memory, u64::MAX - 0xfff, 0x7fff_ffff_ffff), None);
    }

    proptest! {
        #[test]
        fn tables_may_say_anything(root in 0_u64..0x4000, address: u64, entries in vec(any::<u64>(), 0x800)) {
            let mut memory = Memory::new("8M".parse().unwrap()).unwrap();
            for (slot, entry) in (0..).step_by(8).zip(entries) {
                // So that tables lie in memory now and then.
                memory.write_word(slot, if entry & 0x100 == 0 { entry & 0x3fff } else { entry });
            }
            let _: Option<u64> = translate(&memory, root & !0xfff, address);
        }
    }
}
