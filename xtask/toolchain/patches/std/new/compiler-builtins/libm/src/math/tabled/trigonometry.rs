//! Sines and cosines of `f32`: the rest of the division by pi/2, in `f64`, and a polynomial of it.
//!
//! One formula serves sines and cosines, with coefficients from a table, so no branch depends on the quarter
//! of the circle, which a processor could not predict.

use super::arithmetic::{Arithmetic, selected};
use core::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Coefficients of r^3/r to r^9/r of sin r, and of r^2 to r^8 of cos r, from -pi/4 to pi/4, with errors of
/// 2^-37 and 2^-33: the maxima of these errors are minimal (Remez's algorithm, computed with 200 bits by
/// mpmath).
const COEFFICIENTS: [[f64; 4]; 2] = [
    [
        f64::from_bits(0xbfc5_5555_54c7_1a26),
        f64::from_bits(0x3f81_1110_86a3_f400),
        f64::from_bits(0xbf2a_00f7_f0d2_b805),
        f64::from_bits(0x3ec6_cd1e_c140_720c),
    ],
    [
        f64::from_bits(0xbfdf_ffff_fcb8_1cc6),
        f64::from_bits(0x3fa5_5553_c783_4ed6),
        f64::from_bits(0xbf56_c07f_1419_b20e),
        f64::from_bits(0x3ef9_9169_673e_2c9b),
    ],
];

/// pi/2 in two parts. The first part has 25 bits: its products with numbers below 2^28 are exact.
const PI_BY_2_HIGH: f64 = f64::from_bits(0x3ff9_21fb_5000_0000);
const PI_BY_2_LOW: f64 = f64::from_bits(0x3e51_10b4_611a_6263);

/// From this number on, the two parts of pi/2 are not exact enough.
const LARGE: f32 = (1_u32 << 20) as f32;

/// The first 256 bits of 2/pi after the point, and zeros before it.
const TWO_BY_PI: [u64; 5] =
    [0, 0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561];

/// A number whose unit in the last place is 1: adding it rounds to an integer, which is in the sum's lower
/// bits.
const ROUND_TO_INTEGER: f64 = 1.5 * (1_u64 << 52) as f64;

selected! {
    /// The sine.
    pub fn sinf(x: f32) = sinf_by;
    /// The cosine.
    pub fn cosf(x: f32) = cosf_by;
}

#[inline(always)]
fn sinf_by<A: Arithmetic>(by: A, x: f32) -> f32 {
    sine(by, x, 0)
}

#[inline(always)]
fn cosf_by<A: Arithmetic>(by: A, x: f32) -> f32 {
    sine(by, x, 1)
}

/// The sine of x + quarters * pi/2.
#[inline(always)]
fn sine<A: Arithmetic>(by: A, x: f32, quarters: u32) -> f32 {
    let (more, rest) = if x.abs() < LARGE {
        let rounded = by.mul_add(x.into(), FRAC_2_PI, ROUND_TO_INTEGER);
        let count = rounded - ROUND_TO_INTEGER;
        let rest = by.mul_add(count, -PI_BY_2_LOW, by.mul_add(count, -PI_BY_2_HIGH, x.into()));
        (rounded.to_bits() as u32, rest)
    } else if x.abs() < f32::INFINITY {
        divide_large(x)
    } else {
        return f32::NAN;
    };
    let quarters = quarters.wrapping_add(more);
    let is_cosine = quarters & 1;
    let [first, second, third, fourth] = COEFFICIENTS[is_cosine as usize];
    let square = rest * rest;
    let upper = by.mul_add(square, fourth, third);
    let polynomial = by.mul_add(square * square, upper, by.mul_add(square, second, first));
    // The rest, or 1; the mask selects without a branch.
    let mask = u64::from(is_cosine).wrapping_neg();
    let factor = f64::from_bits(rest.to_bits() & !mask | 1.0_f64.to_bits() & mask);
    let sign = u64::from(quarters >> 1 & 1) << 63;
    let factor = f64::from_bits(factor.to_bits() ^ sign);
    // The last product has the sign of a factor that is 0.
    (factor * by.mul_add(square, polynomial, 1.0)) as f32
}

/// Divides a large, finite number by pi/2: the quotient to nearest, modulo 2^32, and the rest.
#[cold]
fn divide_large(x: f32) -> (u32, f64) {
    let digits = u64::from(x.to_bits() & 0x7f_ffff | 1 << 23);
    let exponent = (x.to_bits() >> 23 & 0xff) as i32 - 127 - 23;
    // The quotient is digits * 2^exponent * 2/pi. Bits of 2/pi that would count multiples of 4 are left out,
    // and of the others 96 are enough: no rest of an `f32` is less than 2^-34 or so.
    let first = (exponent + 64 - 2) as usize;
    let word = |index: usize| u128::from(TWO_BY_PI[index]);
    let bits = word(first / 64) << 64 | word(first / 64 + 1);
    let following = word(first / 64 + 2) << (first % 64) >> 64;
    let bits = (bits << (first % 64) | following) >> 32;
    let product = (bits * u128::from(digits)) << 32;
    // Two bits are the quotient modulo 4, and the others the fraction, which is from -1/2 to 1/2 if it is
    // rounded to nearest.
    let product = (product >> 64) as u64;
    let rounded = product.wrapping_add(1 << 61);
    let fraction = product.wrapping_sub(rounded & 3 << 62) as i64;
    let (quotient, rest) = ((rounded >> 62) as u32, fraction as f64 * (FRAC_PI_2 / (1_u64 << 62) as f64));
    if x < 0.0 { (quotient.wrapping_neg(), -rest) } else { (quotient, rest) }
}
