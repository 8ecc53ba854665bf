//! Algorithms for any number type.

use std::fmt::Debug;

use num_traits::{
    Bounded, CheckedMul, Float, FromPrimitive, Num, NumCast, PrimInt, Signed, WrappingAdd, Zero,
};

fn horner<N: Num + Copy>(coefficients: &[N], at: N) -> N {
    coefficients.iter().rev().fold(N::zero(), |sum, coefficient| sum * at + *coefficient)
}

fn bits<N: PrimInt + Debug>(number: N) {
    println!("{number:?} {} {} {:?}", number.count_ones(), number.leading_zeros(), number.swap_bytes());
}

fn factorial<N: Num + CheckedMul + FromPrimitive + Copy>(number: u32) -> Option<N> {
    (1..=number).try_fold(N::one(), |product, factor| product.checked_mul(&N::from_u32(factor)?))
}

fn newton<F: Float>(number: F) -> F {
    (0..60).fold(number, |root, _| (root + number / root) / (F::one() + F::one()))
}

pub fn run() -> crate_uses::Result {
    println!("{} {}", horner(&[1, 2, 3], 10), horner(&[0.5, 0.25], 2.0));
    bits(0x1234_u16);
    bits(-5_i64);
    println!("{:?} {:?} {:?}", factorial::<u8>(5), factorial::<u8>(6), factorial::<u128>(30));
    println!("{} {}", newton(2.0_f64), newton(2.0_f32));
    println!("{:?} {:?}", <u8 as NumCast>::from(300.5), <i16 as NumCast>::from(-300.5));
    println!(
        "{} {} {}",
        (-3.5_f64).signum(),
        Signed::abs(&-7_i32),
        WrappingAdd::wrapping_add(&i8::max_value(), &1) == Bounded::min_value()
    );
    println!(
        "{:?} {}",
        f64::from_str_radix("1f.8", 16).map_err(|error| error.to_string()),
        u64::zero().is_zero()
    );
    Ok(())
}
