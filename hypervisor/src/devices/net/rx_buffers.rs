//! Descriptor chains of `receiveq1` that the guest has made available and the device has not used yet.

use std::collections::VecDeque;

use smallvec::SmallVec;
use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestMemoryMmap, Permissions};

use super::header::{VNET_HEADER_SIZE, VnetHeader};
use crate::devices::virtio::DeviceError;
use crate::devices::virtio::chain::{Buffers, Chain, Slices};
use crate::devices::virtio::used_ring::{UsedElement, add_used_batch};

/// A descriptor chain for received frames.
#[derive(Debug)]
struct RxChain {
    head: u16,
    buffers: Buffers,
}

/// Descriptor chains in the order of the available ring, at most as many as the queue has descriptors.
#[derive(Debug, Default)]
pub(super) struct RxBuffers {
    chains: VecDeque<RxChain>,
    /// Size in bytes of all chains.
    size: usize,
    /// Number of buffers in all chains.
    count: usize,
}

impl RxBuffers {
    /// Takes chains out of the available ring until all chains together have `size` bytes, headers included.
    ///
    /// # Errors
    ///
    /// The driver violates the specification.
    pub(super) fn refill(
        &mut self,
        size: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        // The second bound holds even if the guest makes the same chain available again and again.
        while self.size < size && self.chains.len() < usize::from(queue.size()) {
            let Some(chain) = Chain::next(queue, memory)? else { break };
            let head = chain.head;
            let buffers = chain.into_writable()?;
            // Virtio 1.2 §5.1.6.3.1: each chain holds at least a header.
            if buffers.length() < VNET_HEADER_SIZE {
                return Err(DeviceError::Length(buffers.length() as u64));
            }
            self.size = self.size.saturating_add(buffers.length());
            self.count += buffers.count();
            self.chains.push_back(RxChain { head, buffers });
        }
        Ok(())
    }

    /// Returns true if there is no chain.
    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Returns true if the chains use all descriptors of the queue, so that the guest cannot add any buffer.
    pub(super) fn has_whole_queue(&self, queue: &Queue) -> bool {
        self.count >= usize::from(queue.size())
    }

    /// Returns the number of bytes available to the next frame, header included: the size of all chains if
    /// buffers are mergeable, otherwise the size of the first chain.
    pub(super) fn capacity(&self, is_mergeable: bool) -> usize {
        let first = || self.chains.front().map_or(0, |chain| chain.buffers.length());
        if is_mergeable { self.size } else { first() }
    }

    /// Returns the guest memory after the header of the first chain: at least `size` bytes, but at most about
    /// `max` slices, and no more than the chains have.
    ///
    /// # Errors
    ///
    /// A buffer is no longer mapped.
    pub(super) fn slices<'memory>(
        &self,
        size: usize,
        max: usize,
        memory: &'memory GuestMemoryMmap,
    ) -> Result<Slices<'memory>, DeviceError> {
        let (mut slices, mut skip, mut total) = (Slices::new(), VNET_HEADER_SIZE, 0);
        for RxChain { buffers, .. } in &self.chains {
            if total >= size + VNET_HEADER_SIZE || slices.len() >= max {
                break;
            }
            buffers.append_slices(skip, memory, Permissions::Write, max, &mut slices)?;
            total += buffers.length();
            skip = 0;
        }
        Ok(slices)
    }

    /// Completes a frame whose `size` bytes of data are already in the buffers: writes its header, and moves
    /// its chains to the used ring.
    ///
    /// # Errors
    ///
    /// A buffer or the used ring is no longer mapped.
    pub(super) fn complete(
        &mut self,
        header: VnetHeader,
        size: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        let mut first = self.chains.front().map(|chain| chain.buffers.clone()).unwrap_or_default();
        let used = self.take(size + VNET_HEADER_SIZE);
        // A queue has fewer than 2^16 descriptors, and there is at most one chain for each.
        let num_buffers = u16::try_from(used.len()).unwrap_or(u16::MAX);
        first.write(memory, &VnetHeader { num_buffers, ..header }.to_bytes())?;
        add_used_batch(queue, memory, &used)
    }

    /// Removes the chains that hold the next `size` bytes, and returns their used elements.
    fn take(&mut self, size: usize) -> SmallVec<[UsedElement; 32]> {
        let (mut used, mut rest) = (SmallVec::new(), size);
        while rest > 0 {
            let Some(RxChain { head, buffers }) = self.chains.pop_front() else { break };
            self.size -= buffers.length();
            self.count -= buffers.count();
            let part = rest.min(buffers.length());
            used.push(UsedElement { head, written: u32::try_from(part).unwrap_or(u32::MAX) });
            rest -= part;
        }
        used
    }
}
