//! Random sequences of driver and device operations.

use core::iter;
use proptest::prelude::*;
use std::vec::Vec;

use super::super::needs_event;
use super::Harness;

/// The definition of [`needs_event`] as a loop.
fn needs_event_by_definition(event: u16, before: u16, after: u16) -> bool {
    iter::successors(Some(before), |index| Some(index.wrapping_add(1)))
        .take_while(|index| *index != after)
        .any(|index| index == event)
}

#[derive(Clone, Debug)]
enum RandomAction {
    Submit(usize),
    Notify,
    Take,
    /// The device uses one of the chains that it has taken.
    Put(usize),
    Complete,
}

fn action() -> impl Strategy<Value = RandomAction> {
    prop_oneof![
        (1_usize..5).prop_map(RandomAction::Submit),
        Just(RandomAction::Notify),
        Just(RandomAction::Take),
        any::<prop::sample::Index>().prop_map(|index| RandomAction::Put(index.index(64))),
        Just(RandomAction::Complete),
    ]
}

proptest! {
    #[test]
    fn needs_event_matches_definition(event: u16, before: u16, count in 0_u16..300) {
        let after = before.wrapping_add(count);
        for event in [event, before, after, before.wrapping_sub(1), before.wrapping_add(count / 2)] {
            prop_assert_eq!(needs_event(event, before, after), needs_event_by_definition(event, before, after));
        }
    }

    #[test]
    fn every_chain_completes_once_in_any_order(
        has_event_index: bool,
        actions in prop::collection::vec(action(), 0..if cfg!(miri) { 60 } else { 400 }),
    ) {
        let mut harness = Harness::new(16, has_event_index);
        let (mut submitted, mut device, mut returned) = (0, Vec::new(), Vec::new());
        let mut used = 0;
        for action in actions {
            match action {
                RandomAction::Submit(descriptors) => submitted += u32::from(harness.submit(submitted, descriptors).is_some()),
                RandomAction::Notify => harness.notify(),
                RandomAction::Take => device.extend(harness.model.lock().unwrap().take(0)),
                RandomAction::Put(index) if !device.is_empty() => {
                    let chain = device.swap_remove(index % device.len());
                    harness.model.lock().unwrap().use_chain(0, chain.head, 0);
                    used += 1;
                }
                RandomAction::Put(_) => {}
                RandomAction::Complete => returned.extend(harness.complete().map(|used| used.1)),
            }
        }
        returned.extend(iter::from_fn(|| harness.complete()).map(|used| used.1));
        prop_assert_eq!(returned.len(), used);
        returned.sort_unstable();
        prop_assert!(returned.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(returned.iter().all(|mark| *mark < submitted));
    }
}
