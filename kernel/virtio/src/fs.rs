//! The file system device (virtio 1.2, section 5.11): messages to a FUSE server, several at a time.
//!
//! The driver does not know the messages' contents. It copies each request into its own buffers, identifies
//! the request by a [`Ticket`], and returns the reply as a [`ServedRequest`], which the caller reads without
//! the driver's lock. The waker of a request is woken when its reply has arrived: [`FsDriver::next_waker`]
//! returns the wakers one by one, so that the caller can wake them without the lock, too. `next_waker` also
//! returns the wakers of tasks that wait to submit a request: one waker for each slot and each data buffer
//! that becomes free, however many tasks wait.

mod config;
mod messages;
mod request;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU64;
use core::task::Waker;

use hermit_base::wait::WakerQueue;
use hermit_fuse::{MAX_HEAD, Request};
use virtio_spec::{F, Id};

pub use self::messages::Progress;
pub use self::request::{FilledRequest, ReservedRequest, ServedRequest};
use self::request::{FsRequest, INLINE, LateMessage, MAX_MESSAGE, OneWayMessage};
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DataBuffer, DataPlan, DmaAllocator, DmaBuffer, DmaMemory};
use crate::transport::{InterruptCause, Transport};
use crate::virtqueue::Virtqueue;

/// Index of the high-priority queue, for messages without a reply (section 5.11.2).
const HIPRIO: u16 = 0;

/// Index of the first request queue.
const REQUESTS: u16 = 1;

/// Maximum number of requests in flight, and of messages in the high-priority queue.
const MAX_REQUESTS: u16 = 16;

/// Maximum number of descriptors of a request: two headers and data that the device reads, a header and data
/// that it writes.
const MAX_SEGMENTS: u16 = 5;

/// Maximum number of data buffers, for data that does not fit into the page of its request.
const MAX_DATA_BUFFERS: usize = 4;

/// Minimum size of a data buffer in bytes, unless the maximum size of a request is smaller. Sizes of data
/// buffers are powers of two up to that maximum, so a program that reads only small files needs no large
/// buffers.
const MIN_DATA_BUFFER: usize = 64 << 10;

/// Why a request was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FsError {
    /// All slots or all data buffers are in use. The waker is woken when one becomes free.
    #[error("too many requests in flight")]
    Busy,
    /// There is no memory for the request, or it exceeds [`FsDriver::max_data`].
    #[error("out of memory")]
    OutOfMemory,
    /// The device has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Plan of a data buffer for a request. The caller allocates the buffer without the driver's lock, before it
/// submits the request.
#[derive(Debug)]
#[must_use = "the buffer counts until `FsDriver::add` is called"]
pub struct BufferPlan<M> {
    plan: DataPlan,
    /// Buffer that is too small. The new one replaces it.
    replaced: Option<DmaBuffer<M>>,
}

impl<M: DmaMemory> BufferPlan<M> {
    /// Allocates the buffer; `None` if there is no memory.
    pub fn allocate(self, dma: &impl DmaAllocator<Memory = M>) -> Option<DataBuffer<M>> {
        drop(self.replaced);
        self.plan.allocate(dma)
    }
}

/// Identifies a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u16);

impl Ticket {
    /// The number, which is not zero.
    #[must_use]
    pub fn number(self) -> NonZeroU64 {
        NonZeroU64::MIN.saturating_add(self.0.into())
    }

    /// The ticket with this number.
    #[must_use]
    pub fn from_number(number: NonZeroU64) -> Option<Self> {
        u16::try_from(number.get() - 1).ok().map(Self)
    }
}

/// State of one of the requests that may be in flight.
#[derive(Debug)]
enum Slot<M> {
    /// Not in use. The page is for the next request.
    Free(DmaBuffer<M>),
    /// In flight. There is no waker if it was woken already, or if no task waits for the reply.
    InFlight { waker: Option<Waker>, is_one_way: bool },
    /// The reply has arrived.
    Served(ServedRequest<M>),
    /// The reply is being read.
    Reading,
}

/// Tasks that wait for one kind of resource or event. A woken task checks again if the resource is there, and
/// may have to wait again.
#[derive(Debug, Default)]
struct Waiting {
    tasks: WakerQueue,
    /// Number of tasks that must still be woken.
    due: usize,
}

impl Waiting {
    /// Registers a task.
    fn add(&mut self, waker: &Waker) {
        if self.tasks.add(waker).is_err() {
            // Without memory for the queue the task polls again at once instead of waiting.
            waker.wake_by_ref();
        }
    }

    /// Makes one more waiting task due to be woken, if there is one.
    fn wake_next(&mut self) {
        self.due += usize::from(!self.tasks.is_empty());
    }

