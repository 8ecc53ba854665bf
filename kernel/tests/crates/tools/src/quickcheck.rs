//! Tests properties with random values.

use quickcheck::{Arbitrary, Gen, QuickCheck, TestResult};

#[derive(Clone, Debug)]
struct Even(u32);

impl Arbitrary for Even {
    fn arbitrary(random: &mut Gen) -> Self {
        Self(u32::arbitrary(random) / 2 * 2)
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        Box::new(self.0.shrink().filter(|number| number % 2 == 0).map(Self))
    }
}

fn sorted_is_sorted(mut list: Vec<i32>) -> bool {
    list.sort();
    list.is_sorted()
}

fn half(Even(number): Even) -> TestResult {
    if number == 0 { TestResult::discard() } else { TestResult::from_bool(number / 2 * 2 == number) }
}

fn all_are_small(Even(number): Even) -> bool {
    number < 1000
}

pub fn run() -> crate_uses::Result {
    println!("{:?}", QuickCheck::new().tests(300).quicktest(sorted_is_sorted as fn(Vec<i32>) -> bool).is_ok());
    println!("{:?}", QuickCheck::new().quicktest(half as fn(Even) -> TestResult).is_ok());
    let failure = QuickCheck::new().rng(Gen::new(100_000)).quicktest(all_are_small as fn(Even) -> bool);
    println!("{}", failure.is_err());
    println!("{}", QuickCheck::new().quicktest((|text: String| text.chars().rev().count() == text.chars().count()) as fn(String) -> bool).is_ok());
    Ok(())
}
