//! Calls that std does not wrap: on Linux by `libc`, and on this kernel by `hermit-abi`.
//!
//! Both crates have the same names and structures, so each wrapper is written once. The wrappers are safe and
//! return `io::Result`; `c` is the crate of the platform. On Linux a failed call returns -1 and sets `errno`,
//! and on this kernel it returns the negated error number: [`check`] and [`count`] hide that.

#![expect(unsafe_code, reason = "both crates declare foreign functions")]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

#[cfg(target_os = "hermit")]
use hermit_abi as c;
#[cfg(not(target_os = "hermit"))]
use libc as c;

pub(crate) use c::{
    EMFILE, F_GETFL, F_SETFL, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL, O_NONBLOCK, O_RDWR, POLLERR,
    POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, SHUT_RD, SHUT_RDWR,
    SHUT_WR, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM,
};

pub(crate) use c::{EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD};

/// Events and modes of `epoll`, which `libc` declares as numbers of another type.
#[cfg(not(target_os = "hermit"))]
macro_rules! epoll_bits {
    ($($name:ident),*) => {
        $(pub(crate) const $name: u32 = c::$name.cast_unsigned();)*
    };
}

#[cfg(target_os = "hermit")]
pub(crate) use c::{
    EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDHUP,
};
#[cfg(not(target_os = "hermit"))]
epoll_bits!(
    EPOLLERR,
    EPOLLET,
    EPOLLEXCLUSIVE,
    EPOLLHUP,
    EPOLLIN,
    EPOLLONESHOT,
    EPOLLOUT,
    EPOLLPRI,
    EPOLLRDHUP
);

/// Address families.
pub(crate) const V4: i32 = c::AF_INET;
pub(crate) const V6: i32 = c::AF_INET6;

/// A socket option, by its level and name.
pub(crate) type OptionId = (i32, i32);

pub(crate) const REUSE_ADDRESS: OptionId = (c::SOL_SOCKET, c::SO_REUSEADDR);
pub(crate) const KEEP_ALIVE: OptionId = (c::SOL_SOCKET, c::SO_KEEPALIVE);
pub(crate) const BROADCAST: OptionId = (c::SOL_SOCKET, c::SO_BROADCAST);
pub(crate) const SEND_BUFFER: OptionId = (c::SOL_SOCKET, c::SO_SNDBUF);
pub(crate) const RECEIVE_BUFFER: OptionId = (c::SOL_SOCKET, c::SO_RCVBUF);
pub(crate) const ERROR: OptionId = (c::SOL_SOCKET, c::SO_ERROR);
pub(crate) const TYPE_OF_SERVICE: OptionId = (c::IPPROTO_IP, c::IP_TOS);
pub(crate) const TIME_TO_LIVE: OptionId = (c::IPPROTO_IP, c::IP_TTL);
pub(crate) const ONLY_V6: OptionId = (c::IPPROTO_IPV6, c::IPV6_V6ONLY);
pub(crate) const NO_DELAY: OptionId = (c::IPPROTO_TCP, c::TCP_NODELAY);
pub(crate) const USER_TIMEOUT: OptionId = (c::IPPROTO_TCP, c::TCP_USER_TIMEOUT);
pub(crate) const CONGESTION: OptionId = (c::IPPROTO_TCP, c::TCP_CONGESTION);
const LINGER: OptionId = (c::SOL_SOCKET, c::SO_LINGER);
pub(crate) const RECEIVE_TIMEOUT: OptionId = (c::SOL_SOCKET, c::SO_RCVTIMEO);
const SEND_TIMEOUT: OptionId = (c::SOL_SOCKET, c::SO_SNDTIMEO);

/// One of the two timeouts of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timeout {
    /// `SO_RCVTIMEO`, of receiving and accepting.
    Receive,
    /// `SO_SNDTIMEO`, of sending and connecting.
    Send,
}

/// Converts a return value.
fn check(result: i32) -> io::Result<i32> {
    if result >= 0 { Ok(result) } else { Err(error(result)) }
}

/// Converts a return value that is a number of bytes.
fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| error(i32::try_from(result).unwrap_or(-1)))
}

/// The error of a call: `errno` on Linux, the negated result on this kernel.
fn error(result: i32) -> io::Error {
    if cfg!(target_os = "hermit") {
        io::Error::from_raw_os_error(-result)
    } else {
        io::Error::last_os_error()
    }
}

/// The size of a structure as `socklen_t`.
fn length<T>() -> c::socklen_t {
    c::socklen_t::try_from(size_of::<T>()).unwrap_or(c::socklen_t::MAX)
}

fn owned(result: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call has just created this descriptor, so nothing else owns it.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates a socket, neither bound nor connected.
pub(crate) fn socket(family: i32, socket_type: i32) -> io::Result<OwnedFd> {
    // SAFETY: only integers are passed.
    owned(unsafe { c::socket(family, socket_type, 0) })
}

/// Creates an eventfd.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: only integers are passed.
    owned(unsafe { c::eventfd(0, 0) })
}

