//! Verdicts of compiled filters.

use std::collections::BTreeMap;

use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP};
use proptest::collection::vec;
use proptest::prelude::*;

use super::interpreter::verdict;
use super::{CallRule, Condition, Operator, Width, X86_64, compile};

/// Values that are likely to be equal in one half, and differ by one.
fn value() -> impl Strategy<Value = u64> {
    let half = || prop_oneof![Just(0_u32), Just(1), Just(2), Just(u32::MAX - 1), Just(u32::MAX)];
    (half(), half()).prop_map(|(upper, lower)| u64::from(upper) << 32 | u64::from(lower))
}

fn condition() -> impl Strategy<Value = Condition> {
    let width = prop_oneof![Just(Width::Lower32), Just(Width::All64)];
    let operator = prop_oneof![
        value().prop_map(Operator::Masked),
        Just(Operator::Equal),
        Just(Operator::AtLeast),
        Just(Operator::AtMost),
        Just(Operator::Below),
    ];
    (0..6_u8, width, operator, value())
}

fn rules() -> impl Strategy<Value = BTreeMap<u32, CallRule>> {
    let rule = prop_oneof![
        1 => any::<u32>().prop_map(CallRule::Return),
        4 => vec(vec(condition(), 0..4), 0..4).prop_map(CallRule::AllowIf),
    ];
    proptest::collection::btree_map(0..40_u32, rule, 0..30)
}

/// Reference implementation of a condition: returns true if it holds.
fn holds((argument, width, operator, value): Condition, arguments: [u64; 6]) -> bool {
    let cut = |number: u64| if width == Width::Lower32 { number & 0xffff_ffff } else { number };
    let (argument, value) = (cut(arguments[usize::from(argument)]), cut(value));
    match operator {
        Operator::Masked(mask) => argument & mask == value & mask,
        Operator::Equal => argument == value,
        Operator::AtLeast => argument >= value,
        Operator::AtMost => argument <= value,
        Operator::Below => argument < value,
    }
}

proptest! {
    #[test]
    fn verdict_is_that_of_the_rule(
        rules in rules(),
        number in 0..41_u32,
        arguments in vec(value(), 6),
    ) {
        let arguments: [u64; 6] = arguments.try_into().unwrap();
        let expected = match rules.get(&number) {
            None => SECCOMP_RET_TRAP,
            Some(CallRule::Return(action)) => *action,
            Some(CallRule::AllowIf(lists)) => {
                let list_holds = |list: &Vec<Condition>| list.iter().all(|check| holds(*check, arguments));
                let is_allowed = lists.is_empty() || lists.iter().any(list_holds);
                if is_allowed { SECCOMP_RET_ALLOW } else { SECCOMP_RET_TRAP }
            }
        };
        let filter = compile(&rules, SECCOMP_RET_TRAP);
        prop_assert_eq!(verdict(&filter, X86_64, number, arguments), expected);
    }
}

/// The number of executed instructions grows with the logarithm of the number of rules. This matters because
/// Linux interprets the filter once for each system call number.
#[test]
fn search_is_binary() {
    let rules: BTreeMap<_, _> = (0..256).map(|number| (number, CallRule::AllowIf(Vec::new()))).collect();
    let filter = compile(&rules, SECCOMP_RET_TRAP);
    for number in [0, 100, 255] {
        let (found, steps) = super::interpreter::interpret(&filter, X86_64, number, [0; 6]);
        assert!(found == SECCOMP_RET_ALLOW && steps <= 4 + 2 * 8 + 3, "{number}: {steps}");
    }
}
