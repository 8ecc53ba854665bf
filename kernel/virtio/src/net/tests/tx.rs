//! Transmitted frames, TX interrupts and offloads.

use std::vec;
use std::vec::Vec;

use super::{
    ALL_FEATURES, CSUM, HEADER_SIZE, HOST_TSO4, HOST_TSO6, MAX_FRAME, MIN_SIZES, Nic, frame, transmit,
    transmit_with,
};
use crate::net::{ChecksumOffload, IpVersion, NetError, SegmentationOffload, TxOffload};
use crate::testing::STALE_BYTE;

#[test]
fn transmitted_frames_are_unchanged() {
    for features in [0, ALL_FEATURES] {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(MIN_SIZES).unwrap();
        for mark in 0..if cfg!(miri) { 150 } else { 1000 } {
            let bytes = frame(14 + mark * 7 % 1500, mark);
            assert!(net.can_transmit(bytes.len()));
            assert_eq!(transmit(&mut net, &bytes), Ok(()));
            net.notify();
            assert_eq!(nic.transmit_all(), [(vec![0; HEADER_SIZE], bytes)]);
        }
        assert_eq!(net.is_tx_empty(), Ok(true));
    }
}

#[test]
fn stale_memory_is_not_transmitted() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    for round in 0..if cfg!(miri) { 5 } else { 200 } {
        let size = 1000 + round * 100;
        assert!(net.can_transmit(size));
        // The callback writes nothing.
        transmit_with(&mut net, size, TxOffload::default(), |_| ()).unwrap();
        let (header, frame) = nic.transmit_all().remove(0);
        assert!(header.iter().chain(&frame).all(|byte| *byte != STALE_BYTE), "{round}");
    }
}

#[test]
fn large_frame_wraps_around_end_of_ring() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    let mut wrapped = 0;
    for mark in 0..50 {
        let bytes = frame(MAX_FRAME - mark, mark);
        assert!(net.can_transmit(bytes.len()));
        assert_eq!(transmit(&mut net, &bytes), Ok(()));
        let chain = nic.take().unwrap();
        wrapped += chain.parts.len() - 1;
        assert_eq!(nic.finish(&chain).1, bytes);
    }
    assert!((10..15).contains(&wrapped), "{wrapped}");
}

#[test]
fn tx_empty_interrupt_is_raised_after_last_frame() {
    for features in [0, ALL_FEATURES] {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(MIN_SIZES).unwrap();
        assert_eq!(net.arm_tx_empty(), Ok(false));
        for mark in 0..3 {
            assert!(net.can_transmit(100));
            transmit(&mut net, &frame(100, mark)).unwrap();
        }
        assert_eq!(net.arm_tx_empty(), Ok(true));
        // The device was notified without a call of `notify`.
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
fn tx_empty_interrupt_stays_armed_while_room_is_reclaimed() {
    // With and without `VIRTIO_F_EVENT_IDX`.
    for only_version_1 in [false, true] {
        let nic = Nic::new(ALL_FEATURES, 256);
        if only_version_1 {
            nic.model.lock().unwrap().offered = ALL_FEATURES | 1 << 32;
        }
        let mut net = nic.open(MIN_SIZES).unwrap();
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
        // The interrupt is disarmed again.
        let before = nic.counts(1).1;
        transmit(&mut net, &bytes).unwrap();
        net.notify();
        nic.transmit_all();
        assert_eq!((nic.counts(1).1, net.is_tx_empty()), (before, Ok(true)));
    }
}

#[test]
fn full_ring_raises_interrupt_when_half_is_used() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    let bytes = frame(60_000, 1);
    let mut count = 0;
    while net.can_transmit(bytes.len()) {
        transmit(&mut net, &bytes).unwrap();
        count += 1;
    }
    assert_eq!((count, transmit(&mut net, &bytes)), (4, Err(NetError::Full)));
    // The device was notified without a call of `notify`.
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
    // The interrupt is disarmed again.
    nic.transmit_all();
    assert_eq!((nic.counts(1).1, net.is_tx_empty()), (1, Ok(true)));
}

#[test]
fn interrupt_is_disarmed_once_there_is_room() {
    let nic = Nic::new(0, 16);
    nic.model.lock().unwrap().offered = 1 << 32;
    let mut net = nic.open(MIN_SIZES).unwrap();
    while net.can_transmit(60) {
        transmit(&mut net, &frame(60, 1)).unwrap();
    }
    let chain = nic.take().unwrap();
    nic.finish(&chain);
    let interrupts = nic.counts(1).1;
    assert!(interrupts > 0 && net.can_transmit(60));
    assert!(nic.transmit_all().len() > 10);
    assert_eq!(nic.counts(1).1, interrupts);
}

#[test]
fn frame_used_while_arming_is_reclaimed() {
    let nic = Nic::new(ALL_FEATURES, 4);
    let mut net = nic.open(MIN_SIZES).unwrap();
    // A frame may need two descriptors: there is no room for a fourth one.
    for _ in 0..3 {
        transmit(&mut net, &frame(60, 1)).unwrap();
    }
    net.notify();
    // The next barrier is that of arming: nothing is left to notify.
    let (model, memory) = (nic.model.clone(), nic.model.lock().unwrap().memory.clone());
    memory.at_fence(move || assert_eq!(Nic { model }.transmit_all().len(), 3));
    assert!(net.can_transmit(60));
}

#[test]
fn frames_complete_in_any_order() {
    let nic = Nic::new(ALL_FEATURES, 16);
    let mut net = nic.open(MIN_SIZES).unwrap();
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
        // The first frame is used last.
        chains.rotate_left(1);
        for (index, chain) in chains.iter().enumerate() {
            let expected = frame(9000 + round, sent + (index + 1) % count);
            assert_eq!(nic.finish(chain).1, expected);
        }
        sent += count;
    }
    assert_eq!((sent, net.is_tx_empty()), (mark, Ok(true)));
}

