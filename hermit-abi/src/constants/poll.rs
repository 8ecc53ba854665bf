//! Events to wait for, and the flags of event counters.

/// There is something to read, or a connection to accept.
pub const POLLIN: i16 = 0x1;
/// There is something urgent to read.
pub const POLLPRI: i16 = 0x2;
/// There is room to write.
pub const POLLOUT: i16 = 0x4;
/// An error is pending; reported whether asked for or not.
pub const POLLERR: i16 = 0x8;
/// The other side has gone; reported whether asked for or not.
pub const POLLHUP: i16 = 0x10;
/// The descriptor is not open; reported whether asked for or not.
pub const POLLNVAL: i16 = 0x20;
/// There are ordinary data to read.
pub const POLLRDNORM: i16 = 0x40;
/// There are data of a priority band to read.
pub const POLLRDBAND: i16 = 0x80;
/// There is room to write ordinary data.
pub const POLLWRNORM: i16 = 0x100;
/// There is room to write data of a priority band.
pub const POLLWRBAND: i16 = 0x200;
/// The other side will send no more.
pub const POLLRDHUP: i16 = 0x2000;

/// [`eventfd`](crate::eventfd): a read takes one from the counter, not all of it.
pub const EFD_SEMAPHORE: i16 = 0o1;
/// [`eventfd`](crate::eventfd): fail with [`EAGAIN`](crate::EAGAIN) rather than wait.
pub const EFD_NONBLOCK: i16 = 0o4000;
/// [`eventfd`](crate::eventfd): as [`FD_CLOEXEC`](crate::FD_CLOEXEC).
pub const EFD_CLOEXEC: i16 = 0o40000;
