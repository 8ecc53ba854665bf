//! The table of open file descriptors.
//!
//! POSIX requires that `open` returns the lowest free number. A bitmap of allocated numbers finds this
//! number. For the first 64 numbers, it is a single atomic word; most programs never need more descriptors.
//! For the others, it is a bitmap with a lock. The value of a descriptor is in a slot with a lock of its own.
//! So a call on a descriptor locks only the slot of that descriptor, and does not contend with calls on other
//! descriptors.
//!
//! Opening has two steps: reserve a number, then fill its slot. Other threads cannot use a reserved number.
//! It becomes free again if the open fails.

mod bitmap;
mod slots;

use hermit_interface::Errno;
use lock_api::{Mutex, MutexGuard, RawMutex};

use self::bitmap::{Bitmap, FirstWord, WORD};
use self::slots::Slots;

/// A file descriptor.
pub type FileDescriptor = usize;

/// Maximum number of open descriptors. It is smaller under Miri, which would take minutes to check each
/// descriptor.
const MAX_DESCRIPTORS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 16 };

/// The open and reserved descriptors, and their values.
///
/// Each descriptor has a slot with a lock of its own, so the use of a descriptor neither touches other
/// descriptors nor takes a global lock. The lock `R` may be a spinlock: under the lock, no memory is
/// allocated, and no value of a descriptor is dropped.
#[derive(Debug)]
pub struct DescriptorTable<R: RawMutex, T> {
    slots: Slots<R, T>,
    /// The first descriptors: a bit is set if the descriptor is open or reserved.
    first: FirstWord,
    /// The same for the further descriptors, counted from the first of them.
    others: Mutex<R, Bitmap>,
}

impl<R: RawMutex, T> Default for DescriptorTable<R, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: RawMutex, T> DescriptorTable<R, T> {
    /// Creates a table without open descriptors.
    #[must_use]
    pub const fn new() -> Self {
        let others = Mutex::const_new(R::INIT, Bitmap::new());
        Self { slots: Slots::new(), first: FirstWord::new(), others }
    }

    /// Reserves the lowest free descriptor. It is allocated but not open until [`Self::fill`] opens it or
    /// [`Self::release`] frees it.
    ///
    /// # Errors
    ///
    /// `EMFILE` if all descriptors are allocated; `ENOMEM`.
    #[inline]
    pub fn reserve(&self) -> Result<FileDescriptor, Errno> {
        self.first.allocate(0).map_or_else(|| self.reserve_other(0), Ok)
    }

    /// Reserves the lowest free descriptor of at least `min`.
    fn reserve_from(&self, min: FileDescriptor) -> Result<FileDescriptor, Errno> {
        // The slots of the first descriptors are always there.
        self.first.allocate(min).map_or_else(|| self.reserve_other(min), Ok)
    }

    /// Does [`Self::reserve_from`] for descriptors after the first 64.
    #[cold]
    #[inline(never)]
    fn reserve_other(&self, min: FileDescriptor) -> Result<FileDescriptor, Errno> {
        let free = {
            let mut others = self.others.lock();
            let free = others.lowest_free(min.saturating_sub(WORD));
            let free = free.filter(|free| *free < MAX_DESCRIPTORS - WORD).ok_or(Errno::EMFILE)?;
            others.allocate(free);
            free + WORD
        };
        // The lock is not held here, because `prepare` may allocate memory.
        self.slots.prepare(free).inspect_err(|_| self.release(free))?;
        Ok(free)
    }

    /// Opens a reserved descriptor.
    pub fn fill(&self, descriptor: FileDescriptor, value: T) {
        self.fill_with(descriptor, || value);
    }

    /// Does [`Self::fill`] with the value that `make` returns. `make` is called while the lock of the slot is
    /// held, so a value of several words can be constructed in place.
    #[inline]
    pub fn fill_with(&self, descriptor: FileDescriptor, make: impl FnOnce() -> T) {
        if let Some(slot) = self.slots.get(descriptor) {
            // The descriptor is reserved, so its slot has no value, and nothing is dropped under the lock.
            *slot.lock() = Some(make());
        }
    }

    /// Frees a reserved descriptor.
    #[inline]
    pub fn release(&self, descriptor: FileDescriptor) {
        match descriptor.checked_sub(WORD) {
            None => self.first.free(descriptor),
            Some(other) => self.release_other(other),
        }
    }

    #[cold]
    #[inline(never)]
    fn release_other(&self, other: usize) {
        self.others.lock().free(other);
    }

    /// Locks the slot of a descriptor. The slot may be empty.
    ///
    /// # Errors
    ///
    /// `EBADF` if the descriptor has no slot.
    #[inline]
    pub fn lock(&self, descriptor: FileDescriptor) -> Result<LockedSlot<'_, R, T>, Errno> {
        self.slots.get(descriptor).map(|slot| LockedSlot(slot.lock())).ok_or(Errno::EBADF)
    }

    /// Does [`Self::lock`] for one of the first 64 descriptors, if the lock is free. It calls no function, so
    /// that the caller need not save registers.
    #[inline(always)]
    pub fn try_lock(&self, descriptor: FileDescriptor) -> Option<LockedSlot<'_, R, T>> {
        self.slots.get_first(descriptor)?.try_lock().map(LockedSlot)
    }

    /// Returns the value of a descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    #[inline]
    pub fn get(&self, descriptor: FileDescriptor) -> Result<T, Errno>
    where
        T: Clone,
    {
        self.lock(descriptor)?.get().cloned().ok_or(Errno::EBADF)
    }

    /// Returns the first open descriptor with a number of at least `from`.
    #[must_use]
    pub fn next_open(&self, from: FileDescriptor) -> Option<FileDescriptor> {
        let is_open = |descriptor: &FileDescriptor| {
            self.slots.get(*descriptor).is_some_and(|slot| slot.lock().is_some())
        };
        (from..MAX_DESCRIPTORS).find(is_open)
    }

    /// Opens the lowest free descriptor of at least `min` with a value, which is shared with another
    /// descriptor (`dup`).
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`], and `EINVAL` if `min` is not below the limit.
    pub fn open_from(&self, value: T, min: FileDescriptor) -> Result<FileDescriptor, Errno> {
        if min >= MAX_DESCRIPTORS {
            return Err(Errno::EINVAL);
        }
        let descriptor = self.reserve_from(min)?;
        self.fill(descriptor, value);
        Ok(descriptor)
    }

    /// Closes a descriptor and returns its value. The caller drops the value.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn remove(&self, descriptor: FileDescriptor) -> Result<T, Errno> {
        self.take(descriptor).ok_or(Errno::EBADF)
    }

    /// Does [`Self::remove`], but returns `None` if the descriptor is not open.
    #[inline]
    pub fn take(&self, descriptor: FileDescriptor) -> Option<T> {
        let value = self.slots.get(descriptor)?.lock().take();
        if value.is_some() {
            self.release(descriptor);
        }
        value
    }
}

/// A descriptor's slot whose lock is held.
#[derive(Debug)]
pub struct LockedSlot<'a, R: RawMutex, T>(MutexGuard<'a, R, Option<T>>);

impl<R: RawMutex, T> LockedSlot<'_, R, T> {
    /// Returns the value of the descriptor, or `None` if the descriptor is not open.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// Returns the value of the descriptor for changes, or `None` if the descriptor is not open.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }
}

#[cfg(test)]
mod tests;
