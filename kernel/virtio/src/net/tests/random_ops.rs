//! Random sequences of driver and device operations: every frame arrives once, unchanged and in order.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

use super::{ALL_FEATURES, MIN_SIZES, MRG_RXBUF, Nic, frame, receive, transmit};
use crate::testing::TakenChain;

#[derive(Clone, Debug)]
enum RandomAction {
    /// The device receives a frame.
    Deliver(usize),
    Receive,
    /// The driver enables or disables RX interrupts.
    SetRxInterrupt(bool),
    Transmit(usize),
    Notify,
    /// The device takes a frame to transmit.
    Take,
    /// The device marks one of the taken frames as used.
    Use(prop::sample::Index),
}

fn action(max_size: usize) -> impl Strategy<Value = RandomAction> {
    let size = prop_oneof![14..1515_usize, 14..=max_size];
    prop_oneof![
        3 => size.clone().prop_map(RandomAction::Deliver),
        3 => Just(RandomAction::Receive),
        1 => any::<bool>().prop_map(RandomAction::SetRxInterrupt),
        3 => size.prop_map(RandomAction::Transmit),
        1 => Just(RandomAction::Notify),
        3 => Just(RandomAction::Take),
        3 => any::<prop::sample::Index>().prop_map(RandomAction::Use),
    ]
}

/// Expected state.
#[derive(Debug, Default)]
struct Expected {
    /// Sizes and marks of frames that the driver has not received yet.
    rx_frames: VecDeque<(usize, usize)>,
    /// Sizes and marks of frames that the device has not taken yet.
    tx_frames: VecDeque<(usize, usize)>,
    /// Frames that the device has taken.
    taken: Vec<(TakenChain, usize, usize)>,
    mark: usize,
    /// Number of RX interrupts when the driver last enabled them.
    rx_interrupts_before: Option<usize>,
    /// Number of TX interrupts when the driver last found the ring full.
    tx_interrupts_before: Option<usize>,
}

fn check_actions(features: u64, actions: Vec<RandomAction>) -> Result<(), TestCaseError> {
    let nic = Nic::new(features, 64);
    if features == 0 {
        nic.model.lock().unwrap().offered = 1 << 32;
    }
    let mut net = nic.open(MIN_SIZES).unwrap();
    let mut expected = Expected::default();
    for action in actions {
        expected.mark += 1;
        match action {
            RandomAction::Deliver(size) => {
                if nic.deliver(&frame(size, expected.mark)) {
                    expected.rx_frames.push_back((size, expected.mark));
                }
            }
            RandomAction::Receive => {
                let expected_frame = expected.rx_frames.pop_front().map(|(size, mark)| frame(size, mark));
                prop_assert_eq!(receive(&mut net).map(|found| found.0), expected_frame);
                expected.rx_interrupts_before = None;
            }
            RandomAction::SetRxInterrupt(on) => {
                let has_some = net.set_rx_interrupt(on).unwrap();
                prop_assert_eq!(has_some, !expected.rx_frames.is_empty());
                expected.rx_interrupts_before = (on && !has_some).then(|| nic.counts(0).1);
            }
            RandomAction::Transmit(size) => {
                let fits = net.can_transmit(size);
                let result = transmit(&mut net, &frame(size, expected.mark));
                prop_assert_eq!(result.is_ok(), fits);
                expected.tx_interrupts_before = (!fits).then(|| nic.counts(1).1);
                if fits {
                    expected.tx_frames.push_back((size, expected.mark));
                }
            }
            RandomAction::Notify => net.notify(),
            RandomAction::Take => {
                let chain = nic.take();
                prop_assert_eq!(chain.is_some(), !expected.tx_frames.is_empty());
                if let Some((chain, (size, mark))) = chain.zip(expected.tx_frames.pop_front()) {
                    expected.taken.push((chain, size, mark));
                }
            }
            RandomAction::Use(index) if !expected.taken.is_empty() => {
                let (chain, size, mark) = expected.taken.swap_remove(index.index(expected.taken.len()));
                prop_assert_eq!(nic.finish(&chain).1, frame(size, mark));
            }
            RandomAction::Use(_) => {}
        }
        // The first frame raises the RX interrupt.
        if let Some(before) = expected.rx_interrupts_before {
            prop_assert_eq!(nic.counts(0).1 > before, !expected.rx_frames.is_empty());
        }
        // The TX interrupt is raised when the last frame is used, at the latest.
        if let Some(before) = expected
            .tx_interrupts_before
            .filter(|_| expected.tx_frames.is_empty() && expected.taken.is_empty())
        {
            prop_assert!(nic.counts(1).1 > before);
        }
    }
    Ok(())
}

/// Bound of the length of a sequence of actions.
const MAX_ACTIONS: usize = if cfg!(miri) { 20 } else { 300 };

proptest! {
    // Few cases: frames are large, and unoptimised code is slow.
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]

    #[test]
    fn frames_arrive_unchanged_and_in_order(actions in prop::collection::vec(action(65_550), 0..MAX_ACTIONS)) {
        check_actions(ALL_FEATURES, actions)?;
    }

    #[test]
    fn frames_arrive_without_optional_features(actions in prop::collection::vec(action(1514), 0..MAX_ACTIONS)) {
        check_actions(0, actions)?;
    }

    #[test]
    fn frames_arrive_in_merged_buffers(actions in prop::collection::vec(action(9014), 0..MAX_ACTIONS)) {
        check_actions(MRG_RXBUF, actions)?;
    }
}
