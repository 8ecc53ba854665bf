//! The network device against one that behaves.

mod allocations;
mod hostile_device;
mod init;
mod random_ops;
mod tx;

use std::vec;
use std::vec::Vec;

use super::header::HEADER;
use super::{BufferSizes, MAX_FRAME, Net, NetError, RxInfo, TxOffload};
use crate::device::InitError;
use crate::testing::{
    DeviceModel, FakeDma, FakeMemory, FakeMirrored, FakeTransport, SharedDevice, TakenChain,
};

const CSUM: u64 = 1 << 0;
const GUEST_CSUM: u64 = 1 << 1;
const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const MRG_RXBUF: u64 = 1 << 15;
const STATUS: u64 = 1 << 16;

/// What a device with everything offers.
const ALL: u64 =
    CSUM | GUEST_CSUM | MTU | MAC | GUEST_TSO4 | GUEST_TSO6 | HOST_TSO4 | HOST_TSO6 | MRG_RXBUF | STATUS;

/// The least memory that there is.
const SMALL: BufferSizes = BufferSizes { receive: 0, transmit: 0 };

type Driver = Net<FakeTransport, FakeMemory, FakeMirrored>;

/// The model with a network: what comes and goes is as the test says.
struct Nic {
    model: SharedDevice,
}

impl Nic {
    /// A device with these features and the largest queues of that many descriptors.
    fn new(features: u64, queue: u16) -> Self {
        let model = DeviceModel::new(1, features, &[queue, queue]);
        // PciAddress, status, number of queues, MTU.
        model.lock().unwrap().config = vec![2, 3, 4, 5, 6, 7, 1, 0, 1, 0, 0xdc, 5];
        Self { model }
    }

    fn open(&self, sizes: BufferSizes) -> Result<Driver, InitError> {
        let dma = FakeDma::new(&self.model.lock().unwrap().memory, 2000);
        Net::new(FakeTransport::new(&self.model, true), &dma, sizes)
    }

    /// Receives a frame with this header, but for the number of buffers; `false` if there is no room.
    fn deliver_with(&self, mut header: [u8; HEADER], frame: &[u8]) -> bool {
        let mut model = self.model.lock().unwrap();
        let (mut chains, mut room) = (Vec::new(), 0);
        while room < HEADER + frame.len() {
            let Some(chain) = model.take(0) else { return false };
            room += usize::try_from(chain.parts[0].1).unwrap();
            chains.push(chain);
        }
        header[10] = u8::try_from(chains.len()).unwrap();
        let bytes = [&header, frame].concat();
        let mut rest = bytes.as_slice();
        for chain in chains {
            let written = model.scatter(&chain, rest);
            rest = &rest[usize::try_from(written).unwrap()..];
            model.put(0, chain.head, written);
        }
        true
    }

    fn deliver(&self, frame: &[u8]) -> bool {
        self.deliver_with([0; HEADER], frame)
    }

    /// Takes the next chain of the transmit queue.
    fn take(&self) -> Option<TakenChain> {
        self.model.lock().unwrap().take(1)
    }

    /// Transmits a frame: its header and bytes.
    fn finish(&self, chain: &TakenChain) -> (Vec<u8>, Vec<u8>) {
        let mut model = self.model.lock().unwrap();
        let mut header = model.gather(chain);
        let frame = header.split_off(HEADER);
        model.put(1, chain.head, 0);
        (header, frame)
    }

    /// Transmits all frames.
    fn sent(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        core::iter::from_fn(|| self.take().map(|chain| self.finish(&chain))).collect()
    }

    /// How often the device was notified of a queue, and interrupted for it.
    fn counts(&self, queue: usize) -> (usize, usize) {
        let queue = self.model.lock().unwrap().queues[queue];
        (queue.notified, queue.interrupts)
    }
}

/// A frame of so many bytes that looks like no other.
fn frame(size: usize, mark: usize) -> Vec<u8> {
    (0..size).map(|place| u8::try_from((place / 7 + mark * 31) % 251).unwrap()).collect()
}

