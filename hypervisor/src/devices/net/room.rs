//! Buffers that the guest has offered for frames, and that are not filled yet.

use std::collections::VecDeque;

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestMemoryMmap, Permissions, VolatileSlice};

use super::header::{HEADER, Header};
use crate::devices::virtio::DeviceError;
use crate::devices::virtio::chain::{Buffers, Chain};
use crate::devices::virtio::used::{Used, give_back_together};

/// A chain of buffers.
#[derive(Debug)]
struct Offer {
    head: u16,
    buffers: Buffers,
}

/// Chains, in the order in which they were offered. At most as many as the queue has descriptors.
#[derive(Debug, Default)]
pub(super) struct Room {
    offers: VecDeque<Offer>,
    /// How many bytes there are, and in how many pieces.
    length: usize,
    pieces: usize,
}

impl Room {
    /// Takes chains out of the queue until there is room for so many bytes, the header among them.
    ///
    /// # Errors
    ///
    /// The driver breaks the rules.
    pub(super) fn gather(
        &mut self,
        bytes: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        // A guest that offers the same chains again and again gets no further than this.
        while self.length < bytes && self.offers.len() < usize::from(queue.size()) {
            let Some(chain) = Chain::next(queue, memory)? else { break };
            let head = chain.head;
            let buffers = chain.into_writable()?;
            // Section 5.1.6.3.1: every buffer holds a header at the least.
            if buffers.length() < HEADER {
                return Err(DeviceError::Length(buffers.length() as u64));
            }
            self.length = self.length.saturating_add(buffers.length());
            self.pieces += buffers.pieces();
            self.offers.push_back(Offer { head, buffers });
        }
        Ok(())
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// Whether a queue of this size cannot hold more than what is here.
    pub(super) fn is_all_of(&self, queue: &Queue) -> bool {
        self.pieces >= usize::from(queue.size())
    }

    /// How many bytes one frame can have, the header among them: in all chains or, if it may not be spread, in the first.
    pub(super) fn length(&self, is_spread: bool) -> usize {
        let first = || self.offers.front().map_or(0, |offer| offer.buffers.length());
        if is_spread { self.length } else { first() }
    }

    /// The memory behind the first header, as far as frames of so many bytes need it.
    ///
    /// # Errors
    ///
    /// Memory is no longer where it was.
    pub(super) fn slices<'memory>(
        &self,
        bytes: usize,
        memory: &'memory GuestMemoryMmap,
    ) -> Result<Vec<VolatileSlice<'memory>>, DeviceError> {
        let (mut slices, mut skip, mut length) = (Vec::new(), HEADER, 0);
        for Offer { buffers, .. } in &self.offers {
            if length >= bytes + HEADER {
                break;
            }
            buffers.slices(skip, memory, Permissions::Write, &mut slices)?;
            length += buffers.length();
            skip = 0;
        }
        Ok(slices)
    }

    /// Gives the guest a frame of so many bytes, which are in place already, with this header.
    ///
    /// # Errors
    ///
    /// Memory is no longer where it was.
    pub(super) fn hand_over(
        &mut self,
        header: Header,
        bytes: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<(), DeviceError> {
        let mut start = self.offers.front().map(|offer| offer.buffers.clone()).unwrap_or_default();
        let used = self.take(bytes + HEADER);
        // There are no more than a queue has descriptors.
        let buffers = u16::try_from(used.len()).unwrap_or(u16::MAX);
        start.write(memory, &Header { buffers, ..header }.to_bytes())?;
        give_back_together(queue, memory, &used)
    }

    /// Takes chains with so many bytes away, and says how many of them are in each.
    fn take(&mut self, bytes: usize) -> Vec<Used> {
        let (mut used, mut rest) = (Vec::new(), bytes);
        while rest > 0 {
            let Some(Offer { head, buffers }) = self.offers.pop_front() else { break };
            self.length -= buffers.length();
            self.pieces -= buffers.pieces();
            let part = rest.min(buffers.length());
            used.push((head, u32::try_from(part).unwrap_or(u32::MAX)));
            rest -= part;
        }
        used
    }
}
