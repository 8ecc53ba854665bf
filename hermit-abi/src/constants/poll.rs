//! Events of `poll`, flags of `eventfd`.

/// There are data to read, or there is a connection to accept.
pub const POLLIN: i16 = 0x1;
/// There are urgent data to read.
pub const POLLPRI: i16 = 0x2;
/// A write would not block.
pub const POLLOUT: i16 = 0x4;
/// An error is pending; always reported.
pub const POLLERR: i16 = 0x8;
/// Both directions are shut down; always reported.
pub const POLLHUP: i16 = 0x10;
/// The descriptor is not open; always reported.
pub const POLLNVAL: i16 = 0x20;
/// There are normal data to read.
pub const POLLRDNORM: i16 = 0x40;
/// There are priority data to read.
pub const POLLRDBAND: i16 = 0x80;
/// A write of normal data would not block.
pub const POLLWRNORM: i16 = 0x100;
/// A write of priority data would not block.
pub const POLLWRBAND: i16 = 0x200;
/// The peer has shut down sending.
pub const POLLRDHUP: i16 = 0x2000;

/// [`eventfd`](crate::eventfd): a read decrements the counter by 1 instead of resetting it.
pub const EFD_SEMAPHORE: i16 = 0o1;
/// [`eventfd`](crate::eventfd): the descriptor is non-blocking.
pub const EFD_NONBLOCK: i16 = 0o4000;
/// [`eventfd`](crate::eventfd): as [`FD_CLOEXEC`](crate::FD_CLOEXEC).
pub const EFD_CLOEXEC: i16 = 0o40000;
