//! The driver with a device model that replies when the test decides.
//!
//! The contents of messages do not matter to the driver, so requests and replies are arbitrary bytes. The
//! tests check that each reply reaches its request, that a task that waits for a slot or a buffer is woken
//! when one becomes free, and that a failure of the device reaches all tasks.

mod messages;

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::task::Waker;
use std::sync::Arc;
use std::task::Wake;
use std::vec;
use std::vec::Vec;

use hermit_fuse::{Request, Tag};
use virtio_spec::DeviceStatus;

use super::{FsDriver, FsError, MIN_DATA_BUFFER, Ticket};
use crate::device::{DeviceError, InitError};
use crate::dma::DmaBuffer;
use crate::testing::{DeviceModel, FakeDma, FakeMemory, FakeTransport, SharedDevice};
use crate::virtqueue::QueueError;

const HIPRIO: u16 = 0;
const REQUESTS: u16 = 1;
const MAX_DATA: usize = 8192;

type Driver = FsDriver<FakeTransport, FakeMemory>;

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn model(queues: &[u16]) -> SharedDevice {
    let model = DeviceModel::new(26, 0, queues);
    let mut config = b"folder".to_vec();
    config.resize(40, 0);
    model.lock().unwrap().config = config;
    model
}

fn fs(queues: &[u16]) -> (Driver, SharedDevice, FakeDma) {
    let model = model(queues);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 40);
    (FsDriver::new(FakeTransport::new(&model, true), &dma, MAX_DATA).unwrap(), model, dma)
}

fn request<'a>(head: &'a [u8], data: &'a [u8], reply_data: usize) -> Request<'a> {
    let tag = Tag { unique: 7, state: 9 };
    Request { head, data, reply_head: 16, reply_data, tag, ..Request::default() }
}

/// Submits a request, for which there is memory.
fn try_submit(fs: &mut Driver, request: &Request<'_>, waker: &Waker) -> Result<Ticket, FsError> {
    let reserved = fs.reserve(request, waker)?;
    fs.submit(reserved.fill(request))
}

/// Submits a request after its buffers were allocated.
fn submit(fs: &mut Driver, dma: &FakeDma, request: &Request<'_>, waker: &Waker) -> Result<Ticket, FsError> {
    if let Some(plan) = fs.plan(request) {
        fs.add(plan.allocate(dma));
    }
    try_submit(fs, request, waker)
}

/// Replies to the next request, and handles the interrupt. Returns the request.
fn answer(fs: &mut Driver, model: &SharedDevice, reply: &[u8]) -> Vec<u8> {
    let mut device = model.lock().unwrap();
    let chain = device.take(REQUESTS).expect("a request");
    let bytes = device.gather(&chain);
    let written = device.scatter(&chain, reply);
    device.use_chain(REQUESTS, chain.head, written);
    drop(device);
    fs.interrupt();
    bytes
}

fn read(fs: &mut Driver, ticket: Ticket) -> Vec<u8> {
    let served = fs.take(ticket, Waker::noop()).unwrap().expect("a reply");
    assert_eq!(served.tag(), Tag { unique: 7, state: 9 });
    let mut bytes = vec![0; served.len()];
    assert_eq!(served.read(0, &mut bytes), bytes.len());
    // From any offset the bytes are the same.
    for offset in [1, 16, 17, 2048, 3000] {
        let mut rest = vec![0; bytes.len().saturating_sub(offset)];
        assert_eq!(served.read(offset, &mut rest), rest.len());
        assert_eq!(rest, bytes.get(offset..).unwrap_or_default());
    }
    fs.release(served);
    bytes
}

#[test]
fn device_is_found_by_its_tag() {
    let (fs, _, _) = fs(&[8, 128]);
    assert_eq!(fs.tag(), b"folder");
}

#[test]
fn queue_without_room_for_a_request_is_refused() {
    let small = model(&[8, 4]);
    let dma = FakeDma::new(&small.lock().unwrap().memory, 40);
    let result: Result<Driver, _> = FsDriver::new(FakeTransport::new(&small, true), &dma, MAX_DATA);
    assert_eq!(result.map(drop), Err(InitError::InvalidConfig));
}

