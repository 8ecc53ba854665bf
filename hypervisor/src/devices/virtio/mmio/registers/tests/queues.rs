//! Tests of the queue registers.

use vm_memory::{Bytes, GuestAddress};

use super::{
    ACKNOWLEDGE, AVAILABLE, DESCRIPTORS, DRIVER, DRIVER_OK, FEATURES_OK, Harness, NEEDS_RESET, QUEUE_MAX,
    QUEUE_READY, QUEUE_SELECT, QUEUE_SIZE, STATUS, USED,
};
use crate::devices::virtio::QueueProgress;
use crate::devices::virtio::mmio::ServeOutcome;
use crate::devices::virtio::test_utils::{BUFFERS, MEMORY, TestDriver};

#[test]
fn queue_size_is_a_power_of_two_up_to_the_maximum() {
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    let mut max_size = |queue| {
        harness.write(QUEUE_SELECT, queue);
        harness.read(QUEUE_MAX)
    };
    assert_eq!([max_size(0), max_size(1), max_size(2), max_size(u32::MAX)], [16, 8, 0, 0]);
    harness.write(QUEUE_SELECT, 1);
    for (size, expected) in [(4, 4), (16, 4), (0, 4), (3, 4), (0x1_0002, 4), (8, 8)] {
        harness.write(QUEUE_SIZE, size);
        assert_eq!(harness.registers.queues[1].queue().state().size, expected, "{size}");
    }
    // Writes to a queue that does not exist are ignored.
    harness.write(QUEUE_SELECT, 2);
    harness.make_ready(TestDriver::addresses());
    assert_eq!(harness.read(QUEUE_READY), 0);
}

#[test]
fn queue_addresses_have_two_halves() {
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    harness.make_ready(TestDriver::addresses());
    let state = harness.registers.queues[0].queue().state();
    assert_eq!([state.desc_table, state.avail_ring, state.used_ring], TestDriver::addresses());
    // Every high half other than 0 is outside guest memory.
    for register in [DESCRIPTORS, AVAILABLE, USED] {
        let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
        harness.make_ready([0; 3]);
        harness.write(QUEUE_READY, 0);
        harness.write(register + 4, 1);
        harness.write(QUEUE_READY, 1);
        assert_eq!(harness.read(QUEUE_READY), 0, "{register:#x}");
    }
}

#[test]
fn queue_outside_memory_or_misaligned_needs_a_reset() {
    // With 16 descriptors the parts have 256, 38 and 134 bytes.
    let good = TestDriver::addresses();
    let [descriptors, available, used] = good;
    let cases = [
        (good, true),
        ([MEMORY - 256, available, used], true),
        ([MEMORY - 240, available, used], false),
        ([descriptors + 8, available, used], false),
        ([descriptors, MEMORY - 38, used], true),
        ([descriptors, MEMORY - 36, used], false),
        ([descriptors, available + 1, used], false),
        ([descriptors, available, MEMORY - 136], true),
        ([descriptors, available, MEMORY - 132], false),
        ([descriptors, available, used + 2], false),
        ([u64::MAX - 15, available, used], false),
        ([descriptors, u64::MAX - 1, used], false),
        ([descriptors, available, u64::MAX - 3], false),
    ];
    for (addresses, is_valid) in cases {
        let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
        harness.make_ready(addresses);
        assert_eq!(harness.read(QUEUE_READY) == 1, is_valid, "{addresses:x?}");
        assert_eq!(harness.read(STATUS) & NEEDS_RESET == 0, is_valid, "{addresses:x?}");
        // No interrupt before DRIVER_OK.
        assert_eq!(harness.interrupts(), 0);
    }
}

#[test]
fn queue_at_the_end_of_memory_works() {
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    let (available, used) = (MEMORY - 38, MEMORY - 256);
    harness.make_ready([BUFFERS, available, used]);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    harness.driver.describe_at(BUFFERS, 0, (BUFFERS, 1, 0, 0));
    harness.driver.memory.write_obj(1_u16, GuestAddress(available + 2)).unwrap();
    assert_eq!(
        harness.registers.serve(0),
        ServeOutcome { progress: QueueProgress::Done, needs_interrupt: true }
    );
    assert_eq!(harness.driver.memory.read_obj::<u16>(GuestAddress(used + 2)).unwrap(), 1);
}

#[test]
fn queue_is_set_up_between_features_ok_and_driver_ok_only() {
    for status in [0, ACKNOWLEDGE, ACKNOWLEDGE | DRIVER] {
        let mut harness = Harness::at(status);
        harness.make_ready(TestDriver::addresses());
        assert_eq!(harness.read(QUEUE_READY), 0);
    }
    let mut harness = Harness::running();
    harness.write(QUEUE_SELECT, 1);
    harness.make_ready(TestDriver::addresses());
    assert_eq!(harness.read(QUEUE_READY), 0);
    // QueueReady takes no other value than 1.
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    harness.make_ready(TestDriver::addresses());
    harness.write(QUEUE_READY, 0);
    harness.write(QUEUE_READY, 2);
    assert_eq!(harness.read(QUEUE_READY), 0);
}

#[test]
fn ready_queue_ignores_writes() {
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    harness.set_up(0);
    let before = harness.registers.queues[0].queue().state();
    harness.write(QUEUE_SIZE, 4);
    harness.make_ready([0x2000, 0x3000, 0x3800]);
    assert_eq!(harness.registers.queues[0].queue().state(), before);
    // The ignored values do not take effect later.
    harness.write(QUEUE_READY, 0);
    harness.write(QUEUE_READY, 1);
    assert_eq!(harness.registers.queues[0].queue().state(), before);
}

#[test]
fn stopped_queue_is_not_processed() {
    let mut harness = Harness::running();
    harness.driver.send(&[(BUFFERS, 1, false)]);
    harness.write(QUEUE_READY, 0);
    assert_eq!(harness.read(QUEUE_READY), 0);
    assert_eq!(harness.registers.serve(0), ServeOutcome::IDLE);
    harness.write(QUEUE_READY, 1);
    assert_eq!(harness.read(QUEUE_READY), 0);
}

#[test]
fn serve_ignores_queues_that_are_not_ready() {
    let mut harness = Harness::running();
    harness.log();
    for index in [1, 2, usize::MAX] {
        assert_eq!(harness.registers.serve(index), ServeOutcome::IDLE);
    }
    assert!(harness.log().is_empty());
}