    /// Removes and returns the next task that is due to be woken. With `all`, all waiting tasks are due.
    fn next(&mut self, all: bool) -> Option<Waker> {
        if self.due == 0 && !all {
            return None;
        }
        self.due = self.due.saturating_sub(1);
        let next = self.tasks.pop();
        if next.is_none() {
            self.due = 0;
        }
        next
    }
}

/// Driver of a file system device.
#[derive(Debug)]
pub struct FsDriver<T: Transport, M> {
    device: Device<T>,
    hiprio: Virtqueue<M, OneWayMessage<M>>,
    requests: Virtqueue<M, FsRequest<M>>,
    slots: Vec<Slot<M>>,
    /// Buffers of the high-priority queue that are not in use.
    free_messages: Vec<DmaBuffer<M>>,
    /// Data buffers that are not in use, and the number of all data buffers, including the planned ones.
    free_data: Vec<DmaBuffer<M>>,
    data_buffers: usize,
    max_data: usize,
    /// Messages that wait for room in their queue.
    late: Vec<LateMessage>,
    /// `sent` is the number of messages that were sent and are not lost. `handled` is the number of these
    /// messages that the device has handled.
    sent: u64,
    handled: u64,
    /// Tasks that wait for a slot, for a data buffer, or for messages to be handled.
    waiting_for_slot: Waiting,
    waiting_for_data: Waiting,
    waiting_for_messages: Waiting,
    tag: config::Tag,
}

impl<T: Transport, M: DmaMemory> FsDriver<T, M> {
    /// Initializes the device. Requests have at most `max_data` bytes of data.
    ///
    /// # Errors
    ///
    /// The device is no file system device, fails initialization, or there is no memory.
    pub fn new(
        transport: T,
        dma: &impl DmaAllocator<Memory = M>,
        max_data: usize,
    ) -> Result<Self, InitError> {
        let mut device = Device::start(transport, dma, Id::Fs, F::empty())?;
        let tag = config::tag(&device)?;
        let hiprio: Virtqueue<M, OneWayMessage<M>> = device.setup_queue(dma, HIPRIO, MAX_REQUESTS)?;
        let size = (MAX_REQUESTS * MAX_SEGMENTS).next_power_of_two();
        let requests: Virtqueue<M, FsRequest<M>> = device.setup_queue(dma, REQUESTS, size)?;
        let count = (requests.size() / MAX_SEGMENTS).min(MAX_REQUESTS);
        if count == 0 {
            return Err(InitError::InvalidConfig);
        }
        let mut slots = Vec::new();
        slots.try_reserve_exact(count.into())?;
        for _ in 0..count {
            let page = DmaBuffer::allocate(dma, 2 * INLINE, device.permit());
            slots.push(Slot::Free(page.ok_or(InitError::OutOfMemory)?));
        }
        let messages = usize::from(hiprio.size()) * MAX_MESSAGE;
        let messages = DmaBuffer::allocate(dma, messages, device.permit()).ok_or(InitError::OutOfMemory)?;
        let mut free_messages = Vec::new();
        free_messages.try_reserve_exact(hiprio.size().into())?;
        free_messages.extend(messages.split(MAX_MESSAGE));
        let mut free_data = Vec::new();
        free_data.try_reserve_exact(MAX_DATA_BUFFERS)?;
        let mut driver = Self {
            device,
            hiprio,
            requests,
            slots,
            free_messages,
            free_data,
            data_buffers: 0,
            max_data,
            late: Vec::new(),
            sent: 0,
            handled: 0,
            waiting_for_slot: Waiting::default(),
            waiting_for_data: Waiting::default(),
            waiting_for_messages: Waiting::default(),
            tag,
        };
        driver.device.set_driver_ok();
        // Replies raise interrupts from now on.
        driver.collect();
        Ok(driver)
    }

    /// The device's tag, which names its file system.
    #[must_use]
    pub fn tag(&self) -> &[u8] {
        self.tag.bytes()
    }

    /// Maximum size in bytes of the data of a request or of a reply.
    #[must_use]
    pub const fn max_data(&self) -> usize {
        self.max_data
    }

    /// Size in bytes of data for which each request has memory.
    pub const INLINE_DATA: usize = INLINE - MAX_HEAD;

    /// Plans the data buffer that a request needs, if the driver has no such buffer free. Returns `None` if
    /// no new buffer is needed. The caller allocates the buffer without the driver's lock, and calls
    /// [`Self::add`] once for each plan.
    #[must_use]
    pub fn plan(&mut self, request: &Request<'_>) -> Option<BufferPlan<M>> {
        let wanted = request::data_size(request);
        let is_enough = !request::needs_data_buffer(request) || wanted > self.max_data;
        if is_enough || self.free_data.iter().any(|buffer| buffer.size() >= wanted) {
            return None;
        }
        let replaced = if self.data_buffers < MAX_DATA_BUFFERS {
            self.data_buffers += 1;
            None
        } else {
            Some(self.take_data(0)?)
        };
        let size = wanted.next_power_of_two().max(MIN_DATA_BUFFER).min(self.max_data);
        Some(BufferPlan { plan: DataPlan::new(size, self.device.permit()), replaced })
    }