#[test]
fn requests_and_replies_of_all_sizes_are_copied() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    for size in [0, 1, 100, 1400, 2000, 2048, 4096, 4097, MAX_DATA] {
        let data: Vec<u8> = (0..size).map(|index| u8::try_from(index % 251).unwrap()).collect();
        let head = [3; 80];
        let ticket =
            submit(&mut fs, &dma, &Request { split: [40, 40], ..request(&head, &data, 0) }, Waker::noop());
        assert_eq!(answer(&mut fs, &model, &[5; 16]), [&head[..], &data].concat());
        assert_eq!(read(&mut fs, ticket.unwrap()), [5; 16]);

        let ticket = submit(&mut fs, &dma, &request(&head, &[], size), Waker::noop()).unwrap();
        let reply = [&[6; 16], &data[..]].concat();
        assert_eq!(answer(&mut fs, &model, &reply), head);
        assert_eq!(read(&mut fs, ticket), reply);
    }
    let too_large = request(&[1], &[], MAX_DATA + 1);
    assert_eq!(submit(&mut fs, &dma, &too_large, Waker::noop()), Err(FsError::OutOfMemory));
}

#[test]
fn headers_of_a_write_are_descriptors_of_their_own() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let data = vec![1; 4096];
    let write = Request { split: [40, 40], ..request(&[3; 80], &data, 0) };
    submit(&mut fs, &dma, &write, Waker::noop()).unwrap();
    let chain = model.lock().unwrap().take(REQUESTS).unwrap();
    let sizes: Vec<_> = chain.parts.iter().map(|part| (part.1, part.2)).collect();
    assert_eq!(sizes, [(40, false), (40, false), (4096, false), (16, true)]);
}

#[test]
fn request_that_is_being_copied_keeps_its_slot_and_comes_after_others() {
    let (mut fs, model, _) = fs(&[8, 128]);
    let (slow, quick) = (request(&[1], &[], 0), request(&[2], &[], 0));
    let reserved = fs.reserve(&slow, Waker::noop()).unwrap();
    let second = try_submit(&mut fs, &quick, Waker::noop()).unwrap();
    assert_eq!(answer(&mut fs, &model, &[2; 16]), [2]);
    assert_eq!(read(&mut fs, second), [2; 16]);
    let first = fs.submit(reserved.fill(&slow)).unwrap();
    assert_ne!(first, second);
    assert_eq!(answer(&mut fs, &model, &[1; 16]), [1]);
    assert_eq!(read(&mut fs, first), [1; 16]);
    // A device that is stopped meanwhile.
    let reserved = fs.reserve(&slow, Waker::noop()).unwrap();
    fs.stop();
    assert!(matches!(fs.submit(reserved.fill(&slow)), Err(FsError::Device(_))));
}

#[test]
fn unused_data_buffers_are_given_back_and_allocated_again() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let large = request(&[1], &[], MAX_DATA);
    for _ in 0..3 {
        let ticket = submit(&mut fs, &dma, &large, Waker::noop()).unwrap();
        assert!(fs.take_unused().is_none(), "the only one is in use");
        answer(&mut fs, &model, &[1; 16]);
        read(&mut fs, ticket);
        assert!(fs.plan(&large).is_none(), "it is kept for the next request");
        assert!(fs.take_unused().is_some());
        assert!(fs.take_unused().is_none());
    }
}

