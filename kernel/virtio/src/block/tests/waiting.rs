//! Several requests in flight. Each task waits for its own request.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;
use std::vec::Vec;

use virtio_spec::DeviceStatus;

use super::{BlockDriver, BlockError, BlockRequestError, Driver, FakeDma, FakeTransport, TestDisk, Ticket};
use crate::device::DeviceError;
use crate::testing::DeviceEvent;

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Tasks. Each has submitted a read of the sector with the task's index.
struct Readers {
    disk: TestDisk,
    block: Driver,
    tasks: Vec<(Ticket, Arc<Counter>)>,
}

impl Readers {
    fn new(count: u16) -> Self {
        let disk = super::disk_with_flush(100);
        let mut block = disk.open(count).unwrap();
        let submit = |sector: u16| {
            let counter = Arc::new(Counter::default());
            (block.submit_read(sector.into(), 1, &counter.clone().into()).unwrap(), counter)
        };
        let tasks = (0..count).map(submit).collect();
        Self { disk, block, tasks }
    }

    /// Handles an interrupt, and returns how often each task has been woken since the last call.
    fn interrupt(&mut self) -> Vec<usize> {
        // Ignores a failure here, since each request returns it.
        let _cause: Result<_, _> = self.block.interrupt();
        while let Some(waker) = self.block.next_waker() {
            waker.wake();
        }
        self.tasks.iter().map(|(_, counter)| counter.0.swap(0, Relaxed)).collect()
    }

    /// Returns the byte that a task reads; `None` if it waits.
    fn poll(&mut self, index: usize) -> Result<Option<Result<u8, BlockRequestError>>, DeviceError> {
        let (ticket, counter) = self.tasks[index].clone();
        let served = self.block.take(ticket, &counter.into())?;
        Ok(served.map(|served| {
            let mut byte = [0xff];
            let result = served.result().map(|_| served.read(511, &mut byte));
            self.block.release(served);
            result.map(|_| byte[0])
        }))
    }
}

#[test]
fn served_requests_wake_their_tasks_alone_in_any_order() {
    let mut readers = Readers::new(4);
    let chains: Vec<_> = core::iter::from_fn(|| readers.disk.take()).collect();
    assert_eq!(chains.len(), 4);
    assert!((0..4).all(|index| readers.poll(index) == Ok(None)));
    for chain in [2, 0] {
        readers.disk.serve(&chains[chain]);
    }
    assert_eq!(readers.interrupt(), [1, 0, 1, 0]);
    assert_eq!((readers.poll(1), readers.poll(3)), (Ok(None), Ok(None)));
    assert_eq!((readers.poll(2), readers.poll(0)), (Ok(Some(Ok(2))), Ok(Some(Ok(0)))));
    for chain in [3, 1] {
        readers.disk.serve(&chains[chain]);
    }
    assert_eq!(readers.interrupt(), [0, 1, 0, 1]);
    assert_eq!((readers.poll(1), readers.poll(3)), (Ok(Some(Ok(1))), Ok(Some(Ok(3)))));
}

#[test]
fn errors_are_those_of_their_requests() {
    let mut readers = Readers::new(3);
    for status in [2, 0, 1] {
        let chain = readers.disk.take().unwrap();
        readers.disk.serve(&chain);
        readers.disk.model.lock().unwrap().memory.write(chain.parts[2].0, &[status]);
    }
    assert_eq!(readers.interrupt(), [1, 1, 1]);
    assert_eq!(readers.poll(0), Ok(Some(Err(BlockRequestError::Unsupported))));
    assert_eq!(readers.poll(1), Ok(Some(Ok(1))));
    assert_eq!(readers.poll(2), Ok(Some(Err(BlockRequestError::InputOutput))));
}

