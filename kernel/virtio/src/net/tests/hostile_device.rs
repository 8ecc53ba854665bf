//! Malicious devices: invalid used rings, headers and lengths.

use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::{
    ALL_FEATURES, Driver, GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, HEADER_SIZE, MAX_FRAME, MIN_SIZES, MRG_RXBUF,
    Nic, SIZE,
};
use super::{frame, receive, receive_with, transmit};
use crate::device::DeviceError;
use crate::net::NetError;
use crate::testing::DeviceModel;
use crate::virtqueue::QueueError;

/// Header of a frame in `buffers` buffers.
fn header(buffers: u8) -> [u8; HEADER_SIZE] {
    let mut header = [0; HEADER_SIZE];
    header[10] = buffers;
    header
}

/// Writes `bytes` to the next buffer, and marks it as used with length `written`.
fn answer(nic: &Nic, bytes: &[u8], written: u32) {
    let mut model = nic.model.lock().unwrap();
    let chain = model.take(0).unwrap();
    model.scatter(&chain, bytes);
    model.use_chain(0, chain.head, written);
}

/// Checks that every call returns the device's error.
fn assert_broken(net: &mut Driver, error: DeviceError) {
    assert_eq!(receive_with(net, |_, _| ()), Err(error));
    assert_eq!(transmit(net, &frame(60, 1)), Err(NetError::Device(error)));
    assert!(!net.can_transmit(60));
    assert_eq!(net.is_tx_empty(), Err(error));
    assert_eq!(net.set_rx_interrupt(true), Err(error));
    assert_eq!(net.interrupt(), Err(error));
    assert_eq!(net.check_status(), Err(error));
    net.notify();
}

/// A protocol violation in a virtqueue, given the head of a chain that the device has taken.
type ProtocolViolation = Box<dyn Fn(&DeviceModel, u16, u16)>;

fn violations() -> [(QueueError, ProtocolViolation); 6] {
    [
        (QueueError::IndexJump, Box::new(|model, queue, _| model.set_used_index(queue, 200))),
        (QueueError::IndexJump, Box::new(|model, queue, _| model.set_used_index(queue, 0xffff))),
        (QueueError::NoDescriptor, Box::new(|model, queue, _| model.set_used_element(queue, 0, 256, 0))),
        (
            QueueError::NoDescriptor,
            Box::new(|model, queue, head| model.set_used_element(queue, 0, 1 << 16 | u32::from(head), 0)),
        ),
        (
            QueueError::TooLong,
            Box::new(|model, queue, head| model.set_used_element(queue, 0, head.into(), 2049)),
        ),
        (
            QueueError::TooLong,
            Box::new(|model, queue, head| model.set_used_element(queue, 0, head.into(), u32::MAX)),
        ),
    ]
}

#[test]
fn invalid_used_entry_breaks_device_permanently() {
    for queue in [0, 1] {
        for (error, violate) in violations() {
            let nic = Nic::new(ALL_FEATURES, 256);
            let mut net = nic.open(MIN_SIZES).unwrap();
            transmit(&mut net, &frame(60, 1)).unwrap();
            {
                let mut model = nic.model.lock().unwrap();
                let head = model.take(queue).unwrap().head;
                model.set_used_index(queue, 1);
                violate(&model, queue, head);
            }
            let found = if queue == 0 { receive_error(&mut net) } else { net.is_tx_empty().unwrap_err() };
            assert_eq!(found, DeviceError::Queue(error));
            assert_broken(&mut net, found);
        }
    }
}

#[test]
fn index_jump_is_detected_while_arming() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    nic.model.lock().unwrap().set_used_index(0, 200);
    let error = DeviceError::Queue(QueueError::IndexJump);
    assert_eq!(net.set_rx_interrupt(true), Err(error));
    assert_broken(&mut net, error);
    let nic = Nic::new(ALL_FEATURES, 4);
    let mut net = nic.open(MIN_SIZES).unwrap();
    for _ in 0..3 {
        transmit(&mut net, &frame(60, 1)).unwrap();
    }
    nic.model.lock().unwrap().set_used_index(1, 200);
    assert!(!net.can_transmit(60));
    assert_broken(&mut net, error);
}

