//! What file systems take from this kernel, and where they are mounted.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_clock::NANOSECONDS;
use hermit_fs::{PAGE_SIZE, System, Time, Vfs};
use hermit_hal::clock;
use hermit_hal::sync::{RawNestedLock, RawSpinLock};
use hermit_interface::Errno;

use crate::fallible;
use crate::sync::OnceLock;

/// The virtual file system, once it is mounted.
pub(super) static VFS: OnceLock<Vfs<Kernel>> = OnceLock::new();

/// The virtual file system, if it has been mounted.
///
/// # Errors
///
/// `ENOENT` if it has not.
pub(crate) fn mounted() -> Result<&'static Vfs<Kernel>, Errno> {
    VFS.get().ok_or(Errno::ENOENT)
}

/// A time in nanoseconds since 1970.
#[inline]
fn to_time(now: u64) -> Time {
    let seconds = i64::try_from(now / NANOSECONDS).unwrap_or(i64::MAX);
    Time { seconds, nanoseconds: u32::try_from(now % NANOSECONDS).unwrap_or(0) }
}

/// What the file systems take from this kernel.
#[derive(Debug)]
pub(crate) struct Kernel;

impl System for Kernel {
    type RawLock = RawSpinLock;
    type NestedLock = RawNestedLock;
    type Page = Box<[u8; PAGE_SIZE]>;

    fn allocate_page(start: &[u8]) -> Option<Self::Page> {
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(PAGE_SIZE).ok()?;
        bytes.extend_from_slice(start);
        bytes.resize(PAGE_SIZE, 0);
        bytes.into_boxed_slice().try_into().ok()
    }

    #[inline(always)]
    fn arc_with<T>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
        fallible::arc_with(make)
    }

    fn now() -> Time {
        to_time(clock::wall_clock_for_coarse())
    }

    #[inline]
    fn coarse_now() -> Time {
        to_time(clock::coarse_wall_clock())
    }

    fn monotonic() -> u64 {
        clock::monotonic()
    }

    #[inline]
    fn tick() -> u64 {
        clock::coarse()
    }

    fn data_collected() -> bool {
        super::write_back::data_collected()
    }
}
