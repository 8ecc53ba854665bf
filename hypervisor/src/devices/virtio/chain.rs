//! Chains of descriptors: what the guest puts into a queue (virtio 1.2, section 2.7).
//!
//! `virtio-queue` walks a chain safely, but a chain that loops or leaves its table just ends, an indirect table may have
//! 65535 entries, and buffers may lie anywhere. A [`Chain`] is read once, has at most as many buffers as its queue
//! has descriptors (section 2.7.5.3.1), and all its buffers are in memory.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use hermit_interface::to_usize;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{
    Address, Bytes, GuestAddress, GuestMemory, GuestMemoryError, GuestMemoryMmap, Permissions, VolatileSlice,
};

use super::{DeviceError, Served, WORK_LIMIT};

/// A range of guest memory, not empty.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: GuestAddress,
    length: usize,
}

/// Bytes of guest memory, scattered. How a driver cuts them into pieces means nothing (section 2.7.4).
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    list: VecDeque<Buffer>,
    length: usize,
}

impl Buffers {
    /// How many bytes there are.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Takes bytes away from the front, all if there are fewer than `count`.
    pub fn take(&mut self, count: usize) -> Self {
        let mut front = Self::default();
        while front.length < count {
            let Some(buffer) = self.list.pop_front() else { break };
            let length = buffer.length.min(count - front.length);
            front.push(Buffer { address: buffer.address, length });
            self.length -= length;
            if length < buffer.length {
                // Cannot overflow: the whole buffer is in memory.
                let address = buffer.address.unchecked_add(length as u64);
                self.list.push_front(Buffer { address, length: buffer.length - length });
            }
        }
        front
    }

    /// Takes bytes away from the front and copies them to `data`. Returns how many there were.
    ///
    /// # Errors
    ///
    /// Memory is no longer where it was.
    pub fn read(&mut self, memory: &GuestMemoryMmap, data: &mut [u8]) -> Result<usize, DeviceError> {
        let mut done = 0;
        for buffer in self.take(data.len()).list {
            let end = done + buffer.length;
            memory.read_slice(data.get_mut(done..end).unwrap_or_default(), buffer.address)?;
            done = end;
        }
        Ok(done)
    }

    /// Takes bytes away from the front and fills them from `data`. Returns how many there were.
    ///
    /// # Errors
    ///
    /// Memory is no longer where it was.
    pub fn write(&mut self, memory: &GuestMemoryMmap, data: &[u8]) -> Result<usize, DeviceError> {
        let mut done = 0;
        for buffer in self.take(data.len()).list {
            let end = done + buffer.length;
            memory.write_slice(data.get(done..end).unwrap_or_default(), buffer.address)?;
            done = end;
        }
        Ok(done)
    }

    /// Calls `copy` with the memory itself, piece by piece, for calls of the host that copy to or from it.
    ///
    /// # Errors
    ///
    /// `copy` fails, or memory is no longer where it was.
    pub fn for_each_slice(
        &self,
        memory: &GuestMemoryMmap,
        access: Permissions,
        mut copy: impl FnMut(VolatileSlice<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        for buffer in &self.list {
            for slice in memory.get_slices(buffer.address, buffer.length, access)? {
                copy(slice?)?;
            }
        }
        Ok(())
    }

    /// How many pieces of guest memory these are, at least.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.list.len()
    }

    /// Adds the memory itself to a list, for calls of the host that take many pieces at once. The first `skip` bytes are left
    /// out.
    ///
    /// # Errors
    ///
    /// Memory is no longer where it was.
    pub fn slices<'memory>(
        &self,
        skip: usize,
        memory: &'memory GuestMemoryMmap,
        access: Permissions,
        list: &mut Vec<VolatileSlice<'memory>>,
    ) -> Result<(), DeviceError> {
        let mut skip = skip;
        for buffer in &self.list {
            let left_out = skip.min(buffer.length);
            skip -= left_out;
            // Cannot overflow: the whole buffer is in memory.
            let address = buffer.address.unchecked_add(left_out as u64);
            for slice in memory.get_slices(address, buffer.length - left_out, access)? {
                list.push(slice?);
            }
        }
        Ok(())
    }

    fn push(&mut self, buffer: Buffer) {
        self.length += buffer.length;
        self.list.push_back(buffer);
    }
}