fn receive_error(net: &mut Driver) -> DeviceError {
    receive_with(net, |_, _| ()).unwrap_err()
}

#[test]
fn buffer_used_twice_breaks_device() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    {
        let mut model = nic.model.lock().unwrap();
        let (first, _second) = (model.take(0).unwrap(), model.take(0).unwrap());
        model.scatter(&first, &header(2));
        model.use_chain(0, first.head, 2048);
        model.use_chain(0, first.head, 2048);
    }
    let error = receive_error(&mut net);
    assert_eq!(error, DeviceError::Queue(QueueError::NotInFlight));
    assert_broken(&mut net, error);
}

#[test]
fn missing_buffers_break_device() {
    for buffers in [2, 3, 128, 255] {
        let nic = Nic::new(ALL_FEATURES, 256);
        let mut net = nic.open(MIN_SIZES).unwrap();
        answer(&nic, &header(buffers), 2048);
        let error = receive_error(&mut net);
        assert_eq!(error, DeviceError::MissingBuffers);
        assert_broken(&mut net, error);
    }
}

#[test]
fn num_buffers_is_ignored_without_mergeable_buffers() {
    let nic = Nic::new(GUEST_CSUM, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    for buffers in [0, 1, 2, 255] {
        answer(&nic, &[header(buffers).as_slice(), &frame(60, 1)].concat(), 72);
        assert_eq!(receive(&mut net).unwrap().0, frame(60, 1));
    }
}

#[test]
fn invalid_frames_are_dropped() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    let mut rx_dropped = 0;
    let mut check = |net: &mut Driver| {
        rx_dropped += 1;
        assert_eq!((receive(net), net.rx_dropped()), (None, rx_dropped));
    };
    // No bytes, a truncated header, a header, a truncated Ethernet header.
    for length in [0, 1, 11, 12, 25] {
        answer(&nic, &header(1), length);
        check(&mut net);
    }
    // `num_buffers` is 0.
    answer(&nic, &header(0), 72);
    check(&mut net);
    // Frames of three buffers with buffers that are not full: the second, the first, and others.
    for lengths in [[2048, 100, 2048], [100, 2048, 2048], [20, 20, 20], [2048, 2048, 0], [0, 0, 0]] {
        let before = net.rx_dropped();
        for length in lengths {
            answer(&nic, &header(3), length);
        }
        while receive(&mut net).is_some() {}
        assert!(net.rx_dropped() > before, "{lengths:?}");
    }
    // Larger than the maximum size of a frame.
    let before = net.rx_dropped();
    assert!(nic.deliver(&frame(MAX_FRAME + 1, 1)));
    assert_eq!((receive(&mut net), net.rx_dropped()), (None, before + 1));
    // All buffers have been posted again.
    for mark in 0..if cfg!(miri) { 6 } else { 200 } {
        assert!(nic.deliver(&frame(MAX_FRAME - mark, mark)));
        assert_eq!(receive(&mut net).unwrap().0, frame(MAX_FRAME - mark, mark));
    }
}

#[test]
fn merged_buffers_out_of_order_are_dropped() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    {
        let mut model = nic.model.lock().unwrap();
        let chains = [model.take(0).unwrap(), model.take(0).unwrap()];
        for index in [1, 0] {
            model.scatter(&chains[index], &header(2));
            model.use_chain(0, chains[index].head, 2048);
        }
    }
    assert_eq!((receive(&mut net), net.rx_dropped()), (None, 1));
    // From here on the buffers are in order.
    assert!(nic.deliver(&frame(60_000, 1)));
    assert_eq!(receive(&mut net).unwrap().0, frame(60_000, 1));
}

