//! Exponentials: a power of two, a power of 2^(1/128) from a table, and a polynomial of the small rest.

use super::tables::EXP;

/// Steps of the table from one power of two to the next.
const STEPS: i32 = 128;

/// 128 / ln 2, and its inverse in two parts, of which the first has so few bits that products with steps are exact.
const STEPS_BY_LN2: f64 = f64::from_bits(0x4067_1547_652b_82fe);
const LN2_BY_STEPS_HIGH: f64 = f64::from_bits(0x3f76_2e42_fef8_0000);
const LN2_BY_STEPS_LOW: f64 = f64::from_bits(0x3d41_cf79_abc9_e3b4);
const LN2_BY_STEPS: f64 = LN2 / STEPS as f64;
const LN2: f64 = core::f64::consts::LN_2;

/// A number whose unit in the last place is 1: adding it rounds to an integer, which is in the sum's lower bits.
const ROUND_TO_INTEGER: f64 = 1.5 * (1_u64 << 52) as f64;

/// The same for multiples of 1/128.
const ROUND_TO_STEP: f64 = ROUND_TO_INTEGER / STEPS as f64;

/// Between these exponents, the result is not infinite or 0.
const OVERFLOW: f64 = 710.0;
const UNDERFLOW: f64 = -746.0;
const OVERFLOW_2: f64 = 1024.0;
const UNDERFLOW_2: f64 = -1076.0;

/// The same as f32. 2^-150, in the middle between 0 and the smallest number, is 0.
const OVERFLOW_F32: f64 = 89.0;
const UNDERFLOW_F32: f64 = -103.972_077_083_991;

/// Powers whose exponents are out of range, or no numbers.
#[cold]
fn limit(exponent: f64) -> f64 {
    if exponent > 0.0 {
        f64::INFINITY
    } else if exponent < 0.0 {
        0.0
    } else {
        exponent
    }
}

/// e^x.
pub fn exp(x: f64) -> f64 {
    exp_of_sum(x, 0.0)
}

/// e^(x + rest), whose rest is small.
#[inline]
pub(super) fn exp_of_sum(x: f64, rest: f64) -> f64 {
    if !(x > UNDERFLOW && x < OVERFLOW) {
        return limit(x);
    }
    let rounded = x * STEPS_BY_LN2 + ROUND_TO_INTEGER;
    let steps = rounded - ROUND_TO_INTEGER;
    let rest = x - steps * LN2_BY_STEPS_HIGH - steps * LN2_BY_STEPS_LOW + rest;
    power(rounded.to_bits() as i32, rest)
}

/// 2^x.
pub fn exp2(x: f64) -> f64 {
    if !(x > UNDERFLOW_2 && x < OVERFLOW_2) {
        return limit(x);
    }
    let rounded = x + ROUND_TO_STEP;
    let rest = x - (rounded - ROUND_TO_STEP);
    power(rounded.to_bits() as i32, rest * LN2)
}

/// 2^(steps / 128) * e^rest.
#[inline]
fn power(steps: i32, rest: f64) -> f64 {
    let [bits, tail] = EXP[(steps & (STEPS - 1)) as usize];
    let square = rest * rest;
    // The rest is at most 0.0028, so the next term is less than 2^-60.
    let polynomial =
        square * (1.0 / 2.0 + rest * (1.0 / 6.0)) + square * square * (1.0 / 24.0 + rest * (1.0 / 120.0));
    let polynomial = f64::from_bits(tail) + rest + polynomial;
    let exponent = steps >> STEPS.ilog2();
    if (-1021..=1022).contains(&exponent) {
        let scale = f64::from_bits(bits.wrapping_add((exponent as u64) << 52));
        return scale + scale * polynomial;
    }
    let value = f64::from_bits(bits);
    // Two factors, since a power of two may be no normal number: only the last product is rounded.
    (value + value * polynomial) * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2)
}

/// 2^exponent, a normal number.
#[inline]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// e^x.
pub fn expf(x: f32) -> f32 {
    exp_to_f32(f64::from(x))
}

/// e^x, exact enough for f32.
#[inline]
pub(super) fn exp_to_f32(x: f64) -> f32 {
    if !(x > UNDERFLOW_F32 && x < OVERFLOW_F32) {
        return limit(x) as f32;
    }
    let rounded = x * STEPS_BY_LN2 + ROUND_TO_INTEGER;
    let rest = x - (rounded - ROUND_TO_INTEGER) * LN2_BY_STEPS;
    let steps = rounded.to_bits() as i32;
    let [bits, _] = EXP[(steps & (STEPS - 1)) as usize];
    let scale = f64::from_bits(bits.wrapping_add(((steps >> STEPS.ilog2()) as u64) << 52));
    (scale + scale * (rest + rest * rest * (1.0 / 2.0 + rest * (1.0 / 6.0)))) as f32
}