/// Receives the next frame.
fn receive(net: &mut Driver) -> Option<(Vec<u8>, RxInfo)> {
    net.receive(|frame, info| (frame.to_vec(), info)).unwrap()
}

/// Transmits a frame.
fn transmit(net: &mut Driver, bytes: &[u8]) -> Result<(), NetError> {
    net.transmit(bytes.len(), TxOffload::default(), |room| room.copy_from_slice(bytes))
}

#[test]
fn frames_come_as_they_were_sent() {
    for features in [0, MRG_RXBUF, ALL] {
        let nic = Nic::new(features, 256);
        let mut net = nic.open(SMALL).unwrap();
        assert_eq!(receive(&mut net), None);
        // More than there are buffers.
        for mark in 0..1000 {
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
fn a_frame_in_several_buffers_is_one_piece() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    // Of 128 buffers, 32 at a time: some lie around the arena's end.
    for mark in 0..50 {
        let sent = frame(MAX_FRAME - mark, mark);
        assert!(nic.deliver(&sent));
        assert_eq!(receive(&mut net).unwrap().0, sent);
    }
    // Exactly full buffers, and one byte more.
    for mark in 0..300 {
        let sent = frame(3 * 2048 - HEADER + mark % 2, mark);
        assert!(nic.deliver(&sent));
        assert_eq!(receive(&mut net).unwrap().0, sent);
    }
}

#[test]
fn a_batch_is_one_notification() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    assert_eq!(nic.counts(0), (1, 0));
    // As many as there are: the device goes to sleep.
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
    // A device that is awake need not be told.
    assert!(nic.take().is_some());
    transmit(&mut net, &frame(60, 1)).unwrap();
    net.notify();
    assert_eq!(nic.counts(1).0, 1);
    assert_eq!(nic.sent().len(), 20);
    transmit(&mut net, &frame(60, 1)).unwrap();
    net.notify();
    assert_eq!(nic.counts(1).0, 2);
}

#[test]
fn a_device_without_buffers_gets_some_before_the_batch_ends() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    while nic.deliver(&frame(60, 1)) {}
    for _ in 0..32 {
        assert!(receive(&mut net).is_some());
    }
    assert_eq!(nic.counts(0).0, 2);
}

#[test]
fn interrupts_come_only_if_somebody_waits() {
    for features in [ALL, 0] {
        let nic = Nic::new(features, 256);
        if features == 0 {
            nic.model.lock().unwrap().offered = 1 << 32;
        }
        let mut net = nic.open(SMALL).unwrap();
        assert!(nic.deliver(&frame(60, 1)));
        assert_eq!(nic.counts(0).1, 0);
        // What came before is told, for no interrupt was.
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
fn a_frame_that_comes_just_when_interrupts_are_switched_on_is_told() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    let (model, memory) = (nic.model.clone(), nic.model.lock().unwrap().memory.clone());
    memory.at_fence(move || assert!(Nic { model }.deliver(&frame(60, 1))));
    assert_eq!(net.set_rx_interrupt(true), Ok(true));
    assert!(receive(&mut net).is_some());
}

#[test]
fn buffers_used_in_another_order_lose_nothing_but_frames_of_several() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    for round in 0..300 {
        {
            let mut model = nic.model.lock().unwrap();
            let chains = [model.take(0).unwrap(), model.take(0).unwrap(), model.take(0).unwrap()];
            for place in [2, 0, 1] {
                let mut bytes = vec![0; HEADER];
                bytes[10] = 1;
                bytes.extend(frame(100, round * 3 + place));
                let written = model.scatter(&chains[place], &bytes);
                model.put(0, chains[place].head, written);
            }
        }
        for place in [2, 0, 1] {
            assert_eq!(receive(&mut net).unwrap().0, frame(100, round * 3 + place));
        }
        // Buffers are in the arena's order again.
        let large = frame(20_000, round);
        assert!(nic.deliver(&large));
        assert_eq!(receive(&mut net).unwrap().0, large);
    }
    assert_eq!(net.rx_dropped(), 0);
}
