//! The services that file systems need from the kernel.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use hermit_interface::Errno;
use lock_api::{Mutex, RawMutex};
use once_cell::race::OnceBox;

use crate::interface::Time;

pub(crate) use hermit_base::sync::atomic::{AtomicBool, AtomicU64, fence};

/// Preferred size of reads and writes in bytes (`st_blksize`): the size of a page.
pub(crate) const BLOCK_SIZE: u32 = 4096;

/// Size of a page in bytes.
pub const PAGE_SIZE: usize = BLOCK_SIZE as usize;

/// The kernel below the file systems.
pub trait System: Debug + Send + Sync + 'static {
    /// A spinlock. It is held only for short times, never while a request is pending.
    type RawLock: RawMutex + Send + Sync + 'static;

    /// The memory of one page.
    type Page: AsRef<[u8; PAGE_SIZE]> + AsMut<[u8; PAGE_SIZE]> + Debug + Send + Sync + 'static;

    /// Allocates a page, copies `start` to its beginning, and fills the rest with zeros. `start` is not
    /// longer than the page. Returns `None` without memory.
    fn allocate_page(start: &[u8]) -> Option<Self::Page>;

    /// Allocates an `Arc` of a value. Returns `None` without memory.
    fn arc<T>(value: T) -> Option<Arc<T>> {
        Self::arc_with(|| value)
    }

    /// Allocates an `Arc` and initialises it in place with the result of `make`, so the value need not be
    /// moved. `make` must not allocate. Returns `None` without memory.
    fn arc_with<T>(make: impl FnOnce() -> T) -> Option<Arc<T>>;

    /// The current time. Callers hold no lock.
    fn now() -> Time;

    /// The time at the current [tick](Self::tick) or a little earlier, but never earlier than a time that
    /// [`Self::now`] has already returned. It takes fewer instructions than [`Self::now`].
    fn coarse_now() -> Time {
        Self::now()
    }

    /// The time of a monotonic clock in nanoseconds. Callers hold no lock.
    fn monotonic() -> u64;

    /// A number that changes at least every 4 ms, as Linux's coarse clock. Reading it costs a few
    /// instructions. Changes of a file within the same tick may get the same time.
    fn tick() -> u64;
}

/// Allocates an array and initialises each element with `new`.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn boxed<T, const N: usize>(new: impl FnMut() -> T) -> Result<Box<[T; N]>, Errno> {
    let mut values = Vec::new();
    values.try_reserve_exact(N).map_err(|_| Errno::ENOMEM)?;
    values.resize_with(N, new);
    values.into_boxed_slice().try_into().map_err(|_| Errno::ENOMEM)
}

/// Returns the elements of a table. The first call allocates the table. Without memory, the result is empty.
pub(crate) fn allocated<T, const N: usize>(table: &OnceBox<[T; N]>, new: impl FnMut() -> T) -> &[T] {
    if table.get().is_none() {
        let Ok(elements) = boxed(new) else { return &[] };
        // If another thread has set the table first, its elements stay.
        drop(table.set(elements));
    }
    table.get().map_or(&[], |elements| elements)
}

/// A lock around a value.
pub(crate) type Lock<S, T> = Mutex<<S as System>::RawLock, T>;
