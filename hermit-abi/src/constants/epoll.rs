//! Operations, events and flags of `epoll`, as Linux numbers them.

/// [`epoll_create1`](crate::epoll_create1): as [`FD_CLOEXEC`](crate::FD_CLOEXEC).
pub const EPOLL_CLOEXEC: i32 = 0o2_000_000;

/// [`epoll_ctl`](crate::epoll_ctl): watch a descriptor.
pub const EPOLL_CTL_ADD: i32 = 1;
/// [`epoll_ctl`](crate::epoll_ctl): stop watching a descriptor.
pub const EPOLL_CTL_DEL: i32 = 2;
/// [`epoll_ctl`](crate::epoll_ctl): change the events for which a descriptor is watched.
pub const EPOLL_CTL_MOD: i32 = 3;

/// There are data to read, or there is a connection to accept.
pub const EPOLLIN: u32 = 0x1;
/// There are urgent data to read; never reported.
pub const EPOLLPRI: u32 = 0x2;
/// A write would not block.
pub const EPOLLOUT: u32 = 0x4;
/// An error is pending; always reported.
pub const EPOLLERR: u32 = 0x8;
/// Both directions are shut down; always reported.
pub const EPOLLHUP: u32 = 0x10;
/// There are normal data to read.
pub const EPOLLRDNORM: u32 = 0x40;
/// There are priority data to read; never reported.
pub const EPOLLRDBAND: u32 = 0x80;
/// A write of normal data would not block.
pub const EPOLLWRNORM: u32 = 0x100;
/// A write of priority data would not block; never reported.
pub const EPOLLWRBAND: u32 = 0x200;
/// There is a message; never reported.
pub const EPOLLMSG: u32 = 0x400;
/// The peer has shut down sending.
pub const EPOLLRDHUP: u32 = 0x2000;
/// If several instances watch a descriptor with this bit, an event wakes at least one of them, but perhaps
/// not all.
pub const EPOLLEXCLUSIVE: u32 = 1 << 28;
/// Without effect.
pub const EPOLLWAKEUP: u32 = 1 << 29;
/// After an event, no event is reported until [`EPOLL_CTL_MOD`].
pub const EPOLLONESHOT: u32 = 1 << 30;
/// Edge-triggered: an event is reported only when the object changes, not again while it stays ready.
pub const EPOLLET: u32 = 1 << 31;
