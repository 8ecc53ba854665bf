//! Malicious devices that write invalid entries to the used ring.

use proptest::prelude::*;
use std::boxed::Box;
use std::vec::Vec;

use super::super::{QueueError, SubmitError};
use super::{Harness, TestChain};
use crate::testing::DeviceModel;

/// The expected error, and how the device causes it, given the head of a chain.
type ProtocolViolation = (QueueError, Box<dyn Fn(&DeviceModel, u16)>);

/// Submits two chains of two descriptors; the device takes them.
fn submit_two_chains() -> (Harness, u16, u16) {
    let mut harness = Harness::new(8, true);
    assert!(harness.submit(0, 2).is_some() && harness.submit(1, 2).is_some());
    let (first, second) = {
        let mut model = harness.model.lock().unwrap();
        (model.take(0).unwrap().head, model.take(0).unwrap().head)
    };
    (harness, first, second)
}

#[test]
fn invalid_used_entry_breaks_queue_permanently() {
    let cases: [ProtocolViolation; 8] = [
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
    for (error, violate) in cases {
        let (mut harness, first, _) = submit_two_chains();
        {
            let model = harness.model.lock().unwrap();
            model.set_used_index(0, 1);
            violate(&model, first);
        }
        assert_eq!(harness.queue.complete().unwrap_err(), error);
        harness.model.lock().unwrap().set_used_element(0, 0, first.into(), 0);
        harness.model.lock().unwrap().set_used_index(0, 1);
        assert_eq!(harness.queue.complete().unwrap_err(), error);
        assert_eq!(harness.queue.arm(1).unwrap_err(), error);
        let buffer = harness.buffers.pop().unwrap();
        let refused = harness.queue.submit(TestChain { buffer, readable: 4, pieces: 1 }).unwrap_err();
        assert_eq!(refused.error, SubmitError::Broken(error));
    }
}

#[test]
fn chain_used_twice_breaks_queue() {
    let (mut harness, first, _) = submit_two_chains();
    {
        let mut model = harness.model.lock().unwrap();
        model.use_chain(0, first, 60);
        model.use_chain(0, first, 0);
    }
    assert_eq!(harness.queue.complete().unwrap().unwrap().written, 60);
    assert_eq!(harness.queue.complete().unwrap_err(), QueueError::NotInFlight);
}

#[test]
fn overwritten_descriptors_do_not_affect_driver() {
    let (mut harness, first, second) = submit_two_chains();
    let addresses = harness.queue.addresses();
    harness.model.lock().unwrap().memory.write(addresses.descriptors, &[0xff; 16 * 8]);
    harness.model.lock().unwrap().use_chain(0, second, 0);
    harness.model.lock().unwrap().use_chain(0, first, 0);
    assert_eq!(harness.complete().map(|used| used.1), Some(1));
    assert_eq!(harness.complete().map(|used| used.1), Some(0));
    assert!(harness.submit(2, 8).is_some());
    assert!(harness.echo());
}

proptest! {
    #[test]
    fn random_used_ring_never_completes_a_chain_twice(
        index: u16,
        elements in prop::collection::vec((0_u32..40, 0_u32..80), 1..16),
        wild in prop::collection::vec(any::<(u32, u32)>(), 0..4),
    ) {
        let mut harness = Harness::new(16, true);
        (0..8).for_each(|mark| assert!(harness.submit(mark, 2).is_some()));
        for (ahead, (id, length)) in (0..).zip(elements.iter().chain(&wild)) {
            harness.model.lock().unwrap().set_used_element(0, ahead, *id, *length);
        }
        harness.model.lock().unwrap().set_used_index(0, index % 12);
        let mut tokens = Vec::new();
        while let Ok(Some(used)) = harness.queue.complete_or_arm() {
            prop_assert!(!tokens.contains(&used.token));
            prop_assert!(used.written <= 60);
            tokens.push(used.token);
        }
        prop_assert!(tokens.len() <= usize::from(index % 12).min(8));
        prop_assert_eq!(usize::from(harness.queue.in_flight()), 8 - tokens.len());
        let first = harness.queue.complete().map(|used| used.is_some());
        prop_assert_eq!(harness.queue.complete().map(|used| used.is_some()), first);
    }
}
