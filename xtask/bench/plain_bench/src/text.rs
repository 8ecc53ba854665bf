//! Formatting, parsing and decoding of text.

use std::fmt::Write as _;
use std::hint::black_box;
use std::str;

use crate::random::Random;
use crate::rounds::{Loop, Outcome, Rounds};

/// All loops with text.
pub(crate) const LOOPS: [Loop; 6] = [
    Loop {
        name: "format",
        title: "format 300,000 lines",
        run: format_lines,
        checksums: [0x48c3_62c7, 0x119_23af],
    },
    Loop {
        name: "parse-integers",
        title: "parse 1 M integers",
        run: parse_integers,
        checksums: [0xc7f7_b437_b4d3_9f73, 0xf837_4035_0021_d716],
    },
    Loop {
        name: "parse-floats",
        title: "parse 500,000 `f64`",
        run: parse_floats,
        checksums: [0x6930_6d1f_bcbe_efb4, 0xffb3_72d0_cf5f_13aa],
    },
    Loop {
        name: "print-floats",
        title: "print 200,000 `f64`",
        run: print_floats,
        checksums: [0x1037_17a3, 0x40_e331],
    },
    Loop {
        name: "utf-8",
        title: "validate 32 MiB of UTF-8",
        run: validate,
        checksums: [0x1ff_fe00, 0x7_fd00],
    },
    Loop {
        name: "chars",
        title: "add the `char`s of 16 MiB",
        run: chars,
        checksums: [0x4_63b3_2769, 0x118d_ba46],
    },
];

/// An English text, whose characters take one to four bytes in UTF-8.
const PARAGRAPH: &str = "The café near the Straße sells naïve jokes, 3 € each; the 🦀 pays in 円. No guest has asked \
                         for a receipt, and none was given: receipts are 4 € each. ";

fn bytes_of(text: &str) -> u64 {
    text.bytes().map(u64::from).sum()
}

fn format_lines(rounds: &Rounds) -> Outcome {
    let numbers = Random::new().numbers(rounds.scale(300_000));
    let work = |numbers: &Vec<u64>| {
        let mut text = String::new();
        for (line, number) in numbers.iter().enumerate() {
            let name = if number.is_multiple_of(2) { "even" } else { "odd" };
            let _: Result<(), _> =
                writeln!(text, "{line:>8}: {number} {number:#018x} {name:<6}{:?}", Some(line));
        }
        bytes_of(&text)
    };
    rounds.run(|| &numbers, work)
}

fn parse_integers(rounds: &Rounds) -> Outcome {
    let numbers = Random::new().numbers(rounds.scale(1_000_000));
    // The numbers have all lengths.
    let numbers = (0..64).cycle().zip(numbers).map(|(shift, number)| (number >> shift).to_string());
    let text = numbers.collect::<Vec<_>>().join(" ");
    let work = |text: &str| {
        let numbers = text.split(' ').filter_map(|word| word.parse::<u64>().ok());
        numbers.fold(0, |sum: u64, number| sum.rotate_left(1) ^ number)
    };
    rounds.run(|| black_box(text.as_str()), work)
}

/// Returns numbers with up to 17 digits.
fn floats(rounds: &Rounds, count: usize) -> Vec<f64> {
    let mut random = Random::new();
    (0..rounds.scale(count)).map(|_| random.between(-1e3, 1e3)).collect()
}

fn parse_floats(rounds: &Rounds) -> Outcome {
    let words: Vec<String> = floats(rounds, 500_000).iter().map(f64::to_string).collect();
    let text = words.join(" ");
    let work = |text: &str| {
        let numbers = text.split(' ').filter_map(|word| word.parse::<f64>().ok());
        numbers.fold(0, |sum: u64, number| sum.rotate_left(1) ^ number.to_bits())
    };
    rounds.run(|| black_box(text.as_str()), work)
}

fn print_floats(rounds: &Rounds) -> Outcome {
    let numbers = floats(rounds, 200_000);
    let work = |numbers: &Vec<f64>| {
        let mut text = String::new();
        for number in numbers {
            let _: Result<(), _> = write!(text, "{number} {number:.3} ");
        }
        bytes_of(&text)
    };
    rounds.run(|| &numbers, work)
}

fn validate(rounds: &Rounds) -> Outcome {
    let text = PARAGRAPH.repeat(rounds.scale(4 << 20) / PARAGRAPH.len());
    let work = |bytes: &[u8]| {
        let valid = (0..8).filter_map(|_| str::from_utf8(black_box(bytes)).ok());
        valid.map(|text| text.len() as u64).sum()
    };
    rounds.run(|| text.as_bytes(), work)
}

fn chars(rounds: &Rounds) -> Outcome {
    let text = PARAGRAPH.repeat(rounds.scale(16 << 20) / PARAGRAPH.len());
    rounds.run(|| text.as_str(), |text| text.chars().map(u64::from).sum())
}
