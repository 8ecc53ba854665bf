//! Tests of `transmitq1`.

use proptest::collection::vec;
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

use super::harness::{ALL, CSUM, Harness, SEGMENT, frame, with_buffers};
use crate::devices::net::header::{VNET_HEADER_SIZE, VnetHeader};
use crate::devices::net::{MAX_FRAME, TRANSMITQ};
use crate::devices::rate_limiter::tests::simulated;
use crate::devices::virtio::test_utils::BUFFERS;
use crate::devices::virtio::{DeviceError, Interest, QueueProgress, VirtioDevice};

#[test]
fn frames_are_sent_with_validated_headers() {
    let mut harness = Harness::new(TRANSMITQ, ALL);
    harness.send(VnetHeader { flags: 0xf8, num_buffers: 7, ..VnetHeader::default() }, &frame(60));
    assert_eq!(harness.serve().unwrap(), QueueProgress::Done);
    assert_eq!(harness.sent(), [(VnetHeader::default(), frame(60))]);
    harness.send(with_buffers(SEGMENT, 3), &frame(MAX_FRAME));
    harness.serve().unwrap();
    assert_eq!(harness.sent(), [(SEGMENT, frame(MAX_FRAME))]);
    assert_eq!(harness.driver.used(), [(0, 0), (1, 0)]);
}

#[test]
fn invalid_frames_are_used_and_dropped() {
    let mut harness = Harness::new(TRANSMITQ, CSUM);
    let buffers = BUFFERS + 0x10_0000;
    harness.send(SEGMENT, &frame(3000));
    harness.driver.send_bytes(buffers, &[0; VNET_HEADER_SIZE + 13]);
    harness.driver.send_bytes(buffers + 0x1000, &[0; VNET_HEADER_SIZE]);
    harness.driver.send_bytes(buffers + 0x2000, &vec![0; VNET_HEADER_SIZE + MAX_FRAME + 1]);
    harness.driver.send_bytes(buffers + 0x8_0000, &[0; VNET_HEADER_SIZE + 14]);
    assert_eq!(harness.serve().unwrap(), QueueProgress::Done);
    assert_eq!(harness.driver.used().len(), 5);
    assert_eq!(harness.sent(), [(VnetHeader::default(), vec![0; 14])]);
    // A chain without a whole header.
    harness.driver.send(&[(BUFFERS, 11, false)]);
    assert!(matches!(harness.serve(), Err(DeviceError::Length(11))));
}

#[test]
fn blocked_backend_is_retried_without_loss() {
    let mut harness = Harness::new(TRANSMITQ, ALL);
    harness.backend.network().capacity = Some(2);
    for number in 0..4 {
        let bytes = [&[0; VNET_HEADER_SIZE][..], &[number; 60]].concat();
        harness.driver.send_bytes(BUFFERS + u64::from(number) * 100, &bytes);
    }
    assert_eq!(harness.serve().unwrap(), QueueProgress::Blocked);
    assert_eq!(harness.driver.used().len(), 2);
    assert_eq!(harness.serve().unwrap(), QueueProgress::Blocked);
    let event = harness.net.host_event(TRANSMITQ).unwrap();
    assert_eq!((event.fd, event.interest), (101, Interest::Writable));
    harness.backend.network().capacity = None;
    harness.backend.network().is_congested = true;
    assert_eq!(harness.serve().unwrap(), QueueProgress::Blocked);
    harness.backend.network().is_congested = false;
    assert_eq!(harness.serve().unwrap(), QueueProgress::Done);
    assert_eq!(harness.driver.used().len(), 2);
    let sent: Vec<_> = harness.sent().iter().map(|(_, frame)| frame[0]).collect();
    assert_eq!(sent, [0, 1, 2, 3]);
}

/// The receiver of a byte stream waits for the rest of a frame, so the rest is not limited. Only the frames
/// after it are.
#[test]
fn rest_of_a_frame_does_not_wait_for_the_limit() {
    let mut harness = Harness::new(TRANSMITQ, ALL);
    let ((input, _), (output, _time)) = (simulated("", "1/1"), simulated("", "1/1"));
    harness.net = harness.net.with_limiters(input, output);
    harness.net.activate(ALL);
    harness.backend.network().is_congested = true;
    for _ in 0..2 {
        harness.send(VnetHeader::default(), &frame(60));
    }
    assert_eq!((harness.serve().unwrap(), harness.sent().len()), (QueueProgress::Blocked, 1));
    let event = harness.net.host_event(TRANSMITQ).unwrap();
    assert_eq!((event.fd, event.interest), (101, Interest::Writable));
    harness.backend.network().is_congested = false;
    assert_eq!((harness.serve().unwrap(), harness.sent().len()), (QueueProgress::Blocked, 0));
    // The second frame waits for the limit's timer.
    assert_eq!(harness.net.host_event(TRANSMITQ).unwrap().interest, Interest::Readable);
}

#[test]
fn transmitq_yields_at_the_work_limit() {
    let mut harness = Harness::new(TRANSMITQ, ALL);
    for _ in 0..6 {
        harness.send(SEGMENT, &frame(60_000));
    }
    assert_eq!(harness.serve().unwrap(), QueueProgress::Yielded);
    assert_eq!((harness.driver.used().len(), harness.sent().len()), (5, 5));
}

#[test]
fn frames_are_dropped_after_the_backend_disconnects() {
    let mut harness = Harness::new(TRANSMITQ, ALL);
    harness.backend.network().is_disconnected = true;
    for _ in 0..3 {
        harness.send(VnetHeader::default(), &frame(60));
    }
    assert_eq!(harness.finish(), QueueProgress::Done);
    assert!(harness.net.take_config_change());
    assert!(harness.sent().is_empty());
    assert_eq!(harness.driver.used().len(), 3);
}

/// Splits a range into buffers at the given offsets.
fn split(address: u64, length: usize, offsets: &[usize], writes: bool) -> Vec<(u64, u32, bool)> {
    let mut offsets: Vec<usize> =
        offsets.iter().map(|offset| offset % (length + 1)).chain([0, length]).collect();
    offsets.sort_unstable();
    let buffer =
        |pair: &[usize]| (address + pair[0] as u64, u32::try_from(pair[1] - pair[0]).unwrap(), writes);
    offsets.windows(2).map(buffer).collect()
}

proptest! {
    /// The boundaries of a frame's buffers carry no meaning (virtio 1.2 §2.7.4).
    #[test]
    fn sent_frame_does_not_depend_on_message_framing(length in 14usize..5000, offsets in vec(any::<usize>(), 0..10)) {
        let mut harness = Harness::new(TRANSMITQ, ALL);
        let bytes = [&[0; VNET_HEADER_SIZE][..], &frame(length)].concat();
        harness.driver.memory.write_slice(&bytes, GuestAddress(BUFFERS)).unwrap();
        harness.driver.send(&split(BUFFERS, bytes.len(), &offsets, false));
        prop_assert_eq!(harness.serve().unwrap(), QueueProgress::Done);
        prop_assert_eq!(harness.sent(), [(VnetHeader::default(), frame(length))]);
    }
}
