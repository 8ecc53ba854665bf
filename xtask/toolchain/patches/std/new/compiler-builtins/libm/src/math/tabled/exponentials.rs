//! Exponentials: a power of two, a power of 2^(1/128) from a table, and a polynomial of the small rest.

use super::arithmetic::{Arithmetic, Separate, selected};
use super::tables::EXP;

/// Steps of the table from one power of two to the next.
const STEPS: i32 = 128;

/// 128 / ln 2, and its inverse in two parts. The first part has so few bits that products with steps are
/// exact.
const STEPS_BY_LN2: f64 = f64::from_bits(0x4067_1547_652b_82fe);
const LN2_BY_STEPS_HIGH: f64 = f64::from_bits(0x3f76_2e42_fef8_0000);
const LN2_BY_STEPS_LOW: f64 = f64::from_bits(0x3d41_cf79_abc9_e3b4);
const LN2_BY_STEPS: f64 = LN2 / STEPS as f64;
const LN2: f64 = core::f64::consts::LN_2;

/// A number whose unit in the last place is 1: adding it rounds to an integer, which is in the sum's lower
/// bits.
const ROUND_TO_INTEGER: f64 = 1.5 * (1_u64 << 52) as f64;

/// The same for multiples of 1/128.
const ROUND_TO_STEP: f64 = ROUND_TO_INTEGER / STEPS as f64;

/// Up to these absolute values, the result is a normal number of f64 or f32.
const NEAR: f64 = 708.0;
const NEAR_2: f64 = 1021.0;
const NEAR_F32: f64 = 87.0;
const NEAR_2_F32: f64 = 126.0;

/// Between these exponents, the result is not infinite or 0.
const OVERFLOW: f64 = 710.0;
const UNDERFLOW: f64 = -746.0;
const OVERFLOW_2: f64 = 1024.0;
const UNDERFLOW_2: f64 = -1076.0;

/// The same limits of f32. 2^-150, in the middle between 0 and the smallest number, is 0.
const OVERFLOW_F32: f64 = 89.0;
const UNDERFLOW_F32: f64 = -103.972_077_083_991;
const OVERFLOW_2_F32: f64 = 128.0;
const UNDERFLOW_2_F32: f64 = -150.0;

selected! {
    /// e^x.
    pub fn exp(x: f64) = exp_by;
    /// 2^x.
    pub fn exp2(x: f64) = exp2_by;
    /// e^x.
    pub fn expf(x: f32) = expf_by;
    /// 2^x.
    pub fn exp2f(x: f32) = exp2f_by;
}

/// 2^(steps / 128) * e^rest, as its parts.
struct Power {
    steps: i32,
    rest: f64,
}

/// Parts of e^(x + rest), whose rest is small.
#[inline(always)]
fn parts<A: Arithmetic>(by: A, x: f64, rest: f64) -> Power {
    let rounded = by.mul_add(x, STEPS_BY_LN2, ROUND_TO_INTEGER);
    let steps = rounded - ROUND_TO_INTEGER;
    let rest = by.mul_add(steps, -LN2_BY_STEPS_LOW, by.mul_add(steps, -LN2_BY_STEPS_HIGH, x)) + rest;
    Power { steps: rounded.to_bits() as i32, rest }
}

/// Parts of e^x, exact enough for f32.
#[inline(always)]
fn short_parts<A: Arithmetic>(by: A, x: f64) -> Power {
    let rounded = by.mul_add(x, STEPS_BY_LN2, ROUND_TO_INTEGER);
    Power { steps: rounded.to_bits() as i32, rest: by.mul_add(rounded - ROUND_TO_INTEGER, -LN2_BY_STEPS, x) }
}

/// Parts of 2^x.
#[inline(always)]
fn parts_2(x: f64) -> Power {
    let rounded = x + ROUND_TO_STEP;
    Power { steps: rounded.to_bits() as i32, rest: (x - (rounded - ROUND_TO_STEP)) * LN2 }
}

impl Power {
    /// The whole exponent of 2.
    #[inline(always)]
    fn exponent(&self) -> i32 {
        self.steps >> STEPS.ilog2()
    }

    /// The entry of the table.
    #[inline(always)]
    fn entry(&self) -> [u64; 2] {
        EXP[(self.steps & (STEPS - 1)) as usize]
    }

    /// e^rest - 1, and the error of the table's number.
    #[inline(always)]
    fn polynomial<A: Arithmetic>(&self, by: A) -> f64 {
        let (rest, [_, tail]) = (self.rest, self.entry());
        let square = rest * rest;
        // The rest is at most 0.0028, so the next term is less than 2^-60.
        let upper = by.mul_add(rest, 1.0 / 120.0, 1.0 / 24.0);
        let lower = by.mul_add(rest, 1.0 / 6.0, 1.0 / 2.0);
        by.mul_add(square * square, upper, by.mul_add(square, lower, f64::from_bits(tail) + rest))
    }

