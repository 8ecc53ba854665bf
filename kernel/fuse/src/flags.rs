//! Bits of fields. Fields of the structures are plain numbers, as a peer may set any bit.

use bitflags::bitflags;

bitflags! {
    /// Features that [`InitIn`](crate::request::InitIn) offers and [`InitOut`](crate::reply::InitOut) accepts
    /// (`FUSE_ASYNC_READ` and following).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct InitFlags: u32 {
        /// Reads may be answered out of order.
        const ASYNC_READ = 1 << 0;
        /// The server keeps POSIX record locks.
        const POSIX_LOCKS = 1 << 1;
        /// Open with `O_TRUNC` truncates.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// The client may write more than a page at once.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask of the request.
        const DONT_MASK = 1 << 6;
        /// The server keeps flock(2) locks.
        const FLOCK_LOCKS = 1 << 10;
        /// The client drops cached data when size or modification time change.
        const AUTO_INVAL_DATA = 1 << 12;
        /// The server answers `Readdirplus`.
        const DO_READDIRPLUS = 1 << 13;
        /// The client chooses between `Readdir` and `Readdirplus`.
        const READDIRPLUS_AUTO = 1 << 14;
        /// The client collects writes.
        const WRITEBACK_CACHE = 1 << 16;
        /// The server does not need `Open`.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Requests for a directory may be concurrent.
        const PARALLEL_DIROPS = 1 << 18;
        /// The server clears set-id bits on write, truncate and change of the owner.
        const HANDLE_KILLPRIV = 1 << 19;
        /// `max_pages` of the reply is valid.
        const MAX_PAGES = 1 << 22;
        /// The client may cache targets of symbolic links.
        const CACHE_SYMLINKS = 1 << 23;
    }

    /// Fields of [`SetattrIn`](crate::request::SetattrIn) to set (`FATTR_`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SetattrValid: u32 {
        /// Permission bits.
        const MODE = 1 << 0;
        /// Owner.
        const UID = 1 << 1;
        /// Group.
        const GID = 1 << 2;
        /// Size in bytes.
        const SIZE = 1 << 3;
        /// Time of access.
        const ATIME = 1 << 4;
        /// Time of modification.
        const MTIME = 1 << 5;
        /// `fh` is a handle of an open file, through which the size changes.
        const FH = 1 << 6;
        /// The time of access is now.
        const ATIME_NOW = 1 << 7;
        /// The time of modification is now.
        const MTIME_NOW = 1 << 8;
        /// `lock_owner` is valid.
        const LOCKOWNER = 1 << 9;
        /// Time of change.
        const CTIME = 1 << 10;
    }

    /// Properties of an open file in the server's reply (`FOPEN_`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenReply: u32 {
        /// The client caches no data of this file.
        const DIRECT_IO = 1 << 0;
        /// Data cached before stay valid.
        const KEEP_CACHE = 1 << 1;
        /// The file has no position.
        const NONSEEKABLE = 1 << 2;
        /// The client may cache the entries of this directory.
        const CACHE_DIR = 1 << 3;
        /// `Flush` has nothing to report of this file.
        const NOFLUSH = 1 << 5;
    }
}

/// Bit of [`FsyncIn::fsync_flags`](crate::request::FsyncIn): only data and what reading them back needs, as
/// fdatasync(2).
pub const FSYNC_DATASYNC: u32 = 1 << 0;

/// Bit of [`GetattrIn::getattr_flags`](crate::request::GetattrIn): `fh` is a handle of an open file.
pub const GETATTR_FH: u32 = 1 << 0;

/// Bits of [`Rename2In::flags`](crate::request::Rename2In), as in renameat2(2): fail if the new name exists.
pub const RENAME_NOREPLACE: u32 = 1 << 0;

/// Exchange both names.
pub const RENAME_EXCHANGE: u32 = 1 << 1;
