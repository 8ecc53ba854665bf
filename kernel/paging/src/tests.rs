//! Page tables compared with a model, with counted tables and memory that runs out.

extern crate std;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{any, prop_oneof};
use proptest::strategy::{Just, Strategy};
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::vec;
use std::vec::Vec;

use hermit_interface::address::{LARGE_PAGE_SIZE as LARGE, PAGE_SIZE};

use crate::table::canonical;
use crate::{
    Access, MappedPage, MemoryType, PageAttributes, PageTable, PagingError, TableMemory, Translation,
};

const HUGE: u64 = 1 << 30;

/// Table memory that checks allocation and freeing, and may run out.
#[derive(Debug, Default)]
struct TestMemory {
    /// The table at each page's address, from the second page on; `None` once it is freed.
    tables: Vec<Option<Vec<u64>>>,
    /// Number of tables that can still be allocated; `None` for no limit.
    left: Option<u32>,
}

impl TableMemory for TestMemory {
    fn read(&self, address: u64) -> u64 {
        let (table, entry) = Self::indices(address);
        self.tables[table].as_ref().unwrap()[entry]
    }

    fn write(&mut self, address: u64, value: u64) {
        let (table, entry) = Self::indices(address);
        self.tables[table].as_mut().unwrap()[entry] = value;
    }

    fn allocate(&mut self) -> Option<u64> {
        self.left = match self.left {
            Some(left) => Some(left.checked_sub(1)?),
            None => None,
        };
        self.tables.push(Some(vec![0; 512]));
        Some(self.tables.len() as u64 * 4096)
    }

    fn free(&mut self, table: u64) {
        let old = self.tables[Self::indices(table).0].take().expect("a table is freed once");
        assert!(old.iter().all(|&entry| entry == 0), "a table that is freed is empty");
    }
}

impl TestMemory {
    /// Indices of a table and of its entry.
    fn indices(address: u64) -> (usize, usize) {
        let index = |number: u64| usize::try_from(number).unwrap();
        (index(address / 4096 - 1), index(address % 4096 / 8))
    }

    /// Number of tables that are not freed.
    fn count(&self) -> usize {
        self.tables.iter().flatten().count()
    }

    /// Walks the tables as the processor does (SDM volume 3, tables 4-15 to 4-20): physical address,
    /// (writable, executable).
    fn walk(&self, root: u64, address: u64) -> Option<(u64, (bool, bool))> {
        let (mut table, mut write, mut execute) = (root, true, true);
        for shift in [39, 30, 21, 12] {
            let entry = self.read(table + (address >> shift) % 512 * 8);
            if entry & 1 == 0 {
                return None;
            }
            write &= entry & 2 != 0;
            execute &= entry >> 63 == 0;
            let is_page = shift == 12 || entry & 0x80 != 0;
            assert!(!is_page || shift < 39, "no pages of 512 GiB");
            table = entry & 0x000f_ffff_ffff_f000;
            if is_page {
                assert!(table.is_multiple_of(1 << shift), "reserved bits are clear");
                assert!(shift > 12 || entry & 0x80 == 0, "the memory type stays the normal one");
                return Some((table + address % (1 << shift), (write, execute)));
            }
        }
        None
    }
}

fn tree() -> (TestMemory, PageTable) {
    let mut memory = TestMemory::default();
    let table = PageTable::new(&mut memory).unwrap();
    (memory, table)
}

fn translation(physical: u64, access: Access, page_size: u64) -> Option<Translation> {
    Some(Translation { physical, attributes: access.into(), page_size })
}