    /// The table's number, multiplied by the power of two, which is a normal number.
    #[inline(always)]
    fn scale(&self) -> f64 {
        f64::from_bits(self.entry()[0].wrapping_add((self.exponent() as u64) << 52))
    }

    /// The number, if it is normal.
    #[inline(always)]
    fn near<A: Arithmetic>(self, by: A) -> f64 {
        let scale = self.scale();
        by.mul_add(scale, self.polynomial(by), scale)
    }

    /// The number, exact enough for f32.
    #[inline(always)]
    fn short<A: Arithmetic>(self, by: A) -> f32 {
        let (rest, scale) = (self.rest, self.scale());
        let polynomial = by.mul_add(rest * rest, by.mul_add(rest, 1.0 / 6.0, 1.0 / 2.0), rest);
        by.mul_add(scale, polynomial, scale) as f32
    }

    /// The number, which may be infinite or subnormal.
    fn far(self) -> f64 {
        let value = f64::from_bits(self.entry()[0]);
        let exponent = self.exponent();
        // Two factors, since a power of two may be no normal number: only the last product is rounded.
        let factors = power_of_two(exponent / 2) * (value + value * self.polynomial(Separate));
        factors * power_of_two(exponent - exponent / 2)
    }
}

/// 2^exponent, a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Powers whose exponents are out of range, or no numbers.
fn limit(exponent: f64) -> f64 {
    if exponent > 0.0 {
        f64::INFINITY
    } else if exponent < 0.0 {
        0.0
    } else {
        exponent
    }
}

#[inline(always)]
fn exp_by<A: Arithmetic>(by: A, x: f64) -> f64 {
    if is_near(x) { near_exp(by, x, 0.0) } else { far_exp(x, 0.0) }
}

/// True if e^x is surely a normal number.
#[inline(always)]
pub(super) fn is_near(x: f64) -> bool {
    x.abs() < NEAR
}

/// e^(x + rest), whose rest is small, if x [is near](is_near).
#[inline(always)]
pub(super) fn near_exp<A: Arithmetic>(by: A, x: f64, rest: f64) -> f64 {
    parts(by, x, rest).near(by)
}

/// e^(x + rest), whose rest is small, if x is not [near](is_near). Fused or not: few programs come here.
#[cold]
#[inline(never)]
pub(super) extern "C" fn far_exp(x: f64, rest: f64) -> f64 {
    if x > UNDERFLOW && x < OVERFLOW { parts(Separate, x, rest).far() } else { limit(x) }
}

#[inline(always)]
fn exp2_by<A: Arithmetic>(by: A, x: f64) -> f64 {
    if x.abs() < NEAR_2 { parts_2(x).near(by) } else { far_exp2(x) }
}

#[cold]
#[inline(never)]
extern "C" fn far_exp2(x: f64) -> f64 {
    if x > UNDERFLOW_2 && x < OVERFLOW_2 { parts_2(x).far() } else { limit(x) }
}

#[inline(always)]
fn expf_by<A: Arithmetic>(by: A, x: f32) -> f32 {
    let x = f64::from(x);
    if is_near_f32(x) { near_exp_f32(by, x) } else { far_exp_f32(x) }
}

/// True if e^x is surely a normal number of f32.
#[inline(always)]
pub(super) fn is_near_f32(x: f64) -> bool {
    x.abs() < NEAR_F32
}

/// e^x, exact enough for f32, if x [is near](is_near_f32).
#[inline(always)]
pub(super) fn near_exp_f32<A: Arithmetic>(by: A, x: f64) -> f32 {
    short_parts(by, x).short(by)
}

/// e^x, exact enough for f32, if x is not [near](is_near_f32).
#[cold]
#[inline(never)]
pub(super) extern "C" fn far_exp_f32(x: f64) -> f32 {
    if x > UNDERFLOW_F32 && x < OVERFLOW_F32 { near_exp_f32(Separate, x) } else { limit(x) as f32 }
}

#[inline(always)]
fn exp2f_by<A: Arithmetic>(by: A, x: f32) -> f32 {
    let x = f64::from(x);
    if x.abs() < NEAR_2_F32 { parts_2(x).short(by) } else { far_exp2_f32(x) }
}

#[cold]
#[inline(never)]
extern "C" fn far_exp2_f32(x: f64) -> f32 {
    if x > UNDERFLOW_2_F32 && x < OVERFLOW_2_F32 { parts_2(x).short(Separate) } else { limit(x) as f32 }
}
