//! A split virtqueue: the driver makes descriptor chains available, and the device uses them in any order
//! (virtio 1.2, section 2.7).
//!
//! A [`DescriptorChain`] is moved into [`Virtqueue::submit`] and out of [`Virtqueue::complete`], so the
//! driver cannot access its buffers while the device owns them. The state of submitted chains is kept in
//! driver-private memory. The driver reads only the used ring of the memory that the device writes, and
//! validates each entry: an invalid entry is a [`QueueError`], which breaks the queue permanently. The cost
//! of every operation is independent of the queue's size.
//!
//! # Notifications
//!
//! With `VIRTIO_F_EVENT_IDX` each side publishes the ring index at which it wants to be notified (sections
//! 2.7.7 and 2.7.10):
//!
//! - [`Virtqueue::notify`] notifies the device (available buffer notification) at most once for any number of
//!   submissions, and only if `avail_event` asks for it.
//! - The interrupt (used buffer notification) is armed by [`Virtqueue::complete_or_arm`] only once the used
//!   ring is empty, so the device raises no interrupt while the driver processes completions. Drivers that
//!   can collect completions later arm the interrupt with [`Virtqueue::arm`] alone.
//!
//! Both sides do the same three steps: they store their index, execute a full barrier, and load the other
//! side's index. So at least one side sees the other's store, and no notification is lost.

#[cfg(test)]
mod tests;
mod vring;

use alloc::vec::Vec;

use crate::dma::{DmaAllocator, DmaMemory, DmaPermit, DmaSegment};
use crate::transport::{Doorbell, QueueAddresses, Transport};
use vring::Vring;

/// Maximum size of a split virtqueue, in descriptors (virtio 1.2, section 2.7).
const MAX_SIZE: u16 = 1 << 15;

/// Buffers that the device gets as one descriptor chain.
pub trait DescriptorChain {
    /// Segments of the chain: first the device-readable segments, then the device-writable ones. There is at
    /// least one segment.
    ///
    /// All calls return the same segments.
    fn segments(&self) -> impl Iterator<Item = DmaSegment>;
}

/// Identifies a chain from its submission to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u16);

/// A chain that the device has used.
#[derive(Debug)]
pub struct UsedChain<C> {
    /// The token that [`Virtqueue::submit`] returned.
    pub token: Token,
    /// The chain.
    pub chain: C,
    /// Number of bytes written, as reported by the device (`len`): at most the size of the chain's writable
    /// segments.
    pub written: u32,
}

/// A protocol violation by the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The used ring's index advanced by more than the number of chains in flight.
    #[error("the used ring's index jumped")]
    IndexJump,
    /// The used ring names an index outside the descriptor table.
    #[error("the used ring names no descriptor of the queue")]
    NoDescriptor,
    /// The used ring names a descriptor that is not the head of a chain in flight.
    #[error("the used ring names a chain that is not in flight")]
    NotInFlight,
    /// The used ring reports more bytes than the chain's writable segments hold.
    #[error("the used ring reports more bytes than the chain can hold")]
    TooLong,
}

/// A chain that was not submitted, and the reason.
#[derive(Debug)]
pub struct Refused<C> {
    /// The chain, returned to its owner.
    pub chain: C,
    /// The reason.
    pub error: SubmitError,
}

/// Why a chain was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Too few descriptors are free, or the chain is empty.
    #[error("no room in the queue")]
    Full,
    /// The device has broken the queue.
    #[error("the queue is broken: {0}")]
    Broken(QueueError),
}

/// Driver-private state of a descriptor.
#[derive(Debug)]
struct DescriptorState<C> {
    /// Index of the next descriptor in the free list, or in the chain.
    next: u16,
    /// In the head of a chain in flight, the state of that chain.
    in_flight: Option<InFlight<C>>,
}

#[derive(Debug)]
struct InFlight<C> {
    chain: C,
    /// Index of the chain's last descriptor.
    last: u16,
    /// Number of descriptors in the chain.
    length: u16,
    /// Total size of the device-writable segments, in bytes.
    writable: u32,
}

/// A split virtqueue with chains of type `C` in memory of type `M`.
#[derive(Debug)]
pub struct Virtqueue<M, C> {
    ring: Vring<M>,
    doorbell: Doorbell,
    /// True if `VIRTIO_F_EVENT_IDX` was negotiated.
    has_event_index: bool,
    /// State of each descriptor of the queue. Indices into this vector come from the driver; an index from
    /// the device is checked first.
    descriptors: Vec<DescriptorState<C>>,
    first_free: u16,
    free: u16,
    /// Number of chains in flight: submitted and not completed.
    in_flight: u16,
    /// Index of the available ring (`idx`): number of submitted chains, modulo 65536.
    avail_index: u16,
    /// Value of `avail_index` at the last call of [`Virtqueue::notify`].
    notified_index: u16,
    /// Index of the used ring up to which chains have been completed, modulo 65536.
    completed_index: u16,
    /// Index of the used ring (`idx`) as last read.
    used_index: u16,
    /// The `used_event` at which the device raises an interrupt, if the interrupt is armed.
    armed_event: Option<u16>,
    broken: Option<QueueError>,
}

