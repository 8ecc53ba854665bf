//! Logarithms: that of a power of two, one from a table, and a polynomial of the small rest.
//!
//! The mantissa z is multiplied by a short number c near 1/z, so that r = z c - 1 is small and exact. Then ln x is
//! k ln 2 - ln c + ln(1 + r).

use super::tables::LOG;

/// Bits of the smallest mantissa: mantissas are from 0.6875 to 1.375. Near 1, c is 1, and the exponent is 0.
const FIRST: u64 = 0x3fe6_0000_0000_0000;

/// Position of the bits that are the index into the table.
const INDEX_SHIFT: u32 = 52 - LOG.len().ilog2();

/// Exponent, and 16 bits of a mantissa; and half of the last bit, which rounds to nearest: if r is small, so are its
/// upper bits.
const SHORT: u64 = 0xffff_ffe0_0000_0000;
const HALF_OF_SHORT: u64 = 0x10_0000_0000;

/// ln 2 in two parts, of which the first is a multiple of 2^-42: its product with an exponent is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fefa_3800);
const LN2_LOW: f64 = f64::from_bits(0x3d2e_f357_93c7_6730);

/// 1 / ln 2 and 1 / ln 10 in two parts.
const BY_LN2: Sum = Sum { high: core::f64::consts::LOG2_E, low: f64::from_bits(0x3c77_77d0_ffda_0d24) };
const BY_LN10: Sum = Sum { high: core::f64::consts::LOG10_E, low: f64::from_bits(0x3c69_5355_baaa_fad3) };

/// 2^54.
const TWO_54: f64 = (1_u64 << 54) as f64;

/// A number whose unit in the last place is 1.
const ONE_BY_ONE: f64 = 1.5 * (1_u64 << 52) as f64;

/// Converts a small number. The processor's conversion would wait for what was in the register before.
#[inline]
fn to_f64(number: i64) -> f64 {
    f64::from_bits(ONE_BY_ONE.to_bits().wrapping_add(number as u64)) - ONE_BY_ONE
}

/// A number as a sum, whose second part is small.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) high: f64,
    pub(super) low: f64,
}

/// The parts of a positive number.
struct Parts {
    /// k ln 2 - ln c, and how much it is off.
    whole: f64,
    whole_low: f64,
    /// r, and its upper bits, whose square is exact.
    rest: f64,
    rest_upper: f64,
}

/// The upper 26 bits of a number: products of two such are exact.
#[inline]
pub(super) fn upper(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & 0xffff_ffff_f800_0000)
}

impl Parts {
    /// `x` is finite, and not subnormal; `exponent` is that of a power of two by which it is to be multiplied.
    #[inline]
    fn new(x: f64, exponent: i32) -> Self {
        let offset = x.to_bits().wrapping_sub(FIRST);
        let exponent = to_f64(i64::from(exponent) + ((offset as i64) >> 52));
        let mantissa = f64::from_bits(x.to_bits().wrapping_sub(offset & (0xfff << 52)));
        let [factor, log, log_low] = LOG[(offset >> INDEX_SHIFT) as usize % LOG.len()].map(f64::from_bits);
        // Both products are exact, as the factor has 9 bits. So is their sum: it is at most 2^-8, and a multiple of
        // 2^-61.
        let short = f64::from_bits(mantissa.to_bits().wrapping_add(HALF_OF_SHORT) & SHORT);
        let rest_upper = short * factor - 1.0;
        let rest = rest_upper + (mantissa - short) * factor;
        let (whole, whole_low) = (exponent * LN2_HIGH + log, exponent * LN2_LOW + log_low);
        Self { whole, whole_low, rest, rest_upper }
    }
}

/// Logarithms of what is no positive, finite number. Not inline, so that an f32 is converted in its own register: in
/// another one, the conversion would wait for what was there before.
#[cold]
#[inline(never)]
fn special(x: f64) -> f64 {
    if x == 0.0 {
        f64::NEG_INFINITY
    } else if x < 0.0 {
        f64::NAN
    } else {
        x
    }
}

/// Whether `x` is positive and finite.
#[inline]
pub(super) fn is_usual(x: f64) -> bool {
    x > 0.0 && x < f64::INFINITY
}

/// The parts of a positive, finite number.
#[inline]
fn parts(x: f64) -> Parts {
    if x < f64::MIN_POSITIVE { Parts::new(x * TWO_54, -54) } else { Parts::new(x, 0) }
}

