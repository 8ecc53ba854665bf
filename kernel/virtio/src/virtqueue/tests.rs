//! The virtqueue with a correct device model; the submodules have malicious devices and random operations.
//!
//! A [`Harness`] has the driver's side of one queue and the model of the device's side. Each chain contains a
//! mark, which the device echoes. So a test can check that chains are completed in the device's order and
//! with the right contents. The numbers of notifications and interrupts are checked, too.

mod hostile_device;
mod random_ops;

use core::iter;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use super::{DescriptorChain, SubmitError, Token, Virtqueue};
use crate::device::Device;
use crate::dma::{DmaBuffer, DmaPermit, DmaSegment};
use crate::testing::{DeviceEvent, DeviceModel, FakeDma, FakeMemory, FakeTransport, SharedDevice};

/// A chain whose first descriptor is device-readable. The other descriptors are device-writable parts of the
/// same buffer.
#[derive(Debug)]
struct TestChain {
    buffer: DmaBuffer<FakeMemory>,
    readable: usize,
    /// Number of device-writable descriptors.
    pieces: usize,
}

impl DescriptorChain for TestChain {
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

struct Harness {
    device: Device<FakeTransport>,
    queue: Virtqueue<FakeMemory, TestChain>,
    model: SharedDevice,
    buffers: Vec<DmaBuffer<FakeMemory>>,
}

impl Harness {
    fn new(size: u16, has_event_index: bool) -> Self {
        let model = DeviceModel::new(4, 0, &[size]);
        if !has_event_index {
            model.lock().unwrap().offered = 1 << 32;
        }
        let dma = FakeDma::new(&model.lock().unwrap().memory, 64);
        let transport = FakeTransport::new(&model, true);
        let mut device =
            Device::start(transport, &dma, virtio_spec::Id::Rng, virtio_spec::F::empty()).unwrap();
        let queue = device.setup_queue(&dma, 0, size).unwrap();
        device.set_driver_ok();
        let buffers = DmaBuffer::allocate(&dma, 64 * 64, device.permit()).unwrap().split(64).collect();
        Self { device, queue, model, buffers }
    }

    /// Submits a chain of `descriptors` descriptors. The first one contains `mark`.
    fn submit(&mut self, mark: u32, descriptors: usize) -> Option<Token> {
        let mut buffer = self.buffers.pop().unwrap();
        buffer.write(0, &mark.to_le_bytes());
        match self.queue.submit(TestChain { buffer, readable: 4, pieces: descriptors - 1 }) {
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

    /// Completes a chain. Returns its token, its mark and the bytes that the device wrote.
    fn complete(&mut self) -> Option<(Token, u32, Vec<u8>)> {
        let used = self.queue.complete_or_arm().unwrap()?;
        let (mut mark, mut written) = ([0; 4], vec![0; usize::try_from(used.written).unwrap()]);
        used.chain.buffer.read(0, &mut mark);
        used.chain.buffer.read(4, &mut written);
        self.buffers.push(used.chain.buffer);
        Some((used.token, u32::from_le_bytes(mark), written))
    }

    /// Makes the device use one chain, to which it writes the chain's mark.
    fn echo(&self) -> bool {
        let mut model = self.model.lock().unwrap();
        let Some(chain) = model.take(0) else { return false };
        let mark = model.gather(&chain);
        let written = model.scatter(&chain, &mark);
        model.use_chain(0, chain.head, written);
        true
    }

    fn counts(&self) -> (usize, usize) {
        let model = self.model.lock().unwrap();
        (model.queues[0].notified, model.queues[0].interrupts)
    }
}

#[test]
fn queue_size_is_rounded_down_to_power_of_two() {
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 1000);
    let size = |size| {
        Virtqueue::<_, TestChain>::new(&dma, size, true, &DmaPermit::default()).map(|queue| queue.size())
    };
    assert_eq!(
        [0, 1, 2, 3, 255, 256, 65535].map(size),
        [None, Some(1), Some(2), Some(2), Some(128), Some(256), Some(32768)]
    );
}

#[test]
fn queue_creation_fails_without_memory() {
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 1);
    assert!(Virtqueue::<_, TestChain>::new(&dma, 256, true, &DmaPermit::default()).is_none());
    assert!(Virtqueue::<_, TestChain>::new(&dma, 64, true, &DmaPermit::default()).is_some());
}

#[test]
fn chains_complete_in_order_of_use() {
    let mut harness = Harness::new(16, true);
    let tokens: Vec<_> = (0..5).map(|mark| harness.submit(mark, 3).unwrap()).collect();
    let chains: Vec<_> = {
        let mut model = harness.model.lock().unwrap();
        iter::from_fn(|| model.take(0)).collect()
    };
    assert_eq!(chains.len(), 5);
    assert!(chains.iter().all(|chain| chain.parts.len() == 3));
    for place in [3, 0, 4, 2, 1] {
        harness.model.lock().unwrap().use_chain(0, chains[place].head, 0);
    }
    let order: Vec<_> = iter::from_fn(|| harness.complete()).map(|(token, mark, _)| (token, mark)).collect();
    let expected = [3, 0, 4, 2, 1].map(|mark: u32| (tokens[usize::try_from(mark).unwrap()], mark));
    assert_eq!(order, expected);
    assert_eq!(harness.queue.in_flight(), 0);
}

#[test]
fn submit_to_full_queue_returns_chain() {
    let mut harness = Harness::new(8, true);
    assert!(harness.submit(0, 9).is_none());
    assert!(harness.submit(1, 5).is_some());
    assert!(harness.submit(2, 4).is_none());
    assert!(harness.submit(3, 3).is_some());
    assert!(harness.submit(4, 1).is_none());
    assert!(harness.echo());
    assert_eq!(harness.complete().map(|used| used.1), Some(1));
    assert!(harness.submit(5, 5).is_some());
    assert_eq!(harness.buffers.len(), 62);
}

#[test]
fn submit_refuses_empty_chain() {
    #[derive(Debug)]
    struct Empty;
    impl DescriptorChain for Empty {
        fn segments(&self) -> impl Iterator<Item = DmaSegment> {
            iter::empty()
        }
    }
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 1);
    let mut queue = Virtqueue::new(&dma, 4, true, &DmaPermit::default()).unwrap();
    assert_eq!(queue.submit(Empty).unwrap_err().error, SubmitError::Full);
}