    /// Adds a data buffer that was [planned](Self::plan). Passing `None` gives up the plan, because there was
    /// no memory for the buffer. The caller must call [`Self::reserve`] next: if the caller's request still
    /// lacks a resource, this wakes another task that can use the buffer.
    pub fn add(&mut self, buffer: Option<DataBuffer<M>>) {
        match buffer {
            Some(buffer) => self.free_data.push(buffer.0),
            None => self.data_buffers = self.data_buffers.saturating_sub(1),
        }
    }

    /// Removes and returns a data buffer that no request uses. The caller frees it without the driver's lock.
    #[must_use]
    pub fn take_unused(&mut self) -> Option<DataBuffer<M>> {
        let unused = self.free_data.pop().map(DataBuffer);
        self.data_buffers = self.data_buffers.saturating_sub(usize::from(unused.is_some()));
        unused
    }

    /// Reserves the slot and buffers of a request. The waker is woken when the reply has arrived. Afterwards
    /// the caller copies the request without the driver's lock ([`ReservedRequest::fill`]), and
    /// [submits](Self::submit) it.
    ///
    /// # Errors
    ///
    /// The request cannot be submitted now. Other tasks may be able to submit theirs instead: the caller must
    /// wake [`Self::next_waker`].
    pub fn reserve(&mut self, request: &Request<'_>, waker: &Waker) -> Result<ReservedRequest<M>, FsError> {
        self.device.ensure_usable()?;
        if !request::fits(request, self.max_data) {
            return Err(FsError::OutOfMemory);
        }
        let Some(index) = self.free_slot() else {
            // This task may have been woken for a data buffer, or have added one.
            self.pass_data_on();
            self.waiting_for_slot.add(waker);
            return Err(FsError::Busy);
        };
        let data = if request::needs_data_buffer(request) {
            match self.take_data(request::data_size(request)) {
                Some(buffer) => Some(buffer),
                None => return Err(self.lacks_data(waker)),
            }
        } else {
            None
        };
        self.waiting_for_slot.tasks.withdraw(waker);
        self.waiting_for_data.tasks.withdraw(waker);
        self.take_slot(index, data, Some(waker.clone()))
    }

