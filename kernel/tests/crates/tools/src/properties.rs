//! Properties that tests check with random values.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestError, TestRunner};
use quickcheck::{Arbitrary, Gen, QuickCheck, TestResult};

/// Encodes runs of equal bytes.
fn encode(bytes: &[u8]) -> Vec<(u8, usize)> {
    bytes.chunk_by(|one, other| one == other).map(|run| (run[0], run.len())).collect()
}

fn decode(runs: &[(u8, usize)]) -> Vec<u8> {
    runs.iter().flat_map(|(byte, count)| vec![*byte; *count]).collect()
}

/// Properties of functions, for random values: one that holds, one that does not, and its smallest value.
pub fn proptest() -> crate_uses::Result {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let holds = TestRunner::new(config.clone()).run(&vec(0..4_u8, 0..100), |bytes| {
        prop_assert_eq!(decode(&encode(&bytes)), bytes);
        Ok(())
    });
    println!("{holds:?}");
    let fails = TestRunner::new(config.clone()).run(&(0..10_000_u32, "[a-c]{2,5}"), |(number, text)| {
        prop_assert!(number < 777 || text.is_empty(), "too large");
        Ok(())
    });
    match fails {
        Err(TestError::Fail(reason, (number, text))) => println!("{} {number} {text}", reason.message()),
        other => println!("{other:?}"),
    }
    let panics = TestRunner::new(config).run(&any::<u8>(), |number| {
        assert!(number <= 20, "on purpose");
        Ok(())
    });
    println!("{}", matches!(panics, Err(TestError::Fail(_, 21))));
    // The same numbers in each run.
    let mut runner = TestRunner::deterministic();
    let strategy = btree_map("[x-z]{1,3}", prop_oneof![Just(None), (1..9_u8).prop_map(Some)], 1..5);
    for _ in 0..3 {
        println!("{:?}", strategy.new_tree(&mut runner).map_err(|reason| reason.to_string())?.current());
    }
    // Among them are names that are not valid UTF-8.
    let mut invalid = 0;
    for _ in 0..100 {
        let error =
            any::<std::env::VarError>().new_tree(&mut runner).map_err(|reason| reason.to_string())?.current();
        invalid +=
            u32::from(matches!(error, std::env::VarError::NotUnicode(name) if name.to_str().is_none()));
    }
    println!("{invalid}");
    Ok(())
}

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

/// Tests properties with random values.
pub fn quickcheck() -> crate_uses::Result {
    println!(
        "{:?}",
        QuickCheck::new().tests(300).quicktest(sorted_is_sorted as fn(Vec<i32>) -> bool).is_ok()
    );
    println!("{:?}", QuickCheck::new().quicktest(half as fn(Even) -> TestResult).is_ok());
    let failure = QuickCheck::new().rng(Gen::new(100_000)).quicktest(all_are_small as fn(Even) -> bool);
    println!("{}", failure.is_err());
    println!(
        "{}",
        QuickCheck::new()
            .quicktest(
                (|text: String| text.chars().rev().count() == text.chars().count()) as fn(String) -> bool
            )
            .is_ok()
    );
    Ok(())
}
