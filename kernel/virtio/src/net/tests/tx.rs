//! Frames to be transmitted.

use std::vec;
use std::vec::Vec;

use super::{ALL, CSUM, HEADER, HOST_TSO4, HOST_TSO6, MAX_FRAME, Nic, SMALL, frame, transmit};
use crate::net::{ChecksumOffload, IpVersion, NetError, SegmentationOffload, TxOffload};
use crate::testing::STALE_BYTE;

#[test]
fn frames_are_sent_as_they_were_written() {
    for features in [0, ALL] {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(SMALL).unwrap();
        for mark in 0..1000 {
            let bytes = frame(14 + mark * 7 % 1500, mark);
            assert!(net.can_transmit(bytes.len()));
            assert_eq!(transmit(&mut net, &bytes), Ok(()));
            net.notify();
            assert_eq!(nic.sent(), [(vec![0; HEADER], bytes)]);
        }
        assert_eq!(net.is_tx_empty(), Ok(true));
    }
}

#[test]
fn what_was_in_memory_before_is_not_sent() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    for round in 0..200 {
        let size = 1000 + round * 100;
        assert!(net.can_transmit(size));
        // It was to write all of it.
        net.transmit(size, TxOffload::default(), |_| ()).unwrap();
        let (header, frame) = nic.sent().remove(0);
        assert!(header.iter().chain(&frame).all(|byte| *byte != STALE_BYTE), "{round}");
    }
}

#[test]
fn a_large_frame_may_go_on_at_the_start_of_the_ring() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    let mut in_two = 0;
    for mark in 0..50 {
        let bytes = frame(MAX_FRAME - mark, mark);
        assert!(net.can_transmit(bytes.len()));
        assert_eq!(transmit(&mut net, &bytes), Ok(()));
        let chain = nic.take().unwrap();
        in_two += chain.parts.len() - 1;
        assert_eq!(nic.finish(&chain).1, bytes);
    }
    assert!((10..15).contains(&in_two), "{in_two}");
}

#[test]
fn who_waits_for_the_device_is_woken_when_it_has_sent_everything() {
    for features in [0, ALL] {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(SMALL).unwrap();
        assert_eq!(net.arm_tx_empty(), Ok(false));
        for mark in 0..3 {
            assert!(net.can_transmit(100));
            transmit(&mut net, &frame(100, mark)).unwrap();
        }
        assert_eq!(net.arm_tx_empty(), Ok(true));
        // The device was told, though nobody has called `flush`.
        let chains = [nic.take().unwrap(), nic.take().unwrap(), nic.take().unwrap()];
        let before = nic.counts(1).1;
        for chain in &chains {
            assert_eq!(net.arm_tx_empty(), Ok(true));
            nic.finish(chain);
        }
        assert!(nic.counts(1).1 > before);
        assert_eq!(net.interrupt().map(|cause| cause.queues), Ok(true));
        assert_eq!(net.arm_tx_empty(), Ok(false));
    }
}

#[test]
fn who_waits_for_the_end_is_woken_though_somebody_else_needs_room_meanwhile() {
    // With the index of an event, and without.
    for only_version_1 in [false, true] {
        let nic = Nic::new(ALL, 256);
        if only_version_1 {
            nic.model.lock().unwrap().offered = ALL | 1 << 32;
        }
        let mut net = nic.open(SMALL).unwrap();
        let bytes = frame(60_000, 1);
        for _ in 0..4 {
            transmit(&mut net, &bytes).unwrap();
        }
        assert_eq!(net.arm_tx_empty(), Ok(true));
        let chains: Vec<_> = core::iter::from_fn(|| nic.take()).collect();
        nic.finish(&chains[0]);
        assert!(net.can_transmit(bytes.len()));
        let before = nic.counts(1).1;
        chains[1..].iter().for_each(|chain| drop(nic.finish(chain)));
        assert!(nic.counts(1).1 > before, "{only_version_1}");
        assert_eq!(net.interrupt().map(|cause| cause.queues), Ok(true));
        assert_eq!(net.arm_tx_empty(), Ok(false));
        // Nobody waits any more.
        let before = nic.counts(1).1;
        transmit(&mut net, &bytes).unwrap();
        net.notify();
        nic.sent();
        assert_eq!((nic.counts(1).1, net.is_tx_empty()), (before, Ok(true)));
    }
}

