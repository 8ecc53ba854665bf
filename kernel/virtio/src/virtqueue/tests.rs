//! The queue against a device that behaves, and one that does not.

mod hostile_device;
mod random_ops;

use core::iter;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use super::{DescriptorChain, SubmitError, Token, Virtqueue};
use crate::device::Device;
use crate::dma::{DmaBuffer, DmaSegment};
use crate::testing::{DeviceModel, Event, FakeDma, FakeMemory, FakeTransport, SharedDevice};

/// A buffer of which the device reads the first part and writes the rest.
#[derive(Debug)]
struct Pair {
    buffer: DmaBuffer<FakeMemory>,
    readable: usize,
    /// Descriptors for what is writable.
    pieces: usize,
}

impl DescriptorChain for Pair {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        let rest = self.buffer.size() - self.readable;
        let size = rest / self.pieces.max(1);
        let pieces = (0..self.pieces).map(move |piece| {
            let start = self.readable + piece * size;
            self.buffer.writable(start..start + size)
        });
        iter::once(self.buffer.readable(0..self.readable)).chain(pieces)
    }
}

struct Bench {
    device: Device<FakeTransport>,
    queue: Virtqueue<FakeMemory, Pair>,
    model: SharedDevice,
    buffers: Vec<DmaBuffer<FakeMemory>>,
}

impl Bench {
    fn new(size: u16, has_event_index: bool) -> Self {
        let model = DeviceModel::new(4, 0, &[size]);
        if !has_event_index {
            model.lock().unwrap().offered = 1 << 32;
        }
        let dma = FakeDma::new(&model.lock().unwrap().memory, 64);
        let transport = FakeTransport::new(&model, true);
        let mut device = Device::start(transport, virtio_spec::Id::Rng, virtio_spec::F::empty()).unwrap();
        let queue = device.setup_queue(&dma, 0, size).unwrap();
        device.set_driver_ok();
        let buffers = DmaBuffer::allocate(&dma, 64 * 64).unwrap().split(64).collect();
        Self { device, queue, model, buffers }
    }

    /// Submits a chain of so many descriptors, the first of which says `mark`.
    fn submit(&mut self, mark: u32, descriptors: usize) -> Option<Token> {
        let mut buffer = self.buffers.pop().unwrap();
        buffer.write(0, &mark.to_le_bytes());
        match self.queue.submit(Pair { buffer, readable: 4, pieces: descriptors - 1 }) {
            Ok(token) => Some(token),
            Err(refused) => {
                assert_eq!(refused.error, SubmitError::Full);
                self.buffers.push(refused.chain.buffer);
                None
            }
        }
    }

    fn notify(&mut self) {
        self.queue.notify(self.device.transport());
    }

    /// Completes a chain, whose mark is returned with what the device wrote.
    fn complete(&mut self) -> Option<(Token, u32, Vec<u8>)> {
        let used = self.queue.complete_or_arm().unwrap()?;
        let (mut mark, mut written) = ([0; 4], vec![0; usize::try_from(used.written).unwrap()]);
        used.chain.buffer.read(0, &mut mark);
        used.chain.buffer.read(4, &mut written);
        self.buffers.push(used.chain.buffer);
        Some((used.token, u32::from_le_bytes(mark), written))
    }

    /// The device takes one chain and returns it with its mark as data.
    fn echo(&self) -> bool {
        let mut model = self.model.lock().unwrap();
        let Some(chain) = model.take(0) else { return false };
        let mark = model.gather(&chain);
        let written = model.scatter(&chain, &mark);
        model.put(0, chain.head, written);
        true
    }

    fn counts(&self) -> (usize, usize) {
        let model = self.model.lock().unwrap();
        (model.queues[0].notified, model.queues[0].interrupts)
    }
}

#[test]
fn sizes_are_rounded_down_to_powers_of_two() {
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 1000);
    let size = |size| Virtqueue::<_, Pair>::new(&dma, size, true).map(|queue| queue.size());
    assert_eq!(
        [0, 1, 2, 3, 255, 256, 65535].map(size),
        [None, Some(1), Some(2), Some(2), Some(128), Some(256), Some(32768)]
    );
}

#[test]
fn no_memory_is_no_queue() {
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 1);
    assert!(Virtqueue::<_, Pair>::new(&dma, 256, true).is_none());
    assert!(Virtqueue::<_, Pair>::new(&dma, 64, true).is_some());
}

