//! Tests of the processing of queues.

use vm_memory::{Bytes, GuestAddress};

use super::{ACKNOWLEDGE, DRIVER, DRIVER_OK, FEATURES_OK, Harness, NEEDS_RESET, STATUS};
use crate::devices::virtio::QueueProgress;
use crate::devices::virtio::mmio::ServeOutcome;
use crate::devices::virtio::test_utils::{BUFFERS, TestDriver};

/// Length of a chain. Two such chains reach the work limit.
const LONG_CHAIN: u32 = 0x2_0000;

#[test]
fn used_chain_raises_an_interrupt() {
    let mut harness = Harness::running();
    assert_eq!(harness.registers.serve(0), ServeOutcome::IDLE);
    assert_eq!(harness.interrupts(), 0);
    let head = harness.driver.send(&[(BUFFERS, 4, false)]);
    assert_eq!(
        harness.registers.serve(0),
        ServeOutcome { progress: QueueProgress::Done, needs_interrupt: true }
    );
    assert_eq!(harness.driver.used(), [(head.into(), 0)]);
    assert_eq!(harness.interrupts(), 1);
    harness.registers.interrupts().acknowledge(1);
    assert_eq!(harness.interrupts(), 0);
}

#[test]
fn interrupt_is_raised_at_the_event_index_only() {
    let mut harness = Harness::running();
    // Suppressed before the third chain.
    harness.driver.set_used_event(2);
    let serve = |harness: &mut Harness| {
        harness.driver.send(&[(BUFFERS, 1, false)]);
        harness.registers.serve(0).needs_interrupt
    };
    assert_eq!([0; 4].map(|_| serve(&mut harness)), [false, false, true, false]);
}

#[test]
fn avail_event_requests_a_notification_of_the_next_chain() {
    let mut harness = Harness::running();
    for count in 1..40 {
        harness.driver.send(&[(BUFFERS, 1, false)]);
        harness.registers.serve(0);
        assert_eq!(harness.driver.avail_event(), count);
    }
}

#[test]
fn without_event_index_notifications_are_suppressed_until_the_queue_is_done() {
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER);
    harness.accept(1 << 32);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
    harness.set_up(0);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    for _ in 0..16 {
        harness.driver.send(&[(BUFFERS, LONG_CHAIN, false)]);
    }
    // The work limit.
    assert_eq!(
        harness.registers.serve(0),
        ServeOutcome { progress: QueueProgress::Yielded, needs_interrupt: true }
    );
    assert_eq!(harness.driver.used_flags(), 1);
    while harness.registers.serve(0).progress == QueueProgress::Yielded {}
    assert_eq!(harness.driver.used_flags(), 0);
    assert_eq!(harness.driver.used().len(), 16);
}

#[test]
fn malformed_queue_stops_the_device_until_its_reset() {
    for (name, driver) in TestDriver::malformed_queues(16) {
        let mut harness = Harness::running();
        // Copies the malformed queue, which has the same layout.
        harness.driver.memory.write_slice(&driver.bytes(0, 0x2_0000), GuestAddress(0)).unwrap();
        let status = harness.read(STATUS);
        assert_eq!(
            harness.registers.serve(0),
            ServeOutcome { progress: QueueProgress::Done, needs_interrupt: true },
            "{name}"
        );
        assert_eq!(harness.read(STATUS), status | NEEDS_RESET);
        assert_eq!(harness.interrupts(), 2);
        harness.log();
        assert_eq!(harness.registers.serve(0), ServeOutcome::IDLE);
        harness.write(STATUS, status);
        assert_eq!(harness.read(STATUS), status | NEEDS_RESET);
        assert!(harness.log().is_empty());
        harness.write(STATUS, 0);
        assert_eq!(harness.read(STATUS), 0);
    }
}
