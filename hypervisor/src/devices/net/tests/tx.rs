//! Frames from the guest.

use proptest::collection::vec;
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

use super::harness::{ALL, CHECKSUM, Harness, SEGMENT, frame, with_buffers};
use crate::devices::net::header::{VNET_HEADER_SIZE, VnetHeader};
use crate::devices::net::{MAX_FRAME, TRANSMITQ};
use crate::devices::virtio::test_utils::BUFFERS;
use crate::devices::virtio::{DeviceError, Interest, Progress, VirtioDevice};

#[test]
fn frames_are_sent_with_their_headers_checked() {
    let mut rig = Harness::new(TRANSMITQ, ALL);
    rig.send(VnetHeader { flags: 0xf8, num_buffers: 7, ..VnetHeader::default() }, &frame(60));
    assert_eq!(rig.serve().unwrap(), Progress::Done);
    assert_eq!(rig.sent(), [(VnetHeader::default(), frame(60))]);
    rig.send(with_buffers(SEGMENT, 3), &frame(MAX_FRAME));
    rig.serve().unwrap();
    assert_eq!(rig.sent(), [(SEGMENT, frame(MAX_FRAME))]);
    assert_eq!(rig.driver.used(), [(0, 0), (1, 0)]);
}

#[test]
fn frames_that_make_no_sense_are_given_back_and_not_sent() {
    let mut rig = Harness::new(TRANSMITQ, CHECKSUM);
    let places = BUFFERS + 0x10_0000;
    rig.send(SEGMENT, &frame(3000));
    rig.driver.send_bytes(places, &[0; VNET_HEADER_SIZE + 13]);
    rig.driver.send_bytes(places + 0x1000, &[0; VNET_HEADER_SIZE]);
    rig.driver.send_bytes(places + 0x2000, &vec![0; VNET_HEADER_SIZE + MAX_FRAME + 1]);
    rig.driver.send_bytes(places + 0x8_0000, &[0; VNET_HEADER_SIZE + 14]);
    assert_eq!(rig.serve().unwrap(), Progress::Done);
    assert_eq!(rig.driver.used().len(), 5);
    assert_eq!(rig.sent(), [(VnetHeader::default(), vec![0; 14])]);
    // Without even a header.
    rig.driver.send(&[(BUFFERS, 11, false)]);
    assert!(matches!(rig.serve(), Err(DeviceError::Length(11))));
}

#[test]
fn a_network_without_room_is_waited_for() {
    let mut rig = Harness::new(TRANSMITQ, ALL);
    rig.cable.wire().room = Some(2);
    for number in 0..4 {
        let bytes = [&[0; VNET_HEADER_SIZE][..], &[number; 60]].concat();
        rig.driver.send_bytes(BUFFERS + u64::from(number) * 100, &bytes);
    }
    assert_eq!(rig.serve().unwrap(), Progress::Blocked);
    assert_eq!(rig.driver.used().len(), 2);
    assert_eq!(rig.serve().unwrap(), Progress::Blocked);
    let event = rig.net.host_event(TRANSMITQ).unwrap();
    assert_eq!((event.fd, event.interest), (101, Interest::Writable));
    rig.cable.wire().room = None;
    rig.cable.wire().is_clogged = true;
    assert_eq!(rig.serve().unwrap(), Progress::Blocked);
    rig.cable.wire().is_clogged = false;
    assert_eq!(rig.serve().unwrap(), Progress::Done);
    assert_eq!(rig.driver.used().len(), 2);
    let sent: Vec<_> = rig.sent().iter().map(|(_, frame)| frame[0]).collect();
    assert_eq!(sent, [0, 1, 2, 3]);
}

#[test]
fn sent_frames_take_turns() {
    let mut rig = Harness::new(TRANSMITQ, ALL);
    for _ in 0..6 {
        rig.send(SEGMENT, &frame(60_000));
    }
    assert_eq!(rig.serve().unwrap(), Progress::Yielded);
    assert_eq!((rig.driver.used().len(), rig.sent().len()), (5, 5));
}

#[test]
fn without_a_network_frames_go_nowhere() {
    let mut rig = Harness::new(TRANSMITQ, ALL);
    rig.cable.wire().is_lost = true;
    for _ in 0..3 {
        rig.send(VnetHeader::default(), &frame(60));
    }
    assert_eq!(rig.finish(), Progress::Done);
    assert!(rig.net.take_config_change());
    assert!(rig.sent().is_empty());
    assert_eq!(rig.driver.used().len(), 3);
}

/// Cuts bytes into pieces at the given places.
fn cut(address: u64, length: usize, cuts: &[usize], writes: bool) -> Vec<(u64, u32, bool)> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (length + 1)).chain([0, length]).collect();
    places.sort_unstable();
    let piece =
        |pair: &[usize]| (address + pair[0] as u64, u32::try_from(pair[1] - pair[0]).unwrap(), writes);
    places.windows(2).map(piece).collect()
}

proptest! {
    /// How a frame is cut into buffers means nothing (section 2.7.4).
    #[test]
    fn framing_means_nothing_when_sending(length in 14usize..5000, cuts in vec(any::<usize>(), 0..10)) {
        let mut rig = Harness::new(TRANSMITQ, ALL);
        let bytes = [&[0; VNET_HEADER_SIZE][..], &frame(length)].concat();
        rig.driver.memory.write_slice(&bytes, GuestAddress(BUFFERS)).unwrap();
        rig.driver.send(&cut(BUFFERS, bytes.len(), &cuts, false));
        prop_assert_eq!(rig.serve().unwrap(), Progress::Done);
        prop_assert_eq!(rig.sent(), [(VnetHeader::default(), frame(length))]);
    }
}