#[test]
fn map_uses_the_largest_page_that_fits() {
    let cases = [
        (HUGE, HUGE, HUGE, HUGE, LARGE),
        (HUGE, HUGE + LARGE, HUGE, LARGE, LARGE),
        (HUGE, LARGE, LARGE, LARGE, LARGE),
        (LARGE, PAGE_SIZE, LARGE, PAGE_SIZE, PAGE_SIZE),
        (PAGE_SIZE, LARGE, LARGE, PAGE_SIZE, PAGE_SIZE),
        (LARGE, LARGE, LARGE - PAGE_SIZE, PAGE_SIZE, PAGE_SIZE),
    ];
    // Miri takes minutes for the last ones, which fill tables with small pages.
    let count = if cfg!(miri) { 3 } else { cases.len() };
    for (address, physical, size, with_huge, without) in cases.into_iter().take(count) {
        for (huge, expected) in [(true, with_huge), (false, without)] {
            let (mut memory, table) = tree();
            let mut table = if huge { table.with_huge_pages() } else { table };
            table.map(&mut memory, address, physical, size, Access::Execute.into()).unwrap();
            let last = table.translate(&memory, address + size - 1);
            assert_eq!(last, translation(physical + size - 1, Access::Execute, expected));
        }
    }
}

#[test]
fn invalid_ranges_are_rejected() {
    let (mut memory, mut table) = tree();
    let half = 1 << 47;
    let cases = [
        (1, 0, PAGE_SIZE, PagingError::Misaligned),
        (0, 1, PAGE_SIZE, PagingError::Misaligned),
        (0, 0, 1, PagingError::Misaligned),
        (half, 0, PAGE_SIZE, PagingError::NotCanonical),
        (half - PAGE_SIZE, 0, 2 * PAGE_SIZE, PagingError::NotCanonical),
        (half - PAGE_SIZE, 0, u64::MAX - half - half + 1, PagingError::NotCanonical),
        (u64::MAX - 4095, 0, 2 * PAGE_SIZE, PagingError::NotCanonical),
        (0, (1 << 52) - PAGE_SIZE, 2 * PAGE_SIZE, PagingError::PhysicalOutOfRange),
        (0, u64::MAX - 4095, PAGE_SIZE, PagingError::PhysicalOutOfRange),
    ];
    for (address, physical, size, error) in cases {
        assert_eq!(table.map(&mut memory, address, physical, size, Access::Read.into()), Err(error));
    }
    assert_eq!(table.protect(&mut memory, 0, 1, Access::Read), Err(PagingError::Misaligned));
    assert_eq!(table.unmap(&mut memory, half, 4096, &mut |_| {}), Err(PagingError::NotCanonical));
    assert_eq!(table.translate(&memory, half), None);
    assert_eq!(memory.count(), 1);
}

#[test]
fn first_and_last_page_of_each_half_can_be_mapped() {
    let (mut memory, mut table) = tree();
    for address in [0, (1 << 47) - PAGE_SIZE, u64::MAX << 47, u64::MAX - 4095] {
        table.map(&mut memory, address, 0, PAGE_SIZE, Access::None.into()).unwrap();
        assert_eq!(table.translate(&memory, address + 5), translation(5, Access::None, PAGE_SIZE));
        let again = table.map(&mut memory, address, 0, PAGE_SIZE, Access::Read.into());
        assert_eq!(again, Err(PagingError::AlreadyMapped));
        let mut found = Vec::new();
        table.unmap(&mut memory, address, PAGE_SIZE, &mut |page| found.push(page)).unwrap();
        assert_eq!(found, [MappedPage { address, physical: 0, size: PAGE_SIZE }]);
    }
    assert_eq!(memory.count(), 1);
}

#[test]
fn protect_keeps_the_memory_type() {
    let (mut memory, mut table) = tree();
    let attributes = PageAttributes { access: Access::Write, memory_type: MemoryType::Uncacheable };
    table.map(&mut memory, LARGE, LARGE, LARGE, attributes).unwrap();
    for access in [Access::None, Access::Read] {
        table.protect(&mut memory, LARGE + PAGE_SIZE, PAGE_SIZE, access).unwrap();
        let found = table.translate(&memory, LARGE + PAGE_SIZE).unwrap();
        assert_eq!(found.attributes, PageAttributes { access, memory_type: MemoryType::Uncacheable });
    }
    assert_eq!(table.translate(&memory, LARGE).unwrap().attributes, attributes);
}

