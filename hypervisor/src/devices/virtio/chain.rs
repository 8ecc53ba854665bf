//! Descriptor chains (virtio 1.2 §2.7), read from hostile guest memory.
//!
//! `virtio-queue` iterates over a chain safely, but its checks are not sufficient here. It ends the iteration
//! without an error if a chain loops or leaves its table, it permits indirect tables of 65,535 entries, and
//! it does not check the buffers. So [`Chain::next`] reads each descriptor once, into a [`Chain`] that the
//! guest cannot change. A [`Chain`] has at most as many buffers as its queue has descriptors (virtio 1.2
//! §2.7.5.3.1), and all its buffers are in guest memory.

use std::sync::atomic::Ordering;

use hermit_interface::to_usize;
use smallvec::SmallVec;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{
    Address, Bytes, GuestAddress, GuestMemory, GuestMemoryError, GuestMemoryMmap, Permissions, VolatileSlice,
};

use super::{DeviceError, QueueProgress, WORK_LIMIT};
use crate::devices::rate_limiter::RateLimiter;

/// A non-empty range of guest memory.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: GuestAddress,
    length: usize,
}

/// Mappings of buffers. A list of up to 32 buffers needs no allocation.
pub type Slices<'memory> = SmallVec<[VolatileSlice<'memory>; 32]>;

/// Scatter-gather list of guest memory. The boundaries of its buffers carry no meaning (virtio 1.2 §2.7.4).
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    list: SmallVec<[Buffer; 4]>,
    /// Total size in bytes.
    length: usize,
}

impl Buffers {
    /// Total size in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns true if the total size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Splits off and returns the first `count` bytes, or all if there are fewer.
    pub fn take(&mut self, count: usize) -> Self {
        let (mut front, mut whole) = (Self::default(), 0);
        for buffer in &mut self.list {
            let length = buffer.length.min(count - front.length);
            if length == 0 {
                break;
            }
            front.push(Buffer { address: buffer.address, length });
            if length < buffer.length {
                // Cannot overflow, because the whole buffer is in guest memory.
                buffer.address = buffer.address.unchecked_add(length as u64);
                buffer.length -= length;
                break;
            }
            whole += 1;
        }
        self.list.drain(..whole);
        self.length -= front.length;
        front
    }

    /// Splits off the first bytes and copies them to `data`. Returns the number of copied bytes.
    ///
    /// # Errors
    ///
    /// A buffer is no longer mapped.
    pub fn read(&mut self, memory: &GuestMemoryMmap, data: &mut [u8]) -> Result<usize, DeviceError> {
        let mut done = 0;
        for buffer in self.take(data.len()).list {
            let end = done + buffer.length;
            memory.read_slice(data.get_mut(done..end).unwrap_or_default(), buffer.address)?;
            done = end;
        }
        Ok(done)
    }

    /// Splits off the first bytes and overwrites them with `data`. Returns the number of written bytes.
    ///
    /// # Errors
    ///
    /// A buffer is no longer mapped.
    pub fn write(&mut self, memory: &GuestMemoryMmap, data: &[u8]) -> Result<usize, DeviceError> {
        let mut done = 0;
        for buffer in self.take(data.len()).list {
            let end = done + buffer.length;
            memory.write_slice(data.get(done..end).unwrap_or_default(), buffer.address)?;
            done = end;
        }
        Ok(done)
    }

    /// Calls `copy` with each buffer's mapping, for system calls that copy directly from or to guest memory.
    ///
    /// # Errors
    ///
    /// `copy` fails, or a buffer is no longer mapped.
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

    /// Returns the number of buffers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Appends the mappings of the buffers to `slices`, without their first `skip` bytes, for vectored I/O.
    /// Stops when `slices` has `max` elements.
    ///
    /// A buffer that spans several regions of guest memory yields several slices.
    ///
    /// # Errors
    ///
    /// A buffer is no longer mapped.
    pub fn append_slices<'memory>(
        &self,
        skip: usize,
        memory: &'memory GuestMemoryMmap,
        access: Permissions,
        max: usize,
        slices: &mut Slices<'memory>,
    ) -> Result<(), DeviceError> {
        let mut skip = skip;
        for buffer in &self.list {
            let skipped = skip.min(buffer.length);
            skip -= skipped;
            // Cannot overflow, because the whole buffer is in guest memory.
            let address = buffer.address.unchecked_add(skipped as u64);
            let rest = max.saturating_sub(slices.len());
            if rest == 0 {
                break;
            }
            for slice in memory.get_slices(address, buffer.length - skipped, access)?.take(rest) {
                slices.push(slice?);
            }
        }
        Ok(())
    }

    fn push(&mut self, buffer: Buffer) {
        self.length += buffer.length;
        self.list.push(buffer);
    }
}