/// The natural logarithm of a positive, finite number, with an error of about 2^-60 of it.
#[inline]
fn short_log(x: f64) -> Sum {
    let Parts { whole, whole_low, rest, .. } = parts(x);
    let square = rest * rest;
    let third = 1.0 / 3.0 - rest * (1.0 / 4.0);
    let polynomial = third + square * (1.0 / 5.0 - rest * (1.0 / 6.0) + square * (1.0 / 7.0));
    let high = whole + rest;
    let low = whole - high + rest + whole_low;
    Sum { high, low: low + square * (rest * polynomial - 0.5) }
}

/// The natural logarithm.
pub fn log(x: f64) -> f64 {
    if !is_usual(x) {
        return special(x);
    }
    let Sum { high, low } = short_log(x);
    high + low
}

/// The natural logarithm of a positive, finite number, with an error of about 2^-68 of it.
#[inline]
pub(super) fn log_as_sum(x: f64) -> Sum {
    let Parts { whole, whole_low, rest, rest_upper } = parts(x);
    let square = rest * rest;
    let third = 1.0 / 3.0 - rest * (1.0 / 4.0) + square * (1.0 / 5.0 - rest * (1.0 / 6.0));
    let seventh = 1.0 / 7.0 - rest * (1.0 / 8.0) + square * (1.0 / 9.0);
    let polynomial = square * rest * (third + square * square * seventh);
    // Half of the square in two parts, of which the first is exact.
    let half_square = rest_upper * rest_upper * 0.5;
    let half_square_low = (rest - rest_upper) * ((rest + rest_upper) * 0.5);
    let linear = whole + rest;
    let high = linear - half_square;
    let low =
        (whole - linear + rest + whole_low) + (linear - high - half_square - half_square_low) + polynomial;
    // Near 1, the second part may be 2^-17 of the first one, which is too much for a power with a large exponent.
    let sum = high + low;
    Sum { high: sum, low: high - sum + low }
}

/// The logarithm whose base has a natural logarithm with this inverse.
#[inline]
fn log_to_base(x: f64, inverse: Sum) -> f64 {
    if !is_usual(x) {
        return special(x);
    }
    let Sum { high, low } = short_log(x);
    let log = high + low;
    let (log_upper, inverse_upper) = (upper(log), upper(inverse.high));
    let log_lower = high - log + low + (log - log_upper);
    let inverse_lower = inverse.high - inverse_upper + inverse.low;
    log_upper * inverse_upper + (log_lower * inverse_upper + log * inverse_lower)
}

/// The logarithm to base 2.
pub fn log2(x: f64) -> f64 {
    log_to_base(x, BY_LN2)
}

/// The logarithm to base 10.
pub fn log10(x: f64) -> f64 {
    log_to_base(x, BY_LN10)
}

/// The natural logarithm of a positive, finite number, with an error of about 2^-40 of it.
#[inline]
pub(super) fn log_of_f32(x: f32) -> f64 {
    let x = f64::from(x);
    let offset = x.to_bits().wrapping_sub(FIRST);
    let exponent = to_f64((offset as i64) >> 52);
    let mantissa = f64::from_bits(x.to_bits().wrapping_sub(offset & (0xfff << 52)));
    let [factor, log, _] = LOG[(offset >> INDEX_SHIFT) as usize % LOG.len()].map(f64::from_bits);
    // Exact: the mantissa has 24 bits, the factor 10.
    let rest = mantissa * factor - 1.0;
    let square = rest * rest;
    let third = 1.0 / 3.0 - rest * (1.0 / 4.0) + square * (1.0 / 5.0 - rest * (1.0 / 6.0));
    exponent * core::f64::consts::LN_2 + log + rest + square * (rest * third - 0.5)
}

/// The logarithm to a base whose natural logarithm has this inverse.
#[inline]
fn logf_to_base(x: f32, inverse: f64) -> f32 {
    if !is_usual(x.into()) {
        return special(x.into()) as f32;
    }
    (log_of_f32(x) * inverse) as f32
}

/// The natural logarithm.
pub fn logf(x: f32) -> f32 {
    logf_to_base(x, 1.0)
}

/// The logarithm to base 2.
pub fn log2f(x: f32) -> f32 {
    logf_to_base(x, BY_LN2.high)
}

/// The logarithm to base 10.
pub fn log10f(x: f32) -> f32 {
    logf_to_base(x, BY_LN10.high)
}
