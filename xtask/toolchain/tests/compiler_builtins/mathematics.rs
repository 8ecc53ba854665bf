//! Tests of the mathematical functions on the host, in both variants.

use hermit_toolchain::workspace;

use crate::functions::selection::{Variant, select};
use crate::functions::tabled::exponentials::{exp, exp2, exp2f, expf};
use crate::functions::tabled::logarithms::{log, log2, log2f, log10, log10f, logf};
use crate::functions::tabled::powers::{pow, powf};
use crate::functions::tabled::trigonometry::{cosf, sinf};
use std::fs;

type Functions<F, const COUNT: usize> = [(&'static str, fn(F, F) -> F); COUNT];

const FUNCTIONS: Functions<f64, 6> = [
    ("exp", |x, _| exp(x)),
    ("exp2", |x, _| exp2(x)),
    ("ln", |x, _| log(x)),
    ("log2", |x, _| log2(x)),
    ("log10", |x, _| log10(x)),
    ("powf", |x, y| pow(x, y)),
];

const FUNCTIONS_F32: Functions<f32, 8> = [
    ("exp", |x, _| expf(x)),
    ("exp2", |x, _| exp2f(x)),
    ("ln", |x, _| logf(x)),
    ("log2", |x, _| log2f(x)),
    ("log10", |x, _| log10f(x)),
    ("powf", |x, y| powf(x, y)),
    ("sin", |x, _| sinf(x)),
    ("cos", |x, _| cosf(x)),
];

/// Bits of a result in order. Results of different signs, also zeros, are far from each other.
fn ordered(bits: u64, width: u32) -> i128 {
    const FAR: i128 = 1 << 64;
    let sign = 1_u64 << (width - 1);
    let magnitude = i128::from(bits & (sign - 1));
    if bits & sign == 0 { magnitude } else { -FAR - magnitude }
}

/// Results of a table by bits: that of the function, and the exact one, rounded.
fn results(line: &str) -> Option<(i128, i128)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, expected) = (words[0], words[words.len() - 1]);
    let width = u32::try_from(words[1].len() * 4).unwrap();
    let mut bits = words[1..].iter().map(|word| u64::from_str_radix(word, 16));
    let (x, y) = (bits.next()?.ok()?, bits.next()?.unwrap_or_default());
    let is_nan = expected == "nan";
    let found = if width == 64 {
        let (_, function) = FUNCTIONS.iter().find(|known| known.0 == name)?;
        let result = function(f64::from_bits(x), f64::from_bits(y));
        if result.is_nan() && is_nan { return Some((0, 0)) } else { result.to_bits() }
    } else {
        let (_, function) = FUNCTIONS_F32.iter().find(|known| known.0 == name)?;
        let narrow = |bits: u64| f32::from_bits(u32::try_from(bits).unwrap());
        let result = function(narrow(x), narrow(y));
        if result.is_nan() && is_nan { return Some((0, 0)) } else { result.to_bits().into() }
    };
    let expected = u64::from_str_radix(expected, 16).unwrap_or_else(|_| panic!("no NaN: {line}"));
    Some((ordered(found, width), ordered(expected, width)))
}

/// Both variants. The program that checks all functions in guests has the table.
#[test]
fn results_are_nearly_always_the_exact_ones_rounded() {
    let path = workspace::root().join("kernel/tests/mathematics/src/references.txt");
    let text = fs::read_to_string(path).unwrap();
    for variant in [Variant::Narrow, Variant::Wide].into_iter().filter(|&variant| select(variant)) {
        let (mut count, mut inexact) = (0, 0);
        for line in text.lines() {
            let Some((found, expected)) = results(line) else { continue };
            assert!(found.abs_diff(expected) <= 1, "{variant:?}: {line}: {found:x} instead of {expected:x}");
            count += 1;
            inexact += u32::from(found != expected);
        }
        assert!(count > 1100 && inexact * 50 < count, "{variant:?}: {inexact} of {count}");
    }
}

/// Numbers of all sizes, and special ones, by their upper 32 bits.
fn samples() -> impl Iterator<Item = u32> {
    (0..=u32::MAX).step_by(99_991).chain([
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x8000_0000,
    ])
}

/// The result of a function in both variants, by bits in order; `None` if it is no number.
fn both<F: Copy>(
    function: fn(F, F) -> F,
    [x, y]: [F; 2],
    ordered: fn(F) -> Option<i128>,
) -> [Option<i128>; 2] {
    [Variant::Narrow, Variant::Wide].map(|variant| {
        assert!(select(variant), "the caller has found that the processor has it");
        ordered(function(x, y))
    })
}

fn differ_by_a_unit([first, second]: [Option<i128>; 2]) -> bool {
    match (first, second) {
        (Some(first), Some(second)) => first.abs_diff(second) <= 1,
        (first, second) => first == second,
    }
}

#[test]
fn variants_differ_by_a_unit_at_most() {
    if !select(Variant::Wide) {
        return;
    }
    let order = |x: f64| (!x.is_nan()).then(|| ordered(x.to_bits(), 64));
    let order_f32 = |x: f32| (!x.is_nan()).then(|| ordered(x.to_bits().into(), 32));
    for bits in samples() {
        let (x, x_f32) = (f64::from_bits(u64::from(bits) << 32 | 0x1234_5678), f32::from_bits(bits));
        // Exponents with which many powers are in range, and integers.
        for (y, y_f32) in
            [(300.5 / x.abs().ln(), 40.5 / x_f32.abs().ln()), (3.0, 3.0), (f64::INFINITY, f32::NAN)]
        {
            for (name, function) in FUNCTIONS {
                let results = both(function, [x, y], order);
                assert!(differ_by_a_unit(results), "{name} {x:e} {y:e}: {results:x?}");
            }
            for (name, function) in FUNCTIONS_F32 {
                let results = both(function, [x_f32, y_f32], order_f32);
                assert!(differ_by_a_unit(results), "{name} of f32 {x_f32:e} {y_f32:e}: {results:x?}");
            }
        }
    }
}
