//! Devices that write what cannot be.

use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::{ALL, Driver, GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, HEADER, MAX_FRAME, MRG_RXBUF, Nic, SMALL};
use super::{frame, receive, transmit};
use crate::device::DeviceError;
use crate::net::NetError;
use crate::testing::DeviceModel;
use crate::virtqueue::QueueError;

/// The header of a frame in so many buffers.
fn header(buffers: u8) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[10] = buffers;
    header
}

/// Returns the next buffer with these bytes, of which it says that there are so many.
fn answer(nic: &Nic, bytes: &[u8], written: u32) {
    let mut model = nic.model.lock().unwrap();
    let chain = model.take(0).unwrap();
    model.scatter(&chain, bytes);
    model.put(0, chain.head, written);
}

/// All that can be called says that the device is broken.
fn assert_broken(net: &mut Driver, error: DeviceError) {
    assert_eq!(net.receive(|_, _| ()), Err(error));
    assert_eq!(transmit(net, &frame(60, 1)), Err(NetError::Device(error)));
    assert!(!net.can_transmit(60));
    assert_eq!(net.is_tx_empty(), Err(error));
    assert_eq!(net.set_rx_interrupt(true), Err(error));
    assert_eq!(net.interrupt(), Err(error));
    assert_eq!(net.check_status(), Err(error));
    net.notify();
}

/// What the device does with a queue, given the head of a chain that it has taken.
type Lie = Box<dyn Fn(&DeviceModel, u16, u16)>;

fn lies() -> [(QueueError, Lie); 6] {
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
fn impossible_answers_break_the_device_for_good() {
    for queue in [0, 1] {
        for (error, lie) in lies() {
            let nic = Nic::new(ALL, 256);
            let mut net = nic.open(SMALL).unwrap();
            transmit(&mut net, &frame(60, 1)).unwrap();
            {
                let mut model = nic.model.lock().unwrap();
                let head = model.take(queue).unwrap().head;
                model.set_used_index(queue, 1);
                lie(&model, queue, head);
            }
            let found = if queue == 0 { receive_error(&mut net) } else { net.is_tx_empty().unwrap_err() };
            assert_eq!(found, DeviceError::Queue(error));
            assert_broken(&mut net, found);
        }
    }
}

#[test]
fn a_jump_is_found_also_by_who_only_waits() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    nic.model.lock().unwrap().set_used_index(0, 200);
    let error = DeviceError::Queue(QueueError::IndexJump);
    assert_eq!(net.set_rx_interrupt(true), Err(error));
    assert_broken(&mut net, error);
    let nic = Nic::new(ALL, 4);
    let mut net = nic.open(SMALL).unwrap();
    for _ in 0..3 {
        transmit(&mut net, &frame(60, 1)).unwrap();
    }
    nic.model.lock().unwrap().set_used_index(1, 200);
    assert!(!net.can_transmit(60));
    assert_broken(&mut net, error);
}

fn receive_error(net: &mut Driver) -> DeviceError {
    net.receive(|_, _| ()).unwrap_err()
}

#[test]
fn a_buffer_that_is_returned_twice_breaks_the_device() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    {
        let mut model = nic.model.lock().unwrap();
        let (first, _second) = (model.take(0).unwrap(), model.take(0).unwrap());
        model.scatter(&first, &header(2));
        model.put(0, first.head, 2048);
        model.put(0, first.head, 2048);
    }
    let error = receive_error(&mut net);
    assert_eq!(error, DeviceError::Queue(QueueError::NotInFlight));
    assert_broken(&mut net, error);
}

#[test]
fn a_frame_of_which_buffers_are_missing_breaks_the_device() {
    for buffers in [2, 3, 128, 255] {
        let nic = Nic::new(ALL, 256);
        let mut net = nic.open(SMALL).unwrap();
        answer(&nic, &header(buffers), 2048);
        let error = receive_error(&mut net);
        assert_eq!(error, DeviceError::MissingBuffers);
        assert_broken(&mut net, error);
    }
}

#[test]
fn the_number_of_buffers_means_nothing_unless_there_may_be_several() {
    let nic = Nic::new(GUEST_CSUM, 256);
    let mut net = nic.open(SMALL).unwrap();
    for buffers in [0, 1, 2, 255] {
        answer(&nic, &[header(buffers).as_slice(), &frame(60, 1)].concat(), 72);
        assert_eq!(receive(&mut net).unwrap().0, frame(60, 1));
    }
}

