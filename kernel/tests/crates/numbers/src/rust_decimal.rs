//! Decimal fractions.

use rust_decimal::{Decimal, RoundingStrategy};

pub fn run() -> crate_uses::Result {
    let (price, rate) = ("19.99".parse::<Decimal>()?, Decimal::new(19, 2));
    let total = price * (Decimal::ONE + rate);
    println!("{total} {} {}", total.round_dp(2), total.round_dp_with_strategy(1, RoundingStrategy::ToZero));
    println!("{} {}", Decimal::ONE / Decimal::from(3), Decimal::from(10) % "3.3".parse::<Decimal>()?);
    println!("{} {:?}", Decimal::MAX, Decimal::MAX.checked_add(Decimal::ONE));
    println!("{:?} {:?}", "1.2.3".parse::<Decimal>().map_err(|error| error.to_string()), Decimal::from_scientific("1.5e-7")?);
    println!("{} {} {}", Decimal::new(1200, 3).normalize(), Decimal::new(1200, 3), Decimal::try_from(0.1_f64 + 0.2)?);
    let sum: Decimal = crate_uses::numbers(4).take(100).map(|number| Decimal::new(i64::from(number), number % 20)).sum();
    println!("{sum} {:?}", sum.serialize());
    Ok(())
}
