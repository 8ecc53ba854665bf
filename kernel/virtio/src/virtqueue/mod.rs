//! A split virtqueue: chains of buffers go to the device and come back, in any order (virtio 1.2, section 2.7).
//!
//! A [`DescriptorChain`] is moved into [`Virtqueue::submit`] and out of [`Virtqueue::complete`], so while the device has it nobody else
//! can touch its buffers. What was submitted is remembered in the driver's own memory. Of what the device writes only
//! the used ring is read, and nothing in it is believed: an answer that cannot be is a [`QueueError`], and the queue
//! is broken from then on. No operation costs more the larger the queue is.
//!
//! # Notifications
//!
//! With `VIRTIO_F_EVENT_IDX` each side says at which index it wants to hear of the other (sections 2.7.7 and 2.7.10):
//!
//! - [`Virtqueue::notify`] tells the device of what was submitted, once for any number of submissions and only if it asked.
//! - An interrupt is asked for only once the used ring is empty ([`Virtqueue::complete_or_arm`]), so none comes while
//!   completions are being worked off; or, for queues where nobody waits for completions, only with [`Virtqueue::arm`].
//!
//! Both are "store, fence, load" against the same on the other side: whoever is second sees what the first has stored.

#[cfg(test)]
mod tests;
mod vring;

use alloc::vec::Vec;

use crate::dma::{DmaAllocator, DmaMemory, DmaSegment};
use crate::transport::{Doorbell, QueueAddresses, Transport};
use vring::Vring;

/// The largest size of a split virtqueue (virtio 1.2, section 2.7).
const MAX_SIZE: u16 = 1 << 15;

/// Buffers that go to the device together, as the driver that owns them sees them.
pub trait DescriptorChain {
    /// Its parts: first those that the device reads, then those that it writes, at least one in all.
    ///
    /// It must give the same whenever it is asked.
    fn segments(&self) -> impl Iterator<Item = DmaSegment>;
}

/// Names a chain from its submission to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u16);

/// A chain that the device is done with.
#[derive(Debug)]
pub struct UsedChain<C> {
    /// What [`Virtqueue::submit`] gave for it.
    pub token: Token,
    /// The chain.
    pub chain: C,
    /// How many bytes the device says to have written: at most what the chain's writable parts hold together.
    pub written: u32,
}

/// What the device did that it must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// It says to have used more chains than it has.
    #[error("the used ring's index jumped")]
    IndexJump,
    /// It returned something that cannot be the number of a chain.
    #[error("the used ring names no descriptor")]
    NoDescriptor,
    /// It returned a chain that it does not have.
    #[error("the used ring names a chain that is not in flight")]
    NotInFlight,
    /// It says to have written more than there is room for.
    #[error("the used ring tells of more bytes than there was room for")]
    TooLong,
}

/// A chain that was not taken, and why.
#[derive(Debug)]
pub struct Refused<C> {
    /// The chain, back with its owner.
    pub chain: C,
    /// The reason.
    pub error: SubmitError,
}

/// Why a chain was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Not enough descriptors are free, or the chain is empty.
    #[error("no room in the queue")]
    Full,
    /// The device broke the queue earlier.
    #[error("the queue is broken: {0}")]
    Broken(QueueError),
}

/// What the driver remembers of a descriptor.
#[derive(Debug)]
struct Descriptor<C> {
    /// The next free one, or the next one of the chain.
    next: u16,
    /// In the first one of a chain that the device has, what there is to know about the chain.
    in_flight: Option<InFlight<C>>,
}

#[derive(Debug)]
struct InFlight<C> {
    chain: C,
    /// Its last descriptor.
    last: u16,
    /// How many descriptors it has.
    length: u16,
    /// How much the device may write.
    writable: u32,
}

/// A split virtqueue with chains of type `C` in memory of type `M`.
#[derive(Debug)]
pub struct Virtqueue<M, C> {
    ring: Vring<M>,
    doorbell: Doorbell,
    /// Whether `VIRTIO_F_EVENT_IDX` was negotiated.
    has_event_index: bool,
    /// As many as the queue's size, a power of two; every index into it was made here.
    descriptors: Vec<Descriptor<C>>,
    first_free: u16,
    free: u16,
    /// How many chains the device has.
    in_flight: u16,
    /// How many chains were ever submitted, and how many were when the device was last told or found not to want to be.
    offered: u16,
    announced: u16,
    /// How many chains were ever completed, and how many the device was last seen to have used.
    completed: u16,
    used: u16,
    /// The index at which an interrupt comes, if one was asked for.
    armed: Option<u16>,
    broken: Option<QueueError>,
}

