//! Large integers.

use num_bigint::{BigInt, BigUint, Sign};

pub fn run() -> crate_uses::Result {
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
    println!("{:?} {:?}", "-123456789012345678901234567890".parse::<BigInt>()? * negative, "12x".parse::<BigUint>());
    println!("{:?}", BigUint::parse_bytes(b"zz", 36).map(|number| number.to_radix_le(7)));
    Ok(())
}
