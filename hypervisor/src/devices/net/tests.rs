//! Tests of the network device.

mod harness;
mod rx;
mod tx;

use std::sync::atomic::Ordering::Relaxed;

use proptest::collection::vec;
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

use self::harness::{ALL, CONFIG, Harness, MockBackend, frame};
use super::header::{Offloads, VNET_HEADER_SIZE, VnetHeader};
use super::{Net, RECEIVEQ, TRANSMITQ};
use crate::devices::rate_limiter::tests::simulated;
use crate::devices::virtio::test_utils::{BUFFERS, MEMORY, TestDriver, assert_rejects_malformed_queues};
use crate::devices::virtio::{DeviceError, QueueProgress, VirtioDevice};

#[test]
fn configuration_space_has_mac_link_status_and_mtu() {
    let backend = MockBackend::default();
    let mut net = Net::new(Box::new(backend.clone()), CONFIG);
    let config = |net: &Net| {
        let mut config = [0; 13];
        net.read_config(0, &mut config);
        config
    };
    assert_eq!(config(&net), [2, 1, 2, 3, 4, 5, 1, 0, 0, 0, 0xdc, 5, 0]);
    assert_eq!(net.features(), ALL | 1 << 3 | 1 << 5 | 1 << 16);
    assert_eq!(net.device_type(), 1);
    backend.network().is_disconnected = true;
    let driver = TestDriver::new(16);
    let mut harness = Harness { backend, net, queue: driver.queue(), driver, index: RECEIVEQ };
    harness.add_buffers(1, 2048);
    assert!(!harness.net.take_config_change());
    assert_eq!(harness.finish(), QueueProgress::Blocked);
    assert!(harness.net.take_config_change() && !harness.net.take_config_change());
    net = harness.net;
    assert_eq!(config(&net)[6..8], [0, 0]);
    assert_eq!((net.host_event(RECEIVEQ), net.host_event(TRANSMITQ)), (None, None));
}

#[test]
fn malformed_queues_are_rejected() {
    for index in [RECEIVEQ, TRANSMITQ] {
        assert_rejects_malformed_queues(index, || {
            let mut net = Net::new(Box::new(MockBackend::default()), CONFIG);
            net.activate(ALL);
            net
        });
    }
}

#[test]
fn limits_hold_for_each_direction_by_itself() {
    for index in [RECEIVEQ, TRANSMITQ] {
        let mut harness = Harness::new(index, ALL);
        let (limiter, time) = simulated("", "10/2");
        let (other, _) = simulated("", "1/1");
        let [input, output] = if index == RECEIVEQ { [limiter, other] } else { [other, limiter] };
        harness.net = harness.net.with_limiters(input, output);
        if index == RECEIVEQ {
            harness.add_buffers(5, 2048);
        }
        for _ in 0..5 {
            match index {
                RECEIVEQ => harness.arrive(VnetHeader::default(), &frame(60)),
                _ => harness.send(VnetHeader::default(), &frame(60)),
            }
        }
        let of_backend = Harness::new(index, ALL).net.host_event(index);
        for (milliseconds, count) in [(0, 2), (99, 0), (100, 1)] {
            time.store(milliseconds * 1_000_000, Relaxed);
            assert_eq!(harness.finish(), QueueProgress::Blocked);
            assert_eq!(harness.driver.used().len(), count, "{milliseconds}");
            // The queue waits for the timer, not for the backend, which is ready.
            assert_ne!(harness.net.host_event(index), of_backend);
        }
        harness.net.lift_limits();
        harness.finish();
        assert_eq!(harness.driver.used().len(), 2);
        assert_eq!(harness.net.host_event(index), of_backend);
    }
}

proptest! {
    #[test]
    fn arbitrary_chains_send_only_valid_headers(
        index in 0usize..2,
        features: u64,
        header: [u8; VNET_HEADER_SIZE],
        buffers in vec((BUFFERS..MEMORY, 0u32..0x2_0000, any::<bool>()), 1..10),
        lengths in vec(0usize..70_000, 0..4),
    ) {
        let mut harness = Harness::new(index, features);
        harness.driver.memory.write_slice(&header, GuestAddress(buffers[0].0.min(MEMORY - 12))).unwrap();
        for &length in &lengths {
            harness.arrive(VnetHeader::from(header), &frame(length));
        }
        for part in buffers.chunks(3) {
            harness.driver.send(part);
        }
        let _: Result<QueueProgress, DeviceError> = harness.serve();
        let offloads = Offloads::of_host(features);
        for (header, frame) in harness.sent() {
            prop_assert_eq!(header.validate(frame.len(), offloads), Ok(header));
        }
    }
}