#[test]
fn data_buffers_are_as_large_as_requests_need() {
    let model = model(&[8, 128]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 400);
    let max = 8 * MIN_DATA_BUFFER;
    let mut fs: Driver = FsDriver::new(FakeTransport::new(&model, true), &dma, max).unwrap();
    let sizes = |fs: &Driver| fs.free_data.iter().map(DmaBuffer::size).collect::<Vec<_>>();
    let request = |size| request(&[1], &[], size);
    let one_after_the_other = |fs: &mut Driver, size| {
        let ticket = submit(fs, &dma, &request(size), Waker::noop()).unwrap();
        answer(fs, &model, &[1; 16]);
        read(fs, ticket);
    };
    one_after_the_other(&mut fs, 4096);
    assert_eq!(sizes(&fs), [MIN_DATA_BUFFER]);
    one_after_the_other(&mut fs, MIN_DATA_BUFFER + 1);
    one_after_the_other(&mut fs, 4096);
    // The buffer that was released last is at the end: the small request has used the small buffer.
    assert_eq!(sizes(&fs), [2 * MIN_DATA_BUFFER, MIN_DATA_BUFFER]);
    // When there are as many buffers as there may be, a larger one replaces one of them.
    one_after_the_other(&mut fs, 3 * MIN_DATA_BUFFER);
    one_after_the_other(&mut fs, max - 1);
    assert_eq!(sizes(&fs).len(), 4);
    let tickets =
        [(); 2].map(|()| submit(&mut fs, &dma, &request(max), Waker::noop()).expect("a buffer of this size"));
    assert_eq!((fs.data_buffers, fs.free_data.len()), (4, 2));
    for ticket in tickets {
        answer(&mut fs, &model, &[1; 16]);
        read(&mut fs, ticket);
    }
    assert!(sizes(&fs).iter().all(|size| *size <= max));
    assert_eq!(submit(&mut fs, &dma, &request(max + 1), Waker::noop()), Err(FsError::OutOfMemory));
}

#[test]
fn request_fails_without_memory_for_a_larger_data_buffer_if_no_other_task_releases_one() {
    let model = model(&[8, 128]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 400);
    let mut fs: Driver = FsDriver::new(FakeTransport::new(&model, true), &dma, 4 * MIN_DATA_BUFFER).unwrap();
    let (small, large) = (request(&[1], &[], 4096), request(&[1], &[], 4 * MIN_DATA_BUFFER));
    let ticket = submit(&mut fs, &dma, &small, Waker::noop()).unwrap();
    // The buffer in flight is too small, too, but its release may leave memory for a larger buffer.
    fs.plan(&large).map(drop).expect("a plan");
    fs.add(None);
    assert_eq!(try_submit(&mut fs, &large, Waker::noop()), Err(FsError::Busy));
    answer(&mut fs, &model, &[1; 16]);
    read(&mut fs, ticket);
    assert_eq!(try_submit(&mut fs, &large, Waker::noop()), Err(FsError::OutOfMemory));
    assert!(try_submit(&mut fs, &small, Waker::noop()).is_ok());
}

#[test]
fn reply_wakes_its_request_alone() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let (first, second) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let one = submit(&mut fs, &dma, &request(&[1], &[], 0), &first.clone().into()).unwrap();
    let two = submit(&mut fs, &dma, &request(&[2], &[], 0), &second.clone().into()).unwrap();
    assert!(fs.take(one, &first.clone().into()).unwrap().is_none());
    assert!(fs.next_waker().is_none());
    assert_eq!(answer(&mut fs, &model, &[1; 16]), [1]);
    fs.next_waker().expect("a waker").wake();
    assert!(fs.next_waker().is_none());
    assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (1, 0));
    assert!(fs.take(two, Waker::noop()).unwrap().is_none());
    assert_eq!(read(&mut fs, one), [1; 16]);
}

#[test]
fn request_without_room_waits_for_a_release() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let mut tickets = Vec::new();
    let error = loop {
        match submit(&mut fs, &dma, &request(&[1], &[], 0), Waker::noop()) {
            Ok(ticket) => tickets.push(ticket),
            Err(error) => break error,
        }
    };
    assert_eq!((error, tickets.len()), (FsError::Busy, 16));
    assert!(fs.next_waker().is_none());
    answer(&mut fs, &model, &[1; 16]);
    // The waker of the request, and, after the request is released, the waker of the task that waits.
    assert!(fs.next_waker().is_some() && fs.next_waker().is_none());
    assert_eq!(read(&mut fs, tickets[0]), [1; 16]);
    assert!(fs.next_waker().is_some() && fs.next_waker().is_none());
    assert!(submit(&mut fs, &dma, &request(&[1], &[], 0), Waker::noop()).is_ok());
}

/// A task that makes a request over and over.
struct Client {
    waker: Waker,
    ticket: Option<Ticket>,
}

impl Client {
    fn new() -> Self {
        Self { waker: Waker::from(Arc::new(Counter::default())), ticket: None }
    }

    fn submit(&mut self, fs: &mut Driver, dma: &FakeDma, request: &Request<'_>) {
        self.ticket = submit(fs, dma, request, &self.waker).ok();
    }

