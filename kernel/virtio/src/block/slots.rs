//! The requests that may be in flight, their buffers, and the tasks that wait for them.

use alloc::vec::Vec;
use core::mem;
use core::task::Waker;

use hermit_base::bits::bit;

use super::request::{CompletedRequest, HEADER_AND_STATUS_SIZE, RequestBuffers};
use crate::device::InitError;
use crate::dma::{DmaAllocator, DmaBuffer, DmaMemory, DmaPermit};

/// Maximum number of requests in flight. [`Slots::due`] has one bit for each.
pub(super) const MAX_REQUESTS: u16 = 64;

/// A request, from its submission to its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u16);

/// State of one of the requests that may be in flight.
#[derive(Debug)]
enum Slot<M> {
    /// Not in use.
    Free(RequestBuffers<M>),
    /// The queue owns the buffers. There is no waker if it was woken because the device has failed.
    InFlight(Option<Waker>),
    /// The device has served the request. There is no waker if it was woken already.
    Served(CompletedRequest<M>, Option<Waker>),
    /// The task that submitted the request reads its data.
    Taken,
}

/// The slots of requests, free or in use.
#[derive(Debug)]
pub(super) struct Slots<M> {
    /// Indexed by ticket. Its capacity is the maximum number of requests, so it grows without allocation.
    slots: Vec<Slot<M>>,
    /// Tickets of the free slots. Its capacity is that of `slots`.
    free: Vec<Ticket>,
    /// Buffers for header and status of slots that do not exist yet.
    spare: Vec<DmaBuffer<M>>,
    /// Number of plans that [`Self::grow`] has not ended yet. Each plan stands for one of the spare buffers.
    planned: usize,
    /// One bit for each slot: set if the waker of the slot must be woken.
    due: u64,
    /// True if all wakers have become due, since the device has failed.
    has_failed: bool,
}

impl<M: DmaMemory> Slots<M> {
    /// Allocates buffers for header and status of up to `requests` requests, and a data buffer of `size`
    /// bytes for the first request.
    pub(super) fn allocate(
        dma: &impl DmaAllocator<Memory = M>,
        requests: u16,
        size: usize,
        permit: &DmaPermit,
    ) -> Result<Self, InitError> {
        let count = usize::from(requests);
        let (mut slots, mut free, mut spare) = (Vec::new(), Vec::new(), Vec::new());
        slots.try_reserve_exact(count)?;
        free.try_reserve_exact(count)?;
        spare.try_reserve_exact(count)?;
        let headers = DmaBuffer::allocate(dma, count * HEADER_AND_STATUS_SIZE, permit);
        spare.extend(headers.ok_or(InitError::OutOfMemory)?.split(HEADER_AND_STATUS_SIZE));
        let mut all = Self { slots, free, spare, planned: 0, due: 0, has_failed: false };
        all.add(DmaBuffer::allocate(dma, size, permit).ok_or(InitError::OutOfMemory)?);
        Ok(all)
    }

    /// Plans another slot. Returns false if there can be no more slots. [`Self::grow`] ends the plan.
    pub(super) fn plan(&mut self) -> bool {
        let can_grow = self.planned < self.spare.len();
        self.planned += usize::from(can_grow);
        can_grow
    }

    /// Ends a plan. Adds a free slot with the data buffer. `None` gives up the plan.
    pub(super) fn grow(&mut self, data: Option<DmaBuffer<M>>) {
        self.planned = self.planned.saturating_sub(1);
        if let Some(data) = data {
            self.add(data);
        }
    }

    /// Adds a free slot with a data buffer. Has no effect if there can be no more slots.
    fn add(&mut self, data: DmaBuffer<M>) {
        let Ok(ticket) = u16::try_from(self.slots.len()).map(Ticket) else { return };
        if let Some(header_and_status) = self.spare.pop() {
            self.slots.push(Slot::Free(RequestBuffers { header_and_status, data }));
            self.free.push(ticket);
        }
    }

    fn slot(&mut self, ticket: Ticket) -> Option<&mut Slot<M>> {
        self.slots.get_mut(usize::from(ticket.0))
    }

    /// Takes the buffers out of a free slot, and marks the slot as in flight. Returns `None` if no slot is
    /// free.
    pub(super) fn start(&mut self, waker: &Waker) -> Option<(Ticket, RequestBuffers<M>)> {
        let ticket = self.free.pop()?;
        match mem::replace(self.slot(ticket)?, Slot::InFlight(Some(waker.clone()))) {
            Slot::Free(buffers) => Some((ticket, buffers)),
            _ => None,
        }
    }

    /// Stores a request that the device has served.
    pub(super) fn finish(&mut self, request: CompletedRequest<M>) {
        if let Some(slot) = self.slot(request.ticket()) {
            let ticket = request.ticket();
            let waker = if let Slot::InFlight(waker) = slot { waker.take() } else { None };
            *slot = Slot::Served(request, waker);
            self.due |= bit(ticket.0.into());
        }
    }

    /// Removes and returns a request that the device has served. Returns `None` if the device has not served
    /// it yet.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<CompletedRequest<M>> {
        let slot = self.slot(ticket)?;
        match mem::replace(slot, Slot::Taken) {
            Slot::Served(request, _) => {
                self.due &= !bit(ticket.0.into());
                Some(request)
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Replaces the waker of a request in flight.
    pub(super) fn register(&mut self, ticket: Ticket, waker: &Waker) {
        if let Some(Slot::InFlight(registered)) = self.slot(ticket) {
            match registered {
                Some(registered) => registered.clone_from(waker),
                None => *registered = Some(waker.clone()),
            }
        }
    }

    /// Frees a slot.
    pub(super) fn free(&mut self, ticket: Ticket, buffers: RequestBuffers<M>) {
        if let Some(slot) = self.slot(ticket) {
            *slot = Slot::Free(buffers);
            self.free.push(ticket);
        }
    }

    /// Removes and returns the next waker of a request that the device has served. With `has_failed`, returns
    /// the wakers of all requests one by one.
    pub(super) fn next_waker(&mut self, has_failed: bool) -> Option<Waker> {
        if has_failed && !mem::replace(&mut self.has_failed, true) {
            self.due = u64::MAX;
        }
        while self.due != 0 {
            let index = usize::try_from(self.due.trailing_zeros()).unwrap_or_default();
            // Clears the lowest bit that is set.
            self.due &= self.due - 1;
            if let Some(Slot::Served(_, waker @ Some(_)) | Slot::InFlight(waker @ Some(_))) =
                self.slots.get_mut(index)
            {
                return waker.take();
            }
        }
        None
    }

    /// The tickets of all slots.
    #[cfg(test)]
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        (0..).zip(&self.slots).map(|(number, _)| Ticket(number)).collect()
    }
}