#[test]
fn oldest_frame_in_flight_limits_the_window() {
    let nic = Nic::new(ALL_FEATURES, 16);
    let mut net = nic.open(MIN_SIZES).unwrap();
    transmit(&mut net, &frame(60, 0)).unwrap();
    let oldest = nic.take().unwrap();
    let mut later = 0;
    while net.can_transmit(60) {
        transmit(&mut net, &frame(60, 1)).unwrap();
        nic.transmit_all();
        later += 1;
    }
    // The size of the reorder window, though descriptors and bytes are left.
    assert_eq!(later, 15);
    nic.finish(&oldest);
    assert_eq!((net.can_transmit(MAX_FRAME), net.is_tx_empty()), (true, Ok(true)));
}

#[test]
fn headers_encode_offloads() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    let checksum = Some(ChecksumOffload { start: 0x122, offset: 0x310 });
    let mut sent = |offload| {
        transmit_with(&mut net, 5000, offload, |bytes| bytes.fill(1)).unwrap();
        nic.transmit_all().remove(0).0
    };
    assert_eq!(sent(TxOffload { checksum, segment: None }), [1, 0, 0, 0, 0, 0, 0x22, 1, 0x10, 3, 0, 0]);
    let segment = |version| Some(SegmentationOffload { version, header_size: 0x142, mss: 0x5b4 });
    let expected = |kind| [1, kind, 0x42, 1, 0xb4, 5, 0x22, 1, 0x10, 3, 0, 0];
    assert_eq!(sent(TxOffload { checksum, segment: segment(IpVersion::V4) }), expected(1));
    assert_eq!(sent(TxOffload { checksum, segment: segment(IpVersion::V6) }), expected(4));
}

#[test]
fn unsupported_or_invalid_offloads_are_refused() {
    let fails = |features, size, checksum: Option<(u16, u16)>, segment: Option<(IpVersion, u16, u16)>| {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(MIN_SIZES).unwrap();
        let checksum = checksum.map(|(start, offset)| ChecksumOffload { start, offset });
        let segment =
            segment.map(|(version, header_size, mss)| SegmentationOffload { version, header_size, mss });
        let result = transmit_with(&mut net, size, TxOffload { checksum, segment }, |_| ());
        assert_eq!(nic.transmit_all().len(), usize::from(result.is_ok()));
        result.err()
    };
    let index = Some((34, 16));
    let v4 = Some((IpVersion::V4, 54, 1446));
    let v6 = Some((IpVersion::V6, 54, 1446));
    assert_eq!(fails(ALL_FEATURES, 2000, index, v4), None);
    assert_eq!(fails(CSUM, 2000, index, None), None);
    assert_eq!(fails(0, 2000, index, None), Some(NetError::Offload));
    assert_eq!(fails(CSUM, 2000, index, v4), Some(NetError::Offload));
    assert_eq!(fails(CSUM | HOST_TSO4, 2000, index, v4), None);
    assert_eq!(fails(CSUM | HOST_TSO4, 2000, index, v6), Some(NetError::Offload));
    assert_eq!(fails(CSUM | HOST_TSO6, 2000, index, v6), None);
    assert_eq!(fails(CSUM | HOST_TSO6, 2000, index, v4), Some(NetError::Offload));
    // A segment without checksum offload, one without payload, one with an MSS of 0.
    assert_eq!(fails(ALL_FEATURES, 2000, None, v4), Some(NetError::Offload));
    assert_eq!(fails(ALL_FEATURES, 54, index, v4), Some(NetError::Offload));
    assert_eq!(fails(ALL_FEATURES, 2000, index, Some((IpVersion::V4, 54, 0))), Some(NetError::Offload));
    // A checksum at the end of the frame, and after it.
    assert_eq!(fails(ALL_FEATURES, 100, Some((90, 8)), None), None);
    assert_eq!(fails(ALL_FEATURES, 100, Some((90, 9)), None), Some(NetError::Offload));
    assert_eq!(fails(ALL_FEATURES, 100, Some((u16::MAX, u16::MAX)), None), Some(NetError::Offload));
    assert_eq!(fails(ALL_FEATURES, 14, None, None), None);
    assert_eq!(fails(ALL_FEATURES, MAX_FRAME, None, None), None);
    for size in [0, 13, MAX_FRAME + 1, usize::MAX] {
        assert_eq!(fails(ALL_FEATURES, size, None, None), Some(NetError::Size));
    }
}

#[test]
fn can_transmit_refuses_oversized_frames() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    assert!(!net.can_transmit(MAX_FRAME + 1) && !net.can_transmit(usize::MAX));
    assert!(net.can_transmit(MAX_FRAME));
}

#[test]
fn driver_works_while_a_frame_is_reserved() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    let reserved = net.reserve_frame(60, TxOffload::default()).unwrap();
    assert!(matches!(net.reserve_frame(60, TxOffload::default()), Err(NetError::Full)));
    assert!(net.interrupt().is_ok());
    net.notify();
    assert!(nic.take().is_none());
    let filled = reserved.fill(|bytes| bytes.copy_from_slice(&frame(60, 1)));
    net.submit_frame(filled);
    transmit(&mut net, &frame(60, 2)).unwrap();
    let sent: Vec<_> = nic.transmit_all().into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(sent, [frame(60, 1), frame(60, 2)]);
}
