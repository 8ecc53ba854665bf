//! The table of open file descriptors.

mod bitmap;
mod chunk;

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_interface::Errno;

use self::bitmap::Bitmap;
use self::chunk::{CHUNKS, position};
pub use self::chunk::{DescriptorChunk, MissingChunk};
use crate::Object;

/// A file descriptor.
pub type FileDescriptor = usize;

/// Maximum number of open descriptors.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// The open and reserved descriptors, in chunks that never move ([`DescriptorChunk`]).
///
/// It is meant to be used under a spinlock, under which no memory should be allocated and no object may be dropped, as
/// that may sleep. So the caller allocates missing chunks without the lock, and no method drops the last reference to an
/// object.
#[derive(Debug)]
pub struct DescriptorTable {
    /// Slots of each chunk; none if the chunk is missing.
    slots: [Vec<Option<Arc<dyn Object>>>; CHUNKS],
    allocated: Bitmap,
}

impl Default for DescriptorTable {
    fn default() -> Self {
        Self::new()
    }
}

/// Why no descriptor was reserved.
#[derive(Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The call fails with this error.
    Errno(Errno),
    /// The table must first [`DescriptorTable::add`] this chunk.
    Missing(MissingChunk),
}

impl From<Errno> for ReserveError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl DescriptorTable {
    /// Creates a table without open descriptors.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: [const { Vec::new() }; CHUNKS], allocated: Bitmap::new() }
    }

    /// Reserves the lowest free descriptor. It is allocated but not open until [`Self::fill`] opens it or
    /// [`Self::release`] frees it.
    ///
    /// # Errors
    ///
    /// `EMFILE` if all descriptors are allocated; [`ReserveError::Missing`].
    pub fn reserve(&mut self) -> Result<FileDescriptor, ReserveError> {
        self.reserve_from(0)
    }

    /// Reserves the lowest free descriptor of at least `min`.
    fn reserve_from(&mut self, min: FileDescriptor) -> Result<FileDescriptor, ReserveError> {
        let free = self.allocated.lowest_free(min).ok_or(Errno::EMFILE)?;
        let (chunk, _) = position(free);
        if self.slots[chunk].is_empty() {
            return Err(ReserveError::Missing(MissingChunk::new(chunk)));
        }
        self.allocated.allocate(free);
        Ok(free)
    }

    /// Adds a missing chunk. Returns the chunk if the table has it already, or what is left of it, which the caller is
    /// to drop without the lock.
    #[must_use = "it is to be dropped without the lock"]
    pub fn add(&mut self, chunk: DescriptorChunk) -> Option<DescriptorChunk> {
        if !self.slots[chunk.index].is_empty() {
            return Some(chunk);
        }
        self.allocated.add(chunk.index, chunk.words);
        self.slots[chunk.index] = chunk.slots;
        None
    }

    /// Opens a reserved descriptor.
    pub fn fill(&mut self, descriptor: FileDescriptor, object: Arc<dyn Object>) {
        if let Some(slot) = self.slot_mut(descriptor) {
            *slot = Some(object);
        }
    }

    /// Frees a reserved descriptor.
    pub fn release(&mut self, descriptor: FileDescriptor) {
        self.allocated.free(descriptor);
    }

    /// The object behind a descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn get(&self, descriptor: FileDescriptor) -> Result<Arc<dyn Object>, Errno> {
        let (chunk, offset) = position(descriptor);
        self.slots.get(chunk).and_then(|slots| slots.get(offset)?.clone()).ok_or(Errno::EBADF)
    }

    fn slot_mut(&mut self, descriptor: FileDescriptor) -> Option<&mut Option<Arc<dyn Object>>> {
        let (chunk, offset) = position(descriptor);
        self.slots.get_mut(chunk)?.get_mut(offset)
    }

    /// Opens another descriptor for the same object: the lowest free one of at least `min`.
    ///
    /// # Errors
    ///
    /// As [`Self::get`] and [`Self::reserve`], and `EINVAL` if `min` is not below the limit.
    pub fn duplicate(
        &mut self,
        descriptor: FileDescriptor,
        min: FileDescriptor,
    ) -> Result<FileDescriptor, ReserveError> {
        // If this reference is dropped, it is not the last: the table keeps its own.
        let object = self.get(descriptor)?;
        if min >= MAX_DESCRIPTORS {
            return Err(Errno::EINVAL.into());
        }
        let duplicate = self.reserve_from(min)?;
        self.fill(duplicate, object);
        Ok(duplicate)
    }

    /// Closes a descriptor and returns its object, which other references may keep alive.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn remove(&mut self, descriptor: FileDescriptor) -> Result<Arc<dyn Object>, Errno> {
        let object = self.slot_mut(descriptor).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.allocated.free(descriptor);
        Ok(object)
    }
}

#[cfg(test)]
mod tests;