#[test]
fn existing_tree_can_be_taken_over() {
    let (mut memory, mut first) = tree();
    first.map(&mut memory, HUGE, 0, LARGE, Access::Write.into()).unwrap();
    let second = PageTable::at(first.root());
    assert_eq!(second.translate(&memory, HUGE), translation(0, Access::Write, LARGE));
}

/// A step of the property test.
#[derive(Clone, Copy, Debug)]
enum RandomAction {
    /// Maps; the number selects the alignment of the physical address.
    Map(usize, Access),
    Unmap,
    Protect(Access),
}

/// The action, the indices of the [`points`] at which its range starts and ends, and the number of tables
/// that can be allocated.
type Step = (RandomAction, usize, usize, Option<u32>);

/// Model of the range between one point and the next: physical address and access if it is mapped.
type Cell = Option<(u64, Access)>;

/// Offsets at which ranges start and end, around the starts of large and huge pages.
fn points() -> Vec<u64> {
    let middle = [-1, 0, 1].map(|page| page * 4096);
    let places = [1, 2, 4].map(|large| large * LARGE);
    let large = places.iter().flat_map(|place| middle.map(|offset| place.strict_add_signed(offset)));
    let huge = [HUGE, 2 * HUGE].into_iter();
    let huge = huge.flat_map(|place| [place - LARGE, place - 4096, place, place + 4096, place + LARGE]);
    [0].into_iter().chain(large).chain(huge).collect()
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::None), Just(Access::Read), Just(Access::Write), Just(Access::Execute)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        (0..4_usize, access()).prop_map(|(align, access)| RandomAction::Map(align, access)),
        Just(RandomAction::Unmap),
        access().prop_map(RandomAction::Protect),
    ];
    let count = points().len();
    vec((action, 0..count - 1, 1..count, option::of(0..6_u32)), 1..if cfg!(miri) { 5 } else { 40 })
}

/// A tree and its model.
struct Checked {
    memory: TestMemory,
    table: PageTable,
    start: u64,
    points: Vec<u64>,
    model: Vec<Cell>,
}

impl Checked {
    fn new(start: u64, huge: bool) -> Self {
        let (memory, table) = tree();
        let table = if huge { table.with_huge_pages() } else { table };
        let points = points();
        let model = vec![None; points.len() - 1];
        Self { memory, table, start, points, model }
    }

    fn address(&self, point: usize) -> u64 {
        canonical(self.start + self.points[point])
    }

    fn step(&mut self, (action, from, to, left): Step) -> Result<(), PagingError> {
        let to = to.max(from + 1);
        let (address, size) = (self.address(from), self.points[to] - self.points[from]);
        self.memory.left = left;
        match action {
            RandomAction::Map(align, access) => {
                // Aligned like the address, or less. Small pages only if there are not too many of them.
                let shift = if size > 16 * LARGE { [0, 0, LARGE, LARGE] } else { [0, 0, LARGE, PAGE_SIZE] };
                let physical = 7 * HUGE + self.points[from] + shift[align];
                let before = self.memory.tables.clone();
                let result = self.table.map(&mut self.memory, address, physical, size, access.into());
                if let Err(error) = result {
                    let (old, new) = self.memory.tables.split_at(before.len());
                    assert!(old == before && new.iter().all(Option::is_none), "a failed map changes nothing");
                    let is_free = self.model[from..to].iter().all(Option::is_none);
                    assert_eq!(
                        error == PagingError::AlreadyMapped,
                        !is_free && error != PagingError::OutOfMemory
                    );
                    return result;
                }
                for cell in from..to {
                    assert_eq!(self.model[cell], None);
                    let offset = self.points[cell] - self.points[from];
                    self.model[cell] = Some((physical + offset, access));
                }
            }
            RandomAction::Unmap => self.unmap(from, to)?,
            RandomAction::Protect(access) => {
                let result = self.table.protect(&mut self.memory, address, size, access);
                let is_mapped = self.model[from..to].iter().all(Option::is_some);
                assert_eq!(result == Err(PagingError::NotMapped), !is_mapped);
                result?;
                for (_, old) in self.model[from..to].iter_mut().flatten() {
                    *old = access;
                }
            }
        }
        Ok(())
    }