#[test]
fn who_finds_no_room_is_woken_when_there_is_more() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    let bytes = frame(60_000, 1);
    let mut count = 0;
    while net.can_transmit(bytes.len()) {
        transmit(&mut net, &bytes).unwrap();
        count += 1;
    }
    assert_eq!((count, transmit(&mut net, &bytes)), (4, Err(NetError::Full)));
    // The device was told, though nobody has called `flush`.
    assert_eq!(nic.counts(1), (1, 0));
    assert!(net.can_transmit(1500));
    let chains = [nic.take().unwrap(), nic.take().unwrap()];
    nic.finish(&chains[0]);
    assert_eq!(nic.counts(1).1, 0);
    nic.finish(&chains[1]);
    assert_eq!(nic.counts(1).1, 1);
    assert_eq!(net.interrupt().map(|cause| cause.queues), Ok(true));
    assert_eq!(net.is_tx_empty(), Ok(false));
    for _ in 0..2 {
        assert!(net.can_transmit(bytes.len()));
        transmit(&mut net, &bytes).unwrap();
    }
    // Nobody waits any more.
    nic.sent();
    assert_eq!((nic.counts(1).1, net.is_tx_empty()), (1, Ok(true)));
}

#[test]
fn who_has_found_room_is_not_interrupted_any_more() {
    let nic = Nic::new(0, 16);
    nic.model.lock().unwrap().offered = 1 << 32;
    let mut net = nic.open(SMALL).unwrap();
    while net.can_transmit(60) {
        transmit(&mut net, &frame(60, 1)).unwrap();
    }
    let chain = nic.take().unwrap();
    nic.finish(&chain);
    let interrupts = nic.counts(1).1;
    assert!(interrupts > 0 && net.can_transmit(60));
    assert!(nic.sent().len() > 10);
    assert_eq!(nic.counts(1).1, interrupts);
}

#[test]
fn what_was_used_just_before_waiting_for_room_is_found() {
    let nic = Nic::new(ALL, 4);
    let mut net = nic.open(SMALL).unwrap();
    // A frame may need two descriptors: there is no room for a fourth one.
    for _ in 0..3 {
        transmit(&mut net, &frame(60, 1)).unwrap();
    }
    net.notify();
    // The next fence is that of arming: nothing is left to be notified of.
    let (model, memory) = (nic.model.clone(), nic.model.lock().unwrap().memory.clone());
    memory.at_fence(move || assert_eq!(Nic { model }.sent().len(), 3));
    assert!(net.can_transmit(60));
}

#[test]
fn frames_may_be_done_in_any_order() {
    let nic = Nic::new(ALL, 16);
    let mut net = nic.open(SMALL).unwrap();
    let mut mark = 0;
    let mut sent = 0;
    for round in 0..200 {
        while net.can_transmit(9000) {
            transmit(&mut net, &frame(9000 + round, mark)).unwrap();
            mark += 1;
        }
        let mut chains: Vec<_> = core::iter::from_fn(|| nic.take()).collect();
        let count = chains.len();
        assert!(count > 0);
        // The first one is last.
        chains.rotate_left(1);
        for (place, chain) in chains.iter().enumerate() {
            let expected = frame(9000 + round, sent + (place + 1) % count);
            assert_eq!(nic.finish(chain).1, expected);
        }
        sent += count;
    }
    assert_eq!((sent, net.is_tx_empty()), (mark, Ok(true)));
}

#[test]
fn the_oldest_frame_holds_up_the_ring_but_breaks_nothing() {
    let nic = Nic::new(ALL, 16);
    let mut net = nic.open(SMALL).unwrap();
    transmit(&mut net, &frame(60, 0)).unwrap();
    let oldest = nic.take().unwrap();
    let mut later = 0;
    while net.can_transmit(60) {
        transmit(&mut net, &frame(60, 1)).unwrap();
        nic.sent();
        later += 1;
    }
    // As many as the window has, though descriptors and bytes are left.
    assert_eq!(later, 15);
    nic.finish(&oldest);
    assert_eq!((net.can_transmit(MAX_FRAME), net.is_tx_empty()), (true, Ok(true)));
}

