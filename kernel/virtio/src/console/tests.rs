//! The console driver with a device model that reads output and sends input.
//!
//! Besides the bytes, the tests count notifications and interrupts: each is an exit to the hypervisor, so
//! their number is part of the driver's contract.

use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

use super::ConsoleDriver;
use super::rx::{RX_BUFFER_SIZE, RX_BUFFERS};
use super::tx::{TX_BUFFER_SIZE, TX_BUFFERS};
use crate::device::DeviceError;
use crate::testing::{DeviceModel, FakeDma, FakeMemory, FakeTransport, SharedDevice};
use crate::virtqueue::QueueError;

fn console() -> (ConsoleDriver<FakeTransport, FakeMemory>, SharedDevice) {
    let model = DeviceModel::new(3, 0, &[64, 64]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
    (ConsoleDriver::new(FakeTransport::new(&model, true), &dma).unwrap(), model)
}

/// Numbers of notifications and interrupts of a virtqueue.
fn counts(model: &SharedDevice, queue: usize) -> (usize, usize) {
    let model = model.lock().unwrap();
    (model.queues[queue].notified, model.queues[queue].interrupts)
}

/// Reads all input, `step` bytes at a time.
fn read_all(console: &mut ConsoleDriver<FakeTransport, FakeMemory>, step: usize) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), vec![0; step]);
    loop {
        let count = console.read(&mut part).unwrap();
        all.extend(&part[..count]);
        if count == 0 {
            return all;
        }
    }
}

#[test]
fn line_takes_one_buffer_and_one_notification() {
    let (mut console, model) = console();
    assert_eq!(console.write(b"hello\n"), Ok(6));
    let mut device = model.lock().unwrap();
    assert_eq!(device.queues[1].notified, 1);
    let chain = device.take(1).unwrap();
    assert_eq!(chain.parts.len(), 1);
    assert_eq!(device.gather(&chain), b"hello\n");
    assert_eq!(device.take(1), None);
}

#[test]
fn lines_are_notified_once_until_device_runs() {
    let (mut console, model) = console();
    for _ in 0..10 {
        assert_eq!(console.write(b"line\n"), Ok(5));
    }
    assert_eq!(counts(&model, 1).0, 1);
    assert_eq!(model.lock().unwrap().drain(1).len(), 50);
    // Now the device waits again.
    assert_eq!(console.write(b"line\n"), Ok(5));
    assert_eq!(counts(&model, 1), (2, 0));
}

#[test]
fn long_output_is_notified_once() {
    let (mut console, model) = console();
    let text: Vec<u8> = (0..=255).cycle().take(TX_BUFFER_SIZE * 5 + 3).collect();
    assert_eq!(console.write(&text), Ok(text.len()));
    assert_eq!(counts(&model, 1).0, 1);
    assert_eq!(model.lock().unwrap().drain(1), text);
}

#[test]
fn full_tx_queue_raises_interrupt_when_buffer_is_free() {
    let (mut console, model) = console();
    let room = TX_BUFFER_SIZE * usize::from(TX_BUFFERS);
    assert_eq!(console.write(&vec![b'a'; room + 1]), Ok(room));
    assert_eq!(console.write(b"b"), Ok(0));
    assert_eq!(console.write(b""), Ok(0));
    assert_eq!(console.is_flushed(), Ok(false));
    assert_eq!(counts(&model, 1), (1, 0));
    assert_eq!(model.lock().unwrap().drain(1).len(), room);
    assert_eq!(counts(&model, 1), (1, 1));
    assert_eq!(console.interrupt().map(|cause| cause.queues), Ok(true));
    assert_eq!(console.write(b"b"), Ok(1));
    assert_eq!(console.is_flushed(), Ok(false));
    // The interrupt is disarmed again.
    assert_eq!(model.lock().unwrap().drain(1), b"b");
    assert_eq!(counts(&model, 1), (2, 1));
    assert_eq!(console.is_flushed(), Ok(true));
}

#[test]
fn buffer_freed_while_arming_is_used() {
    let (mut console, model) = console();
    let room = TX_BUFFER_SIZE * usize::from(TX_BUFFERS);
    assert_eq!(console.write(&vec![b'a'; room]), Ok(room));
    // The device reads `used_event` before the driver stores it: no interrupt.
    let device = model.clone();
    model.lock().unwrap().memory.at_fence(move || {
        let mut device = device.lock().unwrap();
        assert_eq!(device.drain(1).len(), room);
        device.interrupt_status = 0;
    });
    assert_eq!(console.write(b"b"), Ok(1));
}

#[test]
fn full_tx_queue_raises_interrupts_without_event_index() {
    let model = DeviceModel::new(3, 0, &[64, 64]);
    model.lock().unwrap().offered = 1 << 32;
    let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
    let mut console = ConsoleDriver::new(FakeTransport::new(&model, true), &dma).unwrap();
    let room = TX_BUFFER_SIZE * usize::from(TX_BUFFERS);
    for round in 1..3 {
        assert_eq!(console.write(&vec![b'a'; room]), Ok(room));
        assert_eq!(console.write(b"b"), Ok(0));
        assert_eq!(model.lock().unwrap().drain(1).len(), room);
        assert_eq!(counts(&model, 1).1, usize::from(TX_BUFFERS) * round);
        assert_eq!(console.write(b"b"), Ok(1));
        assert_eq!(model.lock().unwrap().drain(1), b"b");
        assert_eq!(counts(&model, 1).1, usize::from(TX_BUFFERS) * round);
    }
}