#[test]
fn invalid_frames_per_call_are_bounded() {
    const BUFFERS: u16 = SIZE / 2;
    let nic = Nic::new(ALL_FEATURES, SIZE);
    let mut net = nic.open(MIN_SIZES).unwrap();
    for _ in 1..BUFFERS {
        answer(&nic, &[], 0);
    }
    assert!(nic.deliver(&frame(60, 1)));
    assert_eq!(receive(&mut net).unwrap().0, frame(60, 1));
    assert_eq!(net.rx_dropped(), u64::from(BUFFERS) - 1);
    // One call drops as many frames as there are buffers, and then returns.
    for _ in 0..BUFFERS {
        answer(&nic, &[], 0);
    }
    assert_eq!((receive(&mut net), net.rx_dropped()), (None, 2 * u64::from(BUFFERS) - 1));
    assert!(nic.deliver(&frame(60, 2)));
    assert_eq!(net.set_rx_interrupt(true), Ok(true));
    assert_eq!(receive(&mut net).unwrap().0, frame(60, 2));
}

/// Receives a frame of 100 bytes with this header, with these features. Returns `None` if the frame is
/// dropped, and otherwise true if its checksum is valid.
fn received_checksum_valid(features: u64, header: [u8; HEADER_SIZE]) -> Option<bool> {
    let nic = Nic::new(features, SIZE);
    let mut net = nic.open(MIN_SIZES).unwrap();
    assert!(nic.deliver_with(header, &frame(100, 1)));
    let found = receive(&mut net);
    assert_eq!(net.rx_dropped(), u64::from(found.is_none()));
    found.map(|(_, info)| info.checksum_valid)
}

