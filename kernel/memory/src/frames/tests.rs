//! Both allocators compared with a bitmap, in memory that panics on access to allocated pages.

extern crate std;

use hermit_interface::address::{AddressRange, PAGE_SIZE};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::vec;
use std::vec::Vec;

use super::{ExtentAllocator, FrameAllocator, NotAllocated, Words};

/// Number of words of a page that a node may use.
const WORDS: usize = 8;

/// The first words of each page, and a flag for each page: true if the page is free and may be accessed.
#[derive(Debug)]
struct TestMemory {
    words: Vec<[u64; WORDS]>,
    free: Vec<bool>,
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

impl TestMemory {
    fn new(pages: usize) -> Self {
        Self { words: vec![[0xaaaa; WORDS]; pages], free: vec![false; pages] }
    }

    fn locate(&self, address: u64) -> (usize, usize) {
        assert!(address.is_multiple_of(8));
        let page = index(address / PAGE_SIZE);
        assert!(self.free[page], "page {page} is not free");
        (page, index(address % PAGE_SIZE / 8))
    }

    /// Marks pages as free or allocated; the contents of allocated pages are overwritten.
    fn mark(&mut self, pages: std::ops::Range<usize>, free: bool) {
        if !free {
            self.words[pages.clone()].fill([0xdead; WORDS]);
        }
        self.free[pages].fill(free);
    }

    fn all(&self, pages: std::ops::Range<usize>, free: bool) -> bool {
        self.free[pages].iter().all(|&page| page == free)
    }

    fn total(&self) -> u64 {
        self.free.iter().filter(|&&free| free).count() as u64 * PAGE_SIZE
    }

    fn largest(&self) -> u64 {
        let runs = self.free.split(|&free| !free).map(<[bool]>::len);
        runs.max().unwrap() as u64 * PAGE_SIZE
    }

    /// First fit.
    fn fit(&self, size: usize, align: usize) -> Option<usize> {
        let last = self.free.len().checked_sub(size)?;
        (0..=last).step_by(align).find(|&at| self.all(at..at + size, true))
    }
}

impl Words for TestMemory {
    fn read(&self, address: u64) -> u64 {
        let (page, word) = self.locate(address);
        self.words[page][word]
    }

