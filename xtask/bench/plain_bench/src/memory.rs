//! Allocation, copies and comparison of memory.

use std::hint::black_box;

use crate::random::Random;
use crate::rounds::{Loop, Outcome, Rounds};

/// All loops with memory.
pub(crate) const LOOPS: [Loop; 9] = [
    Loop {
        name: "vectors",
        title: "allocate 1 M vectors of 16 to 2,000 bytes",
        run: vectors,
        checksums: [0x3c1c_a601, 0xef_e989],
    },
    Loop {
        name: "boxes",
        title: "allocate a list of 1 M boxes, and free it",
        run: boxes,
        checksums: [0x8f8_f718_f707_08e7, 0x29_e1f2],
    },
    Loop {
        name: "pages",
        title: "allocate 256 MiB and write to each page",
        run: pages,
        checksums: [0x1_0000, 0x400],
    },
    Loop {
        name: "copy-16",
        title: "copy up to 32 bytes, 8 M times",
        run: copy_16,
        checksums: [0x1f0, 0x1f0],
    },
    Loop {
        name: "copy-64",
        title: "copy 64 bytes, 4 M times",
        run: copy_64,
        checksums: [0x1_e0a6_e000, 0x782_9b80],
    },
    Loop {
        name: "copy-1k",
        title: "copy 1 KiB, 1 M times",
        run: copy_1k,
        checksums: [0x1e_65fb_8000, 0x7997_ee00],
    },
    Loop {
        name: "copy-64k",
        title: "copy 64 KiB, 8,000 times",
        run: copy_64k,
        checksums: [0xf_9060_0000, 0x3e41_8000],
    },
    Loop {
        name: "copy-1m",
        title: "copy 1 MiB, 500 times",
        run: copy_1m,
        checksums: [0xf_9060_0000, 0x37c8_0000],
    },
    Loop {
        name: "compare",
        title: "compare two times 1 KiB, 2 M times",
        run: compare,
        checksums: [0x1e_8480, 0x7a12],
    },
];

/// Number of vectors that are alive at the same time.
const ALIVE: usize = 64;

/// Size of a page in bytes.
const PAGE: usize = 4096;

fn vectors(rounds: &Rounds) -> Outcome {
    let mut random = Random::new();
    let sizes: Vec<u32> = (0..rounds.scale(1_000_000)).map(|_| 16 + random.below(1985)).collect();
    let work = |sizes: &Vec<u32>| {
        let mut alive: [Vec<u8>; ALIVE] = [const { Vec::new() }; ALIVE];
        for (slot, size) in (0..ALIVE).cycle().zip(sizes) {
            let mut vector = Vec::with_capacity(*size as usize);
            vector.push(1);
            alive[slot] = black_box(vector);
        }
        let alive: usize = alive.iter().map(Vec::len).sum();
        sizes.iter().map(|size| u64::from(*size)).sum::<u64>() + alive as u64
    };
    rounds.run(|| &sizes, work)
}

fn boxes(rounds: &Rounds) -> Outcome {
    struct Node {
        number: u64,
        next: Option<Box<Self>>,
    }
    let count = rounds.scale(1_000_000) as u64;
    let work = |()| {
        let mut list = None;
        for number in 0..count {
            list = Some(Box::new(Node { number, next: list }));
        }
        // Frees the list in a loop, because `drop` would recurse.
        let mut sum = 0_u64;
        while let Some(node) = list {
            sum = sum.rotate_left(1) ^ node.number;
            list = node.next;
        }
        sum
    };
    rounds.run(|| (), work)
}

fn pages(rounds: &Rounds) -> Outcome {
    let size = rounds.scale(256 << 20);
    let work = |()| {
        let mut memory = vec![0_u8; size];
        for page in memory.chunks_mut(PAGE) {
            page[0] = 1;
        }
        black_box(&memory).chunks(PAGE).map(|page| u64::from(page[0])).sum()
    };
    rounds.run(|| (), work)
}

/// Copies blocks of `size` bytes, `count` times.
fn copy(rounds: &Rounds, size: usize, count: usize) -> Outcome {
    let count = rounds.scale(count);
    let from: Vec<u8> = (0..=u8::MAX).cycle().take(size).collect();
    let work = |mut to: Vec<u8>| {
        for _ in 0..count {
            black_box(to.as_mut_slice()).copy_from_slice(black_box(&from));
        }
        to.iter().map(|byte| u64::from(*byte)).sum::<u64>() * count as u64
    };
    rounds.run(|| vec![0; size], work)
}

/// Copies of 0 to 32 bytes.
fn copy_16(rounds: &Rounds) -> Outcome {
    let mut random = Random::new();
    let sizes: Vec<usize> = (0..rounds.scale(512_000)).map(|_| random.below(33) as usize).collect();
    let from: Vec<u8> = (0..64).collect();
    let work = |mut to: Vec<u8>| {
        for _ in 0..16 {
            for size in black_box(&sizes) {
                to[..*size].copy_from_slice(&from[..*size]);
                black_box(&mut to);
            }
        }
        to.iter().map(|byte| u64::from(*byte)).sum()
    };
    rounds.run(|| vec![0; 64], work)
}

fn copy_64(rounds: &Rounds) -> Outcome {
    copy(rounds, 64, 4_000_000)
}

fn copy_1k(rounds: &Rounds) -> Outcome {
    copy(rounds, 1 << 10, 1_000_000)
}

fn copy_64k(rounds: &Rounds) -> Outcome {
    copy(rounds, 64 << 10, 8000)
}

fn copy_1m(rounds: &Rounds) -> Outcome {
    copy(rounds, 1 << 20, 500)
}

fn compare(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(2_000_000);
    let (first, second) = (vec![7_u8; 1 << 10], vec![7_u8; 1 << 10]);
    let work = |first: &[u8]| {
        let same = (0..count).filter(|_| black_box(first) == black_box(second.as_slice()));
        same.count() as u64
    };
    rounds.run(|| first.as_slice(), work)
}
