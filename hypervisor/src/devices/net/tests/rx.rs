//! Tests of `receiveq1`.

use proptest::collection::vec;
use proptest::prelude::*;
use virtio_queue::QueueT;

use super::harness::{ALL, Harness, MRG_RXBUF, SEGMENT, frame, with_buffers};
use crate::devices::net::header::{VNET_HEADER_SIZE, VnetHeader};
use crate::devices::net::{MAX_FRAME, RECEIVEQ};
use crate::devices::virtio::test_utils::{BUFFERS, INDIRECT, NEXT, TestDriver, WRITE};
use crate::devices::virtio::{DeviceError, Interest, QueueProgress, VirtioDevice};

#[test]
fn short_frame_takes_one_buffer() {
    let mut harness = Harness::new(RECEIVEQ, ALL);
    assert_eq!(harness.serve().unwrap(), QueueProgress::Done);
    harness.add_buffers(256, 2048);
    assert_eq!(harness.serve().unwrap(), QueueProgress::Blocked);
    harness.arrive(VnetHeader::default(), &frame(60));
    harness.arrive(VnetHeader { flags: 2, ..VnetHeader::default() }, &frame(1514));
    assert_eq!(harness.serve().unwrap(), QueueProgress::Blocked);
    let expected = [
        (with_buffers(VnetHeader::default(), 1), frame(60)),
        (VnetHeader { flags: 2, num_buffers: 1, ..VnetHeader::default() }, frame(1514)),
    ];
    assert_eq!(harness.received(2048), expected);
    let event = harness.net.host_event(RECEIVEQ).unwrap();
    assert_eq!((event.fd, event.interest), (100, Interest::Readable));
}

#[test]
fn long_frame_spans_mergeable_buffers() {
    let mut harness = Harness::new(RECEIVEQ, ALL);
    harness.add_buffers(256, 2048);
    harness.arrive(SEGMENT, &frame(MAX_FRAME));
    harness.arrive(SEGMENT, &frame(5000));
    assert_eq!(harness.finish(), QueueProgress::Blocked);
    let received = harness.received(2048);
    assert_eq!(received.iter().map(|(header, _)| header.num_buffers).collect::<Vec<_>>(), [33, 3]);
    assert_eq!(received[0], (with_buffers(SEGMENT, 33), frame(MAX_FRAME)));
    assert_eq!(received[1], (with_buffers(SEGMENT, 3), frame(5000)));
}

#[test]
fn without_mergeable_buffers_a_frame_takes_one_buffer() {
    let mut harness = Harness::new(RECEIVEQ, 0);
    harness.add_buffers(4, 1530);
    for length in [60, 1514, 1518, 1519, 70] {
        harness.arrive(VnetHeader::default(), &frame(length));
    }
    assert_eq!(harness.finish(), QueueProgress::Done);
    // The frame of 1,519 bytes exceeds the MTU.
    let received = harness.received(1530);
    assert_eq!(received.iter().map(|(_, frame)| frame.len()).collect::<Vec<_>>(), [60, 1514, 1518, 70]);
    assert!(received.iter().all(|(header, bytes)| header.num_buffers == 1 && *bytes == frame(bytes.len())));
    // A frame that does not fit the first buffer is dropped; the buffer takes the next one.
    let mut harness = Harness::new(RECEIVEQ, 0);
    harness.add_buffers(1, 100);
    harness.arrive(VnetHeader::default(), &frame(200));
    harness.arrive(VnetHeader::default(), &frame(88));
    assert_eq!(harness.finish(), QueueProgress::Done);
    assert_eq!(harness.received(100), [(with_buffers(VnetHeader::default(), 1), frame(88))]);
}

#[test]
fn bounced_frame_waits_for_buffers() {
    let mut harness = Harness::new(RECEIVEQ, ALL);
    harness.add_buffers(3, 512);
    harness.arrive(SEGMENT, &frame(2000));
    harness.arrive(VnetHeader::default(), &frame(100));
    assert_eq!(harness.finish(), QueueProgress::Done);
    assert!(harness.received(512).is_empty());
    // The second frame is still in the backend.
    assert_eq!(harness.backend.network().to_guest.len(), 1);
    for number in 3..5 {
        harness.driver.send(&[(BUFFERS + number * 512, 512, true)]);
    }
    assert_eq!(harness.finish(), QueueProgress::Done);
    let expected =
        [(with_buffers(SEGMENT, 4), frame(2000)), (with_buffers(VnetHeader::default(), 1), frame(100))];
    assert_eq!(harness.received(512), expected);
}

#[test]
fn frame_larger_than_the_whole_queue_is_dropped() {
    let mut harness = Harness::with_queue(RECEIVEQ, ALL, 8);
    harness.add_buffers(8, 100);
    harness.arrive(SEGMENT, &frame(900));
    harness.arrive(VnetHeader::default(), &frame(788));
    assert_eq!(harness.finish(), QueueProgress::Done);
    assert_eq!(harness.received(100), [(with_buffers(VnetHeader::default(), 8), frame(788))]);
}

