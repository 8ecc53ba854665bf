//! Decides whether directories are listed with the attributes of their entries (`Readdirplus`) or without
//! them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_fuse::flags::InitFlags;
use hermit_fuse::reply::InitOut;

/// How a server lists directories.
#[derive(Debug)]
pub(crate) struct Listing {
    /// True if the server answers `Readdirplus`.
    has_plus: bool,
    /// Open directories that must be read by `Readdirplus`: for each, the bit of its handle modulo 64 is set.
    /// Such a directory has an entry of unknown type, and only the attributes of the entry have the type.
    plus: AtomicU64,
}

/// Returns the bit of an opened directory.
const fn bit(handle: u64) -> u64 {
    1 << (handle % 64)
}

impl Listing {
    pub(crate) fn new(reply: &InitOut) -> Self {
        let flags = InitFlags::from_bits_retain(reply.flags);
        let has_plus = flags.contains(InitFlags::DO_READDIRPLUS);
        Self { has_plus, plus: AtomicU64::new(0) }
    }

    /// Returns true if the server answers `Readdirplus`.
    pub(crate) const fn has_plus(&self) -> bool {
        self.has_plus
    }

    /// Returns true if a directory is always read by `Readdirplus`.
    pub(crate) fn is_plus(&self, handle: u64) -> bool {
        self.plus.load(Relaxed) & bit(handle) != 0
    }

    /// From now on, a directory is always read by `Readdirplus`. Returns false if the server does not support
    /// `Readdirplus`.
    pub(crate) fn ask_plus(&self, handle: u64) -> bool {
        if self.has_plus {
            self.plus.fetch_or(bit(handle), Relaxed);
        }
        self.has_plus
    }

    /// Clears the bit of a directory that is closed, since another directory may get the same handle.
    pub(crate) fn release(&self, handle: u64) {
        if self.is_plus(handle) {
            self.plus.fetch_and(!bit(handle), Relaxed);
        }
    }
}