impl<M: DmaMemory, C: DescriptorChain> Virtqueue<M, C> {
    /// A queue of `size` descriptors, rounded down to a power of two; `None` if it is 0 or there is no memory.
    ///
    /// No interrupts are asked for yet. [`Device::setup_queue`](crate::device::Device::setup_queue) makes queues that a device
    /// knows of.
    pub fn new(dma: &impl DmaAllocator<Memory = M>, size: u16, has_event_index: bool) -> Option<Self> {
        let size = 1 << size.min(MAX_SIZE).checked_ilog2()?;
        let mut descriptors = Vec::new();
        descriptors.try_reserve_exact(usize::from(size)).ok()?;
        descriptors.extend((1..=size).map(|next| Descriptor { next, in_flight: None }));
        let ring = Vring::allocate(dma, size)?;
        let mut queue = Self {
            ring,
            doorbell: Doorbell::default(),
            has_event_index,
            descriptors,
            first_free: 0,
            free: size,
            in_flight: 0,
            offered: 0,
            announced: 0,
            completed: 0,
            used: 0,
            armed: None,
            broken: None,
        };
        queue.disarm();
        Some(queue)
    }

    /// What the device is told about it.
    #[must_use]
    pub fn addresses(&self) -> QueueAddresses {
        self.ring.addresses()
    }

    /// Sets how to notify the device.
    pub(crate) const fn set_doorbell(&mut self, doorbell: Doorbell) {
        self.doorbell = doorbell;
    }

    /// How many descriptors it has: no chain may have more parts.
    #[must_use]
    pub const fn size(&self) -> u16 {
        self.ring.size()
    }

    /// How many descriptors are free.
    #[must_use]
    pub const fn free(&self) -> u16 {
        self.free
    }

    /// How many chains the device has.
    #[must_use]
    pub const fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Whether the device has used something that [`Virtqueue::complete`] has not returned yet.
    #[must_use]
    pub fn has_used(&self) -> bool {
        self.ring.used_index() != self.completed
    }

    /// Gives a chain to the device, which may look at it from now on; [`Virtqueue::notify`] makes it look.
    ///
    /// # Errors
    ///
    /// The chain comes back if there is no room or the queue is broken.
    pub fn submit(&mut self, chain: C) -> Result<Token, Refused<C>> {
        if let Some(error) = self.broken {
            return Err(Refused { chain, error: SubmitError::Broken(error) });
        }
        let length = chain.segments().take(usize::from(self.free) + 1).count();
        let Some(length) = u16::try_from(length).ok().filter(|length| (1..=self.free).contains(length))
        else {
            return Err(Refused { chain, error: SubmitError::Full });
        };
        let head = self.first_free;
        let (last, writable) = self.describe(&chain, length);
        self.first_free = self.descriptors[usize::from(last)].next;
        self.free -= length;
        self.descriptors[usize::from(head)].in_flight = Some(InFlight { chain, last, length, writable });
        self.in_flight += 1;
        self.ring.offer(self.offered, head);
        self.offered = self.offered.wrapping_add(1);
        Ok(Token(head))
    }

    /// Writes the descriptors of a chain, which become the first free ones; the last of them, and how much is writable.
    fn describe(&self, chain: &C, length: u16) -> (u16, u32) {
        let (mut last, mut index) = (self.first_free, self.first_free);
        let mut writable = 0_u32;
        for (number, segment) in (1..=length).zip(chain.segments()) {
            let next = self.descriptors[usize::from(index)].next;
            self.ring.set_descriptor(index, segment, (number < length).then_some(next));
            if segment.writable {
                writable = writable.saturating_add(segment.length);
            }
            (last, index) = (index, next);
        }
        (last, writable)
    }

    /// Tells the device about what was submitted since the last call, if it wants to know.
    pub fn notify(&mut self, transport: &mut impl Transport) {
        if self.offered == self.announced {
            return;
        }
        let before = core::mem::replace(&mut self.announced, self.offered);
        // Either the device sees the new index before it sleeps, or here its wish to be woken is seen (section
        // 2.7.13.4.1).
        self.ring.fence();
        let wanted = if self.has_event_index {
            is_passed(self.ring.notify_event(), before, self.offered)
        } else {
            !self.ring.is_notify_refused()
        };
        if wanted {
            transport.notify(self.doorbell);
        }
    }