#[test]
fn tso_frames_are_received_only_if_negotiated() {
    let gso_type = |gso_type| [0, gso_type, 54, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let merged = GUEST_CSUM | MRG_RXBUF;
    for (features, possible) in [
        (0, [false, false]),
        (GUEST_CSUM, [false, false]),
        (merged | GUEST_TSO4, [true, false]),
        (merged | GUEST_TSO6, [false, true]),
        (ALL_FEATURES, [true, true]),
    ] {
        assert_eq!(received_checksum_valid(features, gso_type(0)), Some(false));
        assert_eq!(
            [1, 4].map(|number| received_checksum_valid(features, gso_type(number)).is_some()),
            possible
        );
        // With the ECN bit.
        assert_eq!(
            [0x81, 0x84].map(|number| received_checksum_valid(features, gso_type(number)).is_some()),
            possible
        );
        let unknown = [2, 3, 5, 6, 0x20, 0x41, 0x80, 0x83, 0xff];
        for unknown in unknown.into_iter().take(if cfg!(miri) { 1 } else { 9 }) {
            assert_eq!(received_checksum_valid(features, gso_type(unknown)), None, "{unknown:#x}");
        }
    }
    // The other fields of such a header are ignored.
    let mut header = [0xff; HEADER_SIZE];
    (header[0], header[1], header[11]) = (0, 1, 0);
    assert_eq!(received_checksum_valid(ALL_FEATURES, header), Some(false));
}

#[test]
fn checksum_is_valid_only_if_offload_is_negotiated() {
    let flags = |flags: u8, start: u16, offset: u16| {
        let ([a, b], [c, d]) = (start.to_le_bytes(), offset.to_le_bytes());
        [flags, 0, 0, 0, 0, 0, a, b, c, d, 0, 0]
    };
    for (features, good) in [(ALL_FEATURES, true), (GUEST_CSUM, true), (0, false), (MRG_RXBUF, false)] {
        assert_eq!(received_checksum_valid(features, flags(0, 0, 0)), Some(false));
        assert_eq!(received_checksum_valid(features, flags(2, 0xffff, 0xffff)), Some(good));
        // A partial checksum is invalid unless negotiated.
        assert_eq!(received_checksum_valid(features, flags(1, 34, 16)), good.then_some(true));
        assert_eq!(received_checksum_valid(features, flags(3, 34, 16)), good.then_some(true));
        // At the frame's end, and after it.
        assert_eq!(received_checksum_valid(features, flags(1, 90, 8)), good.then_some(true));
        assert_eq!(received_checksum_valid(features, flags(1, 90, 9)), None);
        assert_eq!(received_checksum_valid(features, flags(1, 0xffff, 0xffff)), None);
        // Undefined flags.
        assert_eq!(received_checksum_valid(features, flags(0xfc, 0, 0)), Some(false));
    }
}

#[derive(Clone, Debug)]
enum RandomAction {
    /// Writes bytes into a buffer, and marks it as used with a length.
    Answer(Vec<u8>, u32),
    /// Writes an element of a used ring: virtqueue, distance from the next element, `id`, `len`.
    Element(u16, u16, u32, u32),
    /// Writes the index of a used ring.
    Index(u16, u16),
    Receive,
    Transmit(usize),
    Interrupt(u8),
    Flush,
}

fn action() -> impl Strategy<Value = RandomAction> {
    let header = (prop::collection::vec(any::<u8>(), 10), 0_u8..6);
    let bytes = header.prop_map(|(mut bytes, buffers)| {
        bytes.extend([buffers, 0]);
        bytes
    });
    let length = prop_oneof![Just(2048_u32), 0_u32..2049, 0_u32..30];
    prop_oneof![
        8 => (bytes, length).prop_map(|(bytes, length)| RandomAction::Answer(bytes, length)),
        1 => (0_u16..2, 0_u16..4, 0_u32..260, prop_oneof![0_u32..2100, any::<u32>()])
            .prop_map(|(queue, ahead, id, length)| RandomAction::Element(queue, ahead, id, length)),
        1 => (0_u16..2, prop_oneof![0_u16..20, any::<u16>()]).prop_map(|(queue, index)| RandomAction::Index(queue, index)),
        8 => Just(RandomAction::Receive),
        3 => (0_usize..70_000).prop_map(RandomAction::Transmit),
        1 => (0_u8..4).prop_map(RandomAction::Interrupt),
        1 => Just(RandomAction::Flush),
    ]
}

proptest! {
    /// No call panics or hangs. Received bytes are inside the memory, since otherwise the fake memory panics.
    #[test]
    fn random_device_writes_never_panic(
        features in prop_oneof![Just(ALL_FEATURES), Just(0), Just(MRG_RXBUF)],
        actions in prop::collection::vec(action(), 0..if cfg!(miri) { 30 } else { 120 }),
    ) {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(MIN_SIZES).unwrap();
        for action in actions {
            match action {
                RandomAction::Answer(bytes, length) => {
                    let mut model = nic.model.lock().unwrap();
                    if let Some(chain) = model.take(0) {
                        model.scatter(&chain, &bytes);
                        model.use_chain(0, chain.head, length);
                    }
                }
                RandomAction::Element(queue, ahead, id, length) => {
                    nic.model.lock().unwrap().set_used_element(queue, ahead, id, length);
                }
                RandomAction::Index(queue, index) => nic.model.lock().unwrap().set_used_index(queue, index),
                RandomAction::Receive => {
                    let length = receive_with(&mut net, |frame, _| frame.len()).ok().flatten();
                    prop_assert!(length.is_none_or(|length| (14..=MAX_FRAME).contains(&length)));
                }
                RandomAction::Transmit(size) => {
                    if net.can_transmit(size) && size >= 14 {
                        prop_assert_eq!(transmit(&mut net, &vec![1; size]), Ok(()));
                    }
                }
                RandomAction::Interrupt(bits) => {
                    nic.model.lock().unwrap().interrupt_status = bits;
                    let _ = net.interrupt();
                    let _ = net.set_rx_interrupt(bits & 1 != 0);
                }
                RandomAction::Flush => net.notify(),
            }
        }
    }
}
