//! The services of this kernel for the file systems, and the mounted virtual file system.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_fs::{OpenFile, PAGE_SIZE, System, Time, Vfs};
use hermit_hal::clock::{self, SecondsNanoseconds};
use hermit_hal::sync::RawSpinLock;
use hermit_interface::Errno;

use crate::fallible;
use crate::sync::OnceLock;

/// The virtual file system, once it is mounted.
pub(super) static VFS: OnceLock<Vfs<Kernel>> = OnceLock::new();

/// Returns the virtual file system.
///
/// # Errors
///
/// `ENOENT` if it is not mounted.
pub(crate) fn mounted() -> Result<&'static Vfs<Kernel>, Errno> {
    VFS.get().ok_or(Errno::ENOENT)
}

/// A time of the kernel's clock.
#[inline]
fn to_time([seconds, nanoseconds]: SecondsNanoseconds) -> Time {
    #[expect(clippy::cast_possible_truncation, reason = "nanoseconds are less than a second's")]
    let nanoseconds = nanoseconds as u32;
    Time { seconds: seconds.cast_signed(), nanoseconds }
}

/// A page of a file.
type Page = Box<[u8; PAGE_SIZE]>;

/// Services of this kernel for the file systems; see [`hermit_fs::System`].
#[derive(Debug)]
pub(crate) struct Kernel;

/// An open file.
pub(crate) type File = OpenFile<Kernel>;

impl System for Kernel {
    type RawLock = RawSpinLock;
    type Page = Page;

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
}
