//! Received frames, notifications and RX interrupts.

use std::vec;

use super::{ALL_FEATURES, HEADER_SIZE, MAX_FRAME, MIN_SIZES, MRG_RXBUF, Nic, frame, receive, transmit};

#[test]
fn received_frames_are_unchanged() {
    for features in [0, MRG_RXBUF, ALL_FEATURES] {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(MIN_SIZES).unwrap();
        assert_eq!(receive(&mut net), None);
        // More frames than buffers.
        for mark in 0..if cfg!(miri) { 150 } else { 1000 } {
            let sent = frame(14 + mark * 3 % 1500, mark);
            assert!(nic.deliver(&sent));
            let (received, info) = receive(&mut net).unwrap();
            assert_eq!((received, info.checksum_valid), (sent, false));
            net.notify();
        }
        assert_eq!((receive(&mut net), net.rx_dropped()), (None, 0));
    }
}

#[test]
fn frame_in_several_buffers_is_contiguous() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    // Each takes 32 of 128 buffers: some wrap around the end of the memory.
    for mark in 0..if cfg!(miri) { 6 } else { 50 } {
        let sent = frame(MAX_FRAME - mark, mark);
        assert!(nic.deliver(&sent));
        assert_eq!(receive(&mut net).unwrap().0, sent);
    }
    // Exactly full buffers, and one byte more.
    for mark in 0..if cfg!(miri) { 50 } else { 300 } {
        let sent = frame(3 * 2048 - HEADER_SIZE + mark % 2, mark);
        assert!(nic.deliver(&sent));
        assert_eq!(receive(&mut net).unwrap().0, sent);
    }
}

#[test]
fn batch_is_notified_once() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    assert_eq!(nic.counts(0), (1, 0));
    // All buffers: then the device waits for a notification.
    let mut count = 0;
    while nic.deliver(&frame(60, count)) {
        count += 1;
    }
    assert_eq!(count, 128);
    for _ in 0..31 {
        assert!(receive(&mut net).is_some());
    }
    assert_eq!(nic.counts(0).0, 1);
    net.notify();
    net.notify();
    assert_eq!(nic.counts(0).0, 2);
    for _ in 0..20 {
        transmit(&mut net, &frame(60, 1)).unwrap();
    }
    assert_eq!(nic.counts(1).0, 0);
    net.notify();
    net.notify();
    assert_eq!(nic.counts(1).0, 1);
    // A running device is not notified.
    assert!(nic.take().is_some());
    transmit(&mut net, &frame(60, 1)).unwrap();
    net.notify();
    assert_eq!(nic.counts(1).0, 1);
    assert_eq!(nic.transmit_all().len(), 20);
    transmit(&mut net, &frame(60, 1)).unwrap();
    net.notify();
    assert_eq!(nic.counts(1).0, 2);
}

#[test]
fn device_is_notified_when_quarter_of_buffers_is_reposted() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    while nic.deliver(&frame(60, 1)) {}
    for _ in 0..32 {
        assert!(receive(&mut net).is_some());
    }
    assert_eq!(nic.counts(0).0, 2);
}

#[test]
fn rx_interrupt_is_raised_only_when_enabled() {
    for features in [ALL_FEATURES, 0] {
        let nic = Nic::new(features, 256);
        if features == 0 {
            nic.model.lock().unwrap().offered = 1 << 32;
        }
        let mut net = nic.open(MIN_SIZES).unwrap();
        assert!(nic.deliver(&frame(60, 1)));
        assert_eq!(nic.counts(0).1, 0);
        // Earlier frames are reported, since they raised no interrupt.
        assert_eq!(net.set_rx_interrupt(true), Ok(true));
        assert!(receive(&mut net).is_some() && receive(&mut net).is_none());
        assert_eq!(net.set_rx_interrupt(true), Ok(false));
        assert!(nic.deliver(&frame(60, 2)));
        assert_eq!(nic.counts(0).1, 1);
        assert_eq!(net.interrupt().map(|cause| cause.queues), Ok(true));
        assert_eq!(net.set_rx_interrupt(false), Ok(true));
        assert!(receive(&mut net).is_some());
        assert!(nic.deliver(&frame(60, 3)) && nic.deliver(&frame(60, 4)));
        assert_eq!(nic.counts(0).1, 1);
        assert_eq!(net.set_rx_interrupt(true), Ok(true));
    }
}

#[test]
fn frame_received_while_enabling_interrupt_is_reported() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    let (model, memory) = (nic.model.clone(), nic.model.lock().unwrap().memory.clone());
    memory.at_fence(move || assert!(Nic { model }.deliver(&frame(60, 1))));
    assert_eq!(net.set_rx_interrupt(true), Ok(true));
    assert!(receive(&mut net).is_some());
}

#[test]
fn single_buffer_frames_are_received_in_order_of_use() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    for round in 0..if cfg!(miri) { 15 } else { 300 } {
        {
            let mut model = nic.model.lock().unwrap();
            let chains = [model.take(0).unwrap(), model.take(0).unwrap(), model.take(0).unwrap()];
            for byte in [2, 0, 1] {
                let mut bytes = vec![0; HEADER_SIZE];
                bytes[10] = 1;
                bytes.extend(frame(100, round * 3 + byte));
                let written = model.scatter(&chains[byte], &bytes);
                model.use_chain(0, chains[byte].head, written);
            }
        }
        for byte in [2, 0, 1] {
            assert_eq!(receive(&mut net).unwrap().0, frame(100, round * 3 + byte));
        }
        // Buffers have been posted in order of address again.
        let large = frame(20_000, round);
        assert!(nic.deliver(&large));
        assert_eq!(receive(&mut net).unwrap().0, large);
    }
    assert_eq!(net.rx_dropped(), 0);
}

#[test]
fn driver_works_while_a_frame_is_taken() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    assert_eq!(net.set_rx_interrupt(true), Ok(false));
    assert!(nic.deliver(&frame(60, 1)) && nic.deliver(&frame(60, 2)));
    let mut taken = net.take_frame().unwrap().unwrap();
    // The interrupt's handler, further frames, and an attempt to take one of them leave the first one alone.
    assert_eq!(net.interrupt().map(|cause| cause.queues), Ok(true));
    while nic.deliver(&frame(60, 3)) {}
    assert!(net.take_frame().unwrap().is_none());
    assert_eq!(net.set_rx_interrupt(true), Ok(true));
    transmit(&mut net, &frame(60, 4)).unwrap();
    assert_eq!(taken.with_bytes(|bytes, _| bytes.to_vec()), Some(frame(60, 1)));
    net.release_frame(taken);
    assert_eq!(receive(&mut net).unwrap().0, frame(60, 2));
    let rest = core::iter::from_fn(|| receive(&mut net)).count();
    assert_eq!((rest, net.rx_dropped()), (126, 0));
}
