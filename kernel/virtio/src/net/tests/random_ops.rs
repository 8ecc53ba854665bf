//! Random sequences of what driver and device do: every frame arrives once, whole, and in its order.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

use super::{ALL, MRG_RXBUF, Nic, SMALL, frame, receive, transmit};
use crate::testing::TakenChain;

#[derive(Clone, Debug)]
enum Action {
    /// The device receives a frame.
    Deliver(usize),
    Receive,
    /// The driver waits for frames, or no longer does.
    Wait(bool),
    Transmit(usize),
    Flush,
    /// The device takes a frame to transmit.
    Take,
    /// It is done with one of those that it has taken.
    Finish(prop::sample::Index),
}

fn action(largest: usize) -> impl Strategy<Value = Action> {
    let size = prop_oneof![14..1515_usize, 14..=largest];
    prop_oneof![
        3 => size.clone().prop_map(Action::Deliver),
        3 => Just(Action::Receive),
        1 => any::<bool>().prop_map(Action::Wait),
        3 => size.prop_map(Action::Transmit),
        1 => Just(Action::Flush),
        3 => Just(Action::Take),
        3 => any::<prop::sample::Index>().prop_map(Action::Finish),
    ]
}

/// What is under way.
#[derive(Debug, Default)]
struct Expected {
    /// BufferSizes and marks of frames that the driver has not received yet.
    arriving: VecDeque<(usize, usize)>,
    /// And of those that the device has not transmitted yet.
    leaving: VecDeque<(usize, usize)>,
    /// What the device has taken.
    taken: Vec<(TakenChain, usize, usize)>,
    mark: usize,
    /// How many interrupts there were when the driver began to wait for frames.
    waits: Option<usize>,
    /// And when it began to wait for room.
    is_full: Option<usize>,
}

fn play(features: u64, actions: Vec<Action>) -> Result<(), TestCaseError> {
    let nic = Nic::new(features, 64);
    if features == 0 {
        nic.model.lock().unwrap().offered = 1 << 32;
    }
    let mut net = nic.open(SMALL).unwrap();
    let mut expected = Expected::default();
    for action in actions {
        expected.mark += 1;
        match action {
            Action::Deliver(size) => {
                if nic.deliver(&frame(size, expected.mark)) {
                    expected.arriving.push_back((size, expected.mark));
                }
            }
            Action::Receive => {
                let wanted = expected.arriving.pop_front().map(|(size, mark)| frame(size, mark));
                prop_assert_eq!(receive(&mut net).map(|found| found.0), wanted);
                expected.waits = None;
            }
            Action::Wait(on) => {
                let has_some = net.set_rx_interrupt(on).unwrap();
                prop_assert_eq!(has_some, !expected.arriving.is_empty());
                expected.waits = (on && !has_some).then(|| nic.counts(0).1);
            }
            Action::Transmit(size) => {
                let fits = net.can_transmit(size);
                let result = transmit(&mut net, &frame(size, expected.mark));
                prop_assert_eq!(result.is_ok(), fits);
                expected.is_full = (!fits).then(|| nic.counts(1).1);
                if fits {
                    expected.leaving.push_back((size, expected.mark));
                }
            }
            Action::Flush => net.notify(),
            Action::Take => {
                let chain = nic.take();
                prop_assert_eq!(chain.is_some(), !expected.leaving.is_empty());
                if let Some((chain, (size, mark))) = chain.zip(expected.leaving.pop_front()) {
                    expected.taken.push((chain, size, mark));
                }
            }
            Action::Finish(index) if !expected.taken.is_empty() => {
                let (chain, size, mark) = expected.taken.swap_remove(index.index(expected.taken.len()));
                prop_assert_eq!(nic.finish(&chain).1, frame(size, mark));
            }
            Action::Finish(_) => {}
        }
        // Who waits is woken by the first frame.
        if let Some(before) = expected.waits {
            prop_assert_eq!(nic.counts(0).1 > before, !expected.arriving.is_empty());
        }
        // At the latest when there is nothing left to wait for.
        if let Some(before) =
            expected.is_full.filter(|_| expected.leaving.is_empty() && expected.taken.is_empty())
        {
            prop_assert!(nic.counts(1).1 > before);
        }
    }
    Ok(())
}

proptest! {
    // Frames are large, and unoptimised code is slow.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frames_arrive_whole_and_reorder(actions in prop::collection::vec(action(65_550), 0..300)) {
        play(ALL, actions)?;
    }

    #[test]
    fn frames_arrive_without_any_feature(actions in prop::collection::vec(action(1514), 0..300)) {
        play(0, actions)?;
    }

    #[test]
    fn frames_arrive_in_merged_buffers(actions in prop::collection::vec(action(9014), 0..300)) {
        play(MRG_RXBUF, actions)?;
    }
}