    /// Takes the reply, if it has arrived. Returns true if it had arrived.
    fn take(&mut self, fs: &mut Driver) -> bool {
        let Some(ticket) = self.ticket else { return false };
        let Some(served) = fs.take(ticket, &self.waker).unwrap() else { return false };
        self.ticket = None;
        fs.release(served);
        true
    }
}

/// Wakes all tasks that are due, and lets them continue. Returns the number of these tasks.
fn run(fs: &mut Driver, dma: &FakeDma, request: &Request<'_>, clients: &mut [Client]) -> usize {
    let mut woken = 0;
    while let Some(waker) = fs.next_waker() {
        woken += 1;
        let client = clients.iter_mut().find(|client| client.waker.will_wake(&waker));
        waker.wake();
        let client = client.expect("the waker of a client");
        if client.ticket.is_none() || client.take(fs) {
            client.submit(fs, dma, request);
        }
    }
    woken
}

/// Each reply wakes its own task, and one task that waits for the slot or the data buffer, but not all
/// waiting tasks.
#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn reply_wakes_one_of_many_tasks_that_wait() {
    for request in [request(&[1], &[], 0), request(&[1], &[], 4096)] {
        let (mut fs, model, dma) = fs(&[8, 128]);
        let mut clients: Vec<_> = (0..200).map(|_| Client::new()).collect();
        clients.iter_mut().for_each(|client| client.submit(&mut fs, &dma, &request));
        for _ in 0..1000 {
            answer(&mut fs, &model, &[1; 16]);
            // The task of the reply submits its next request at once, before the task that is woken for the
            // slot.
            assert!(run(&mut fs, &dma, &request, &mut clients) <= 3);
        }
    }
}

/// Tasks wait for slots and for data buffers at the same time. Each of them is woken in the end.
#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn each_of_many_tasks_with_different_requests_is_served() {
    let (small, large) = (request(&[1], &[], 0), request(&[1], &[], 4096));
    let (mut fs, model, dma) = fs(&[8, 128]);
    let mut clients: Vec<_> = (0..100).map(|_| Client::new()).collect();
    let request_of = |index: usize| if index.is_multiple_of(3) { &large } else { &small };
    for (index, client) in clients.iter_mut().enumerate() {
        client.submit(&mut fs, &dma, request_of(index));
    }
    let mut served = 0;
    while served < clients.len() {
        answer(&mut fs, &model, &[1; 16]);
        while let Some(waker) = fs.next_waker() {
            let index = clients.iter().position(|client| client.waker.will_wake(&waker)).unwrap();
            let client = &mut clients[index];
            if client.ticket.is_none() {
                client.submit(&mut fs, &dma, request_of(index));
            } else {
                served += usize::from(client.take(&mut fs));
            }
        }
    }
    assert!(fs.waiting_for_slot.tasks.is_empty() && fs.waiting_for_data.tasks.is_empty());
}

#[test]
fn large_requests_share_data_buffers() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let large = request(&[1], &[], 4096);
    let tickets: Vec<_> = (0..4).map(|_| submit(&mut fs, &dma, &large, Waker::noop()).unwrap()).collect();
    assert_eq!(submit(&mut fs, &dma, &large, Waker::noop()), Err(FsError::Busy));
    assert!(submit(&mut fs, &dma, &request(&[1], &[], 0), Waker::noop()).is_ok());
    answer(&mut fs, &model, &[1; 16]);
    assert_eq!(read(&mut fs, tickets[0]), [1; 16]);
    assert!(submit(&mut fs, &dma, &large, Waker::noop()).is_ok());
}

#[test]
fn tasks_that_allocate_at_the_same_time_share_data_buffers() {
    let (mut fs, _, dma) = fs(&[8, 128]);
    let large = request(&[1], &[], 4096);
    let plans: Vec<_> = core::iter::from_fn(|| fs.plan(&large)).collect();
    assert_eq!(plans.len(), 4);
    // Another task waits for one of the planned buffers. It is woken even if there is no memory for the
    // buffer.
    assert_eq!(try_submit(&mut fs, &large, Waker::noop()), Err(FsError::Busy));
    fs.add(None);
    let plan = plans.into_iter().nth(1).unwrap();
    fs.add(plan.allocate(&dma));
    assert!(try_submit(&mut fs, &large, Waker::noop()).is_ok());
    fs.add(None);
    fs.add(None);
    // Three plans were given up.
    assert_eq!((0..4).filter(|_| fs.plan(&large).is_some()).count(), 3);
    assert_eq!(try_submit(&mut fs, &large, Waker::noop()), Err(FsError::Busy));
}