#[test]
fn frames_with_unnegotiated_offloads_are_dropped() {
    let mut harness = Harness::new(RECEIVEQ, MRG_RXBUF);
    harness.add_buffers(256, 2048);
    // Such frames can be in the TAP device's queue from before TUNSETOFFLOAD.
    harness.arrive(SEGMENT, &frame(1000));
    harness.arrive(VnetHeader { flags: 1, ..VnetHeader::default() }, &frame(1000));
    harness.arrive(VnetHeader::default(), &frame(5000));
    harness.arrive(VnetHeader::default(), &frame(61));
    assert_eq!(harness.finish(), QueueProgress::Blocked);
    assert_eq!(harness.received(2048), [(with_buffers(VnetHeader::default(), 1), frame(61))]);
}

#[test]
fn frame_in_more_buffers_than_iovecs_is_bounced() {
    let mut harness = Harness::new(RECEIVEQ, ALL);
    // More buffers than one readv(2) takes.
    for chain in 0..10_u16 {
        let table = BUFFERS + 0x20_0000 + u64::from(chain) * 0x1000;
        for buffer in 0..200 {
            let address = BUFFERS + u64::from(chain * 200 + buffer) * 100;
            let flags = if buffer < 199 { WRITE | NEXT } else { WRITE };
            harness.driver.describe_at(table, buffer, (address, 50, flags, buffer + 1));
        }
        harness.driver.describe(chain, (table, 200 * 16, INDIRECT, 0));
        harness.driver.offer(chain);
    }
    harness.arrive(SEGMENT, &frame(15_000));
    assert_eq!(harness.serve().unwrap(), QueueProgress::Blocked);
    assert_eq!(harness.driver.used(), [(0, 10_000), (1, 5012)]);
    let buffers = (0..301).map(|buffer| harness.driver.bytes(BUFFERS + buffer * 100, 50));
    let bytes: Vec<u8> = buffers.flatten().take(15_012).collect();
    assert_eq!(bytes[..VNET_HEADER_SIZE], with_buffers(SEGMENT, 2).to_bytes());
    assert_eq!(bytes[VNET_HEADER_SIZE..], frame(15_000));
}

#[test]
fn receiveq_yields_at_the_work_limit() {
    let mut harness = Harness::new(RECEIVEQ, ALL);
    harness.add_buffers(256, 4096);
    for _ in 0..6 {
        harness.arrive(SEGMENT, &frame(60_000));
    }
    assert_eq!(harness.serve().unwrap(), QueueProgress::Yielded);
    assert_eq!(harness.received(4096).len(), 5);
    assert_eq!(harness.serve().unwrap(), QueueProgress::Blocked);
}

#[test]
fn buffer_smaller_than_a_header_or_read_only_is_an_error() {
    let mut harness = Harness::new(RECEIVEQ, ALL);
    harness.add_buffers(1, 11);
    assert!(matches!(harness.serve(), Err(DeviceError::Length(11))));
    let mut harness = Harness::new(RECEIVEQ, ALL);
    harness.driver.send(&[(BUFFERS, 100, false)]);
    assert!(matches!(harness.serve(), Err(DeviceError::Direction)));
}

#[test]
fn reset_drops_buffers_and_the_bounced_frame() {
    let mut harness = Harness::new(RECEIVEQ, ALL);
    harness.add_buffers(3, 512);
    harness.arrive(SEGMENT, &frame(2000));
    harness.finish();
    harness.net.reset();
    harness.net.activate(MRG_RXBUF);
    harness.driver = TestDriver::new(256);
    harness.queue = harness.driver.queue();
    harness.arrive(VnetHeader::default(), &frame(99));
    assert_eq!(harness.finish(), QueueProgress::Done);
    assert!(harness.received(2048).is_empty());
    harness.add_buffers(1, 2048);
    assert_eq!(harness.finish(), QueueProgress::Done);
    assert_eq!(harness.received(2048), [(with_buffers(VnetHeader::default(), 1), frame(99))]);
    let offloads: Vec<_> =
        harness.backend.network().offloads.iter().map(|offloads| offloads.checksum).collect();
    assert_eq!(offloads, [true, false]);
}

#[test]
fn chains_taken_ahead_are_limited_to_the_queue_size() {
    let mut harness = Harness::with_queue(RECEIVEQ, ALL, 16);
    for _ in 0..100 {
        harness.add_buffers(16, 20);
        assert!(
            harness.serve().is_ok_and(|served| served != QueueProgress::Blocked)
                || harness.queue.next_avail() <= 16
        );
        if harness.queue.next_avail() == 16 {
            break;
        }
    }
    harness.add_buffers(16, 20);
    harness.serve().unwrap();
    assert_eq!(harness.queue.next_avail(), 16);
}

proptest! {
    /// For any sizes of frames and buffers, frames arrive whole and in order, or are dropped whole.
    #[test]
    fn frames_arrive_whole_and_in_order(
        features in prop_oneof![Just(ALL), Just(MRG_RXBUF), Just(0)],
        size in 100u32..5000,
        count in 1u32..200,
        lengths in vec(prop_oneof![14usize..2000, 14usize..=MAX_FRAME], 0..20),
    ) {
        let mut harness = Harness::new(RECEIVEQ, features);
        harness.add_buffers(count, size);
        for &length in &lengths {
            harness.arrive(VnetHeader::default(), &frame(length));
        }
        let served = harness.finish();
        let mut expected = lengths.iter();
        for (_, bytes) in harness.received(size) {
            prop_assert_eq!(&bytes, &frame(bytes.len()));
            prop_assert!(expected.any(|&length| length == bytes.len()));
        }
        prop_assert!(harness.backend.network().to_guest.is_empty() || served == QueueProgress::Done);
    }
}
