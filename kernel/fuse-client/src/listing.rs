//! How directories are listed: with the attributes of their entries or without.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_fuse::flags::InitFlags;
use hermit_fuse::reply::InitOut;

/// How a server lists directories.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The server answers `Readdirplus`.
    has_plus: bool,
    /// A bit for each opened directory, its handle modulo 64, that is read by `Readdirplus`: it has an entry
    /// of unknown type, which the attributes have.
    plus: AtomicU64,
}

/// The bit of an opened directory.
const fn bit(handle: u64) -> u64 {
    1 << (handle % 64)
}

impl Listing {
    pub(crate) fn new(reply: &InitOut) -> Self {
        let flags = InitFlags::from_bits_retain(reply.flags);
        let has_plus = flags.contains(InitFlags::DO_READDIRPLUS);
        Self { has_plus, plus: AtomicU64::new(0) }
    }

    /// Whether the server answers `Readdirplus`.
    pub(crate) const fn has_plus(&self) -> bool {
        self.has_plus
    }

    /// Whether a directory is always read by `Readdirplus`.
    pub(crate) fn is_plus(&self, handle: u64) -> bool {
        self.plus.load(Relaxed) & bit(handle) != 0
    }

    /// Has a directory always read by `Readdirplus` from now on. Returns false if the server does not answer
    /// that.
    pub(crate) fn ask_plus(&self, handle: u64) -> bool {
        if self.has_plus {
            self.plus.fetch_or(bit(handle), Relaxed);
        }
        self.has_plus
    }

    /// Forgets how a directory is read, whose handle may be that of another one from now on.
    pub(crate) fn release(&self, handle: u64) {
        if self.is_plus(handle) {
            self.plus.fetch_and(!bit(handle), Relaxed);
        }
    }
}
