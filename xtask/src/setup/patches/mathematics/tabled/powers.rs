//! Powers, as exponentials of logarithms.

use super::exponentials::{exp_of_sum, exp_to_f32};
use super::logarithms::{Sum, is_usual, log_as_sum, log_of_f32, upper};

/// What kind of number an exponent is.
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
#[cold]
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

/// Whether [`special`] has the result.
#[inline]
fn is_special(x: f64, y: f64) -> bool {
    !is_usual(x.abs()) || !is_usual(y.abs())
}

/// Whether x^y is negative, where neither is special; `None` if it is no number.
#[inline]
fn is_negative(x: f64, y: f64) -> Option<bool> {
    if x > 0.0 {
        return Some(false);
    }
    match parity(y) {
        Parity::Fraction => None,
        Parity::Even => Some(false),
        Parity::Odd => Some(true),
    }
}

/// x^y.
pub fn pow(x: f64, y: f64) -> f64 {
    if is_special(x, y) {
        return special(x, y);
    }
    let Some(is_negative) = is_negative(x, y) else { return f64::NAN };
    let Sum { high, low } = log_as_sum(x.abs());
    let (y_upper, log_upper) = (upper(y), upper(high));
    let low = (y - y_upper) * log_upper + y * (high - log_upper + low);
    let high = y_upper * log_upper;
    // If the first part is out of range, the second one may be infinite, or no number, and has no effect.
    let value = exp_of_sum(high, low);
    if is_negative { -value } else { value }
}

/// x^y.
pub fn powf(x: f32, y: f32) -> f32 {
    let (wide_x, wide_y) = (f64::from(x), f64::from(y));
    if is_special(wide_x, wide_y) {
        return special(wide_x, wide_y) as f32;
    }
    let Some(is_negative) = is_negative(wide_x, wide_y) else { return f32::NAN };
    let value = exp_to_f32(wide_y * log_of_f32(x.abs()));
    if is_negative { -value } else { value }
}