impl<M: DmaMemory, C: DescriptorChain> Virtqueue<M, C> {
    /// Creates a queue. The number of its descriptors is `size`, rounded down to a power of two. Returns
    /// `None` if `size` is 0, or if there is no memory.
    ///
    /// The interrupt is disarmed. `Device::setup_queue` creates queues and registers them with the device.
    pub(crate) fn new(
        dma: &impl DmaAllocator<Memory = M>,
        size: u16,
        has_event_index: bool,
        permit: &DmaPermit,
    ) -> Option<Self> {
        let size = 1 << size.min(MAX_SIZE).checked_ilog2()?;
        let mut descriptors = Vec::new();
        descriptors.try_reserve_exact(usize::from(size)).ok()?;
        descriptors.extend((1..=size).map(|next| DescriptorState { next, in_flight: None }));
        let ring = Vring::allocate(dma, size, permit)?;
        let mut queue = Self {
            ring,
            doorbell: Doorbell::default(),
            has_event_index,
            descriptors,
            first_free: 0,
            free: size,
            in_flight: 0,
            avail_index: 0,
            notified_index: 0,
            completed_index: 0,
            used_index: 0,
            armed_event: None,
            broken: None,
        };
        queue.disarm();
        Some(queue)
    }

    /// Size and DMA addresses of the queue's parts.
    #[must_use]
    pub(crate) fn addresses(&self) -> QueueAddresses {
        self.ring.addresses()
    }

    /// Sets the doorbell through which the device is notified.
    pub(crate) const fn set_doorbell(&mut self, doorbell: Doorbell) {
        self.doorbell = doorbell;
    }

    /// Number of descriptors: the maximum number of segments in a chain.
    #[must_use]
    pub const fn size(&self) -> u16 {
        self.ring.size()
    }

    /// Number of free descriptors.
    #[must_use]
    pub const fn free(&self) -> u16 {
        self.free
    }

    /// Number of chains in flight: submitted and not completed.
    #[must_use]
    pub const fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Returns true if the device has used chains that [`Virtqueue::complete`] has not returned yet.
    #[must_use]
    pub fn has_used(&self) -> bool {
        self.ring.used_index() != self.completed_index
    }

