//! What std has no call for: the same calls on Linux, by `libc`, and on our kernel, by `hermit-abi`.

#![expect(unsafe_code, reason = "the functions of both are foreign")]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

#[cfg(target_os = "hermit")]
use hermit_abi as c;
#[cfg(not(target_os = "hermit"))]
use libc as c;

pub(crate) use c::{
    F_GETFL, F_SETFL, MSG_PEEK, O_NONBLOCK, O_RDWR, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI,
    POLLRDHUP, POLLRDNORM, POLLWRNORM, SHUT_RD, SHUT_RDWR, SHUT_WR, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM,
};

/// The families of addresses.
pub(crate) const V4: i32 = c::AF_INET;
pub(crate) const V6: i32 = c::AF_INET6;

/// An option of sockets: its level and its number.
pub(crate) type Name = (i32, i32);

pub(crate) const REUSE_ADDRESS: Name = (c::SOL_SOCKET, c::SO_REUSEADDR);
pub(crate) const KEEP_ALIVE: Name = (c::SOL_SOCKET, c::SO_KEEPALIVE);
pub(crate) const BROADCAST: Name = (c::SOL_SOCKET, c::SO_BROADCAST);
pub(crate) const SEND_BUFFER: Name = (c::SOL_SOCKET, c::SO_SNDBUF);
pub(crate) const RECEIVE_BUFFER: Name = (c::SOL_SOCKET, c::SO_RCVBUF);
pub(crate) const ERROR: Name = (c::SOL_SOCKET, c::SO_ERROR);
pub(crate) const TYPE_OF_SERVICE: Name = (c::IPPROTO_IP, c::IP_TOS);
pub(crate) const TIME_TO_LIVE: Name = (c::IPPROTO_IP, c::IP_TTL);
pub(crate) const ONLY_V6: Name = (c::IPPROTO_IPV6, c::IPV6_V6ONLY);
pub(crate) const NO_DELAY: Name = (c::IPPROTO_TCP, c::TCP_NODELAY);
const LINGER: Name = (c::SOL_SOCKET, c::SO_LINGER);
pub(crate) const RECEIVE_LIMIT: Name = (c::SOL_SOCKET, c::SO_RCVTIMEO);
const SEND_LIMIT: Name = (c::SOL_SOCKET, c::SO_SNDTIMEO);

/// Which of the two time limits of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Of receiving and accepting.
    Receive,
    /// Of sending and connecting.
    Send,
}

/// What a call returned, or its error.
fn check(result: i32) -> io::Result<i32> {
    if result >= 0 { Ok(result) } else { Err(error(result)) }
}

/// What a call that counts bytes returned, or its error.
fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| error(i32::try_from(result).unwrap_or(-1)))
}

/// On Linux the error is aside, on our kernel it is the negative result.
fn error(result: i32) -> io::Error {
    if cfg!(target_os = "hermit") {
        io::Error::from_raw_os_error(-result)
    } else {
        io::Error::last_os_error()
    }
}

/// The length of a structure, as calls want it.
fn length<T>() -> c::socklen_t {
    c::socklen_t::try_from(size_of::<T>()).unwrap_or(c::socklen_t::MAX)
}

fn owned(result: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket that is neither bound nor connected.
pub(crate) fn socket(family: i32, kind: i32) -> io::Result<OwnedFd> {
    // SAFETY: only numbers are passed.
    owned(unsafe { c::socket(family, kind, 0) })
}

/// A counter behind a descriptor.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: only numbers are passed.
    owned(unsafe { c::eventfd(0, 0) })
}

/// A second descriptor for the same thing.
pub(crate) fn dup(fd: impl AsFd) -> io::Result<OwnedFd> {
    // SAFETY: only numbers are passed.
    owned(unsafe { c::dup(raw(&fd)) })
}

