//! Random sequences of what driver and device do.

use core::iter;
use proptest::prelude::*;
use std::vec::Vec;

use super::super::is_passed;
use super::Bench;

/// The definition that `is_passed` computes without a loop.
fn is_passed_step_by_step(event: u16, before: u16, after: u16) -> bool {
    iter::successors(Some(before), |index| Some(index.wrapping_add(1)))
        .take_while(|index| *index != after)
        .any(|index| index == event)
}

#[derive(Clone, Debug)]
enum Action {
    Submit(usize),
    Notify,
    Take,
    /// Returns one of the chains that the device has.
    Put(usize),
    Complete,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (1_usize..5).prop_map(Action::Submit),
        Just(Action::Notify),
        Just(Action::Take),
        any::<prop::sample::Index>().prop_map(|index| Action::Put(index.index(64))),
        Just(Action::Complete),
    ]
}

proptest! {
    #[test]
    fn passing_is_what_it_is_defined_to_be(event: u16, before: u16, count in 0_u16..300) {
        let after = before.wrapping_add(count);
        for event in [event, before, after, before.wrapping_sub(1), before.wrapping_add(count / 2)] {
            prop_assert_eq!(is_passed(event, before, after), is_passed_step_by_step(event, before, after));
        }
    }

    #[test]
    fn every_chain_comes_back_once_whatever_the_order(
        has_event_index: bool,
        actions in prop::collection::vec(action(), 0..400),
    ) {
        let mut bench = Bench::new(16, has_event_index);
        let (mut submitted, mut device, mut returned) = (0, Vec::new(), Vec::new());
        let mut used = 0;
        for action in actions {
            match action {
                Action::Submit(descriptors) => submitted += u32::from(bench.submit(submitted, descriptors).is_some()),
                Action::Notify => bench.notify(),
                Action::Take => device.extend(bench.model.lock().unwrap().take(0)),
                Action::Put(index) if !device.is_empty() => {
                    let chain = device.swap_remove(index % device.len());
                    bench.model.lock().unwrap().put(0, chain.head, 0);
                    used += 1;
                }
                Action::Put(_) => {}
                Action::Complete => returned.extend(bench.complete().map(|used| used.1)),
            }
        }
        returned.extend(iter::from_fn(|| bench.complete()).map(|used| used.1));
        prop_assert_eq!(returned.len(), used);
        returned.sort_unstable();
        prop_assert!(returned.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(returned.iter().all(|mark| *mark < submitted));
    }
}
