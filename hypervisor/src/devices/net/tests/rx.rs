//! Frames on their way to the guest.

use proptest::collection::vec;
use proptest::prelude::*;
use virtio_queue::QueueT;

use super::harness::{ALL, Harness, MERGE, SEGMENT, frame, with_buffers};
use crate::devices::net::header::{VNET_HEADER_SIZE, VnetHeader};
use crate::devices::net::{MAX_FRAME, RECEIVEQ};
use crate::devices::virtio::test_utils::{BUFFERS, INDIRECT, NEXT, TestDriver, WRITE};
use crate::devices::virtio::{DeviceError, Interest, Progress, VirtioDevice};

#[test]
fn received_frames_are_put_into_one_buffer_each_if_they_fit() {
    let mut rig = Harness::new(RECEIVEQ, ALL);
    assert_eq!(rig.serve().unwrap(), Progress::Done);
    rig.offer(256, 2048);
    assert_eq!(rig.serve().unwrap(), Progress::Blocked);
    rig.arrive(VnetHeader::default(), &frame(60));
    rig.arrive(VnetHeader { flags: 2, ..VnetHeader::default() }, &frame(1514));
    assert_eq!(rig.serve().unwrap(), Progress::Blocked);
    let expected = [
        (with_buffers(VnetHeader::default(), 1), frame(60)),
        (VnetHeader { flags: 2, num_buffers: 1, ..VnetHeader::default() }, frame(1514)),
    ];
    assert_eq!(rig.received(2048), expected);
    let event = rig.net.host_event(RECEIVEQ).unwrap();
    assert_eq!((event.fd, event.interest), (100, Interest::Readable));
}

#[test]
fn long_frames_are_spread_and_come_all_at_once() {
    let mut rig = Harness::new(RECEIVEQ, ALL);
    rig.offer(256, 2048);
    rig.arrive(SEGMENT, &frame(MAX_FRAME));
    rig.arrive(SEGMENT, &frame(5000));
    assert_eq!(rig.finish(), Progress::Blocked);
    let received = rig.received(2048);
    assert_eq!(received.iter().map(|(header, _)| header.num_buffers).collect::<Vec<_>>(), [33, 3]);
    assert_eq!(received[0], (with_buffers(SEGMENT, 33), frame(MAX_FRAME)));
    assert_eq!(received[1], (with_buffers(SEGMENT, 3), frame(5000)));
}

#[test]
fn without_merging_a_frame_has_one_buffer() {
    let mut rig = Harness::new(RECEIVEQ, 0);
    rig.offer(4, 1530);
    for length in [60, 1514, 1518, 1519, 70] {
        rig.arrive(VnetHeader::default(), &frame(length));
    }
    assert_eq!(rig.finish(), Progress::Done);
    // One was longer than the network's frames are.
    let received = rig.received(1530);
    assert_eq!(received.iter().map(|(_, frame)| frame.len()).collect::<Vec<_>>(), [60, 1514, 1518, 70]);
    assert!(received.iter().all(|(header, bytes)| header.num_buffers == 1 && *bytes == frame(bytes.len())));
    // A buffer that is too small for it drops a frame, and takes the next one.
    let mut rig = Harness::new(RECEIVEQ, 0);
    rig.offer(1, 100);
    rig.arrive(VnetHeader::default(), &frame(200));
    rig.arrive(VnetHeader::default(), &frame(88));
    assert_eq!(rig.finish(), Progress::Done);
    assert_eq!(rig.received(100), [(with_buffers(VnetHeader::default(), 1), frame(88))]);
}

#[test]
fn a_frame_waits_for_buffers_and_is_not_lost() {
    let mut rig = Harness::new(RECEIVEQ, ALL);
    rig.offer(3, 512);
    rig.arrive(SEGMENT, &frame(2000));
    rig.arrive(VnetHeader::default(), &frame(100));
    assert_eq!(rig.finish(), Progress::Done);
    assert!(rig.received(512).is_empty());
    // The other one is still on the wire.
    assert_eq!(rig.cable.wire().to_guest.len(), 1);
    for number in 3..5 {
        rig.driver.send(&[(BUFFERS + number * 512, 512, true)]);
    }
    assert_eq!(rig.finish(), Progress::Done);
    let expected =
        [(with_buffers(SEGMENT, 4), frame(2000)), (with_buffers(VnetHeader::default(), 1), frame(100))];
    assert_eq!(rig.received(512), expected);
}

#[test]
fn a_frame_that_the_whole_queue_cannot_hold_is_dropped() {
    let mut rig = Harness::with_queue(RECEIVEQ, ALL, 8);
    rig.offer(8, 100);
    rig.arrive(SEGMENT, &frame(900));
    rig.arrive(VnetHeader::default(), &frame(788));
    assert_eq!(rig.finish(), Progress::Done);
    assert_eq!(rig.received(100), [(with_buffers(VnetHeader::default(), 8), frame(788))]);
}

