//! The patches that make exponentials, logarithms and powers fast: in place of those of `compiler_builtins`, ones with
//! tables.
//!
//! Those are FreeBSD's, without tables. The method of these is Tang's (ACM TOMS 15, 1989, and 16, 1990), as of the C
//! libraries: a number is split into what a table has and a small rest, for which a short polynomial does. They need
//! no fused multiplication, which the target's baseline does not have.

use super::Patch;

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    unreachable_pub,
    reason = "bits of numbers are integers of any sign; set-up inserts the functions where they are public"
)]
mod tabled {
    pub(super) mod exponentials;
    pub(super) mod logarithms;
    pub(super) mod powers;
    mod tables;
}

const MATHEMATICS: &str = "compiler-builtins/libm/src/math/mod.rs";

/// Replaces a function by that with a table.
macro_rules! replacement {
    ($function:literal) => {
        Patch {
            file: MATHEMATICS,
            old: concat!("pub use self::", $function, "::", $function, ";\n"),
            new: concat!("pub use self::tabled::", $function, ";\n"),
        }
    };
}

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: MATHEMATICS,
        old: "mod arch;
mod expo2;
",
        new: concat!(
            "mod arch;
mod expo2;
mod tabled {
    mod tables {
",
            include_str!("mathematics/tabled/tables.rs"),
            "}
    mod exponentials {
",
            include_str!("mathematics/tabled/exponentials.rs"),
            "}
    mod logarithms {
",
            include_str!("mathematics/tabled/logarithms.rs"),
            "}
    mod powers {
",
            include_str!("mathematics/tabled/powers.rs"),
            "}
    pub use self::exponentials::{exp, exp2, expf};
    pub use self::logarithms::{log, log2, log2f, log10, log10f, logf};
    pub use self::powers::{pow, powf};
}
"
        ),
    },
    replacement!("exp"),
    replacement!("exp2"),
    replacement!("expf"),
    replacement!("log"),
    replacement!("log2"),
    replacement!("log2f"),
    replacement!("log10"),
    replacement!("log10f"),
    replacement!("logf"),
    replacement!("pow"),
    replacement!("powf"),
];

#[cfg(test)]
mod tests {
    use super::tabled::exponentials::{exp, exp2, expf};
    use super::tabled::logarithms::{log, log2, log2f, log10, log10f, logf};
    use super::tabled::powers::{pow, powf};
    use crate::workspace;
    use std::fs;

    type Functions<F, const COUNT: usize> = [(&'static str, fn(F, F) -> F); COUNT];

    const FUNCTIONS: Functions<f64, 6> = [
        ("exp", |x, _| exp(x)),
        ("exp2", |x, _| exp2(x)),
        ("ln", |x, _| log(x)),
        ("log2", |x, _| log2(x)),
        ("log10", |x, _| log10(x)),
        ("powf", pow),
    ];

    const FUNCTIONS_F32: Functions<f32, 5> = [
        ("exp", |x, _| expf(x)),
        ("ln", |x, _| logf(x)),
        ("log2", |x, _| log2f(x)),
        ("log10", |x, _| log10f(x)),
        ("powf", powf),
    ];

    /// Bits of a result in order: the sign is that of an integer.
    fn ordered(bits: u64, width: u32) -> i64 {
        let sign = 1_u64 << (width - 1);
        let magnitude = i64::try_from(bits & (sign - 1)).unwrap();
        if bits & sign == 0 { magnitude } else { -magnitude }
    }

    /// Results of a table by bits: that of the function, and the exact one, rounded.
    fn results(line: &str) -> Option<(i64, i64)> {
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

    /// The program that checks all functions in guests has the table.
    #[test]
    fn results_are_nearly_always_the_exact_ones_rounded() {
        let path = workspace::root().join("examples/mathematics/src/references.txt");
        let text = fs::read_to_string(path).unwrap();
        let (mut count, mut inexact) = (0, 0);
        for line in text.lines() {
            let Some((found, expected)) = results(line) else { continue };
            assert!(found.abs_diff(expected) <= 1, "{line}: {found:x} instead of {expected:x}");
            count += 1;
            inexact += u32::from(found != expected);
        }
        assert!(count > 900 && inexact * 50 < count, "{inexact} of {count}");
    }
}
