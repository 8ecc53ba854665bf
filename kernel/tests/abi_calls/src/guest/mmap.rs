//! Mapping memory in pages.
//!
//! The tests check that mapped memory is zero, has the requested rights, and is gone after it is unmapped,
//! also by parts and at sizes around those of pages and large pages. Areas are unmapped by one CPU while
//! others use the same addresses: an old TLB entry shows as a changed area. Many rounds of mapping and
//! unmapping must lose no memory.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;

use hermit_abi::{EACCES, EINVAL, ENOMEM, PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE};

use super::calls::ErrnoResult;
use super::memory::{Area, PAGE, map, protect, unmap};

const WRITABLE: u32 = PROT_READ | PROT_WRITE;

/// Size of a large page in bytes.
const LARGE_PAGE: usize = 2 << 20;

/// Number of times that memory is mapped and unmapped.
const ROUNDS: usize = 1000;

/// Number of threads that map memory at the same time.
const THREADS: usize = 4;

/// Number of threads that read memory which another one maps.
const READERS: usize = 2;

/// Number of mappings that they read.
const READ_ROUNDS: usize = 100;

/// Number of mappings of each of these threads.
const PARALLEL_ROUNDS: usize = 40;

/// Granularity of the largest mapping, in bytes.
const STEP: usize = 64 << 10;

/// Number of pages that are mapped one by one.
const PAGES: usize = 1500;

/// Upper limit of the search in steps: more memory than a test machine has.
const MAX_STEPS: usize = 1 << 20;

pub(crate) fn mmap() {
    [1, PAGE, PAGE + 1, LARGE_PAGE, (5 << 20) + 12_345].into_iter().for_each(life);
    parts(8 * PAGE, 2 * PAGE, 2 * PAGE);
    parts(3 * LARGE_PAGE, LARGE_PAGE + 5 * PAGE, PAGE);
    parts(3 * LARGE_PAGE, LARGE_PAGE, LARGE_PAGE);
    fragments();
    code();
    bad_ranges();
    bad_bits();
    too_much();
    no_leak();
}

/// Threads use memory that other CPUs unmap: an old TLB entry shows as an area that has changed, or as a
/// fault.
pub(crate) fn parallel() {
    read_by_others();
    exchange_in_a_ring();
}

/// A thread maps memory again and again at the same address, each time with other frames. Other threads read
/// this memory, but do not change mappings. Some of them are busy meanwhile, others let their CPUs idle.
fn read_by_others() {
    let (done, is_done) = mpsc::channel();
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (sender, areas) = mpsc::channel();
            let done = done.clone();
            (sender, thread::spawn(move || read(reader % 2 == 0, &areas, &done)))
        })
        .collect();
    let mut starts = BTreeSet::new();
    for seed in 0..READ_ROUNDS {
        let [first, second] = [0, 0].map(|_| map(PAGE, WRITABLE).expect("no memory"));
        starts.insert(first.start);
        first.part(0, 16).fill(seed);
        readers.iter().for_each(|(sender, _)| sender.send((first, seed)).expect("a reader has ended"));
        (0..READERS).for_each(|_| is_done.recv().expect("the readers have ended"));
        // The next mapping gets the frame that is freed last.
        assert_eq!([unmap(first), unmap(second)], [Ok(0), Ok(0)]);
    }
    assert!(starts.len() < READ_ROUNDS / 2, "addresses are not used again");
    for (sender, thread) in readers {
        drop(sender);
        thread.join().expect("a reader panicked");
    }
}

