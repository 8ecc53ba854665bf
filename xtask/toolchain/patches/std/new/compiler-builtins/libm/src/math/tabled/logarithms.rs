//! Logarithms: that of a power of two, one from a table, and a polynomial of the small rest.
//!
//! The mantissa z is multiplied by a short number c near 1/z, so that r = z c - 1 is small and exact. Then ln
//! x is k ln 2 - ln c + ln(1 + r).

use super::arithmetic::{Arithmetic, Sum, selected};
use super::tables::LOG;

/// Bits of the smallest mantissa: mantissas are from 0.6875 to 1.375. Near 1, c is 1, and the exponent is 0.
const FIRST: u64 = 0x3fe6_0000_0000_0000;

/// Position of the bits that are the index into the table.
const INDEX_SHIFT: u32 = 52 - LOG.len().ilog2();

/// Exponent, and 16 bits of a mantissa; and half of the last bit, which rounds to nearest: if r is small, so
/// are its upper bits.
const SHORT: u64 = 0xffff_ffe0_0000_0000;
const HALF_OF_SHORT: u64 = 0x10_0000_0000;

/// ln 2 in two parts. The first part is a multiple of 2^-42: its product with an exponent is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fefa_3800);
const LN2_LOW: f64 = f64::from_bits(0x3d2e_f357_93c7_6730);

/// 1 / ln 2 and 1 / ln 10 in two parts.
const BY_LN2: Sum = Sum { high: core::f64::consts::LOG2_E, low: f64::from_bits(0x3c77_77d0_ffda_0d24) };
const BY_LN10: Sum = Sum { high: core::f64::consts::LOG10_E, low: f64::from_bits(0x3c69_5355_baaa_fad3) };

/// 2^54.
const TWO_54: f64 = (1_u64 << 54) as f64;

/// A number whose unit in the last place is 1.
const ONE_BY_ONE: f64 = 1.5 * (1_u64 << 52) as f64;

/// Converts a small number. The processor's conversion would wait for the register's former value.
#[inline]
fn to_f64(number: i64) -> f64 {
    f64::from_bits(ONE_BY_ONE.to_bits().wrapping_add(number as u64)) - ONE_BY_ONE
}

/// The parts of a positive number.
struct Parts {
    /// k ln 2 - ln c, and how much it is off.
    whole: f64,
    whole_low: f64,
    /// r.
    rest: f64,
}

impl Parts {
    /// `x` is finite, and not subnormal; `exponent` is that of a power of two by which it is to be
    /// multiplied.
    #[inline(always)]
    fn new<A: Arithmetic>(by: A, x: f64, exponent: i32) -> Self {
        let offset = x.to_bits().wrapping_sub(FIRST);
        let exponent = to_f64(i64::from(exponent) + ((offset as i64) >> 52));
        let mantissa = f64::from_bits(x.to_bits().wrapping_sub(offset & (0xfff << 52)));
        let [factor, log, log_low] = LOG[(offset >> INDEX_SHIFT) as usize % LOG.len()].map(f64::from_bits);
        // Exact, as the factor has 9 bits: r is at most 2^-8, and a multiple of 2^-61.
        let rest = if A::IS_FUSED {
            by.mul_add(mantissa, factor, -1.0)
        } else {
            // Both products are exact, and so is their sum.
            let short = f64::from_bits(mantissa.to_bits().wrapping_add(HALF_OF_SHORT) & SHORT);
            (short * factor - 1.0) + (mantissa - short) * factor
        };
        let whole = by.mul_add(exponent, LN2_HIGH, log);
        Self { whole, whole_low: by.mul_add(exponent, LN2_LOW, log_low), rest }
    }
}

/// Logarithms of numbers that are not positive and finite. Not inline, so that an f32 is converted in its own
/// register: in another one, the conversion would wait for the former value.
#[cold]
#[inline(never)]
extern "C" fn special(x: f64) -> f64 {
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x < 0.0 {
        f64::NAN
    } else {
        x
    }
}

/// True if `x` is positive and finite. One comparison of integers: bits of negative numbers are greater than
/// those of infinity.
#[inline]
pub(super) fn is_usual(x: f64) -> bool {
    x.to_bits().wrapping_sub(1) < f64::INFINITY.to_bits() - 1
}

/// The parts of a positive, finite number.
#[inline(always)]
fn parts<A: Arithmetic>(by: A, x: f64) -> Parts {
    if x < f64::MIN_POSITIVE { Parts::new(by, x * TWO_54, -54) } else { Parts::new(by, x, 0) }
}

selected! {
    /// The natural logarithm.
    pub fn log(x: f64) = log_by;
    /// The logarithm to base 2.
    pub fn log2(x: f64) = log2_by;
    /// The logarithm to base 10.
    pub fn log10(x: f64) = log10_by;
    /// The natural logarithm.
    pub fn logf(x: f32) = logf_by;
    /// The logarithm to base 2.
    pub fn log2f(x: f32) = log2f_by;
    /// The logarithm to base 10.
    pub fn log10f(x: f32) = log10f_by;
}