/// Creates an epoll instance.
pub(crate) fn epoll_create(flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: only integers are passed.
    owned(unsafe { c::epoll_create1(flags) })
}

/// Calls `epoll_ctl`, with events and data, or a null pointer.
pub(crate) fn epoll_control(
    epoll: impl AsFd,
    operation: i32,
    fd: RawFd,
    event: Option<(u32, u64)>,
) -> io::Result<()> {
    let mut event = event.map(|(events, u64)| c::epoll_event { events, u64 });
    let event = event.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: the pointer is null or to an event that lives until the call returns.
    check(unsafe { c::epoll_ctl(raw(&epoll), operation, fd, event) }).map(drop)
}

/// The events and data that `epoll_wait` stored.
fn stored(events: &[c::epoll_event], count: i32) -> Vec<(u32, u64)> {
    let count = usize::try_from(count).unwrap_or_default();
    events[..count].iter().map(|event| (event.events, event.u64)).collect()
}

/// Waits for at most `max` events.
pub(crate) fn epoll_wait(epoll: impl AsFd, max: i32, milliseconds: i32) -> io::Result<Vec<(u32, u64)>> {
    let mut events = vec![c::epoll_event { events: 0, u64: 0 }; usize::try_from(max).unwrap_or_default()];
    // SAFETY: pointer and number are those of a vector that lives until the call returns.
    let count = check(unsafe { c::epoll_wait(raw(&epoll), events.as_mut_ptr(), max, milliseconds) })?;
    Ok(stored(&events, count))
}

/// Calls `epoll_wait` for one descriptor, with any maximum; returns the number of events.
pub(crate) fn epoll_wait_in_place(epoll: impl AsFd, max: i32, milliseconds: i32) -> io::Result<i32> {
    let mut event = c::epoll_event { events: 0, u64: 0 };
    // SAFETY: one descriptor has at most one event, for which there is room.
    check(unsafe { c::epoll_wait(raw(&epoll), &raw mut event, max, milliseconds) })
}

/// Calls `epoll_wait` for one event without memory for it; returns the number of events.
pub(crate) fn epoll_wait_nowhere(epoll: impl AsFd, milliseconds: i32) -> io::Result<i32> {
    // SAFETY: null is an address at which no event is stored.
    check(unsafe { c::epoll_wait(raw(&epoll), ptr::null_mut(), 1, milliseconds) })
}