    /// Index of a free slot.
    fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(|slot| matches!(slot, Slot::Free(_)))
    }

    /// Makes a task wait for a data buffer, or returns an error if that would be useless. The task may have
    /// been woken for a free slot. Since it cannot use the slot, this wakes another task for the slot.
    #[cold]
    fn lacks_data(&mut self, waker: &Waker) -> FsError {
        self.waiting_for_slot.wake_next();
        // All data buffers are free, but too small. No request is in flight whose end would wake this task.
        if self.data_buffers == self.free_data.len() {
            self.pass_data_on();
            return FsError::OutOfMemory;
        }
        self.waiting_for_data.add(waker);
        FsError::Busy
    }

    /// Wakes a task that waits for a data buffer, if there is or can be one for it.
    #[cold]
    fn pass_data_on(&mut self) {
        if !self.free_data.is_empty() || self.data_buffers < MAX_DATA_BUFFERS {
            self.waiting_for_data.wake_next();
        }
    }

    /// Takes the smallest free data buffer of at least `size` bytes.
    fn take_data(&mut self, size: usize) -> Option<DmaBuffer<M>> {
        let sizes = self.free_data.iter().map(DmaBuffer::size).enumerate();
        let (index, _) = sizes.filter(|(_, free)| *free >= size).min_by_key(|(_, free)| *free)?;
        Some(self.free_data.swap_remove(index))
    }

    /// Takes a free slot.
    fn take_slot(
        &mut self,
        index: usize,
        data: Option<DmaBuffer<M>>,
        waker: Option<Waker>,
    ) -> Result<ReservedRequest<M>, FsError> {
        let number = u16::try_from(index).unwrap_or(u16::MAX);
        let is_one_way = waker.is_none();
        let Some(slot) = self.slots.get_mut(index) else { return Err(FsError::Busy) };
        let Slot::Free(page) = mem::replace(slot, Slot::InFlight { waker, is_one_way }) else {
            return Err(FsError::Busy);
        };
        Ok(ReservedRequest::new(number, page, data))
    }

    /// Submits a request that was copied into its buffers.
    ///
    /// # Errors
    ///
    /// The request is not submitted. Tasks may wait for its slot and buffers: see [`Self::next_waker`].
    pub fn submit(&mut self, request: FilledRequest<M>) -> Result<Ticket, FsError> {
        let number = request.0.number();
        if let Err(error) = self.device.ensure_usable() {
            self.release_buffers(request.0);
            return Err(error.into());
        }
        if let Err(refused) = self.requests.submit(request.0) {
            // Each slot has descriptors of its own, so the queue has room unless the device has broken it.
            self.release_buffers(refused.chain);
            return Err(self.device.ensure_usable().map_or_else(FsError::from, |()| FsError::Busy));
        }
        self.requests.notify(self.device.transport());
        Ok(Ticket(number))
    }

    /// Takes the replies that have arrived out of the queue, and arms the interrupt for the next reply.
    fn collect(&mut self) {
        loop {
            let used = self.requests.complete_or_arm();
            let Ok(Some(used)) = self.device.checked(used) else { break };
            let Some(slot) = self.slots.get_mut(used.chain.slot()) else { continue };
            match slot {
                Slot::InFlight { is_one_way: true, .. } => {
                    self.count_handled();
                    self.release_buffers(used.chain);
                }
                Slot::InFlight { waker, .. } => {
                    let waker = waker.take();
                    *slot = Slot::Served(ServedRequest::new(used.chain, used.written, waker));
                }
                // Does not happen: the queue returns each chain only once.
                _ => {}
            }
        }
        self.send_late();
    }

    /// Frees the slot of a request, and its data buffer.
    fn release_buffers(&mut self, request: FsRequest<M>) {
        let (index, page, data) = request.into_buffers();
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Slot::Free(page);
        }
        self.waiting_for_slot.wake_next();
        if data.is_some() {
            self.waiting_for_data.wake_next();
        }
        // Does not allocate: the capacity is the maximum number of buffers.
        self.free_data.extend(data);
    }

    /// Returns the reply to a request if the reply has arrived. The caller reads the reply and then
    /// [releases](Self::release) it. If the reply has not arrived, returns `None`, and the waker is woken
    /// when the reply arrives.
    ///
    /// # Errors
    ///
    /// The device has failed: no reply arrives any more.
    pub fn take(&mut self, ticket: Ticket, waker: &Waker) -> Result<Option<ServedRequest<M>>, DeviceError> {
        let Some(slot) = self.slots.get_mut(usize::from(ticket.0)) else { return Ok(None) };
        match mem::replace(slot, Slot::Reading) {
            Slot::Served(served) => return Ok(Some(served)),
            other => *slot = other,
        }
        self.device.ensure_usable()?;
        if let Slot::InFlight { waker: registered, .. } = slot {
            match registered {
                Some(registered) => registered.clone_from(waker),
                None => *registered = Some(waker.clone()),
            }
        }
        Ok(None)
    }

    /// Frees the buffers of a reply. Tasks may wait for them: see [`Self::next_waker`].
    pub fn release(&mut self, served: ServedRequest<M>) {
        self.release_buffers(served.into_request());
        self.send_late();
    }

    /// Removes and returns the next waker of a request whose reply has arrived, or of a task that can go on.
    /// If the device has failed, returns all wakers one by one. The caller wakes them without the driver's
    /// lock.
    #[must_use]
    pub fn next_waker(&mut self) -> Option<Waker> {
        let is_broken = self.device.ensure_usable().is_err();
        let served = self.slots.iter_mut().find_map(|slot| match slot {
            Slot::Served(served) => served.take_waker(),
            Slot::InFlight { waker, .. } if is_broken => waker.take(),
            _ => None,
        });
        served
            .or_else(|| self.waiting_for_slot.next(is_broken))
            .or_else(|| self.waiting_for_data.next(is_broken))
            .or_else(|| self.waiting_for_messages.next(is_broken))
    }

    /// Acknowledges an interrupt, after which replies may have arrived.
    pub fn interrupt(&mut self) {
        let was_stopped = self.is_stopped();
        let (hiprio, requests) = (&self.hiprio, &self.requests);
        // A failure is returned by each later call.
        let _cause: Result<InterruptCause, _> =
            self.device.interrupt(|| hiprio.has_used() || requests.has_used());
        // Collects also the messages and replies that the device handled before it failed.
        if !was_stopped {
            self.collect_messages();
            self.collect();
        }
    }

    /// Returns true if the device has failed or was [stopped](Self::stop).
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.device.ensure_usable().is_err()
    }

    /// Stops a device whose replies are invalid: resets the device, and makes all requests fail from now on.
    /// The caller must wake the wakers ([`Self::next_waker`]).
    pub fn stop(&mut self) {
        self.device.stop(DeviceError::InvalidReply);
    }
}
