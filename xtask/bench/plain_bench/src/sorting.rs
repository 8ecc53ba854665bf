//! Sorting of integers and strings.

use crate::random::Random;
use crate::rounds::{Loop, Outcome, Rounds};

/// All loops that sort.
pub(crate) const LOOPS: [Loop; 5] = [
    Loop {
        name: "sort-1m",
        title: "sort 1 M integers, stably",
        run: sort_1m,
        checksums: [0x3acb_cc18_25f3_d4db, 0xe104_2262_49c3_5ad2],
    },
    Loop {
        name: "sort-2m",
        title: "sort 2 M integers, stably",
        run: sort_2m,
        checksums: [0x6db8_2ebe_3c5b_6426, 0xc839_bac2_4e7e_324c],
    },
    Loop {
        name: "sort-unstable",
        title: "sort 2 M integers, unstably",
        run: sort_unstable,
        checksums: [0x6db8_2ebe_3c5b_6426, 0xc839_bac2_4e7e_324c],
    },
    Loop {
        name: "sort-strings",
        title: "sort 200,000 strings, stably",
        run: sort_strings,
        checksums: [0x1ef7_6146_2bdc_8e96, 0x4b43_2df5_145a_d408],
    },
    Loop {
        name: "sort-strings-unstable",
        title: "sort 200,000 strings, unstably",
        run: sort_strings_unstable,
        checksums: [0x1ef7_6146_2bdc_8e96, 0x4b43_2df5_145a_d408],
    },
];

/// Returns a checksum of values, which depends on their order.
fn in_order(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, |sum, value| sum.rotate_left(1) ^ value)
}

fn integers(rounds: &Rounds, count: usize, sort: fn(&mut [u64])) -> Outcome {
    let numbers = Random::new().numbers(rounds.scale(count));
    let work = |mut numbers: Vec<u64>| {
        sort(&mut numbers);
        in_order(numbers.into_iter())
    };
    rounds.run(|| numbers.clone(), work)
}

fn sort_1m(rounds: &Rounds) -> Outcome {
    integers(rounds, 1_000_000, <[u64]>::sort)
}

fn sort_2m(rounds: &Rounds) -> Outcome {
    integers(rounds, 2_000_000, <[u64]>::sort)
}

fn sort_unstable(rounds: &Rounds) -> Outcome {
    integers(rounds, 2_000_000, <[u64]>::sort_unstable)
}

fn strings(rounds: &Rounds, sort: fn(&mut [String])) -> Outcome {
    let words = Random::new().words(rounds.scale(200_000), u32::MAX);
    let work = |mut words: Vec<String>| {
        sort(&mut words);
        let last = |word: &String| word.bytes().next_back().map_or(0, u64::from);
        in_order(words.iter().map(last))
    };
    rounds.run(|| words.clone(), work)
}

fn sort_strings(rounds: &Rounds) -> Outcome {
    strings(rounds, <[String]>::sort)
}

fn sort_strings_unstable(rounds: &Rounds) -> Outcome {
    strings(rounds, <[String]>::sort_unstable)
}
