//! Sockets.

use core::any::Any;
use core::ffi::c_void;
use core::net::Ipv4Addr;

use alloc::sync::Arc;

use hermit_abi::{
    AF_INET, AF_INET6, AF_UNSPEC, IPPROTO_TCP, IPPROTO_UDP, MSG_PEEK, SHUT_RDWR, SOCK_CLOEXEC, SOCK_DGRAM,
    SOCK_NONBLOCK, SOCK_STREAM, sockaddr, socklen_t,
};
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};
use hermit_io::{Object, ReadBuffer};

use super::{addresses, export, options, user};
use crate::descriptors;
use crate::net::socket::{Kind, Socket};

/// A protocol that the program leaves open.
const ANY_PROTOCOL: i32 = 0;

/// The object of a socket's descriptor.
struct Found(Arc<dyn Object>);

impl Found {
    fn new(fd: i32) -> Result<Self, Errno> {
        descriptors::get(fd).map(Self)
    }

    fn socket(&self) -> Result<&Socket, Errno> {
        let object: &dyn Any = &*self.0;
        object.downcast_ref().ok_or(Errno::ENOTSOCK)
    }
}

/// Calls something of the socket behind a descriptor.
fn with<R>(fd: i32, action: impl FnOnce(&Socket) -> Result<R, Errno>) -> Result<R, Errno> {
    action(Found::new(fd)?.socket()?)
}