#[test]
#[cfg_attr(miri, ignore = "65,536 buffers take minutes")]
fn output_continues_after_ring_index_wrap() {
    let (mut console, model) = console();
    for number in 0..70_000_u32 {
        assert_eq!(console.write(&number.to_le_bytes()), Ok(4));
        assert_eq!(model.lock().unwrap().drain(1), number.to_le_bytes());
    }
    let (notifications, interrupts) = counts(&model, 1);
    assert_eq!((notifications, interrupts), (70_000, 1));
}

#[test]
fn input_is_read_in_parts_of_any_size() {
    for step in [1, 3, 1000] {
        let (mut console, model) = console();
        assert_eq!(console.read_byte(), Ok(None));
        assert!(model.lock().unwrap().answer(0, b"hello "));
        assert!(model.lock().unwrap().answer(0, b"world"));
        // The interrupt was armed for the first buffer only.
        assert_eq!(counts(&model, 0).1, 1);
        assert_eq!(console.has_input(), Ok(true));
        assert_eq!(read_all(&mut console, step), b"hello world");
        assert_eq!(console.has_input(), Ok(false));
        assert!(model.lock().unwrap().answer(0, b"x"));
        assert_eq!(counts(&model, 0).1, 2);
        assert_eq!(console.read_byte(), Ok(Some(b'x')));
    }
}

#[test]
fn rx_buffers_are_reposted() {
    let (mut console, model) = console();
    let mut expected = Vec::new();
    for round in 0..if cfg!(miri) { 50 } else { 5000_u32 } {
        let input = round.to_le_bytes().repeat(RX_BUFFER_SIZE / 4);
        assert!(model.lock().unwrap().answer(0, &input));
        expected.extend(input);
        if round % 7 == 0 {
            assert_eq!(read_all(&mut console, 100), core::mem::take(&mut expected));
        }
    }
    // Without a reader the device runs out of buffers.
    assert_eq!(read_all(&mut console, 100), expected);
    let mut device = model.lock().unwrap();
    assert_eq!((0..100).filter(|_| device.answer(0, b"x")).count(), usize::from(RX_BUFFERS));
}

#[test]
fn empty_rx_buffers_are_skipped() {
    let (mut console, model) = console();
    for _ in 0..40 {
        assert!(model.lock().unwrap().answer(0, b""));
        assert_eq!(console.read_byte(), Ok(None));
    }
    assert!(model.lock().unwrap().answer(0, b""));
    assert!(model.lock().unwrap().answer(0, b"a"));
    assert_eq!(console.read_byte(), Ok(Some(b'a')));
}

#[test]
fn broken_queue_breaks_device() {
    let (mut console, model) = console();
    model.lock().unwrap().set_used_index(0, 100);
    let error = DeviceError::Queue(QueueError::IndexJump);
    assert_eq!(console.write(b"a"), Ok(1));
    assert_eq!(console.read_byte(), Err(error));
    assert_eq!(console.write(b"a"), Err(error));
    assert_eq!(console.has_input(), Err(error));
    assert_eq!(console.interrupt(), Err(error));
    assert_eq!(console.is_flushed(), Err(error));
}

#[test]
fn small_queues_work() {
    let model = DeviceModel::new(3, 0, &[1, 2]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 100);
    let mut console = ConsoleDriver::new(FakeTransport::new(&model, false), &dma).unwrap();
    assert_eq!(console.write(&[1; 5000]), Ok(2 * TX_BUFFER_SIZE));
    assert!(model.lock().unwrap().answer(0, b"a"));
    assert!(!model.lock().unwrap().answer(0, b"b"));
    assert_eq!(console.read_byte(), Ok(Some(b'a')));
    assert!(model.lock().unwrap().answer(0, b"b"));
    assert_eq!(console.read_byte(), Ok(Some(b'b')));
}

#[derive(Clone, Debug)]
enum RandomAction {
    Write(Vec<u8>),
    Read(usize),
    /// The device takes all output.
    Drain,
    /// The device sends input.
    Type(Vec<u8>),
}

fn action() -> impl Strategy<Value = RandomAction> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..2000).prop_map(RandomAction::Write),
        (0_usize..600).prop_map(RandomAction::Read),
        Just(RandomAction::Drain),
        prop::collection::vec(any::<u8>(), 0..RX_BUFFER_SIZE).prop_map(RandomAction::Type),
    ]
}

proptest! {
    #[test]
    fn console_transfers_all_bytes_in_order(actions in prop::collection::vec(action(), 0..if cfg!(miri) { 20 } else { 100 })) {
        let (mut console, model) = console();
        let [mut written, mut drained, mut typed, mut read] = [const { Vec::new() }; 4];
        for action in actions {
            match action {
                RandomAction::Write(bytes) => {
                    let count = console.write(&bytes).unwrap();
                    written.extend(&bytes[..count]);
                }
                RandomAction::Read(size) => {
                    let mut bytes = vec![0; size];
                    let count = console.read(&mut bytes).unwrap();
                    read.extend(&bytes[..count]);
                }
                RandomAction::Drain => drained.extend(model.lock().unwrap().drain(1)),
                RandomAction::Type(bytes) if model.lock().unwrap().answer(0, &bytes) => typed.extend(bytes),
                RandomAction::Type(_) => {}
            }
        }
        drained.extend(model.lock().unwrap().drain(1));
        read.extend(read_all(&mut console, 64));
        prop_assert_eq!(written, drained);
        prop_assert_eq!(typed, read);
    }
}
