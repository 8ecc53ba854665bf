//! Fractions.

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio, Rational64};

pub fn run() -> crate_uses::Result {
    let harmonic = (1..=40).fold(BigRational::from_integer(0.into()), |sum, number: i32| sum + BigRational::new(1.into(), number.into()));
    println!("{harmonic}");
    let (half, third) = (Rational64::new(1, 2), Rational64::new(-2, -6));
    println!("{} {} {} {}", half + third, half * third, half / third, half - third);
    println!("{} {} {} {}", (half * 7).floor(), (half * 7).round(), (third * 7).fract(), half > third);
    println!("{:?} {:?}", "3/9".parse::<Ratio<u8>>(), "1/0".parse::<Ratio<u8>>().map_err(|error| error.to_string()));
    println!("{:?}", Ratio::approximate_float(std::f64::consts::PI).map(|ratio: Ratio<i64>| ratio.to_string()));
    println!("{:?}", BigRational::from_float(0.1).map(|ratio| ratio.denom() == &BigInt::from(1_u64 << 55)));
    Ok(())
}