#[test]
fn request_fails_without_memory_for_any_data_buffer() {
    let (mut fs, _, _) = fs(&[8, 128]);
    assert_eq!(try_submit(&mut fs, &request(&[1], &[], 4096), Waker::noop()), Err(FsError::OutOfMemory));
    assert!(try_submit(&mut fs, &request(&[1], &[], 1000), Waker::noop()).is_ok());
}

#[test]
fn broken_queue_fails_all_requests_and_wakes_them() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let counter = Arc::new(Counter::default());
    let ticket = submit(&mut fs, &dma, &request(&[1], &[], 0), &counter.into()).unwrap();
    model.lock().unwrap().take(REQUESTS).unwrap();
    model.lock().unwrap().use_chain(REQUESTS, 100, 0);
    fs.interrupt();
    assert!(fs.next_waker().is_some());
    let error = DeviceError::Queue(QueueError::NotInFlight);
    assert_eq!(fs.take(ticket, Waker::noop()).map(drop), Err(error));
    assert_eq!(submit(&mut fs, &dma, &request(&[1], &[], 0), Waker::noop()), Err(error.into()));
}

#[test]
fn reply_before_a_failure_arrives_though_one_interrupt_tells_both() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let [first, second] = [1, 2].map(|byte| submit(&mut fs, &dma, &request(&[byte], &[], 0), Waker::noop()));
    {
        let mut model = model.lock().unwrap();
        model.status |= DeviceStatus::DEVICE_NEEDS_RESET.bits();
        model.interrupt_status = 3;
    }
    assert_eq!(answer(&mut fs, &model, &[5; 16]), [1]);
    assert!(fs.is_stopped());
    assert_eq!(read(&mut fs, first.unwrap()), [5; 16]);
    assert_eq!(fs.take(second.unwrap(), Waker::noop()).map(drop), Err(DeviceError::NeedsReset));
}

#[test]
fn message_handled_before_a_failure_is_counted_though_one_interrupt_tells_both() {
    let (mut fs, model, _) = fs(&[8, 128]);
    assert!(!fs.send(&[1], true));
    {
        let mut model = model.lock().unwrap();
        model.status |= DeviceStatus::DEVICE_NEEDS_RESET.bits();
        model.interrupt_status = 3;
    }
    answer(&mut fs, &model, &[5; 16]);
    assert_eq!((fs.is_stopped(), fs.handled), (true, 1));
}

#[test]
fn reply_that_was_not_taken_from_the_queue_before_a_stop_is_lost() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let ticket = submit(&mut fs, &dma, &request(&[1], &[], 0), Waker::noop()).unwrap();
    {
        let mut device = model.lock().unwrap();
        let chain = device.take(REQUESTS).unwrap();
        let written = device.scatter(&chain, &[5; 16]);
        device.use_chain(REQUESTS, chain.head, written);
    }
    fs.stop();
    fs.interrupt();
    assert_eq!(fs.take(ticket, Waker::noop()).map(drop), Err(DeviceError::InvalidReply));
}

#[test]
fn stopped_device_is_reset_and_keeps_its_memory() {
    let (mut fs, model, dma) = fs(&[8, 128]);
    let ticket = submit(&mut fs, &dma, &request(&[1], &[], 0), Waker::noop()).unwrap();
    model.lock().unwrap().memory.events();
    assert!(!fs.is_stopped());
    fs.stop();
    assert!(fs.is_stopped());
    assert_eq!(model.lock().unwrap().status, 0);
    assert!(fs.next_waker().is_some());
    assert_eq!(fs.take(ticket, Waker::noop()).map(drop), Err(DeviceError::InvalidReply));
    assert!(!fs.send(&[1], false));
    fs.interrupt();
    assert_eq!(fs.plan(&request(&[1], &[], 4096)).map(drop), Some(()));
}
