//! Integers of any size, and fractions.

use num_bigint::{BigInt, BigUint, Sign};
use num_rational::{BigRational, Ratio, Rational64};
use rust_decimal::{Decimal, RoundingStrategy};

/// Large integers.
pub fn num_bigint() -> crate_uses::Result {
    let factorial = (1..=60_u32).fold(BigUint::from(1_u8), |product, number| product * number);
    println!("{factorial} {:x}", factorial);
    let prime = (BigUint::from(1_u8) << 127_u32) - 1_u8;
    println!("{}", BigUint::from(3_u8).modpow(&(&prime - 1_u8), &prime));
    println!("{} {}", factorial.sqrt(), factorial.nth_root(5));
    let (mut one, mut other) = (BigInt::from(0), BigInt::from(1));
    for _ in 0..400 {
        (one, other) = (other.clone(), one + other);
    }
    println!("{one} {}", one.bits());
    let negative = BigInt::from_bytes_be(Sign::Minus, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    println!("{negative} {} {}", &negative / 1000, &negative % 1000);
    println!(
        "{:?} {:?}",
        "-123456789012345678901234567890".parse::<BigInt>()? * negative,
        "12x".parse::<BigUint>()
    );
    println!("{:?}", BigUint::parse_bytes(b"zz", 36).map(|number| number.to_radix_le(7)));
    Ok(())
}

/// Fractions.
pub fn num_rational() -> crate_uses::Result {
    let harmonic = (1..=40).fold(BigRational::from_integer(0.into()), |sum, number: i32| {
        sum + BigRational::new(1.into(), number.into())
    });
    println!("{harmonic}");
    let (half, third) = (Rational64::new(1, 2), Rational64::new(-2, -6));
    println!("{} {} {} {}", half + third, half * third, half / third, half - third);
    println!("{} {} {} {}", (half * 7).floor(), (half * 7).round(), (third * 7).fract(), half > third);
    println!(
        "{:?} {:?}",
        "3/9".parse::<Ratio<u8>>(),
        "1/0".parse::<Ratio<u8>>().map_err(|error| error.to_string())
    );
    println!(
        "{:?}",
        Ratio::approximate_float(std::f64::consts::PI).map(|ratio: Ratio<i64>| ratio.to_string())
    );
    println!("{:?}", BigRational::from_float(0.1).map(|ratio| ratio.denom() == &BigInt::from(1_u64 << 55)));
    Ok(())
}

/// Decimal fractions.
pub fn rust_decimal() -> crate_uses::Result {
    let (price, rate) = ("19.99".parse::<Decimal>()?, Decimal::new(19, 2));
    let total = price * (Decimal::ONE + rate);
    println!("{total} {} {}", total.round_dp(2), total.round_dp_with_strategy(1, RoundingStrategy::ToZero));
    println!("{} {}", Decimal::ONE / Decimal::from(3), Decimal::from(10) % "3.3".parse::<Decimal>()?);
    println!("{} {:?}", Decimal::MAX, Decimal::MAX.checked_add(Decimal::ONE));
    println!(
        "{:?} {:?}",
        "1.2.3".parse::<Decimal>().map_err(|error| error.to_string()),
        Decimal::from_scientific("1.5e-7")?
    );
    println!(
        "{} {} {}",
        Decimal::new(1200, 3).normalize(),
        Decimal::new(1200, 3),
        Decimal::try_from(0.1_f64 + 0.2)?
    );
    let sum: Decimal =
        crate_uses::numbers(4).take(100).map(|number| Decimal::new(i64::from(number), number % 20)).sum();
    println!("{sum} {:?}", sum.serialize());
    Ok(())
}
