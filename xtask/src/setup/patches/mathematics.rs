//! The patches that make exponentials, logarithms and powers fast, and sines and cosines of `f32`: they
//! replace functions of `compiler_builtins`.
//!
//! Those are FreeBSD's, without tables. The method of the new ones is Tang's (ACM TOMS 15, 1989, and 16,
//! 1990), as in C libraries: a number is split into what a table has and a small rest, for which a short
//! polynomial does. Each is compiled twice: with fused multiplication, and without, as the target's baseline
//! has none (`tabled/arithmetic.rs`).

use super::Patch;

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
    #[cfg(target_feature = \"sse2\")]
    use crate::mem::selection;

    mod tables {
",
            include_str!("mathematics/tabled/tables.rs"),
            "}
    mod arithmetic {
",
            include_str!("mathematics/tabled/arithmetic.rs"),
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
    mod trigonometry {
",
            include_str!("mathematics/tabled/trigonometry.rs"),
            "}
    pub use self::exponentials::{exp, exp2, exp2f, expf};
    pub use self::logarithms::{log, log2, log2f, log10, log10f, logf};
    pub use self::powers::{pow, powf};
    pub use self::trigonometry::{cosf, sinf};
}
"
        ),
    },
    replacement!("exp"),
    replacement!("exp2"),
    replacement!("exp2f"),
    replacement!("expf"),
    replacement!("log"),
    replacement!("log2"),
    replacement!("log2f"),
    replacement!("log10"),
    replacement!("log10f"),
    replacement!("logf"),
    replacement!("pow"),
    replacement!("powf"),
    replacement!("sinf"),
    replacement!("cosf"),
];