fn family(domain: i32) -> Result<u16, Errno> {
    match domain {
        AF_INET => Ok(V4),
        AF_INET6 => Ok(V6),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

fn kind(type_: i32, protocol: i32) -> Result<Kind, Errno> {
    match (type_ & !(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol) {
        (SOCK_STREAM, ANY_PROTOCOL | IPPROTO_TCP) => Ok(Kind::Stream),
        (SOCK_DGRAM, ANY_PROTOCOL | IPPROTO_UDP) => Ok(Kind::Datagram),
        (SOCK_STREAM | SOCK_DGRAM, _) => Err(Errno::EPROTONOSUPPORT),
        // There is no other kind.
        _ => Err(Errno::EINVAL),
    }
}

/// The address of a call. An address of IPv4 is to a datagram socket of IPv6 as if it were mapped, where Linux has it so.
///
/// # Safety
///
/// As for [`addresses::read`].
unsafe fn address(
    socket: &Socket,
    name: *const sockaddr,
    len: socklen_t,
    may_be_mapped: bool,
) -> Result<Endpoint, Errno> {
    // SAFETY: the caller's promise.
    let address = unsafe { addresses::read(name, len) }?;
    match (socket.family(), address.family) {
        (V6, V4) if may_be_mapped && socket.kind() == Kind::Datagram => Ok(mapped(&address)),
        // It is too short for one of IPv6.
        (V6, V4) => Err(Errno::EINVAL),
        (V4, V6) => Err(Errno::EAFNOSUPPORT),
        _ => Ok(address),
    }
}

/// An address of IPv4 as one of IPv6.
fn mapped(address: &Endpoint) -> Endpoint {
    let [a, b, c, d, ..] = address.address;
    let mapped = Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets();
    Endpoint { family: V6, address: mapped, ..*address }
}

/// Whether an address stands for none: connecting to it ends a connection of datagrams.
///
/// # Safety
///
/// As for [`addresses::read`].
unsafe fn is_none(name: *const sockaddr, len: socklen_t) -> Result<bool, Errno> {
    if (len as usize) < size_of::<sockaddr>() {
        return Ok(false);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { user::bytes(name.cast(), len as usize) }?;
    Ok(bytes.get(1).copied().map(i32::from) == Some(AF_UNSPEC))
}

/// Sends bytes.
///
/// # Safety
///
/// `mem` is null, or valid for reads of `len` bytes that do not change meanwhile.
unsafe fn send(fd: i32, mem: *const c_void, len: usize, to: Option<&Endpoint>) -> Result<isize, Errno> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { user::bytes(mem.cast(), len) }?;
    let sent = with(fd, |socket| socket.send(bytes, to))?;
    isize::try_from(sent).map_err(|_| Errno::EOVERFLOW)
}

/// Receives bytes, and says from where.
///
/// # Safety
///
/// `buf` is null, or valid for writes of `len` bytes that nobody else uses meanwhile.
unsafe fn receive(fd: i32, buf: *mut u8, len: usize, flags: i32) -> Result<(isize, Endpoint), Errno> {
    if flags & !MSG_PEEK != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    // SAFETY: the caller's promise.
    let mut buffer = ReadBuffer::new(unsafe { user::buffer(buf, len) }?);
    let from = with(fd, |socket| socket.receive(&mut buffer, flags & MSG_PEEK != 0))?;
    Ok((isize::try_from(buffer.len()).map_err(|_| Errno::EOVERFLOW)?, from))
}

fn shutdown(fd: i32, how: i32) -> Result<i32, Errno> {
    if !(0..=SHUT_RDWR).contains(&how) {
        return Err(Errno::EINVAL);
    }
    with(fd, |socket| socket.shutdown(how)).map(|()| 0)
}

export! {
    fn sys_network_init as network_init() -> i32 {
        Ok(0)
    }

    fn sys_socket as socket(domain: i32, type_: i32, protocol: i32) -> i32 {
        let family = family(domain)?;
        let socket = Socket::new(family, kind(type_, protocol)?, type_ & SOCK_NONBLOCK != 0)?;
        descriptors::open(socket)
    }

    fn sys_bind as bind(fd: i32, name: *const sockaddr, len: socklen_t) -> i32 {
        with(fd, |socket| {
            // SAFETY: the program passes an address.
            socket.bind(&unsafe { address(socket, name, len, false) }?)
        }).map(|()| 0)
    }

    fn sys_listen as listen(fd: i32, backlog: i32) -> i32 {
        with(fd, |socket| socket.listen(backlog)).map(|()| 0)
    }

    fn sys_accept as accept(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32 {
        // Who waits in the queue stays there if there is no descriptor for it.
        let (listener, reserved) = descriptors::get_and_reserve(fd)?;
        let (socket, from) = Found(listener).socket()?.accept()?;
        // SAFETY: the program passes a place for an address and its length, or null.
        unsafe { addresses::write_if_wanted(&from, name, len) }?;
        reserved.open(socket)
    }

    fn sys_connect as connect(fd: i32, name: *const sockaddr, len: socklen_t) -> i32 {
        with(fd, |socket| {
            // SAFETY: the program passes an address.
            if socket.kind() == Kind::Datagram && unsafe { is_none(name, len) }? {
                return socket.connect(&Endpoint::default());
            }
            // SAFETY: as above.
            socket.connect(&unsafe { address(socket, name, len, true) }?)
        }).map(|()| 0)
    }

    /// Flags have no meaning: `SIGPIPE` does not exist.
    fn sys_send as send(fd: i32, mem: *const c_void, len: usize, _flags: i32) -> isize {
        // SAFETY: the program passes so many bytes.
        unsafe { send(fd, mem, len, None) }
    }

    fn sys_sendto as sendto(
        fd: i32, mem: *const c_void, len: usize, _flags: i32, to: *const sockaddr, to_len: socklen_t
    ) -> isize {
        if to.is_null() {
            // SAFETY: the program passes so many bytes.
            return unsafe { send(fd, mem, len, None) };
        }
        // SAFETY: the program passes an address.
        let to = with(fd, |socket| unsafe { address(socket, to, to_len, true) })?;
        // SAFETY: the program passes so many bytes.
        unsafe { send(fd, mem, len, Some(&to)) }
    }

    fn sys_recv as recv(fd: i32, buf: *mut u8, len: usize, flags: i32) -> isize {
        // SAFETY: the program passes a buffer of this length that nobody else uses during the call.
        unsafe { receive(fd, buf, len, flags) }.map(|(count, _)| count)
    }

    fn sys_recvfrom as recvfrom(
        fd: i32, buf: *mut u8, len: usize, flags: i32, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> isize {
        // SAFETY: the program passes a buffer of this length that nobody else uses during the call.
        let (count, sender) = unsafe { receive(fd, buf, len, flags) }?;
        // SAFETY: the program passes a place for an address and its length, or null.
        unsafe { addresses::write_if_wanted(&sender, from, from_len) }?;
        Ok(count)
    }

    fn sys_shutdown as shutdown(fd: i32, how: i32) -> i32 {
        shutdown(fd, how)
    }

    fn sys_shutdown_socket as shutdown_socket(fd: i32, how: i32) -> i32 {
        shutdown(fd, how)
    }

    fn sys_getsockname as getsockname(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32 {
        let address = with(fd, Socket::local)?;
        // SAFETY: the program passes a place for an address and its length.
        unsafe { addresses::write(&address, name, len) }.map(|()| 0)
    }

    fn sys_getpeername as getpeername(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32 {
        let address = with(fd, Socket::remote)?;
        // SAFETY: the program passes a place for an address and its length.
        unsafe { addresses::write(&address, name, len) }.map(|()| 0)
    }

    fn sys_getsockopt as getsockopt(
        fd: i32, level: i32, name: i32, value: *mut c_void, len: *mut socklen_t
    ) -> i32 {
        // SAFETY: the program passes a place for a value of that length.
        with(fd, |socket| unsafe { options::get(socket, (level, name), value, len) }).map(|()| 0)
    }

    fn sys_setsockopt as setsockopt(
        fd: i32, level: i32, name: i32, value: *const c_void, len: socklen_t
    ) -> i32 {
        // SAFETY: the program passes a value of that length.
        with(fd, |socket| unsafe { options::set(socket, (level, name), value, len) }).map(|()| 0)
    }
}
