//! Devices that write what cannot be into the used ring.

use proptest::prelude::*;
use std::boxed::Box;
use std::vec::Vec;

use super::super::{QueueError, SubmitError};
use super::{Bench, Pair};
use crate::testing::DeviceModel;

/// An impossible answer: what the device does, given the head of a chain, and what that is called.
type Answer = (QueueError, Box<dyn Fn(&DeviceModel, u16)>);

/// Submits two chains of two descriptors; the device takes them.
fn hostile() -> (Bench, u16, u16) {
    let mut bench = Bench::new(8, true);
    assert!(bench.submit(0, 2).is_some() && bench.submit(1, 2).is_some());
    let (first, second) = {
        let mut model = bench.model.lock().unwrap();
        (model.take(0).unwrap().head, model.take(0).unwrap().head)
    };
    (bench, first, second)
}

#[test]
fn impossible_answers_break_the_queue_for_good() {
    let cases: [Answer; 8] = [
        (QueueError::IndexJump, Box::new(|model, _| model.set_used_index(0, 3))),
        (QueueError::IndexJump, Box::new(|model, _| model.set_used_index(0, 0xffff))),
        (QueueError::NoDescriptor, Box::new(|model, _| model.set_used_element(0, 0, 8, 0))),
        (
            QueueError::NoDescriptor,
            Box::new(|model, head| model.set_used_element(0, 0, 0x1_0000 + u32::from(head), 0)),
        ),
        // The second descriptor of the chain, and one that is free.
        (
            QueueError::NotInFlight,
            Box::new(|model, head| model.set_used_element(0, 0, u32::from(head) + 1, 0)),
        ),
        (QueueError::NotInFlight, Box::new(|model, _| model.set_used_element(0, 0, 7, 0))),
        (QueueError::TooLong, Box::new(|model, head| model.set_used_element(0, 0, head.into(), 61))),
        (QueueError::TooLong, Box::new(|model, head| model.set_used_element(0, 0, head.into(), u32::MAX))),
    ];
    for (error, act) in cases {
        let (mut bench, first, _) = hostile();
        {
            let model = bench.model.lock().unwrap();
            model.set_used_index(0, 1);
            act(&model, first);
        }
        assert_eq!(bench.queue.complete().unwrap_err(), error);
        bench.model.lock().unwrap().set_used_element(0, 0, first.into(), 0);
        bench.model.lock().unwrap().set_used_index(0, 1);
        assert_eq!(bench.queue.complete().unwrap_err(), error);
        assert_eq!(bench.queue.arm(1).unwrap_err(), error);
        let buffer = bench.buffers.pop().unwrap();
        let refused = bench.queue.submit(Pair { buffer, readable: 4, pieces: 1 }).unwrap_err();
        assert_eq!(refused.error, SubmitError::Broken(error));
    }
}

#[test]
fn a_chain_comes_back_only_once() {
    let (mut bench, first, _) = hostile();
    {
        let mut model = bench.model.lock().unwrap();
        model.put(0, first, 60);
        model.put(0, first, 0);
    }
    assert_eq!(bench.queue.complete().unwrap().unwrap().written, 60);
    assert_eq!(bench.queue.complete().unwrap_err(), QueueError::NotInFlight);
}

#[test]
fn a_device_that_rewrites_descriptors_harms_only_itself() {
    let (mut bench, first, second) = hostile();
    let addresses = bench.queue.addresses();
    bench.model.lock().unwrap().memory.write(addresses.descriptors, &[0xff; 16 * 8]);
    bench.model.lock().unwrap().put(0, second, 0);
    bench.model.lock().unwrap().put(0, first, 0);
    assert_eq!(bench.complete().map(|used| used.1), Some(1));
    assert_eq!(bench.complete().map(|used| used.1), Some(0));
    assert!(bench.submit(2, 8).is_some());
    assert!(bench.echo());
}

proptest! {
    #[test]
    fn rubbish_in_the_used_ring_does_no_harm(
        index: u16,
        elements in prop::collection::vec((0_u32..40, 0_u32..80), 1..16),
        wild in prop::collection::vec(any::<(u32, u32)>(), 0..4),
    ) {
        let mut bench = Bench::new(16, true);
        (0..8).for_each(|mark| assert!(bench.submit(mark, 2).is_some()));
        for (ahead, (id, length)) in (0..).zip(elements.iter().chain(&wild)) {
            bench.model.lock().unwrap().set_used_element(0, ahead, *id, *length);
        }
        bench.model.lock().unwrap().set_used_index(0, index % 12);
        let mut tokens = Vec::new();
        while let Ok(Some(used)) = bench.queue.complete_or_arm() {
            prop_assert!(!tokens.contains(&used.token));
            prop_assert!(used.written <= 60);
            tokens.push(used.token);
        }
        prop_assert!(tokens.len() <= usize::from(index % 12).min(8));
        prop_assert_eq!(usize::from(bench.queue.in_flight()), 8 - tokens.len());
        let first = bench.queue.complete().map(|used| used.is_some());
        prop_assert_eq!(bench.queue.complete().map(|used| used.is_some()), first);
    }
}