#[test]
fn what_cannot_be_a_frame_is_dropped() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    let mut rx_dropped = 0;
    let mut check = |net: &mut Driver| {
        rx_dropped += 1;
        assert_eq!((receive(net), net.rx_dropped()), (None, rx_dropped));
    };
    // Nothing, a part of a header, a header, a part of an Ethernet header.
    for length in [0, 1, 11, 12, 25] {
        answer(&nic, &header(1), length);
        check(&mut net);
    }
    // In no buffer at all.
    answer(&nic, &header(0), 72);
    check(&mut net);
    // In several that are not full: another one in the middle, the first, all.
    for lengths in [[2048, 100, 2048], [100, 2048, 2048], [20, 20, 20], [2048, 2048, 0], [0, 0, 0]] {
        let before = net.rx_dropped();
        for length in lengths {
            answer(&nic, &header(3), length);
        }
        while receive(&mut net).is_some() {}
        assert!(net.rx_dropped() > before, "{lengths:?}");
    }
    // Larger than any frame.
    let before = net.rx_dropped();
    assert!(nic.deliver(&frame(MAX_FRAME + 1, 1)));
    assert_eq!((receive(&mut net), net.rx_dropped()), (None, before + 1));
    // All buffers have come back.
    for mark in 0..200 {
        assert!(nic.deliver(&frame(MAX_FRAME - mark, mark)));
        assert_eq!(receive(&mut net).unwrap().0, frame(MAX_FRAME - mark, mark));
    }
}

#[test]
fn buffers_in_another_order_make_no_frame() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    {
        let mut model = nic.model.lock().unwrap();
        let chains = [model.take(0).unwrap(), model.take(0).unwrap()];
        for place in [1, 0] {
            model.scatter(&chains[place], &header(2));
            model.put(0, chains[place].head, 2048);
        }
    }
    assert_eq!((receive(&mut net), net.rx_dropped()), (None, 1));
    // From here on they are in order.
    assert!(nic.deliver(&frame(60_000, 1)));
    assert_eq!(receive(&mut net).unwrap().0, frame(60_000, 1));
}

#[test]
fn rubbish_does_not_keep_the_driver_busy() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    for _ in 0..127 {
        answer(&nic, &[], 0);
    }
    assert!(nic.deliver(&frame(60, 1)));
    assert_eq!(receive(&mut net).unwrap().0, frame(60, 1));
    assert_eq!(net.rx_dropped(), 127);
    // As many as there are buffers, in one call: then it is time to do something else.
    for _ in 0..128 {
        answer(&nic, &[], 0);
    }
    assert_eq!((receive(&mut net), net.rx_dropped()), (None, 255));
    assert!(nic.deliver(&frame(60, 2)));
    assert_eq!(net.set_rx_interrupt(true), Ok(true));
    assert_eq!(receive(&mut net).unwrap().0, frame(60, 2));
}

/// Whether a frame of 100 bytes with this header is received by a driver with these features; and if so, whether its
/// checksum is good.
fn received(features: u64, header: [u8; HEADER]) -> Option<bool> {
    let nic = Nic::new(features, 256);
    let mut net = nic.open(SMALL).unwrap();
    assert!(nic.deliver_with(header, &frame(100, 1)));
    let found = receive(&mut net);
    assert_eq!(net.rx_dropped(), u64::from(found.is_none()));
    found.map(|(_, info)| info.checksum_valid)
}