#[test]
fn running_device_is_not_notified() {
    let mut harness = Harness::new(16, true);
    for mark in 0..4 {
        harness.submit(mark, 2);
        harness.notify();
    }
    // The device has not set `avail_event` since the first notification.
    assert_eq!(harness.counts().0, 1);
    assert!(harness.echo() && harness.echo());
    harness.submit(4, 2);
    harness.notify();
    assert_eq!(harness.counts().0, 1);
    while harness.echo() {}
    harness.submit(5, 2);
    harness.submit(6, 2);
    harness.notify();
    harness.notify();
    assert_eq!(harness.counts().0, 2);
}

#[test]
fn notify_stores_index_before_loading_avail_event() {
    let mut harness = Harness::new(16, true);
    harness.submit(0, 1);
    harness.model.lock().unwrap().memory.events();
    harness.notify();
    assert_eq!(harness.model.lock().unwrap().memory.events(), [DeviceEvent::Fence, DeviceEvent::Notified(0)]);
    // Without new chains there is no barrier and no notification.
    harness.notify();
    assert_eq!(harness.model.lock().unwrap().memory.events(), []);
}

#[test]
fn interrupt_is_armed_only_when_used_ring_is_empty() {
    let mut harness = Harness::new(16, true);
    (0..6).for_each(|mark| assert!(harness.submit(mark, 2).is_some()));
    assert!(harness.echo());
    // Not armed yet.
    assert_eq!(harness.counts().1, 0);
    assert!(harness.complete().is_some() && harness.complete().is_none());
    assert!(harness.echo() && harness.echo());
    assert_eq!(harness.counts().1, 1);
    assert!(harness.complete().is_some());
    // Not armed while used chains are left.
    assert!(harness.echo());
    assert_eq!(harness.counts().1, 1);
    while harness.complete().is_some() {}
    assert!(harness.echo());
    assert_eq!(harness.counts().1, 2);
}

#[test]
fn chain_used_while_arming_is_completed() {
    for has_event_index in [true, false] {
        let mut harness = Harness::new(16, has_event_index);
        assert!(harness.submit(1, 2).is_some());
        let (model, memory) = (harness.model.clone(), harness.model.lock().unwrap().memory.clone());
        memory.at_fence(move || {
            let mut model = model.lock().unwrap();
            let chain = model.take(0).unwrap();
            model.use_chain(0, chain.head, 0);
        });
        assert_eq!(harness.complete().map(|used| used.1), Some(1));
    }
}

