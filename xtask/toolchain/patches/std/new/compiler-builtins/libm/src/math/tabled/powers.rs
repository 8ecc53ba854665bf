//! Powers, as exponentials of logarithms.

use super::arithmetic::{Arithmetic, selected};
use super::exponentials::{far_exp, far_exp_f32, is_near, is_near_f32, near_exp, near_exp_f32};
use super::logarithms::{is_usual, log_as_sum, log_of_f32};

/// Kind of number that an exponent is.
#[derive(Clone, Copy, PartialEq)]
enum Parity {
    Fraction,
    Even,
    Odd,
}

/// The parity of a finite number other than 0.
#[inline]
fn parity(y: f64) -> Parity {
    let exponent = ((y.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    if exponent < 0 {
        return Parity::Fraction;
    }
    if exponent > 52 {
        return Parity::Even;
    }
    // With the bit that is not stored.
    let digits = y.to_bits() | 1 << 52;
    let unit = 52 - exponent as u32;
    match digits & ((1 << unit) - 1) {
        0 if digits >> unit & 1 == 1 => Parity::Odd,
        0 => Parity::Even,
        _ => Parity::Fraction,
    }
}

/// x^y if one of them is 0, infinite or no number (C99, F.9.4.4).
fn special(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return x + y;
    }
    // Then y is infinite.
    if x == -1.0 {
        return 1.0;
    }
    let is_large = (x.abs() > 1.0) == (y > 0.0);
    let value = if is_large { f64::INFINITY } else { 0.0 };
    let is_odd = y.abs() < f64::INFINITY && parity(y) == Parity::Odd;
    if x.is_sign_negative() && is_odd { -value } else { value }
}

/// A base that is not positive and finite.
enum Base {
    /// The power is that of the absolute value, but with this sign: 1 or -1.
    Negative(f64),
    /// The power.
    Special(f64),
}

/// Returns true if the base of x^y is not a positive, finite number.
#[inline(never)]
fn base(x: f64, y: f64) -> Base {
    if !is_usual(x.abs()) || !is_usual(y.abs()) {
        return Base::Special(special(x, y));
    }
    match parity(y) {
        Parity::Fraction => Base::Special(f64::NAN),
        Parity::Even => Base::Negative(1.0),
        Parity::Odd => Base::Negative(-1.0),
    }
}

selected! {
    /// x^y.
    pub fn pow(x, y: f64) = pow_by;
    /// x^y.
    pub fn powf(x, y: f32) = powf_by;
}

#[inline(always)]
fn pow_by<A: Arithmetic>(by: A, x: f64, y: f64) -> f64 {
    let (mut magnitude, mut sign) = (x, 1.0);
    if !is_usual(x) {
        match base(x, y) {
            Base::Negative(negative) => (magnitude, sign) = (-x, negative),
            Base::Special(power) => return power,
        }
    }
    let log = log_as_sum(by, magnitude);
    let product = by.product(y, log.high);
    let low = by.mul_add(y, log.low, product.low);
    let power = if is_near(product.high) {
        near_exp(by, product.high, low)
    } else {
        far_pow(x, y, product.high, low)
    };
    sign * power
}

/// The absolute value of x^y = e^(high + low), which may be no normal number. If `high` is out of range,
/// `low` may be infinite or no number, and has no effect.
#[cold]
#[inline(never)]
extern "C" fn far_pow(x: f64, y: f64, high: f64, low: f64) -> f64 {
    if is_usual(y.abs()) { far_exp(high, low) } else { special(x, y) }
}

#[inline(always)]
fn powf_by<A: Arithmetic>(by: A, x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    let (mut magnitude, mut sign) = (x, 1.0);
    if !is_usual(x) {
        match base(x, y) {
            Base::Negative(negative) => (magnitude, sign) = (-x, negative as f32),
            Base::Special(power) => return power as f32,
        }
    }
    let exponent = y * log_of_f32(by, magnitude);
    let power = if is_near_f32(exponent) { near_exp_f32(by, exponent) } else { far_powf(x, y, exponent) };
    sign * power
}

/// The absolute value of x^y = e^exponent, which may be no normal number.
#[cold]
#[inline(never)]
extern "C" fn far_powf(x: f64, y: f64, exponent: f64) -> f32 {
    if is_usual(y.abs()) { far_exp_f32(exponent) } else { special(x, y) as f32 }
}