    /// Makes a chain available to the device, which may process it at once. The caller then calls
    /// [`Virtqueue::notify`], which wakes a device that waits.
    ///
    /// # Errors
    ///
    /// Returns the chain if too few descriptors are free or the queue is broken.
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
        let (last, writable) = self.write_descriptors(&chain, length);
        self.first_free = self.descriptors[usize::from(last)].next;
        self.free -= length;
        self.descriptors[usize::from(head)].in_flight = Some(InFlight { chain, last, length, writable });
        self.in_flight += 1;
        self.ring.push_available(self.avail_index, head);
        self.avail_index = self.avail_index.wrapping_add(1);
        Ok(Token(head))
    }

    /// Writes a chain into the first descriptors of the free list. Returns the index of the chain's last
    /// descriptor, and the total size of its writable segments in bytes.
    fn write_descriptors(&self, chain: &C, length: u16) -> (u16, u32) {
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

    /// Notifies the device of the chains submitted since the last call, unless the device suppresses the
    /// notification.
    pub fn notify(&mut self, transport: &mut impl Transport) {
        if self.avail_index == self.notified_index {
            return;
        }
        let before = core::mem::replace(&mut self.notified_index, self.avail_index);
        // Full barrier between the store of the index and the load of `avail_event`: either the device sees
        // the new index before it waits, or the driver sees that the device wants a notification (section
        // 2.7.13.4.1).
        self.ring.fence();
        let wanted = if self.has_event_index {
            needs_event(self.ring.avail_event(), before, self.avail_index)
        } else {
            !self.ring.is_notify_suppressed()
        };
        if wanted {
            transport.notify(self.doorbell);
        }
    }

    /// Returns the next chain that the device has used, if there is one.
    ///
    /// # Errors
    ///
    /// The device has broken the queue by an invalid entry in the used ring.
    pub fn complete(&mut self) -> Result<Option<UsedChain<C>>, QueueError> {
        if self.completed_index == self.used_index {
            self.update_used_index()?;
        } else if let Some(error) = self.broken {
            return Err(error);
        }
        if self.completed_index == self.used_index {
            return Ok(None);
        }
        let (id, written) = self.ring.used_element(self.completed_index);
        match self.take_chain(id, written) {
            Ok(used) => Ok(Some(used)),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Like [`Virtqueue::complete`]; if there is no used chain, arms the interrupt for the next one.
    ///
    /// # Errors
    ///
    /// See [`Virtqueue::complete`].
    pub fn complete_or_arm(&mut self) -> Result<Option<UsedChain<C>>, QueueError> {
        let used = self.complete()?;
        if used.is_none() && self.arm(1)? { self.complete() } else { Ok(used) }
    }

    /// Arms the interrupt: the device raises it when it has used `count` chains more than the driver has
    /// completed. Returns true if the device has used them already. Then there may be no interrupt.
    ///
    /// The result is reliable only if the caller's last [`Virtqueue::complete`] returned `None`. Otherwise
    /// this may return false although the device has used the chains: if the interrupt is armed for the same
    /// chain already, the used ring is not read again.
    ///
    /// Without `VIRTIO_F_EVENT_IDX` the device raises an interrupt for every used chain until
    /// [`Virtqueue::disarm`].
    ///
    /// # Errors
    ///
    /// See [`Virtqueue::complete`].
    pub fn arm(&mut self, count: u16) -> Result<bool, QueueError> {
        let count = count.max(1);
        let event = if self.has_event_index { self.completed_index.wrapping_add(count - 1) } else { 0 };
        if self.armed_event == Some(event) {
            // The interrupt is armed for this chain already. The caller's last `complete` read the used
            // ring's index while it was armed, and found no used chain. So the device uses the chain only
            // after that read, and then raises the interrupt.
            return Ok(false);
        }
        self.armed_event = Some(event);
        if self.has_event_index {
            self.ring.set_used_event(event);
        } else {
            self.ring.suppress_interrupts(false);
        }
        // Full barrier between the store of `used_event` and the load of the used ring's index: either the
        // device sees `used_event`, or the driver sees the device's new index (section 2.7.8.2).
        self.ring.fence();
        self.update_used_index()?;
        Ok(self.used_index.wrapping_sub(self.completed_index) >= count)
    }

    /// Disarms the interrupt until [`Virtqueue::arm`]. This is a hint: the device may still raise interrupts.
    pub fn disarm(&mut self) {
        self.armed_event = None;
        if self.has_event_index {
            // The device has passed this index already, and reaches it again only after 65536 chains.
            self.ring.set_used_event(self.completed_index.wrapping_sub(1));
        } else {
            self.ring.suppress_interrupts(true);
        }
    }

    /// Returns true if the interrupt is armed.
    #[must_use]
    pub const fn is_armed(&self) -> bool {
        self.armed_event.is_some()
    }

    /// Reads the used ring's index and validates it.
    fn update_used_index(&mut self) -> Result<(), QueueError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let used = self.ring.used_index();
        if used.wrapping_sub(self.completed_index) > self.in_flight {
            return Err(self.fail(QueueError::IndexJump));
        }
        self.used_index = used;
        Ok(())
    }

    /// Validates a used ring entry, takes its chain back from the device, and returns the chain's descriptors
    /// to the free list.
    fn take_chain(&mut self, id: u32, written: u32) -> Result<UsedChain<C>, QueueError> {
        let head = u16::try_from(id).map_err(|_| QueueError::NoDescriptor)?;
        let descriptor = self.descriptors.get_mut(usize::from(head)).ok_or(QueueError::NoDescriptor)?;
        let InFlight { chain, last, length, .. } =
            descriptor.in_flight.take_if(|in_flight| written <= in_flight.writable).ok_or(
                if descriptor.in_flight.is_some() { QueueError::TooLong } else { QueueError::NotInFlight },
            )?;
        // The chain's descriptors are still linked: the chain as a whole becomes the front of the free list.
        self.descriptors[usize::from(last)].next = self.first_free;
        self.first_free = head;
        self.free += length;
        self.in_flight -= 1;
        self.completed_index = self.completed_index.wrapping_add(1);
        Ok(UsedChain { token: Token(head), chain, written })
    }

    /// Breaks the queue permanently.
    const fn fail(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        error
    }
}

/// Returns true if an index that advances from `before` to `after` passes `event`, modulo 65536
/// (`vring_need_event` in section 2.7.10).
const fn needs_event(event: u16, before: u16, after: u16) -> bool {
    after.wrapping_sub(event).wrapping_sub(1) < after.wrapping_sub(before)
}