/// Checks areas until there are no more.
fn read(is_busy: bool, areas: &Receiver<(Area, usize)>, done: &Sender<()>) {
    loop {
        let received = if is_busy { areas.try_recv() } else { areas.recv().map_err(TryRecvError::from) };
        match received {
            Ok((area, seed)) => {
                area.part(0, 16).check(seed);
                done.send(()).expect("the writer has ended");
            }
            Err(TryRecvError::Empty) => thread::yield_now(),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

/// Threads map and fill small areas, which share page tables. Another thread checks and unmaps each area.
fn exchange_in_a_ring() {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
    let to_next = senders.into_iter().cycle().skip(1);
    let threads: Vec<_> = receivers
        .into_iter()
        .zip(to_next)
        .enumerate()
        .map(|(thread, (previous, next))| thread::spawn(move || exchange(thread, &previous, &next)))
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread panicked"));
}

/// Passes areas to the next thread, and takes as many of the previous one.
fn exchange(thread: usize, previous: &Receiver<(Area, usize)>, next: &Sender<(Area, usize)>) {
    for round in 0..PARALLEL_ROUNDS {
        let seed = thread * PARALLEL_ROUNDS + round;
        let area = map(PAGE * (1 + seed % 3), WRITABLE).expect("no memory");
        starts_of_pages(area).for_each(|start| {
            start.check_zero();
            start.fill(seed);
        });
        assert_eq!(protect(area, PROT_READ), Ok(0));
        next.send((area, seed)).expect("the next thread has ended");
        let (area, seed) = previous.recv().expect("the previous thread has ended");
        starts_of_pages(area).for_each(|start| start.check(seed));
        assert_eq!(protect(area, WRITABLE), Ok(0));
        starts_of_pages(area).for_each(|start| start.fill(seed + 1));
        assert_eq!(unmap(area), Ok(0));
    }
}

fn starts_of_pages(area: Area) -> impl Iterator<Item = Area> {
    (0..area.size).step_by(PAGE).map(move |offset| area.part(offset, 16))
}

/// Maps, uses, protects and unmaps memory.
fn life(size: usize) {
    for seed in 0..2 {
        let area = map(size, WRITABLE).expect("no memory");
        assert!(area.start.is_multiple_of(PAGE), "{area:x?} is not at a page");
        let whole = Area { size: size.next_multiple_of(PAGE), ..area };
        // Also if the memory was used before.
        whole.check_zero();
        whole.fill(seed);
        assert_eq!(protect(area, PROT_READ), Ok(0));
        whole.check(seed);
        assert_eq!(protect(area, WRITABLE), Ok(0));
        whole.check(seed);
        whole.fill(seed + 10);
        assert_eq!(protect(area, PROT_NONE), Ok(0));
        assert_eq!(protect(area, WRITABLE), Ok(0));
        whole.check(seed + 10);
        assert_eq!(unmap(area), Ok(0));
    }
    let hidden = map(size, PROT_NONE).expect("no memory");
    assert_eq!(protect(hidden, PROT_READ), Ok(0));
    hidden.check_zero();
    assert_eq!(unmap(hidden), Ok(0));
}

/// A part of a mapping is protected and unmapped: the rest stays unchanged.
fn parts(size: usize, offset: usize, part: usize) {
    let all = map(size, WRITABLE).expect("no memory");
    let (before, hole) = (all.part(0, offset), all.part(offset, part));
    let after = all.part(offset + part, size - offset - part);
    let seeds = [before, hole, after].into_iter().enumerate();
    seeds.clone().for_each(|(seed, area)| area.fill(seed));
    assert_eq!(protect(hole, PROT_READ), Ok(0));
    before.fill(0);
    after.fill(2);
    seeds.for_each(|(seed, area)| area.check(seed));
    assert_eq!(unmap(hole), Ok(0));
    for area in [hole, all] {
        assert_eq!(unmap(area), Err(EINVAL), "not all of it is mapped");
        assert_eq!(protect(area, PROT_READ), Err(EINVAL), "not all of it is mapped");
    }
    before.check(0);
    after.check(2);
    before.fill(3);
    after.fill(4);
    before.check(3);
    after.check(4);
    assert_eq!([unmap(before), unmap(after)], [Ok(0), Ok(0)]);
    assert_eq!(unmap(all), Err(EINVAL));
}

/// Instructions can be written and then executed, but memory is never writable and executable at once.
fn code() {
    /// `mov eax, 42; ret`
    const FORTY_TWO: [u8; 6] = [0xb8, 42, 0, 0, 0, 0xc3];
    let area = map(PAGE, WRITABLE).expect("no memory");
    FORTY_TWO.into_iter().enumerate().for_each(|(offset, byte)| area.set(offset, byte));
    assert_eq!(protect(area, PROT_READ | PROT_EXEC), Ok(0));
    assert_eq!(area.call(), 42);
    assert_eq!(unmap(area), Ok(0));
}

fn bad_ranges() {
    let area = map(2 * PAGE, WRITABLE).expect("no memory");
    area.fill(1);
    let (text, boxed, local) = ("constant", Box::new(0_u8), 0_u8);
    let page_of = |address: usize| Area { start: address & !(PAGE - 1), size: PAGE };
    let bad = [
        Area { start: 0, size: PAGE },
        Area { start: area.start, size: 0 },
        Area { start: area.start + 1, size: PAGE },
        Area { start: area.start - PAGE, size: 4 * PAGE },
        Area { start: area.start, size: usize::MAX },
        Area { start: area.start, size: usize::MAX - PAGE + 1 },
        Area { start: usize::MAX - PAGE + 1, size: PAGE },
        Area { start: 1 << 47, size: PAGE },
        page_of(bad_ranges as fn() as *const () as usize),
        page_of(text.as_ptr().addr()),
        page_of((&raw const *boxed).addr()),
        page_of((&raw const local).addr()),
    ];
    for area in bad {
        assert_eq!(unmap(area), Err(EINVAL), "{area:x?} was unmapped");
        assert_eq!(protect(area, PROT_READ), Err(EINVAL), "{area:x?} was protected");
    }
    area.check(1);
    assert_eq!([unmap(area), unmap(area)], [Ok(0), Err(EINVAL)]);
}

fn bad_bits() {
    let area = map(PAGE, WRITABLE).expect("no memory");
    for (bits, error) in [
        (8, EINVAL),
        (WRITABLE | 1 << 31, EINVAL),
        (PROT_WRITE | PROT_EXEC, EACCES),
        (WRITABLE | PROT_EXEC, EACCES),
    ] {
        assert_eq!(refusal(map(PAGE, bits)), error, "{bits:#x}");
        assert_eq!(protect(area, bits), Err(error), "{bits:#x}");
    }
    area.fill(5);
    assert_eq!(unmap(area), Ok(0));
}

fn refusal(result: ErrnoResult<Area>) -> i32 {
    result.expect_err("it was mapped")
}

/// A failed mapping has no side effects.
/// Addresses in very many pieces are used again: the kernel has few of them in proportion to the memory.
fn fragments() {
    let pages = || (0..PAGES).map(|_| map(PAGE, WRITABLE).expect("no memory")).collect::<Vec<_>>();
    let before = pages();
    for parity in [0, 1] {
        let some = before.iter().skip(parity).step_by(2);
        some.for_each(|&page| assert_eq!(unmap(page), Ok(0)));
    }
    let starts: BTreeSet<_> = before.iter().map(|page| page.start).collect();
    let after = pages();
    assert!(after.iter().all(|page| starts.contains(&page.start)), "addresses are lost");
    after.into_iter().for_each(|page| assert_eq!(unmap(page), Ok(0)));
}

fn too_much() {
    assert_eq!(refusal(map(0, WRITABLE)), EINVAL);
    for size in [100 << 30, 1 << 42, 1 << 46, 1 << 63, usize::MAX - PAGE, usize::MAX] {
        assert_eq!(refusal(map(size, WRITABLE)), ENOMEM, "{size:#x}");
    }
    life(1 << 20);
}

fn no_leak() {
    // The first mappings also cost page tables, which later ones reuse.
    largest();
    let before = largest();
    for round in 0..ROUNDS {
        let size = PAGE * (1 + round * 7 % 300);
        let area = map(size, WRITABLE).expect("no memory");
        area.set(0, 1);
        area.set(size - 1, 1);
        let (first, rest) = (area.part(0, size.div_ceil(2 * PAGE) * PAGE), size.div_ceil(2 * PAGE) * PAGE);
        if rest < size {
            assert_eq!(unmap(area.part(rest, size - rest)), Ok(0));
        }
        assert_eq!(unmap(first), Ok(0));
    }
    let after = largest();
    // The kernel may have allocated a few pages for itself meanwhile, which can change the number by one. A
    // page that each round leaks changes it by more.
    const { assert!(ROUNDS * PAGE > 2 * STEP) };
    assert!(
        before.abs_diff(after) <= 1,
        "{before} and {after} steps of {STEP} bytes can be mapped at a time"
    );
    println!("the largest mapping has {} KiB", after * (STEP >> 10));
}

/// Number of steps of the largest possible mapping, by binary search.
fn largest() -> usize {
    let (mut largest, mut too_large) = (0, MAX_STEPS);
    while largest + 1 < too_large {
        let middle = usize::midpoint(largest, too_large);
        match map(middle * STEP, WRITABLE) {
            Ok(area) => {
                assert_eq!(unmap(area), Ok(0));
                largest = middle;
            }
            Err(error) => {
                assert_eq!(error, ENOMEM);
                too_large = middle;
            }
        }
    }
    largest
}
