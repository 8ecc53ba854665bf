//! Properties of functions, for random values: one that holds, one that does not, and the smallest value for
//! that.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestError, TestRunner};

/// Encodes runs of equal bytes.
fn encode(bytes: &[u8]) -> Vec<(u8, usize)> {
    bytes.chunk_by(|one, other| one == other).map(|run| (run[0], run.len())).collect()
}

fn decode(runs: &[(u8, usize)]) -> Vec<u8> {
    runs.iter().flat_map(|(byte, count)| vec![*byte; *count]).collect()
}

pub fn run() -> crate_uses::Result {
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
        let error = any::<std::env::VarError>().new_tree(&mut runner).map_err(|reason| reason.to_string())?.current();
        invalid += u32::from(matches!(error, std::env::VarError::NotUnicode(name) if name.to_str().is_none()));
    }
    println!("{invalid}");
    Ok(())
}