    /// Unmaps, and compares the reported pages with the model.
    fn unmap(&mut self, from: usize, to: usize) -> Result<(), PagingError> {
        let (address, size) = (self.address(from), self.points[to] - self.points[from]);
        let mut found: Vec<MappedPage> = Vec::new();
        let result = self.table.unmap(&mut self.memory, address, size, &mut |page| found.push(page));
        if result.is_err() {
            assert!(found.is_empty());
            return result;
        }
        let mut total = 0;
        for cell in from..to {
            let Some((physical, _)) = self.model[cell].take() else { continue };
            let (start, size) = (self.address(cell), self.points[cell + 1] - self.points[cell]);
            total += size;
            for page in found.iter().filter(|page| page.address.wrapping_sub(start) < size) {
                assert_eq!(page.physical - physical, page.address - start);
            }
        }
        assert!(found.windows(2).all(|pair| pair[0].address + pair[0].size <= pair[1].address));
        assert_eq!(found.iter().map(|page| page.size).sum::<u64>(), total);
        Ok(())
    }

    /// Compares the pages of the lower half, in ascending order, with the model.
    fn check_pages(&self) {
        let (mut end, mut total) = (0, 0);
        let read = |address| self.memory.read(address);
        self.table.for_each_page(&read, &mut |page, attributes| {
            assert!(page.address >= end);
            end = page.address + page.size;
            total += page.size;
            let expected = Translation { physical: page.physical, attributes, page_size: page.size };
            assert_eq!(self.table.translate(&self.memory, page.address), Some(expected));
        });
        let mapped = self.model.iter().enumerate().filter(|(_, mapped)| mapped.is_some());
        let lower = mapped.filter(|&(cell, _)| self.address(cell) < 1 << 47);
        assert_eq!(total, lower.map(|(cell, _)| self.points[cell + 1] - self.points[cell]).sum::<u64>());
    }

    /// Compares translations at the start, at offset 4096, in the middle and at the end of each cell.
    fn check(&self) {
        for (cell, mapped) in self.model.iter().enumerate() {
            let size = self.points[cell + 1] - self.points[cell];
            for offset in [0, 4096, size / 2, size - 1].into_iter().filter(|&offset| offset < size) {
                let address = self.address(cell) + offset;
                let found = self.table.translate(&self.memory, address);
                let expected =
                    mapped.map(|(physical, access)| (physical + offset, PageAttributes::from(access)));
                assert_eq!(found.map(|found| (found.physical, found.attributes)), expected);
                let walked = self.memory.walk(self.table.root(), address);
                let attributes = |access| (access == Access::Write, access == Access::Execute);
                let present = mapped.filter(|&(_, access)| access != Access::None);
                assert_eq!(walked, present.map(|(physical, access)| (physical + offset, attributes(access))));
            }
        }
    }
}

proptest! {
    #[test]
    fn page_table_agrees_with_a_model(steps in steps(), huge in any::<bool>(), place in 0..3_usize) {
        // Across the end of a PML4 entry, at the end of the lower half, at the start of the upper half.
        let start = [(1 << 39) - HUGE, (1 << 47) - 3 * HUGE, 1 << 47][place];
        let mut checked = Checked::new(start, huge);
        for step in steps {
            let result = checked.step(step);
            prop_assert!(step.3.is_some() || result != Err(PagingError::OutOfMemory));
            checked.check();
            checked.check_pages();
        }
        checked.memory.left = None;
        checked.unmap(0, checked.points.len() - 1).unwrap();
        checked.check();
        prop_assert_eq!(checked.memory.count(), 1);
    }
}