/// The device has served one request, and then asks for a reset.
#[test]
fn failed_device_wakes_all_tasks_and_fails_what_it_has_not_served() {
    let mut readers = Readers::new(3);
    let chain = readers.disk.take().unwrap();
    readers.disk.serve(&chain);
    assert_eq!(readers.interrupt(), [1, 0, 0]);
    {
        let mut model = readers.disk.model.lock().unwrap();
        model.status |= DeviceStatus::DEVICE_NEEDS_RESET.bits();
        model.interrupt_status = 2;
    }
    assert_eq!(readers.interrupt(), [0, 1, 1]);
    assert_eq!(readers.poll(0), Ok(Some(Ok(0))));
    assert!((1..3).all(|index| readers.poll(index) == Err(DeviceError::NeedsReset)));
    let submitted = readers.block.submit_read(0, 1, Waker::noop());
    assert_eq!(submitted, Err(BlockError::Device(DeviceError::NeedsReset)));
    // Buffers of requests in flight are not freed before the reset has completed.
    let memory = readers.disk.model.lock().unwrap().memory.clone();
    memory.events();
    drop(readers.block);
    let events = memory.events();
    let reset = events.iter().position(|event| *event == DeviceEvent::Status(0)).unwrap();
    let freed = events.iter().position(|event| *event == DeviceEvent::Freed).unwrap();
    assert!(reset < freed, "{events:?}");
}

#[test]
fn request_served_before_a_failure_succeeds_though_one_interrupt_tells_both() {
    let mut readers = Readers::new(2);
    let chain = readers.disk.take().unwrap();
    readers.disk.serve(&chain);
    {
        let mut model = readers.disk.model.lock().unwrap();
        model.status |= DeviceStatus::DEVICE_NEEDS_RESET.bits();
        model.interrupt_status = 3;
    }
    assert_eq!(readers.interrupt(), [1, 1]);
    assert_eq!(readers.poll(0), Ok(Some(Ok(0))));
    assert_eq!(readers.poll(1), Err(DeviceError::NeedsReset));
}

#[test]
fn buffers_in_flight_survive_a_reset_that_times_out() {
    let mut readers = Readers::new(3);
    let chain = readers.disk.take().unwrap();
    readers.disk.serve(&chain);
    readers.interrupt();
    let memory = readers.disk.model.lock().unwrap().memory.clone();
    readers.disk.model.lock().unwrap().stuck_set = 1;
    memory.events();
    drop(readers.block);
    assert!(!memory.events().contains(&DeviceEvent::Freed));
}

#[test]
fn buffers_are_planned_up_to_the_room_in_the_queue() {
    let disk = super::disk_with_flush(100);
    let dma = FakeDma::new(&disk.model.lock().unwrap().memory, 1000);
    // The queue has 64 descriptors, a request needs 3.
    let mut block = BlockDriver::new(FakeTransport::new(&disk.model, true), &dma, 100).unwrap();
    let mut count = 0;
    while block.submit_read(0, 1, Waker::noop()).is_ok() {
        count += 1;
        if let Some(plan) = block.plan() {
            block.add(plan.allocate(&dma));
        }
    }
    assert_eq!((count, block.submit_read(0, 1, Waker::noop())), (21, Err(BlockError::Busy)));
    assert!(block.plan().is_none());
}

#[test]
fn tasks_that_allocate_at_the_same_time_plan_no_more_than_there_is_room_for() {
    let disk = super::disk_with_flush(100);
    let memory = disk.model.lock().unwrap().memory.clone();
    let dma = FakeDma::new(&memory, 1000);
    let mut block = BlockDriver::new(FakeTransport::new(&disk.model, true), &dma, 3).unwrap();
    block.submit_read(0, 1, Waker::noop()).unwrap();
    let (first, second) = (block.plan().unwrap(), block.plan().unwrap());
    assert!(block.plan().is_none());
    // If there is no memory for the buffer, another task may plan one.
    block.add(None);
    let third = block.plan().unwrap();
    assert!(block.plan().is_none());
    drop(first);
    for plan in [second, third] {
        block.add(Some(plan.allocate(&dma).unwrap()));
    }
    assert!((0..2).all(|_| block.submit_read(0, 1, Waker::noop()).is_ok()));
    assert_eq!(block.submit_read(0, 1, Waker::noop()), Err(BlockError::Busy));
    assert!(block.plan().is_none());
}
