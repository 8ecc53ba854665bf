//! Arithmetic with and without fused multiplication, and functions of both kinds.
//!
//! A function is written once, for any [`Arithmetic`]. [`selected`] compiles it twice, for processors with
//! FMA (SDM volume 1, chapter 14) and for all others, and selects the variant at each call. Functions of an
//! [`Arithmetic`] are always inline, so that they become a part of the variant and are compiled for its
//! processors.

#[cfg(target_feature = "sse2")]
use core::arch::x86_64::{_mm_cvtsd_f64, _mm_fmadd_sd, _mm_set_sd};

/// A number as a sum, whose second part is small.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) high: f64,
    pub(super) low: f64,
}

/// Products of `f64`.
pub(super) trait Arithmetic: Copy {
    /// True if `mul_add` rounds once.
    const IS_FUSED: bool;

    /// a * b + c.
    fn mul_add(self, a: f64, b: f64, c: f64) -> f64;

    /// a * b with an error of at most 2^-78 of it.
    fn product(self, a: f64, b: f64) -> Sum;
}

/// Rounds the product, and then the sum.
#[derive(Clone, Copy)]
pub(super) struct Separate;

/// The upper 26 bits of a number: products of two such are exact.
#[inline(always)]
fn upper(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & 0xffff_ffff_f800_0000)
}

impl Arithmetic for Separate {
    const IS_FUSED: bool = false;

    #[inline(always)]
    fn mul_add(self, a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }

    #[inline(always)]
    fn product(self, a: f64, b: f64) -> Sum {
        let (a_upper, b_upper) = (upper(a), upper(b));
        Sum { high: a_upper * b_upper, low: (a - a_upper) * b_upper + a * (b - b_upper) }
    }
}

/// Rounds the sum only. A value exists only where the processor has FMA.
#[cfg(target_feature = "sse2")]
#[derive(Clone, Copy)]
pub(super) struct Fused(());

#[cfg(target_feature = "sse2")]
impl Fused {
    /// The arithmetic, in a function that is compiled for processors with FMA.
    #[inline]
    #[target_feature(enable = "fma")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

#[cfg(target_feature = "sse2")]
impl Arithmetic for Fused {
    const IS_FUSED: bool = true;

    #[inline(always)]
    fn mul_add(self, a: f64, b: f64, c: f64) -> f64 {
        // SAFETY: the instruction needs FMA. `new` alone makes a `Fused`, and its callers are compiled for
        // FMA, or have shown that the processor has it.
        unsafe { _mm_cvtsd_f64(_mm_fmadd_sd(_mm_set_sd(a), _mm_set_sd(b), _mm_set_sd(c))) }
    }

    #[inline(always)]
    fn product(self, a: f64, b: f64) -> Sum {
        let high = a * b;
        Sum { high, low: self.mul_add(a, b, -high) }
    }
}

/// Defines functions in two variants of another one, whose first argument is the [`Arithmetic`]. They are
/// `extern "C"`: it is known that these do not unwind, so that a function ends with a jump to them.
macro_rules! selected {
    ($($(#[$doc:meta])* pub fn $name:ident($($argument:ident),+: $float:ident) = $function:ident;)+) => { $(
        $(#[$doc])*
        pub extern "C" fn $name($($argument: $float),+) -> $float {
            #[cfg(target_feature = "sse2")]
            {
                #[target_feature(enable = "fma")]
                extern "C" fn fused($($argument: $float),+) -> $float {
                    $function(super::arithmetic::Fused::new(), $($argument),+)
                }
                if super::selection::has_wide_vectors() {
                    // SAFETY: the function needs AVX and FMA, which the processor has, and the kernel has
                    // enabled AVX.
                    return unsafe { fused($($argument),+) };
                }
            }
            $function(super::arithmetic::Separate, $($argument),+)
        }
    )+ };
}
pub(super) use selected;