/// The natural logarithm of a positive, finite number, with an error of about 2^-60 of it.
#[inline(always)]
fn short_log<A: Arithmetic>(by: A, x: f64) -> Sum {
    let Parts { whole, whole_low, rest } = parts(by, x);
    let square = rest * rest;
    let third = by.mul_add(rest, -1.0 / 4.0, 1.0 / 3.0);
    let fifth = by.mul_add(square, 1.0 / 7.0, by.mul_add(rest, -1.0 / 6.0, 1.0 / 5.0));
    let polynomial = by.mul_add(square, fifth, third);
    let high = whole + rest;
    let low = whole - high + rest + whole_low;
    Sum { high, low: by.mul_add(square, by.mul_add(rest, polynomial, -0.5), low) }
}

#[inline(always)]
fn log_by<A: Arithmetic>(by: A, x: f64) -> f64 {
    if !is_usual(x) {
        return special(x);
    }
    let Sum { high, low } = short_log(by, x);
    high + low
}

/// The natural logarithm of a positive, finite number, with an error of about 2^-68 of it.
#[inline(always)]
pub(super) fn log_as_sum<A: Arithmetic>(by: A, x: f64) -> Sum {
    let Parts { whole, whole_low, rest } = parts(by, x);
    let square = rest * rest;
    let third = by.mul_add(rest, -1.0 / 4.0, 1.0 / 3.0);
    let third = by.mul_add(square, by.mul_add(rest, -1.0 / 6.0, 1.0 / 5.0), third);
    let seventh = by.mul_add(square, 1.0 / 9.0, by.mul_add(rest, -1.0 / 8.0, 1.0 / 7.0));
    let polynomial = by.mul_add(square * square, seventh, third);
    let half_square = by.product(rest * 0.5, rest);
    let linear = whole + rest;
    let high = linear - half_square.high;
    let errors = (whole - linear + rest + whole_low) + (linear - high - half_square.high - half_square.low);
    let low = by.mul_add(square * rest, polynomial, errors);
    // Near 1, the second part may be 2^-17 of the first one, which is too much for a power with a large
    // exponent.
    let sum = high + low;
    Sum { high: sum, low: high - sum + low }
}

/// The logarithm whose base has a natural logarithm with this inverse.
#[inline(always)]
fn log_to_base<A: Arithmetic>(by: A, x: f64, inverse: Sum) -> f64 {
    if !is_usual(x) {
        return special(x);
    }
    let log = short_log(by, x);
    let product = by.product(log.high, inverse.high);
    let low = by.mul_add(log.low, inverse.high, by.mul_add(log.high, inverse.low, product.low));
    product.high + low
}

#[inline(always)]
fn log2_by<A: Arithmetic>(by: A, x: f64) -> f64 {
    log_to_base(by, x, BY_LN2)
}

#[inline(always)]
fn log10_by<A: Arithmetic>(by: A, x: f64) -> f64 {
    log_to_base(by, x, BY_LN10)
}

/// The natural logarithm of a positive, finite number of f32, with an error of about 2^-40 of it.
#[inline(always)]
pub(super) fn log_of_f32<A: Arithmetic>(by: A, x: f64) -> f64 {
    let offset = x.to_bits().wrapping_sub(FIRST);
    let exponent = to_f64((offset as i64) >> 52);
    let mantissa = f64::from_bits(x.to_bits().wrapping_sub(offset & (0xfff << 52)));
    let [factor, log, log_low] = LOG[(offset >> INDEX_SHIFT) as usize % LOG.len()].map(f64::from_bits);
    // Exact: the mantissa has 24 bits, the factor 10.
    let rest = by.mul_add(mantissa, factor, -1.0);
    let square = rest * rest;
    let third = by.mul_add(rest, -1.0 / 4.0, 1.0 / 3.0);
    // The next term is less than 2^-42 of the rest.
    let third = by.mul_add(square, 1.0 / 5.0, third);
    // The first part alone has an error of 2^-43, which a large exponent of a power multiplies.
    let linear = by.mul_add(exponent, core::f64::consts::LN_2, log + log_low) + rest;
    by.mul_add(square, by.mul_add(rest, third, -0.5), linear)
}

/// The logarithm to a base whose natural logarithm has this inverse.
#[inline(always)]
fn logf_to_base<A: Arithmetic>(by: A, x: f32, inverse: f64) -> f32 {
    let x = f64::from(x);
    if !is_usual(x) {
        return special(x) as f32;
    }
    (log_of_f32(by, x) * inverse) as f32
}

#[inline(always)]
fn logf_by<A: Arithmetic>(by: A, x: f32) -> f32 {
    logf_to_base(by, x, 1.0)
}

#[inline(always)]
fn log2f_by<A: Arithmetic>(by: A, x: f32) -> f32 {
    logf_to_base(by, x, BY_LN2.high)
}

#[inline(always)]
fn log10f_by<A: Arithmetic>(by: A, x: f32) -> f32 {
    logf_to_base(by, x, BY_LN10.high)
}