#[test]
fn chains_come_back_in_any_order() {
    let mut bench = Bench::new(16, true);
    let tokens: Vec<_> = (0..5).map(|mark| bench.submit(mark, 3).unwrap()).collect();
    let chains: Vec<_> = {
        let mut model = bench.model.lock().unwrap();
        iter::from_fn(|| model.take(0)).collect()
    };
    assert_eq!(chains.len(), 5);
    assert!(chains.iter().all(|chain| chain.parts.len() == 3));
    for place in [3, 0, 4, 2, 1] {
        bench.model.lock().unwrap().put(0, chains[place].head, 0);
    }
    let order: Vec<_> = iter::from_fn(|| bench.complete()).map(|(token, mark, _)| (token, mark)).collect();
    let expected = [3, 0, 4, 2, 1].map(|mark: u32| (tokens[usize::try_from(mark).unwrap()], mark));
    assert_eq!(order, expected);
    assert_eq!(bench.queue.in_flight(), 0);
}

#[test]
fn a_full_queue_gives_the_chain_back() {
    let mut bench = Bench::new(8, true);
    assert!(bench.submit(0, 9).is_none());
    assert!(bench.submit(1, 5).is_some());
    assert!(bench.submit(2, 4).is_none());
    assert!(bench.submit(3, 3).is_some());
    assert!(bench.submit(4, 1).is_none());
    assert!(bench.echo());
    assert_eq!(bench.complete().map(|used| used.1), Some(1));
    assert!(bench.submit(5, 5).is_some());
    assert_eq!(bench.buffers.len(), 62);
}

#[test]
fn an_empty_chain_is_refused() {
    #[derive(Debug)]
    struct Empty;
    impl DescriptorChain for Empty {
        fn segments(&self) -> impl Iterator<Item = DmaSegment> {
            iter::empty()
        }
    }
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 1);
    let mut queue = Virtqueue::new(&dma, 4, true).unwrap();
    assert_eq!(queue.submit(Empty).unwrap_err().error, SubmitError::Full);
}

#[test]
fn a_device_that_works_is_not_notified() {
    let mut bench = Bench::new(16, true);
    for mark in 0..4 {
        bench.submit(mark, 2);
        bench.notify();
    }
    // It said nothing since the first: it has not looked yet.
    assert_eq!(bench.counts().0, 1);
    assert!(bench.echo() && bench.echo());
    bench.submit(4, 2);
    bench.notify();
    assert_eq!(bench.counts().0, 1);
    while bench.echo() {}
    bench.submit(5, 2);
    bench.submit(6, 2);
    bench.notify();
    bench.notify();
    assert_eq!(bench.counts().0, 2);
}

#[test]
fn the_index_is_stored_before_the_wish_is_looked_at() {
    let mut bench = Bench::new(16, true);
    bench.submit(0, 1);
    bench.model.lock().unwrap().memory.events();
    bench.notify();
    assert_eq!(bench.model.lock().unwrap().memory.events(), [Event::Fence, Event::Notified(0)]);
    // Nothing new costs nothing.
    bench.notify();
    assert_eq!(bench.model.lock().unwrap().memory.events(), []);
}

#[test]
fn interrupts_come_only_after_the_ring_was_found_empty() {
    let mut bench = Bench::new(16, true);
    (0..6).for_each(|mark| assert!(bench.submit(mark, 2).is_some()));
    assert!(bench.echo());
    // Nobody asked yet.
    assert_eq!(bench.counts().1, 0);
    assert!(bench.complete().is_some() && bench.complete().is_none());
    assert!(bench.echo() && bench.echo());
    assert_eq!(bench.counts().1, 1);
    assert!(bench.complete().is_some());
    // While there is something left, none is needed.
    assert!(bench.echo());
    assert_eq!(bench.counts().1, 1);
    while bench.complete().is_some() {}
    assert!(bench.echo());
    assert_eq!(bench.counts().1, 2);
}

#[test]
fn what_is_used_just_when_an_interrupt_is_asked_for_is_found() {
    for has_event_index in [true, false] {
        let mut bench = Bench::new(16, has_event_index);
        assert!(bench.submit(1, 2).is_some());
        let (model, memory) = (bench.model.clone(), bench.model.lock().unwrap().memory.clone());
        memory.at_fence(move || {
            let mut model = model.lock().unwrap();
            let chain = model.take(0).unwrap();
            model.put(0, chain.head, 0);
        });
        assert_eq!(bench.complete().map(|used| used.1), Some(1));
    }
}

#[test]
fn an_interrupt_can_be_put_off() {
    let mut bench = Bench::new(16, true);
    (0..6).for_each(|mark| assert!(bench.submit(mark, 1).is_some()));
    assert_eq!(bench.queue.arm(3), Ok(false));
    assert!(bench.echo() && bench.echo());
    assert_eq!(bench.counts().1, 0);
    assert!(bench.echo());
    assert_eq!(bench.counts().1, 1);
    bench.queue.disarm();
    assert!(bench.echo());
    assert_eq!(bench.counts().1, 1);
    assert_eq!(bench.queue.arm(4), Ok(true));
}