#[test]
fn frames_for_which_the_driver_is_not_made_are_dropped() {
    let mut rig = Harness::new(RECEIVEQ, MERGE);
    rig.offer(256, 2048);
    // From before the host was told, for instance.
    rig.arrive(SEGMENT, &frame(1000));
    rig.arrive(VnetHeader { flags: 1, ..VnetHeader::default() }, &frame(1000));
    rig.arrive(VnetHeader::default(), &frame(5000));
    rig.arrive(VnetHeader::default(), &frame(61));
    assert_eq!(rig.finish(), Progress::Blocked);
    assert_eq!(rig.received(2048), [(with_buffers(VnetHeader::default(), 1), frame(61))]);
}

#[test]
fn buffers_in_many_pieces_are_filled_all_the_same() {
    let mut rig = Harness::new(RECEIVEQ, ALL);
    // More pieces than the host takes at once.
    for chain in 0..10_u16 {
        let table = BUFFERS + 0x20_0000 + u64::from(chain) * 0x1000;
        for piece in 0..200 {
            let address = BUFFERS + u64::from(chain * 200 + piece) * 100;
            let flags = if piece < 199 { WRITE | NEXT } else { WRITE };
            rig.driver.describe_at(table, piece, (address, 50, flags, piece + 1));
        }
        rig.driver.describe(chain, (table, 200 * 16, INDIRECT, 0));
        rig.driver.offer(chain);
    }
    rig.arrive(SEGMENT, &frame(15_000));
    assert_eq!(rig.serve().unwrap(), Progress::Blocked);
    assert_eq!(rig.driver.used(), [(0, 10_000), (1, 5012)]);
    let pieces = (0..301).map(|piece| rig.driver.bytes(BUFFERS + piece * 100, 50));
    let bytes: Vec<u8> = pieces.flatten().take(15_012).collect();
    assert_eq!(bytes[..VNET_HEADER_SIZE], with_buffers(SEGMENT, 2).to_bytes());
    assert_eq!(bytes[VNET_HEADER_SIZE..], frame(15_000));
}

#[test]
fn received_frames_take_turns() {
    let mut rig = Harness::new(RECEIVEQ, ALL);
    rig.offer(256, 4096);
    for _ in 0..6 {
        rig.arrive(SEGMENT, &frame(60_000));
    }
    assert_eq!(rig.serve().unwrap(), Progress::Yielded);
    assert_eq!(rig.received(4096).len(), 5);
    assert_eq!(rig.serve().unwrap(), Progress::Blocked);
}

#[test]
fn buffers_without_room_for_a_header_break_the_rules() {
    let mut rig = Harness::new(RECEIVEQ, ALL);
    rig.offer(1, 11);
    assert!(matches!(rig.serve(), Err(DeviceError::Length(11))));
    let mut rig = Harness::new(RECEIVEQ, ALL);
    rig.driver.send(&[(BUFFERS, 100, false)]);
    assert!(matches!(rig.serve(), Err(DeviceError::Direction)));
}

#[test]
fn after_a_reset_old_buffers_are_forgotten() {
    let mut rig = Harness::new(RECEIVEQ, ALL);
    rig.offer(3, 512);
    rig.arrive(SEGMENT, &frame(2000));
    rig.finish();
    rig.net.reset();
    rig.net.activate(MERGE);
    rig.driver = TestDriver::new(256);
    rig.queue = rig.driver.queue();
    rig.arrive(VnetHeader::default(), &frame(99));
    assert_eq!(rig.finish(), Progress::Done);
    assert!(rig.received(2048).is_empty());
    rig.offer(1, 2048);
    assert_eq!(rig.finish(), Progress::Done);
    assert_eq!(rig.received(2048), [(with_buffers(VnetHeader::default(), 1), frame(99))]);
    let offloads: Vec<_> = rig.cable.wire().offloads.iter().map(|offloads| offloads.checksum).collect();
    assert_eq!(offloads, [true, false]);
}

#[test]
fn a_guest_that_offers_without_end_gets_no_more_than_a_queue_has() {
    let mut rig = Harness::with_queue(RECEIVEQ, ALL, 16);
    for _ in 0..100 {
        rig.offer(16, 20);
        assert!(rig.serve().is_ok_and(|served| served != Progress::Blocked) || rig.queue.next_avail() <= 16);
        if rig.queue.next_avail() == 16 {
            break;
        }
    }
    rig.offer(16, 20);
    rig.serve().unwrap();
    assert_eq!(rig.queue.next_avail(), 16);
}

proptest! {
    /// Whatever the sizes of frames and buffers, frames arrive whole and in order, or are dropped whole.
    #[test]
    fn frames_arrive_whole_and_in_order(
        features in prop_oneof![Just(ALL), Just(MERGE), Just(0)],
        size in 100u32..5000,
        count in 1u32..200,
        lengths in vec(prop_oneof![14usize..2000, 14usize..=MAX_FRAME], 0..20),
    ) {
        let mut rig = Harness::new(RECEIVEQ, features);
        rig.offer(count, size);
        for &length in &lengths {
            rig.arrive(VnetHeader::default(), &frame(length));
        }
        let served = rig.finish();
        let mut expected = lengths.iter();
        for (_, bytes) in rig.received(size) {
            prop_assert_eq!(&bytes, &frame(bytes.len()));
            prop_assert!(expected.any(|&length| length == bytes.len()));
        }
        prop_assert!(rig.cable.wire().to_guest.is_empty() || served == Progress::Done);
    }
}