    fn write(&mut self, address: u64, value: u64) {
        let (page, word) = self.locate(address);
        self.words[page][word] = value;
    }
}

fn range(pages: &std::ops::Range<usize>) -> AddressRange {
    AddressRange { start: pages.start as u64 * PAGE_SIZE, end: pages.end as u64 * PAGE_SIZE }
}

/// Frees allocated pages.
fn free(extents: &mut ExtentAllocator, memory: &mut TestMemory, pages: std::ops::Range<usize>) {
    memory.mark(pages.clone(), true);
    extents.free(memory, range(&pages)).unwrap();
}

#[test]
fn page_at_address_0_can_be_allocated() {
    let (mut extents, mut memory) = (ExtentAllocator::new(), TestMemory::new(8));
    free(&mut extents, &mut memory, 0..1);
    free(&mut extents, &mut memory, 2..4);
    assert_eq!(extents.allocate(&mut memory, PAGE_SIZE, PAGE_SIZE), Some(0));
    assert_eq!(extents.allocate(&mut memory, PAGE_SIZE, 1), Some(2 * PAGE_SIZE));
    assert_eq!(extents.total(), PAGE_SIZE);
}

#[test]
fn invalid_ranges_are_rejected() {
    let (mut extents, mut memory) = (ExtentAllocator::new(), TestMemory::new(8));
    free(&mut extents, &mut memory, 0..8);
    let refused = [(0, 4096), (1, 4096), (4097, 4096), (4096, 0), (4096, 3), (u64::MAX - 4095, 4096)];
    for (size, align) in refused {
        assert_eq!(extents.allocate(&mut memory, size, align), None);
    }
    for (start, size) in [(0, 0), (1, 4096), (0, 4097), (u64::MAX - 4095, 8192), (1 << 40, 4096)] {
        assert!(!extents.allocate_at(&mut memory, start, size));
    }
    for (start, end) in [(1 << 20, (1 << 20) + 1), (4095, 4096), (0, 4096), (7 << 12, 9 << 12)] {
        assert_eq!(extents.free(&mut memory, AddressRange { start, end }), Err(NotAllocated));
    }
    assert_eq!(FrameAllocator::new().free_frame(&mut memory, 1), Err(NotAllocated));
    assert_eq!(extents.total(), 8 * PAGE_SIZE);
}

#[test]
fn aligned_allocation_does_not_try_every_extent() {
    let (mut extents, mut memory) = (ExtentAllocator::new(), TestMemory::new(1024));
    // A hundred unaligned pairs of pages, then an aligned pair, and a long extent.
    for pair in 0..100 {
        free(&mut extents, &mut memory, pair * 4 + 1..pair * 4 + 3);
    }
    free(&mut extents, &mut memory, 402..404);
    free(&mut extents, &mut memory, 501..520);
    let mut take = || extents.allocate(&mut memory, 2 * PAGE_SIZE, 2 * PAGE_SIZE);
    assert_eq!(take(), Some(502 * PAGE_SIZE));
    assert!((0..7).all(|_| take().is_some()));
    assert_eq!(take(), Some(402 * PAGE_SIZE), "no extent fits with any alignment");
    assert_eq!(take(), Some(518 * PAGE_SIZE));
    assert_eq!(take(), None);
}

#[test]
fn depth_of_the_tree_is_logarithmic() {
    const EXTENTS: usize = if cfg!(miri) { 100 } else { 10_000 };
    /// Five times the natural logarithm of the number of extents.
    const MAX_DEPTH: usize = if cfg!(miri) { 23 } else { 46 };
    type Order = fn(usize) -> usize;
    // Ascending, descending, scattered: 7919 is coprime to the number of extents.
    let orders: [Order; 3] = [|at| at, |at| EXTENTS - 1 - at, |at| at * 7919 % EXTENTS];
    for order in orders {
        let (mut extents, mut memory) = (ExtentAllocator::new(), TestMemory::new(4 * EXTENTS));
        for at in (0..EXTENTS).map(order) {
            free(&mut extents, &mut memory, 4 * at..4 * at + 3);
        }
        assert!(extents.depth(&memory) <= MAX_DEPTH, "{}", extents.depth(&memory));
        // Moves the start of every other extent, and removes the rest.
        for at in 0..EXTENTS {
            let size = if at % 2 == 0 { 1 } else { 3 };
            assert!(extents.allocate_at(&mut memory, range(&(4 * at..4 * at + 1)).start, size * PAGE_SIZE));
        }
        assert_eq!(extents.total(), EXTENTS as u64 * PAGE_SIZE);
        assert!(extents.depth(&memory) <= MAX_DEPTH, "{}", extents.depth(&memory));
    }
}

#[test]
fn frames_are_reused_in_reverse_order() {
    let (mut frames, mut memory) = (FrameAllocator::new(), TestMemory::new(100));
    memory.mark(0..100, true);
    frames.free(&mut memory, range(&(0..100))).unwrap();
    let taken: Vec<u64> = (0..100).map(|_| frames.allocate_frame(&mut memory).unwrap()).collect();
    assert!(taken.iter().copied().eq((0..100).map(|page| page * PAGE_SIZE)));
    assert_eq!((frames.allocate_frame(&mut memory), frames.total()), (None, 0));
    for &frame in &taken {
        frames.free_frame(&mut memory, frame).unwrap();
    }
    assert_eq!(frames.total(), 100 * PAGE_SIZE);
    let again: Vec<u64> = (0..20).map(|_| frames.allocate_frame(&mut memory).unwrap()).collect();
    assert!(again.iter().eq(taken.iter().rev().take(20)));
}

#[test]
fn cached_pages_can_be_allocated_in_extents() {
    let (mut frames, mut memory) = (FrameAllocator::new(), TestMemory::new(64));
    memory.mark(0..64, true);
    frames.free(&mut memory, range(&(0..64))).unwrap();
    let frame = frames.allocate_frame(&mut memory).unwrap();
    frames.free_frame(&mut memory, frame).unwrap();
    assert_eq!(frames.free(&mut memory, range(&(0..1))), Err(NotAllocated));
    assert!(frames.allocate_at(&mut memory, PAGE_SIZE, 2 * PAGE_SIZE));
    assert_eq!(frames.allocate(&mut memory, 61 * PAGE_SIZE, PAGE_SIZE), Some(3 * PAGE_SIZE));
    assert_eq!(frames.total(), PAGE_SIZE);
}

#[test]
fn double_free_of_a_page_is_reported_and_dropped() {
    let (mut frames, mut memory) = (FrameAllocator::new(), TestMemory::new(128));
    memory.mark(0..128, true);
    frames.free_frame(&mut memory, 0).unwrap();
    let results: Vec<_> = (0..100).map(|page| frames.free_frame(&mut memory, page * PAGE_SIZE)).collect();
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    assert_eq!(frames.total(), 100 * PAGE_SIZE);
}

/// A step: first page, number of pages, operation, binary logarithm of the alignment in pages.
type Step = (u8, usize, u8, u32);

fn pages_of((start, size, ..): Step) -> std::ops::Range<usize> {
    usize::from(start)..(usize::from(start) + size).min(256)
}

proptest! {
    #[test]
    fn extent_allocator_agrees_with_a_bitmap(steps in vec((any::<u8>(), 1..40_usize, 0..4_u8, 0..4_u32), 0..if cfg!(miri) { 20 } else { 200 })) {
        let (mut extents, mut memory) = (ExtentAllocator::new(), TestMemory::new(256));
        for step in steps {
            let pages = pages_of(step);
            let part = range(&pages);
            match step.2 {
                0 | 1 => {
                    let allocated = memory.all(pages.clone(), false);
                    if allocated { memory.mark(pages, true); }
                    prop_assert_eq!(extents.free(&mut memory, part).is_ok(), allocated);
                }
                2 => {
                    let is_free = memory.all(pages.clone(), true);
                    prop_assert_eq!(extents.allocate_at(&mut memory, part.start, part.size()), is_free);
                    if is_free { memory.mark(pages, false); }
                }
                _ => {
                    let expected = memory.fit(step.1, 1 << step.3);
                    let found = extents.allocate(&mut memory, step.1 as u64 * PAGE_SIZE, PAGE_SIZE << step.3);
                    prop_assert_eq!(found, expected.map(|at| at as u64 * PAGE_SIZE));
                    if let Some(at) = expected { memory.mark(at..at + step.1, false); }
                }
            }
            prop_assert_eq!(extents.total(), memory.total());
            prop_assert_eq!(extents.largest(&memory), memory.largest());
        }
    }

    #[test]
    fn frame_allocator_agrees_with_a_bitmap(steps in vec((any::<u8>(), 1..40_usize, 0..8_u8, 0..4_u32), 0..if cfg!(miri) { 20 } else { 300 })) {
        let (mut frames, mut memory) = (FrameAllocator::new(), TestMemory::new(256));
        for step in steps {
            let pages = pages_of(step);
            let part = range(&pages);
            match step.2 {
                0 => {
                    let allocated = memory.all(pages.clone(), false);
                    if allocated { memory.mark(pages, true); }
                    prop_assert_eq!(frames.free(&mut memory, part).is_ok(), allocated);
                }
                1 => {
                    let is_free = memory.all(pages.clone(), true);
                    prop_assert_eq!(frames.allocate_at(&mut memory, part.start, part.size()), is_free);
                    if is_free { memory.mark(pages, false); }
                }
                2 => {
                    let fits = memory.fit(step.1, 1 << step.3).is_some();
                    let found = frames.allocate(&mut memory, step.1 as u64 * PAGE_SIZE, PAGE_SIZE << step.3);
                    prop_assert_eq!(found.is_some(), fits);
                    if let Some(at) = found.map(|at| index(at / PAGE_SIZE)) {
                        prop_assert!(at.is_multiple_of(1 << step.3) && memory.all(at..at + step.1, true));
                        memory.mark(at..at + step.1, false);
                    }
                }
                3 | 4 => for page in pages {
                    if !memory.free[page] {
                        memory.mark(page..page + 1, true);
                        prop_assert_eq!(frames.free_frame(&mut memory, page as u64 * PAGE_SIZE), Ok(()));
                    }
                },
                _ => for _ in pages {
                    let found = frames.allocate_frame(&mut memory).map(|at| index(at / PAGE_SIZE));
                    prop_assert_eq!(found.is_some(), memory.total() > 0);
                    if let Some(page) = found {
                        prop_assert!(memory.free[page]);
                        memory.mark(page..page + 1, false);
                    }
                },
            }
            prop_assert_eq!(frames.total(), memory.total());
        }
        // All free memory can be allocated page by page.
        while let Some(frame) = frames.allocate_frame(&mut memory) {
            let page = index(frame / PAGE_SIZE);
            prop_assert!(memory.free[page]);
            memory.mark(page..page + 1, false);
        }
        prop_assert_eq!((memory.total(), frames.total()), (0, 0));
    }
}