/// What the guest asks of a device: bytes to read, then bytes to write.
#[derive(Debug)]
pub struct Chain {
    /// By which descriptor the guest knows the chain.
    pub head: u16,
    /// What the device may only read.
    pub readable: Buffers,
    /// What the device may only write.
    pub writable: Buffers,
}

impl Chain {
    /// Takes the next chain out of a queue, if there is one.
    ///
    /// # Errors
    ///
    /// The ring or the chain breaks the rules.
    pub fn next(queue: &mut Queue, memory: &GuestMemoryMmap) -> Result<Option<Self>, DeviceError> {
        let most = queue.size();
        let Some(descriptors) = queue.iter(memory)?.next() else { return Ok(None) };
        let head = descriptors.head_index();
        let mut chain = Self { head, readable: Buffers::default(), writable: Buffers::default() };
        let mut has_next = true;
        for descriptor in descriptors.take(most.into()) {
            has_next = descriptor.has_next();
            chain.push(descriptor, memory)?;
        }
        // The iterator just ends where it cannot go on, or is cut where the chain is too long.
        if has_next { Err(DeviceError::Chain) } else { Ok(Some(chain)) }
    }

    /// How many bytes there are to read and to write.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.readable.length() as u64 + self.writable.length() as u64
    }

    /// The bytes that the guest sends.
    ///
    /// # Errors
    ///
    /// There is something to be written, too.
    pub fn into_readable(self) -> Result<Buffers, DeviceError> {
        if self.writable.is_empty() { Ok(self.readable) } else { Err(DeviceError::Direction) }
    }

    /// The room that the guest offers.
    ///
    /// # Errors
    ///
    /// There is something to be read, too.
    pub fn into_writable(self) -> Result<Buffers, DeviceError> {
        if self.readable.is_empty() { Ok(self.writable) } else { Err(DeviceError::Direction) }
    }

    fn push(&mut self, descriptor: Descriptor, memory: &GuestMemoryMmap) -> Result<(), DeviceError> {
        let buffer = Buffer { address: descriptor.addr(), length: to_usize(descriptor.len().into()) };
        if buffer.length == 0 {
            return Ok(());
        }
        let writable = descriptor.is_write_only();
        let access = if writable { Permissions::Write } else { Permissions::Read };
        if !memory.check_range(buffer.address, buffer.length, access) {
            return Err(GuestMemoryError::InvalidGuestAddress(buffer.address).into());
        }
        if writable {
            self.writable.push(buffer);
        } else if self.writable.is_empty() {
            self.readable.push(buffer);
        } else {
            return Err(DeviceError::Direction);
        }
        Ok(())
    }
}

/// What a device has done with a chain.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// How many bytes it has written into it.
    pub written: u32,
    /// How much work it was, in bytes.
    pub work: u64,
}

/// Whether the guest has made something available.
///
/// # Errors
///
/// The ring is not in memory.
pub fn has_available(queue: &Queue, memory: &GuestMemoryMmap) -> Result<bool, DeviceError> {
    Ok(queue.avail_idx(memory, Ordering::Acquire)?.0 != queue.next_avail())
}

/// Serves chain after chain, until there is none or [`WORK_LIMIT`] is reached, and gives each back to the guest.
///
/// # Errors
///
/// A chain breaks the rules, or `serve` says so. The chain is not given back.
pub fn serve_chains(
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
    mut serve: impl FnMut(Chain) -> Result<Answer, DeviceError>,
) -> Result<Served, DeviceError> {
    let mut work = 0_u64;
    // A guest may go on adding chains: no more than one ring's worth at a time.
    for _ in 0..queue.size() {
        let Some(chain) = Chain::next(queue, memory)? else { return Ok(Served::All) };
        let head = chain.head;
        let answer = serve(chain)?;
        queue.add_used(memory, head, answer.written)?;
        work = work.saturating_add(answer.work);
        if work >= WORK_LIMIT {
            break;
        }
    }
    Ok(Served::Partly)
}

#[cfg(test)]
mod tests;