/// Has the program have at most 1,024 descriptors, as it has on our kernel.
#[cfg(not(target_os = "hermit"))]
pub(crate) fn limit_descriptors() -> io::Result<()> {
    let mut limit = c::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives until the call returns.
    check(unsafe { c::getrlimit(c::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = 1_024;
    // SAFETY: as above.
    check(unsafe { c::setrlimit(c::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// It has no more.
#[cfg(target_os = "hermit")]
pub(crate) fn limit_descriptors() -> io::Result<()> {
    Ok(())
}

/// A number that is no descriptor's.
pub(crate) fn nowhere() -> BorrowedFd<'static> {
    // SAFETY: calls fail with it, and nothing here opens so many descriptors that it becomes one.
    unsafe { BorrowedFd::borrow_raw(99_999) }
}

/// Takes back a descriptor that was given away as a number.
pub(crate) fn adopt(number: RawFd) -> OwnedFd {
    // SAFETY: its one caller has the number from an owner that gave it up.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// The number of a descriptor.
pub(crate) fn raw(fd: &impl AsFd) -> RawFd {
    fd.as_fd().as_raw_fd()
}

/// An address in C's form, and its length.
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
                // SAFETY: the structure is made of numbers, which may be 0.
                let mut v4: c::sockaddr_in = unsafe { mem::zeroed() };
                v4.sin_family = c::sa_family_t::try_from(c::AF_INET).unwrap_or_default();
                v4.sin_port = address.port().to_be();
                v4.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                (Self { v4 }, length::<c::sockaddr_in>())
            }
            SocketAddr::V6(address) => {
                // SAFETY: the structure is made of numbers, which may be 0.
                let mut v6: c::sockaddr_in6 = unsafe { mem::zeroed() };
                v6.sin6_family = c::sa_family_t::try_from(c::AF_INET6).unwrap_or_default();
                v6.sin6_port = address.port().to_be();
                v6.sin6_addr.s6_addr = address.ip().octets();
                v6.sin6_scope_id = address.scope_id();
                (Self { v6 }, length::<c::sockaddr_in6>())
            }
        }
    }

    /// No address: what ends the connection of a datagram socket.
    fn none() -> (Self, c::socklen_t) {
        // SAFETY: the structure is made of numbers, which may be 0; the family 0 is none.
        (Self { any: unsafe { mem::zeroed() } }, length::<c::sockaddr>())
    }

    fn pointer(&self) -> *const c::sockaddr {
        (&raw const *self).cast()
    }
}

pub(crate) fn bind(fd: impl AsFd, address: SocketAddr) -> io::Result<()> {
    let (address, length) = Address::new(address);
    // SAFETY: the address is as long as it is said to be.
    check(unsafe { c::bind(raw(&fd), address.pointer(), length) }).map(drop)
}

/// Connects, or with no address ends the connection of a datagram socket.
pub(crate) fn connect(fd: impl AsFd, address: Option<SocketAddr>) -> io::Result<()> {
    let (address, length) = address.map_or_else(Address::none, Address::new);
    // SAFETY: the address is as long as it is said to be.
    check(unsafe { c::connect(raw(&fd), address.pointer(), length) }).map(drop)
}

pub(crate) fn listen(fd: impl AsFd, backlog: i32) -> io::Result<()> {
    // SAFETY: only numbers are passed.
    check(unsafe { c::listen(raw(&fd), backlog) }).map(drop)
}

pub(crate) fn shutdown(fd: impl AsFd, how: i32) -> io::Result<()> {
    // SAFETY: only numbers are passed.
    check(unsafe { c::shutdown(raw(&fd), how) }).map(drop)
}

/// Receives as the call of that name does.
pub(crate) fn receive(fd: impl AsFd, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the buffer is as long as it is said to be.
    count(unsafe { c::recv(raw(&fd), buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

/// Sends as the call of that name does.
pub(crate) fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are as long as they are said to be.
    count(unsafe { c::send(raw(&fd), bytes.as_ptr().cast(), bytes.len(), 0) })
}

/// Sends to an address, of whatever family.
pub(crate) fn send_to(fd: impl AsFd, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
    let (to, length) = Address::new(to);
    // SAFETY: the bytes and the address are as long as they are said to be.
    count(unsafe { c::sendto(raw(&fd), bytes.as_ptr().cast(), bytes.len(), 0, to.pointer(), length) })
}

/// Reads from any descriptor.
pub(crate) fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is as long as it is said to be.
    count(unsafe { c::read(raw(&fd), buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Writes to any descriptor.
pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are as long as they are said to be.
    count(unsafe { c::write(raw(&fd), bytes.as_ptr().cast(), bytes.len()) })
}

pub(crate) fn fcntl(fd: impl AsFd, command: i32, argument: i32) -> io::Result<i32> {
    // SAFETY: only numbers are passed.
    check(unsafe { c::fcntl(raw(&fd), command, argument) })
}

/// Whether calls return at once: the command `FIONBIO`.
pub(crate) fn set_nonblocking(fd: impl AsFd, on: bool) -> io::Result<()> {
    let mut argument = i32::from(on);
    // SAFETY: the argument lives until the call returns.
    check(unsafe { c::ioctl(raw(&fd), c::FIONBIO, (&raw mut argument).cast::<c_void>()) }).map(drop)
}

fn set<T>(fd: &impl AsFd, (level, name): Name, value: &T) -> io::Result<()> {
    // SAFETY: the value is as long as it is said to be.
    check(unsafe { c::setsockopt(raw(fd), level, name, (&raw const *value).cast(), length::<T>()) }).map(drop)
}

/// The value, and how long it is.
fn get<T>(fd: &impl AsFd, (level, name): Name) -> io::Result<(T, c::socklen_t)> {
    let mut length = length::<T>();
    // SAFETY: the callers are those below, whose structures are made of numbers, which may be 0.
    let mut value: T = unsafe { mem::zeroed() };
    // SAFETY: the value is as long as it is said to be.
    check(unsafe { c::getsockopt(raw(fd), level, name, (&raw mut value).cast(), &raw mut length) })?;
    Ok((value, length))
}

/// Sets an option that is a number.
pub(crate) fn set_option(fd: impl AsFd, name: Name, value: i32) -> io::Result<()> {
    set(&fd, name, &value)
}

/// Sets an option to a value that is too short.
pub(crate) fn set_short_option(fd: impl AsFd, name: Name) -> io::Result<()> {
    set::<[u8; 0]>(&fd, name, &[])
}

/// An option that is a number.
pub(crate) fn option(fd: impl AsFd, name: Name) -> io::Result<i32> {
    get::<i32>(&fd, name).map(|(value, _)| value)
}

/// How many bytes an option that is a number is said to have.
pub(crate) fn option_length(fd: impl AsFd, name: Name) -> io::Result<u32> {
    get::<i32>(&fd, name).map(|(_, length)| length)
}

/// How long closing waits for data to be taken, in seconds.
pub(crate) fn set_linger(fd: impl AsFd, seconds: Option<i32>) -> io::Result<()> {
    let value = c::linger { l_onoff: i32::from(seconds.is_some()), l_linger: seconds.unwrap_or_default() };
    set(&fd, LINGER, &value)
}

pub(crate) fn linger(fd: impl AsFd) -> io::Result<Option<i32>> {
    get::<c::linger>(&fd, LINGER).map(|(value, _)| (value.l_onoff != 0).then_some(value.l_linger))
}

/// A part of a second.
pub(crate) type Microseconds = c::suseconds_t;

/// Limits how long calls wait, to a time that need not make sense.
pub(crate) fn set_limit(fd: impl AsFd, limit: Limit, seconds: i64, part: Microseconds) -> io::Result<()> {
    let name = match limit {
        Limit::Receive => RECEIVE_LIMIT,
        Limit::Send => SEND_LIMIT,
    };
    set(&fd, name, &c::timeval { tv_sec: seconds, tv_usec: part })
}

/// A descriptor's number and the events that are asked for.
pub(crate) type Question = (RawFd, i16);

/// Asks for events; answers how many descriptors have some, and which.
pub(crate) fn poll(questions: &[Question], milliseconds: i32) -> io::Result<(i32, Vec<i16>)> {
    let entry = |&(fd, events): &Question| c::pollfd { fd, events, revents: -1 };
    let mut entries: Vec<c::pollfd> = questions.iter().map(entry).collect();
    let many = c::nfds_t::try_from(entries.len()).unwrap_or_default();
    // SAFETY: there are as many entries.
    let result = unsafe { c::poll(entries.as_mut_ptr(), many, milliseconds) };
    // On our kernel, too, this one's error is aside.
    let ready = if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }?;
    Ok((ready, entries.iter().map(|entry| entry.revents).collect()))
}