#[test]
fn armed_interrupt_is_raised_after_count_chains() {
    let mut harness = Harness::new(16, true);
    (0..6).for_each(|mark| assert!(harness.submit(mark, 1).is_some()));
    assert_eq!(harness.queue.arm(3), Ok(false));
    assert!(harness.echo() && harness.echo());
    assert_eq!(harness.counts().1, 0);
    assert!(harness.echo());
    assert_eq!(harness.counts().1, 1);
    harness.queue.disarm();
    assert!(harness.echo());
    assert_eq!(harness.counts().1, 1);
    assert_eq!(harness.queue.arm(4), Ok(true));
}

#[test]
fn flags_suppress_notifications_without_event_index() {
    let mut harness = Harness::new(16, false);
    for mark in 0..3 {
        harness.submit(mark, 2);
        harness.notify();
    }
    assert_eq!(harness.counts().0, 3);
    assert!(harness.echo());
    assert_eq!(harness.counts().1, 0);
    assert!(harness.complete().is_some() && harness.complete().is_none());
    assert!(harness.echo() && harness.echo());
    assert_eq!(harness.counts().1, 2);
    let device = harness.queue.addresses().device;
    harness.model.lock().unwrap().memory.write_u16(device, 1);
    harness.submit(3, 2);
    harness.notify();
    assert_eq!(harness.counts().0, 3);
}

#[test]
#[cfg_attr(miri, ignore = "65,536 chains take minutes")]
fn ring_indices_wrap_around() {
    for has_event_index in [true, false] {
        let mut harness = Harness::new(4, has_event_index);
        for mark in 0..70_000_u32 {
            assert!(harness.submit(mark, 2).is_some());
            harness.notify();
            assert!(harness.echo() && !harness.echo());
            let (_, found, written) = harness.complete().unwrap();
            assert_eq!((found, written), (mark, mark.to_le_bytes().to_vec()));
            assert!(harness.complete().is_none());
        }
        // Each chain needed a notification and, except the first, an interrupt.
        assert_eq!(harness.counts(), (70_000, 69_999));
    }
}

#[test]
#[cfg_attr(miri, ignore = "65,536 chains take minutes")]
fn disarmed_interrupt_is_raised_once_per_index_wrap() {
    let mut harness = Harness::new(4, true);
    for mark in 0..70_000 {
        assert!(harness.submit(mark, 2).is_some() && harness.echo());
        let used = harness.queue.complete().unwrap().unwrap();
        harness.buffers.push(used.chain.buffer);
    }
    assert_eq!(harness.counts().1, 1);
}

#[test]
fn split_buffers_do_not_overlap() {
    let model = DeviceModel::new(4, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 4);
    let permit = DmaPermit::default();
    assert!(DmaBuffer::allocate(&dma, 5 * 4096, &permit).is_none());
    let mut parts: Vec<_> = DmaBuffer::allocate(&dma, 100, &permit).unwrap().split(32).collect();
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

/// The device's thread. It uses chains as they become available, waits for the doorbell when there are none,
/// and ends when the doorbell is closed.
fn run_device(model: &SharedDevice, doorbell: &Receiver<()>, raise: &Sender<()>) {
    let mut interrupts = 0;
    loop {
        let Some(chain) = model.lock().unwrap().take(0) else {
            let Ok(()) = doorbell.recv() else { return };
            continue;
        };
        let mut model = model.lock().unwrap();
        model.use_chain(0, chain.head, 0);
        let raised = model.queues[0].interrupts;
        if core::mem::replace(&mut interrupts, raised) != raised {
            raise.send(()).unwrap();
        }
    }
}

/// Runs the device and the driver in two threads. Each thread blocks until the other one wakes it.
#[test]
fn no_notification_or_interrupt_is_lost() {
    const CHAINS: u32 = if cfg!(miri) { 100 } else { 20_000 };
    let mut harness = Harness::new(8, true);
    let model = harness.model.clone();
    let (ring, doorbell) = channel();
    let (raise, interrupt) = channel();
    let device = std::thread::spawn(move || run_device(&model, &doorbell, &raise));
    let (mut submitted, mut completed, mut rung) = (0, 0, 0);
    while completed < CHAINS {
        while submitted < CHAINS && harness.submit(submitted, 2).is_some() {
            submitted += 1;
        }
        harness.notify();
        let notified = harness.counts().0;
        if core::mem::replace(&mut rung, notified) != notified {
            ring.send(()).unwrap();
        }
        let before = completed;
        while harness.complete().is_some() {
            completed += 1;
        }
        if before == completed {
            interrupt.recv_timeout(Duration::from_secs(60)).expect("a wake-up was lost");
        }
    }
    drop(ring);
    device.join().unwrap();
}