#[test]
fn flags_do_where_there_is_no_event_index() {
    let mut bench = Bench::new(16, false);
    for mark in 0..3 {
        bench.submit(mark, 2);
        bench.notify();
    }
    assert_eq!(bench.counts().0, 3);
    assert!(bench.echo());
    assert_eq!(bench.counts().1, 0);
    assert!(bench.complete().is_some() && bench.complete().is_none());
    assert!(bench.echo() && bench.echo());
    assert_eq!(bench.counts().1, 2);
    let device = bench.queue.addresses().device;
    bench.model.lock().unwrap().memory.write_u16(device, 1);
    bench.submit(3, 2);
    bench.notify();
    assert_eq!(bench.counts().0, 3);
}

#[test]
fn indices_wrap() {
    for has_event_index in [true, false] {
        let mut bench = Bench::new(4, has_event_index);
        for mark in 0..70_000_u32 {
            assert!(bench.submit(mark, 2).is_some());
            bench.notify();
            assert!(bench.echo() && !bench.echo());
            let (_, found, written) = bench.complete().unwrap();
            assert_eq!((found, written), (mark, mark.to_le_bytes().to_vec()));
            assert!(bench.complete().is_none());
        }
        // The device slept each time, and so did the driver, but for the first time.
        assert_eq!(bench.counts(), (70_000, 69_999));
    }
}

#[test]
fn without_a_wish_for_interrupts_there_is_one_each_time_the_index_wraps() {
    let mut bench = Bench::new(4, true);
    for mark in 0..70_000 {
        assert!(bench.submit(mark, 2).is_some() && bench.echo());
        let used = bench.queue.complete().unwrap().unwrap();
        bench.buffers.push(used.chain.buffer);
    }
    assert_eq!(bench.counts().1, 1);
}

#[test]
fn buffers_keep_to_their_part() {
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 4);
    assert!(DmaBuffer::allocate(&dma, 5 * 4096).is_none());
    let mut parts: Vec<_> = DmaBuffer::allocate(&dma, 100).unwrap().split(32).collect();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[1].write(30, &[1; 8]), 2);
    assert_eq!(parts[1].write(32, &[1; 8]), 0);
    assert_eq!(parts[1].write(usize::MAX, &[1; 8]), 0);
    let mut bytes = [0xff; 40];
    assert_eq!(parts[1].read(0, &mut bytes), 32);
    assert_eq!(bytes[28..33], [0, 0, 1, 1, 0xff]);
    assert_eq!(parts[2].read(0, &mut bytes[..1]), 1);
    assert_eq!(bytes[0], 0);
    let (first, second) = (parts[0].readable(0..32), parts[1].writable(8..100));
    assert_eq!((second.address - first.address, second.length), (40, 24));
    assert_eq!(parts[1].writable(100..200).length, 0);
}

/// The device: returns chains as they come, and sleeps when there are none, until the doorbell is gone.
fn work(model: &SharedDevice, doorbell: &Receiver<()>, raise: &Sender<()>) {
    let mut interrupts = 0;
    loop {
        let Some(chain) = model.lock().unwrap().take(0) else {
            let Ok(()) = doorbell.recv() else { return };
            continue;
        };
        let mut model = model.lock().unwrap();
        model.put(0, chain.head, 0);
        let raised = model.queues[0].interrupts;
        if core::mem::replace(&mut interrupts, raised) != raised {
            raise.send(()).unwrap();
        }
    }
}

/// Device and driver in threads of their own, each asleep until the other wakes it: no wake-up may be lost.
#[test]
fn nobody_sleeps_for_ever() {
    const CHAINS: u32 = 20_000;
    let mut bench = Bench::new(8, true);
    let model = bench.model.clone();
    let (ring, doorbell) = channel();
    let (raise, interrupt) = channel();
    let device = std::thread::spawn(move || work(&model, &doorbell, &raise));
    let (mut submitted, mut completed, mut rung) = (0, 0, 0);
    while completed < CHAINS {
        while submitted < CHAINS && bench.submit(submitted, 2).is_some() {
            submitted += 1;
        }
        bench.notify();
        let notified = bench.counts().0;
        if core::mem::replace(&mut rung, notified) != notified {
            ring.send(()).unwrap();
        }
        let before = completed;
        while bench.complete().is_some() {
            completed += 1;
        }
        if before == completed {
            interrupt.recv_timeout(Duration::from_secs(60)).expect("a wake-up was lost");
        }
    }
    drop(ring);
    device.join().unwrap();
}