#[test]
fn segments_come_only_if_they_may() {
    let kind = |kind| [0, kind, 54, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let merged = GUEST_CSUM | MRG_RXBUF;
    for (features, possible) in [
        (0, [false, false]),
        (GUEST_CSUM, [false, false]),
        (merged | GUEST_TSO4, [true, false]),
        (merged | GUEST_TSO6, [false, true]),
        (ALL, [true, true]),
    ] {
        assert_eq!(received(features, kind(0)), Some(false));
        assert_eq!([1, 4].map(|number| received(features, kind(number)).is_some()), possible);
        // With congestion marks.
        assert_eq!([0x81, 0x84].map(|number| received(features, kind(number)).is_some()), possible);
        for unknown in [2, 3, 5, 6, 0x20, 0x41, 0x80, 0x83, 0xff] {
            assert_eq!(received(features, kind(unknown)), None, "{unknown:#x}");
        }
    }
    // Of the rest of such a header nothing is used.
    let mut rubbish = [0xff; HEADER];
    (rubbish[0], rubbish[1], rubbish[11]) = (0, 1, 0);
    assert_eq!(received(ALL, rubbish), Some(false));
}

#[test]
fn checksums_are_good_only_if_the_device_may_say_so() {
    let flags = |flags: u8, start: u16, offset: u16| {
        let ([a, b], [c, d]) = (start.to_le_bytes(), offset.to_le_bytes());
        [flags, 0, 0, 0, 0, 0, a, b, c, d, 0, 0]
    };
    for (features, good) in [(ALL, true), (GUEST_CSUM, true), (0, false), (MRG_RXBUF, false)] {
        assert_eq!(received(features, flags(0, 0, 0)), Some(false));
        assert_eq!(received(features, flags(2, 0xffff, 0xffff)), Some(good));
        // An incomplete one that nobody asked for is wrong.
        assert_eq!(received(features, flags(1, 34, 16)), good.then_some(true));
        assert_eq!(received(features, flags(3, 34, 16)), good.then_some(true));
        // At the frame's end, and behind it.
        assert_eq!(received(features, flags(1, 90, 8)), good.then_some(true));
        assert_eq!(received(features, flags(1, 90, 9)), None);
        assert_eq!(received(features, flags(1, 0xffff, 0xffff)), None);
        // Flags that nobody knows.
        assert_eq!(received(features, flags(0xfc, 0, 0)), Some(false));
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// Writes something into a buffer and returns it, saying that it wrote so much.
    Answer(Vec<u8>, u32),
    /// Writes an element of a used ring.
    Element(u16, u16, u32, u32),
    /// Says how many chains of a queue were used.
    Index(u16, u16),
    Receive,
    Transmit(usize),
    Interrupt(u8),
    Flush,
}

fn act() -> impl Strategy<Value = Act> {
    let header = (prop::collection::vec(any::<u8>(), 10), 0_u8..6);
    let bytes = header.prop_map(|(mut bytes, buffers)| {
        bytes.extend([buffers, 0]);
        bytes
    });
    let length = prop_oneof![Just(2048_u32), 0_u32..2049, 0_u32..30];
    prop_oneof![
        8 => (bytes, length).prop_map(|(bytes, length)| Act::Answer(bytes, length)),
        1 => (0_u16..2, 0_u16..4, 0_u32..260, prop_oneof![0_u32..2100, any::<u32>()])
            .prop_map(|(queue, ahead, id, length)| Act::Element(queue, ahead, id, length)),
        1 => (0_u16..2, prop_oneof![0_u16..20, any::<u16>()]).prop_map(|(queue, index)| Act::Index(queue, index)),
        8 => Just(Act::Receive),
        3 => (0_usize..70_000).prop_map(Act::Transmit),
        1 => (0_u8..4).prop_map(Act::Interrupt),
        1 => Just(Act::Flush),
    ]
}

proptest! {
    /// Nothing panics and nothing hangs; what is received is inside of the arena, or there would be a panic.
    #[test]
    fn whatever_a_device_writes_does_no_harm(
        features in prop_oneof![Just(ALL), Just(0), Just(MRG_RXBUF)],
        acts in prop::collection::vec(act(), 0..120),
    ) {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(SMALL).unwrap();
        for act in acts {
            match act {
                Act::Answer(bytes, length) => {
                    let mut model = nic.model.lock().unwrap();
                    if let Some(chain) = model.take(0) {
                        model.scatter(&chain, &bytes);
                        model.put(0, chain.head, length);
                    }
                }
                Act::Element(queue, ahead, id, length) => {
                    nic.model.lock().unwrap().set_used_element(queue, ahead, id, length);
                }
                Act::Index(queue, index) => nic.model.lock().unwrap().set_used_index(queue, index),
                Act::Receive => {
                    let length = net.receive(|frame, _| frame.len()).ok().flatten();
                    prop_assert!(length.is_none_or(|length| (14..=MAX_FRAME).contains(&length)));
                }
                Act::Transmit(size) => {
                    if net.can_transmit(size) && size >= 14 {
                        prop_assert_eq!(transmit(&mut net, &vec![1; size]), Ok(()));
                    }
                }
                Act::Interrupt(bits) => {
                    nic.model.lock().unwrap().interrupt_status = bits;
                    let _ = net.interrupt();
                    let _ = net.set_rx_interrupt(bits & 1 != 0);
                }
                Act::Flush => net.notify(),
            }
        }
    }
}