/// Waits for at most `max` events, with a timeout in nanoseconds.
pub(crate) fn epoll_wait_precise(
    epoll: impl AsFd,
    max: i32,
    timeout: Option<Duration>,
) -> io::Result<Vec<(u32, u64)>> {
    let timeout = timeout.map(|timeout| c::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        #[cfg(target_os = "hermit")]
        tv_nsec: timeout.subsec_nanos().cast_signed(),
        #[cfg(not(target_os = "hermit"))]
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let mut events = vec![c::epoll_event { events: 0, u64: 0 }; usize::try_from(max).unwrap_or_default()];
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: pointers and number are those of values that live until the call returns.
    let count =
        check(unsafe { c::epoll_pwait2(raw(&epoll), events.as_mut_ptr(), max, timeout, ptr::null()) })?;
    Ok(stored(&events, count))
}

/// Duplicates a descriptor.
pub(crate) fn dup(fd: impl AsFd) -> io::Result<OwnedFd> {
    // SAFETY: only integers are passed.
    owned(unsafe { c::dup(raw(&fd)) })
}

/// Limits the program to 1,024 descriptors, the limit of this kernel.
#[cfg(not(target_os = "hermit"))]
pub(crate) fn limit_descriptors() -> io::Result<()> {
    let mut limit = c::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable until the call returns.
    check(unsafe { c::getrlimit(c::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = 1_024;
    // SAFETY: `limit` is readable until the call returns.
    check(unsafe { c::setrlimit(c::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// This kernel's limit is fixed.
#[cfg(target_os = "hermit")]
pub(crate) fn limit_descriptors() -> io::Result<()> {
    Ok(())
}

/// A number that is not an open descriptor.
pub(crate) fn closed_descriptor() -> BorrowedFd<'static> {
    // SAFETY: the number is above the limit of descriptors, so it never becomes open, and calls fail with
    // `EBADF`.
    unsafe { BorrowedFd::borrow_raw(99_999) }
}

/// Takes ownership of a descriptor number.
pub(crate) fn adopt(number: RawFd) -> OwnedFd {
    // SAFETY: the only caller got the number from `into_raw_fd`, which gave up ownership.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// The number of a descriptor.
pub(crate) fn raw(fd: &impl AsFd) -> RawFd {
    fd.as_fd().as_raw_fd()
}

/// A socket address in C's representation.
#[repr(C)]
union Address {
    any: c::sockaddr,
    v4: c::sockaddr_in,
    v6: c::sockaddr_in6,
}

impl Address {
    fn new(address: SocketAddr) -> (Self, c::socklen_t) {
        match address {
            SocketAddr::V4(address) => {
                // SAFETY: the structure consists of integers, for which all zeroes are valid.
                let mut v4: c::sockaddr_in = unsafe { mem::zeroed() };
                v4.sin_family = c::sa_family_t::try_from(c::AF_INET).unwrap_or_default();
                v4.sin_port = address.port().to_be();
                v4.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                (Self { v4 }, length::<c::sockaddr_in>())
            }
            SocketAddr::V6(address) => {
                // SAFETY: the structure consists of integers, for which all zeroes are valid.
                let mut v6: c::sockaddr_in6 = unsafe { mem::zeroed() };
                v6.sin6_family = c::sa_family_t::try_from(c::AF_INET6).unwrap_or_default();
                v6.sin6_port = address.port().to_be();
                v6.sin6_addr.s6_addr = address.ip().octets();
                v6.sin6_scope_id = address.scope_id();
                (Self { v6 }, length::<c::sockaddr_in6>())
            }
        }
    }

    /// The address `AF_UNSPEC`, which disconnects a datagram socket.
    fn none() -> (Self, c::socklen_t) {
        // SAFETY: the structure consists of integers, for which all zeroes are valid; family 0 is
        // `AF_UNSPEC`.
        (Self { any: unsafe { mem::zeroed() } }, length::<c::sockaddr>())
    }

    fn pointer(&self) -> *const c::sockaddr {
        (&raw const *self).cast()
    }
}

pub(crate) fn bind(fd: impl AsFd, address: SocketAddr) -> io::Result<()> {
    let (address, length) = Address::new(address);
    // SAFETY: pointer and length are those of an address that lives until the call returns.
    check(unsafe { c::bind(raw(&fd), address.pointer(), length) }).map(drop)
}

/// Connects, or without an address disconnects a datagram socket.
pub(crate) fn connect(fd: impl AsFd, address: Option<SocketAddr>) -> io::Result<()> {
    let (address, length) = address.map_or_else(Address::none, Address::new);
    // SAFETY: pointer and length are those of an address that lives until the call returns.
    check(unsafe { c::connect(raw(&fd), address.pointer(), length) }).map(drop)
}

pub(crate) fn listen(fd: impl AsFd, backlog: i32) -> io::Result<()> {
    // SAFETY: only integers are passed.
    check(unsafe { c::listen(raw(&fd), backlog) }).map(drop)
}

pub(crate) fn shutdown(fd: impl AsFd, how: i32) -> io::Result<()> {
    // SAFETY: only integers are passed.
    check(unsafe { c::shutdown(raw(&fd), how) }).map(drop)
}

/// Calls `recv`.
pub(crate) fn receive(fd: impl AsFd, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    count(unsafe { c::recv(raw(&fd), buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

/// Calls `send` without flags.
pub(crate) fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_with(fd, bytes, 0)
}

/// Calls `send`.
pub(crate) fn send_with(fd: impl AsFd, bytes: &[u8], flags: i32) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    count(unsafe { c::send(raw(&fd), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// Calls `sendto`, with an address of any family.
pub(crate) fn send_to(fd: impl AsFd, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
    let (to, length) = Address::new(to);
    // SAFETY: pointers and lengths are those of a slice and an address that live until the call returns.
    count(unsafe { c::sendto(raw(&fd), bytes.as_ptr().cast(), bytes.len(), 0, to.pointer(), length) })
}

/// Calls `read`.
pub(crate) fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    count(unsafe { c::read(raw(&fd), buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Calls `write`.
pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    count(unsafe { c::write(raw(&fd), bytes.as_ptr().cast(), bytes.len()) })
}

pub(crate) fn fcntl(fd: impl AsFd, command: i32, argument: i32) -> io::Result<i32> {
    // SAFETY: only integers are passed.
    check(unsafe { c::fcntl(raw(&fd), command, argument) })
}

/// Sets the non-blocking mode by `FIONBIO`.
pub(crate) fn set_nonblocking(fd: impl AsFd, on: bool) -> io::Result<()> {
    let mut argument = i32::from(on);
    // SAFETY: the argument lives until the call returns.
    check(unsafe { c::ioctl(raw(&fd), c::FIONBIO, (&raw mut argument).cast::<c_void>()) }).map(drop)
}

fn set<T>(fd: &impl AsFd, (level, name): OptionId, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length are those of a value that lives until the call returns.
    check(unsafe { c::setsockopt(raw(fd), level, name, (&raw const *value).cast(), length::<T>()) }).map(drop)
}

/// Reads an option and its length.
fn get<T>(fd: &impl AsFd, (level, name): OptionId) -> io::Result<(T, c::socklen_t)> {
    let mut length = length::<T>();
    // SAFETY: all callers are in this file, and use structures of integers, for which all zeroes are valid.
    let mut value: T = unsafe { mem::zeroed() };
    // SAFETY: pointer and length are those of a value that lives until the call returns.
    check(unsafe { c::getsockopt(raw(fd), level, name, (&raw mut value).cast(), &raw mut length) })?;
    Ok((value, length))
}

/// Sets an integer option.
pub(crate) fn set_option(fd: impl AsFd, name: OptionId, value: i32) -> io::Result<()> {
    set(&fd, name, &value)
}

/// Sets an option with a length of 0, which is too short.
pub(crate) fn set_short_option(fd: impl AsFd, name: OptionId) -> io::Result<()> {
    set::<[u8; 0]>(&fd, name, &[])
}

/// Reads an integer option.
pub(crate) fn option(fd: impl AsFd, name: OptionId) -> io::Result<i32> {
    get::<i32>(&fd, name).map(|(value, _)| value)
}

/// Sets an option whose value is a name, without a null byte.
pub(crate) fn set_name(fd: impl AsFd, (level, option): OptionId, name: &str) -> io::Result<()> {
    let length = c::socklen_t::try_from(name.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer is to as many bytes as the length says, which live until the call returns.
    check(unsafe { c::setsockopt(raw(&fd), level, option, name.as_ptr().cast(), length) }).map(drop)
}

/// Reads an option whose value is a name, padded with null bytes.
pub(crate) fn name(fd: impl AsFd, option: OptionId) -> io::Result<String> {
    let (bytes, length) = get::<[u8; 16]>(&fd, option)?;
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(format!("{}, {length} bytes", String::from_utf8_lossy(name)))
}

/// Reads the length of an integer option in bytes.
pub(crate) fn option_length(fd: impl AsFd, name: OptionId) -> io::Result<u32> {
    get::<i32>(&fd, name).map(|(_, length)| length)
}

/// Memory that begins at an address which is a multiple of 8.
#[repr(align(8))]
struct Aligned([u8; 8]);

/// Reads an integer option to memory that is not aligned for an integer.
pub(crate) fn option_at_odd_address(fd: impl AsFd, (level, name): OptionId) -> io::Result<i32> {
    let mut memory = Aligned([0; 8]);
    let [_, value @ .., _, _, _] = &mut memory.0;
    let mut length = length::<i32>();
    // SAFETY: the pointer is to four bytes, as the length says, that live until the call returns.
    check(unsafe { c::getsockopt(raw(&fd), level, name, value.as_mut_ptr().cast(), &raw mut length) })?;
    Ok(i32::from_ne_bytes(*value))
}

/// Sets `SO_LINGER`, in seconds.
pub(crate) fn set_linger(fd: impl AsFd, seconds: Option<i32>) -> io::Result<()> {
    let value = c::linger { l_onoff: i32::from(seconds.is_some()), l_linger: seconds.unwrap_or_default() };
    set(&fd, LINGER, &value)
}

pub(crate) fn linger(fd: impl AsFd) -> io::Result<Option<i32>> {
    get::<c::linger>(&fd, LINGER).map(|(value, _)| (value.l_onoff != 0).then_some(value.l_linger))
}

/// Microseconds of a `timeval`.
pub(crate) type Microseconds = c::suseconds_t;

/// Sets a timeout, which may be invalid.
pub(crate) fn set_timeout(fd: impl AsFd, limit: Timeout, seconds: i64, part: Microseconds) -> io::Result<()> {
    let name = match limit {
        Timeout::Receive => RECEIVE_TIMEOUT,
        Timeout::Send => SEND_TIMEOUT,
    };
    set(&fd, name, &c::timeval { tv_sec: seconds, tv_usec: part })
}

/// A descriptor's number and the requested events.
pub(crate) type PollRequest = (RawFd, i16);

/// Polls; returns the number of ready descriptors, and the events of each.
pub(crate) fn poll(requests: &[PollRequest], milliseconds: i32) -> io::Result<(i32, Vec<i16>)> {
    let entry = |&(fd, events): &PollRequest| c::pollfd { fd, events, revents: -1 };
    let mut entries: Vec<c::pollfd> = requests.iter().map(entry).collect();
    let many = c::nfds_t::try_from(entries.len()).unwrap_or_default();
    // SAFETY: pointer and length are those of a vector that lives until the call returns.
    let result = unsafe { c::poll(entries.as_mut_ptr(), many, milliseconds) };
    // On this kernel, too, `poll` reports its error in `errno`.
    let ready = if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }?;
    Ok((ready, entries.iter().map(|entry| entry.revents).collect()))
}