#[test]
fn headers_say_what_the_device_is_to_do() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    let checksum = Some(ChecksumOffload { start: 0x122, offset: 0x310 });
    let mut sent = |offload| {
        net.transmit(5000, offload, |bytes| bytes.fill(1)).unwrap();
        nic.sent().remove(0).0
    };
    assert_eq!(sent(TxOffload { checksum, segment: None }), [1, 0, 0, 0, 0, 0, 0x22, 1, 0x10, 3, 0, 0]);
    let segment = |version| Some(SegmentationOffload { version, header_size: 0x142, mss: 0x5b4 });
    let expected = |kind| [1, kind, 0x42, 1, 0xb4, 5, 0x22, 1, 0x10, 3, 0, 0];
    assert_eq!(sent(TxOffload { checksum, segment: segment(IpVersion::V4) }), expected(1));
    assert_eq!(sent(TxOffload { checksum, segment: segment(IpVersion::V6) }), expected(4));
}

#[test]
fn what_the_device_cannot_do_is_refused() {
    let fails = |features, size, checksum: Option<(u16, u16)>, segment: Option<(IpVersion, u16, u16)>| {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(SMALL).unwrap();
        let checksum = checksum.map(|(start, offset)| ChecksumOffload { start, offset });
        let segment =
            segment.map(|(version, header_size, mss)| SegmentationOffload { version, header_size, mss });
        let result = net.transmit(size, TxOffload { checksum, segment }, |_| ());
        assert_eq!(nic.sent().len(), usize::from(result.is_ok()));
        result.err()
    };
    let place = Some((34, 16));
    let v4 = Some((IpVersion::V4, 54, 1446));
    let v6 = Some((IpVersion::V6, 54, 1446));
    assert_eq!(fails(ALL, 2000, place, v4), None);
    assert_eq!(fails(CSUM, 2000, place, None), None);
    assert_eq!(fails(0, 2000, place, None), Some(NetError::Offload));
    assert_eq!(fails(CSUM, 2000, place, v4), Some(NetError::Offload));
    assert_eq!(fails(CSUM | HOST_TSO4, 2000, place, v4), None);
    assert_eq!(fails(CSUM | HOST_TSO4, 2000, place, v6), Some(NetError::Offload));
    assert_eq!(fails(CSUM | HOST_TSO6, 2000, place, v6), None);
    assert_eq!(fails(CSUM | HOST_TSO6, 2000, place, v4), Some(NetError::Offload));
    // A segment whose checksum is whole, one without data, one of endlessly many parts.
    assert_eq!(fails(ALL, 2000, None, v4), Some(NetError::Offload));
    assert_eq!(fails(ALL, 54, place, v4), Some(NetError::Offload));
    assert_eq!(fails(ALL, 2000, place, Some((IpVersion::V4, 54, 0))), Some(NetError::Offload));
    // Checksums at the end of the frame, and behind it.
    assert_eq!(fails(ALL, 100, Some((90, 8)), None), None);
    assert_eq!(fails(ALL, 100, Some((90, 9)), None), Some(NetError::Offload));
    assert_eq!(fails(ALL, 100, Some((u16::MAX, u16::MAX)), None), Some(NetError::Offload));
    assert_eq!(fails(ALL, 14, None, None), None);
    assert_eq!(fails(ALL, MAX_FRAME, None, None), None);
    for size in [0, 13, MAX_FRAME + 1, usize::MAX] {
        assert_eq!(fails(ALL, size, None, None), Some(NetError::Size));
    }
}

#[test]
fn no_room_is_promised_for_what_is_no_frame() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    assert!(!net.can_transmit(MAX_FRAME + 1) && !net.can_transmit(usize::MAX));
    assert!(net.can_transmit(MAX_FRAME));
}
