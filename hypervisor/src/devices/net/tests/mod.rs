//! Tests of the network device.

mod harness;
mod rx;
mod tx;

use proptest::collection::vec;
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

use self::harness::{ALL, Harness, MockBackend, SETTINGS, frame};
use super::header::{Offloads, VNET_HEADER_SIZE, VnetHeader};
use super::{Net, RECEIVEQ, TRANSMITQ};
use crate::devices::virtio::test_utils::{BUFFERS, MEMORY, TestDriver, assert_refuses_hostile_chains};
use crate::devices::virtio::{DeviceError, Progress, VirtioDevice};

#[test]
fn the_configuration_tells_address_state_and_size() {
    let cable = MockBackend::default();
    let mut net = Net::new(Box::new(cable.clone()), SETTINGS);
    let config = |net: &Net| {
        let mut config = [0; 13];
        net.read_config(0, &mut config);
        config
    };
    assert_eq!(config(&net), [2, 1, 2, 3, 4, 5, 1, 0, 0, 0, 0xdc, 5, 0]);
    assert_eq!(net.features(), ALL | 1 << 3 | 1 << 5 | 1 << 16);
    assert_eq!(net.device_type(), 1);
    cable.wire().is_lost = true;
    let driver = TestDriver::new(16);
    let mut rig = Harness { cable, net, queue: driver.queue(), driver, index: RECEIVEQ };
    rig.offer(1, 2048);
    assert!(!rig.net.take_config_change());
    assert_eq!(rig.finish(), Progress::Blocked);
    assert!(rig.net.take_config_change() && !rig.net.take_config_change());
    net = rig.net;
    assert_eq!(config(&net)[6..8], [0, 0]);
    assert_eq!((net.host_event(RECEIVEQ), net.host_event(TRANSMITQ)), (None, None));
}

#[test]
fn hostile_chains_are_refused() {
    for index in [RECEIVEQ, TRANSMITQ] {
        assert_refuses_hostile_chains(index, || {
            let mut net = Net::new(Box::new(MockBackend::default()), SETTINGS);
            net.activate(ALL);
            net
        });
    }
}

proptest! {
    #[test]
    fn no_chain_is_too_strange(
        index in 0usize..2,
        features: u64,
        header: [u8; VNET_HEADER_SIZE],
        buffers in vec((BUFFERS..MEMORY, 0u32..0x2_0000, any::<bool>()), 1..10),
        lengths in vec(0usize..70_000, 0..4),
    ) {
        let mut rig = Harness::new(index, features);
        rig.driver.memory.write_slice(&header, GuestAddress(buffers[0].0.min(MEMORY - 12))).unwrap();
        for &length in &lengths {
            rig.arrive(VnetHeader::from(header), &frame(length));
        }
        for part in buffers.chunks(3) {
            rig.driver.send(part);
        }
        let _: Result<Progress, DeviceError> = rig.serve();
        let offloads = Offloads::of_host(features);
        for (header, frame) in rig.sent() {
            prop_assert_eq!(header.validate(frame.len(), offloads), Ok(header));
        }
    }
}