    /// A chain that the device is done with, if there is one.
    ///
    /// # Errors
    ///
    /// The device has, now or earlier, written something into the used ring that cannot be.
    pub fn complete(&mut self) -> Result<Option<UsedChain<C>>, QueueError> {
        if self.completed == self.used {
            self.look()?;
        } else if let Some(error) = self.broken {
            return Err(error);
        }
        if self.completed == self.used {
            return Ok(None);
        }
        let (id, written) = self.ring.used_element(self.completed);
        match self.take(id, written) {
            Ok(used) => Ok(Some(used)),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// As [`Virtqueue::complete`], but if there is none an interrupt has been asked for when the next one comes.
    ///
    /// # Errors
    ///
    /// As for [`Virtqueue::complete`].
    pub fn complete_or_arm(&mut self) -> Result<Option<UsedChain<C>>, QueueError> {
        let used = self.complete()?;
        if used.is_none() && self.arm(1)? { self.complete() } else { Ok(used) }
    }

    /// Asks for an interrupt when `count` more chains have been used; whether they have been already, so that there
    /// may be no interrupt.
    ///
    /// Without `VIRTIO_F_EVENT_IDX` interrupts come from the first one on, until [`Virtqueue::disarm`].
    ///
    /// # Errors
    ///
    /// As for [`Virtqueue::complete`].
    pub fn arm(&mut self, count: u16) -> Result<bool, QueueError> {
        let count = count.max(1);
        let event = if self.has_event_index { self.completed.wrapping_add(count - 1) } else { 0 };
        if self.armed == Some(event) {
            // Nothing can be missed: since this was stored and looked at, every change is an interrupt.
            return Ok(false);
        }
        self.armed = Some(event);
        if self.has_event_index {
            self.ring.set_interrupt_event(event);
        } else {
            self.ring.refuse_interrupts(false);
        }
        // Either the device sees the wish, or here its new index is seen (section 2.7.8.2).
        self.ring.fence();
        self.look()?;
        Ok(self.used.wrapping_sub(self.completed) >= count)
    }

    /// Asks for no interrupts until [`Virtqueue::arm`]. This is a hint: some may come.
    pub fn disarm(&mut self) {
        self.armed = None;
        if self.has_event_index {
            // The index that was passed last is passed again only after 65536 chains.
            self.ring.set_interrupt_event(self.completed.wrapping_sub(1));
        } else {
            self.ring.refuse_interrupts(true);
        }
    }

    /// Whether an interrupt was asked for.
    #[must_use]
    pub const fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Looks how many chains the device has used.
    fn look(&mut self) -> Result<(), QueueError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let used = self.ring.used_index();
        if used.wrapping_sub(self.completed) > self.in_flight {
            return Err(self.fail(QueueError::IndexJump));
        }
        self.used = used;
        Ok(())
    }

    /// Takes a chain back that the device says to be done with.
    fn take(&mut self, id: u32, written: u32) -> Result<UsedChain<C>, QueueError> {
        let head = u16::try_from(id).map_err(|_| QueueError::NoDescriptor)?;
        let descriptor = self.descriptors.get_mut(usize::from(head)).ok_or(QueueError::NoDescriptor)?;
        let InFlight { chain, last, length, .. } =
            descriptor.in_flight.take_if(|in_flight| written <= in_flight.writable).ok_or(
                if descriptor.in_flight.is_some() { QueueError::TooLong } else { QueueError::NotInFlight },
            )?;
        // The chain's descriptors are linked among themselves still: they become the first free ones.
        self.descriptors[usize::from(last)].next = self.first_free;
        self.first_free = head;
        self.free += length;
        self.in_flight -= 1;
        self.completed = self.completed.wrapping_add(1);
        Ok(UsedChain { token: Token(head), chain, written })
    }

    /// Breaks the queue.
    const fn fail(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        error
    }
}

/// Whether an index that goes from `before` to `after` passes `event`, all modulo 65536 (`vring_need_event` in
/// section 2.7.10).
const fn is_passed(event: u16, before: u16, after: u16) -> bool {
    after.wrapping_sub(event).wrapping_sub(1) < after.wrapping_sub(before)
}