/// A descriptor chain: device-readable buffers, followed by device-writable ones (virtio 1.2 §2.7.4.2).
#[derive(Debug)]
pub struct Chain {
    /// Index of the first descriptor, by which the driver identifies the chain.
    pub head: u16,
    /// Device-readable buffers.
    pub readable: Buffers,
    /// Device-writable buffers.
    pub writable: Buffers,
}

impl Chain {
    /// Takes the next chain from the available ring, if there is one.
    ///
    /// # Errors
    ///
    /// The available ring or the chain is malformed.
    pub fn next(queue: &mut Queue, memory: &GuestMemoryMmap) -> Result<Option<Self>, DeviceError> {
        let max_length = queue.size();
        let Some(descriptors) = queue.iter(memory)?.next() else { return Ok(None) };
        let head = descriptors.head_index();
        let mut chain = Self { head, readable: Buffers::default(), writable: Buffers::default() };
        let mut has_next = true;
        for descriptor in descriptors.take(max_length.into()) {
            has_next = descriptor.has_next();
            chain.push(descriptor, memory)?;
        }
        // The iterator ends early at an invalid descriptor, and `take` ends it if the chain is too long. In
        // both cases the last descriptor has the flag `NEXT`.
        if has_next { Err(DeviceError::Chain) } else { Ok(Some(chain)) }
    }

    /// Returns the total size in bytes of all buffers, readable and writable.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.readable.length() as u64 + self.writable.length() as u64
    }

    /// Returns the buffers of a chain that must have only device-readable buffers.
    ///
    /// # Errors
    ///
    /// The chain has device-writable buffers.
    pub fn into_readable(self) -> Result<Buffers, DeviceError> {
        if self.writable.is_empty() { Ok(self.readable) } else { Err(DeviceError::Direction) }
    }

    /// Returns the buffers of a chain that must have only device-writable buffers.
    ///
    /// # Errors
    ///
    /// The chain has device-readable buffers.
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

/// Result of the processing of a descriptor chain.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Number of bytes that the device has written to the chain: `len` of the used element.
    pub written: u32,
    /// Number of bytes that the device has moved, counted against [`WORK_LIMIT`].
    pub work: u64,
}

/// Returns true if the available ring has a chain that the device has not taken.
///
/// # Errors
///
/// The available ring is not in guest memory.
pub fn has_available(queue: &Queue, memory: &GuestMemoryMmap) -> Result<bool, DeviceError> {
    Ok(queue.avail_idx(memory, Ordering::Acquire)?.0 != queue.next_avail())
}

/// Takes chains from the available ring, passes each to `serve`, and adds it to the used ring. Stops when no
/// chain is left or [`WORK_LIMIT`] is reached.
///
/// # Errors
///
/// A chain is malformed, or `serve` fails. The chain is not added to the used ring.
pub fn serve_chains(
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
    serve: impl FnMut(Chain) -> Result<Completion, DeviceError>,
) -> Result<QueueProgress, DeviceError> {
    serve_limited_chains(queue, memory, &mut RateLimiter::default(), serve)
}

/// Like [`serve_chains`], but each chain is an operation that `limiter` must admit. Returns
/// [`QueueProgress::Blocked`] if it does not admit the next operation.
///
/// # Errors
///
/// See [`serve_chains`].
pub fn serve_limited_chains(
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
    limiter: &mut RateLimiter,
    mut serve: impl FnMut(Chain) -> Result<Completion, DeviceError>,
) -> Result<QueueProgress, DeviceError> {
    let mut work = 0_u64;
    // Bounds the loop even if the guest keeps adding chains.
    for _ in 0..queue.size() {
        if !limiter.admits() {
            return Ok(QueueProgress::Blocked);
        }
        let Some(chain) = Chain::next(queue, memory)? else { return Ok(QueueProgress::Done) };
        let head = chain.head;
        let completion = serve(chain)?;
        limiter.charge(completion.work);
        queue.add_used(memory, head, completion.written)?;
        work = work.saturating_add(completion.work);
        if work >= WORK_LIMIT {
            break;
        }
    }
    Ok(QueueProgress::Yielded)
}

#[cfg(test)]
mod tests;
