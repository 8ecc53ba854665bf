//! Collections of std.

use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::hint::black_box;

use crate::random::Random;
use crate::rounds::{Loop, Outcome, Rounds};

/// All loops with collections.
pub(crate) const LOOPS: [Loop; 9] = [
    Loop { name: "push", title: "push 4 M integers", run: push, checksums: [0x3_a352_9400, 0x3a_9e00] },
    Loop {
        name: "map-insert",
        title: "insert 500,000 integers into a `HashMap`",
        run: map_insert,
        checksums: [0x433_df62_ab2a_1748, 0x203a_3a9b_25ae_77b4],
    },
    Loop {
        name: "map-lookup",
        title: "look up 1 M integers in a `HashMap` of 2 M",
        run: map_lookup,
        checksums: [0xcbea_0782_fc94_381b, 0xc95e_10ca_dca1_cfbc],
    },
    Loop {
        name: "map-strings",
        title: "count 200,000 strings in a `HashMap`",
        run: map_strings,
        checksums: [0x174_149c, 0x1_3968],
    },
    Loop {
        name: "tree-strings",
        title: "count 200,000 strings in a `BTreeMap`",
        run: tree_strings,
        checksums: [0x1b_9a2f_7827, 0x6d8_b7e6],
    },
    Loop {
        name: "tree-insert",
        title: "insert 200,000 integers into a `BTreeMap`",
        run: tree_insert,
        checksums: [0xad1d_63c7_82de_96ce, 0xd587_3bba_ad83_18f0],
    },
    Loop {
        name: "remove-first",
        title: "remove the first of a `Vec` of 100,000, and push one, 1,000 times",
        run: remove_first,
        checksums: [0x1_33b6_6120_93a0, 0x4ccf_526b],
    },
    Loop {
        name: "deque",
        title: "push and pop 10 M integers of a `VecDeque`",
        run: deque,
        checksums: [0xffff_8870_d878_7f27, 0xe03_e3d9_63fe_35d6],
    },
    Loop {
        name: "heap",
        title: "push and pop 500,000 integers of a `BinaryHeap`",
        run: heap,
        checksums: [0x2de6_ac5f_37fe_45d4, 0xcfd4_7380_3c7c_b311],
    },
];

/// Number of different words.
const VOCABULARY: u32 = 50_000;

/// Adds numbers without a check for overflow.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

fn push(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(4_000_000) as u64;
    let work = |()| {
        let mut numbers = Vec::new();
        for number in 0..count {
            numbers.push(number);
        }
        // Adds only a part of the numbers, because adding all of them would take a third of the time.
        sum(black_box(numbers).iter().step_by(512).copied())
    };
    rounds.run(|| (), work)
}

fn map_insert(rounds: &Rounds) -> Outcome {
    let keys = Random::new().numbers(rounds.scale(500_000));
    let work = |keys: &Vec<u64>| {
        let mut map = HashMap::new();
        for key in keys {
            map.insert(*key, key >> 1);
        }
        sum(black_box(map).into_values())
    };
    rounds.run(|| &keys, work)
}

fn map_lookup(rounds: &Rounds) -> Outcome {
    let mut random = Random::new();
    let keys = random.numbers(rounds.scale(2_000_000));
    let map: HashMap<_, _> = keys.iter().map(|key| (*key, key >> 1)).collect();
    // Half of the wanted keys are in the map.
    let mut wanted = random.numbers(rounds.scale(500_000));
    wanted.extend(keys.iter().step_by(4));
    wanted.sort_unstable_by_key(|key| key.swap_bytes());
    rounds.run(|| &map, |map| sum(wanted.iter().filter_map(|key| map.get(key)).copied()))
}

fn map_strings(rounds: &Rounds) -> Outcome {
    let words = Random::new().words(rounds.scale(200_000), VOCABULARY);
    let work = |words: &Vec<String>| {
        let mut counts = HashMap::new();
        for word in words {
            *counts.entry(word.clone()).or_insert(0_u64) += 1;
        }
        sum(counts.iter().map(|(word, count)| word.len() as u64 * count * count))
    };
    rounds.run(|| &words, work)
}

fn tree_strings(rounds: &Rounds) -> Outcome {
    let words = Random::new().words(rounds.scale(200_000), VOCABULARY);
    let work = |words: &Vec<String>| {
        let mut counts = BTreeMap::new();
        for word in words {
            *counts.entry(word.clone()).or_insert(0_u64) += 1;
        }
        sum((1..).zip(&counts).map(|(number, (word, count))| word.len() as u64 * count * number))
    };
    rounds.run(|| &words, work)
}

fn tree_insert(rounds: &Rounds) -> Outcome {
    let keys = Random::new().numbers(rounds.scale(200_000));
    let work = |keys: &Vec<u64>| {
        let mut map = BTreeMap::new();
        for key in keys {
            map.insert(*key, key >> 1);
        }
        sum((1..).zip(map.values()).map(|(number, value)| value.wrapping_mul(number)))
    };
    rounds.run(|| &keys, work)
}

fn remove_first(rounds: &Rounds) -> Outcome {
    let (length, count) = (rounds.scale(100_000) as u64, rounds.scale(1000));
    let work = |mut numbers: Vec<u64>| {
        for _ in 0..count {
            let first = numbers.remove(0);
            numbers.push(first + length);
        }
        sum((1..).zip(numbers).map(|(number, value)| value * number))
    };
    rounds.run(|| (0..length).collect(), work)
}

/// A queue of 1,000 integers.
fn deque(rounds: &Rounds) -> Outcome {
    let count = rounds.scale(10_000_000) as u64;
    let work = |mut queue: VecDeque<u64>| {
        let mut popped = 0_u64;
        for number in 0..count {
            queue.push_back(number);
            popped = popped.rotate_left(1) ^ queue.pop_front().unwrap_or_default();
        }
        popped
    };
    rounds.run(|| (0..1000).collect(), work)
}

fn heap(rounds: &Rounds) -> Outcome {
    let numbers = Random::new().numbers(rounds.scale(500_000));
    let work = |numbers: &Vec<u64>| {
        let mut heap = BinaryHeap::new();
        for number in numbers {
            heap.push(*number);
        }
        let mut popped = 0_u64;
        while let Some(number) = heap.pop() {
            popped = popped.rotate_left(1) ^ number;
        }
        popped
    };
    rounds.run(|| &numbers, work)
}
