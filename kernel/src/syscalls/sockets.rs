//! Sockets.

use core::any::Any;
use core::ffi::c_void;
use core::mem::offset_of;
use core::net::Ipv4Addr;

use alloc::sync::Arc;

use hermit_abi::{
    AF_INET, AF_INET6, AF_UNSPEC, IPPROTO_TCP, IPPROTO_UDP, MSG_PEEK, SHUT_RDWR, SOCK_CLOEXEC, SOCK_DGRAM,
    SOCK_NONBLOCK, SOCK_STREAM, sockaddr, socklen_t,
};
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};
use hermit_io::{Object, ReadBuffer};

use super::user::{UserBuffer, UserSlice};
use super::{addresses, export, options};
use crate::descriptors;
use crate::net::socket::{Kind, Socket};

/// Selects the default protocol of a socket type.
const DEFAULT_PROTOCOL: i32 = 0;

/// The object of a descriptor that should be a socket's.
struct SocketRef(Arc<dyn Object>);

impl SocketRef {
    fn new(fd: i32) -> Result<Self, Errno> {
        descriptors::get(fd).map(Self)
    }

    fn socket(&self) -> Result<&Socket, Errno> {
        let object: &dyn Any = &*self.0;
        object.downcast_ref().ok_or(Errno::ENOTSOCK)
    }
}

/// Calls `action` with the socket of a descriptor.
fn with_socket<R>(fd: i32, action: impl FnOnce(&Socket) -> Result<R, Errno>) -> Result<R, Errno> {
    action(SocketRef::new(fd)?.socket()?)
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
        (SOCK_STREAM, DEFAULT_PROTOCOL | IPPROTO_TCP) => Ok(Kind::Stream),
        (SOCK_DGRAM, DEFAULT_PROTOCOL | IPPROTO_UDP) => Ok(Kind::Datagram),
        (SOCK_STREAM | SOCK_DGRAM, _) => Err(Errno::EPROTONOSUPPORT),
        // Linux: unknown or unsupported socket type.
        _ => Err(Errno::EINVAL),
    }
}

/// Reads an address for a socket. With `map_v4`, a UDP socket of IPv6 takes IPv4 addresses as IPv4-mapped ones, as
/// Linux does in some calls.
fn address(socket: &Socket, name: &UserSlice<'_, u8>, map_v4: bool) -> Result<Endpoint, Errno> {
    let address = addresses::read(name)?;
    match (socket.family(), address.family) {
        (V6, V4) if map_v4 && socket.kind() == Kind::Datagram => Ok(mapped(&address)),
        // Linux finds the address too short for IPv6.
        (V6, V4) => Err(Errno::EINVAL),
        (V4, V6) => Err(Errno::EAFNOSUPPORT),
        _ => Ok(address),
    }
}

/// The IPv4-mapped IPv6 address of an IPv4 address.
fn mapped(address: &Endpoint) -> Endpoint {
    let [a, b, c, d, ..] = address.address;
    let mapped = Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets();
    Endpoint { family: V6, address: mapped, ..*address }
}

/// Whether the family of an address is `AF_UNSPEC`: connecting a UDP socket to it dissolves the association with its
/// peer.
fn is_unspecified(name: &UserSlice<'_, u8>) -> Result<bool, Errno> {
    if name.len() < size_of::<sockaddr>() {
        return Ok(false);
    }
    Ok(name.get()?.get(offset_of!(sockaddr, sa_family)).copied().map(i32::from) == Some(AF_UNSPEC))
}

fn send(fd: i32, bytes: &UserSlice<'_, u8>, to: Option<&Endpoint>) -> Result<isize, Errno> {
    let bytes = bytes.get()?;
    let sent = with_socket(fd, |socket| socket.send(bytes, to))?;
    isize::try_from(sent).map_err(|_| Errno::EOVERFLOW)
}

/// Receives bytes; returns their number and the sender.
fn receive(fd: i32, buffer: UserBuffer<'_>, flags: i32) -> Result<(isize, Endpoint), Errno> {
    if flags & !MSG_PEEK != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut buffer = ReadBuffer::new(buffer.get()?);
    let from = with_socket(fd, |socket| socket.receive(&mut buffer, flags & MSG_PEEK != 0))?;
    Ok((isize::try_from(buffer.len()).map_err(|_| Errno::EOVERFLOW)?, from))
}

fn shutdown(fd: i32, how: i32) -> Result<i32, Errno> {
    if !(0..=SHUT_RDWR).contains(&how) {
        return Err(Errno::EINVAL);
    }
    with_socket(fd, |socket| socket.shutdown(how)).map(|()| 0)
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

    fn sys_bind as bind(fd: i32, name: *const sockaddr, len: socklen_t) -> i32
    where name: UserSlice::sized(name, len) {
        with_socket(fd, |socket| socket.bind(&address(socket, &name, false)?)).map(|()| 0)
    }

    fn sys_listen as listen(fd: i32, backlog: i32) -> i32 {
        with_socket(fd, |socket| socket.listen(backlog)).map(|()| 0)
    }

    fn sys_accept as accept(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32
    where out: UserResult::new(name, len) {
        // Without a free descriptor the connection stays in the listener's queue.
        let (listener, reserved) = descriptors::get_and_reserve(fd)?;
        let (socket, from) = SocketRef(listener).socket()?.accept()?;
        addresses::write_if_wanted(&from, out)?;
        Ok(reserved.open(socket))
    }

    fn sys_connect as connect(fd: i32, name: *const sockaddr, len: socklen_t) -> i32
    where name: UserSlice::sized(name, len) {
        with_socket(fd, |socket| {
            if socket.kind() == Kind::Datagram && is_unspecified(&name)? {
                return socket.connect(&Endpoint::default());
            }
            socket.connect(&address(socket, &name, true)?)
        }).map(|()| 0)
    }

    /// Ignores the flags; `MSG_NOSIGNAL`, which std sets, is what always happens: there is no `SIGPIPE`.
    fn sys_send as send(fd: i32, mem: *const c_void, len: usize, _flags: i32) -> isize
    where bytes: UserSlice::bytes(mem, len) {
        send(fd, &bytes, None)
    }

    fn sys_sendto as sendto(
        fd: i32, mem: *const c_void, len: usize, _flags: i32, to: *const sockaddr, to_len: socklen_t
    ) -> isize
    where bytes: UserSlice::bytes(mem, len), peer: UserSlice::sized(to, to_len) {
        if to.is_null() {
            return send(fd, &bytes, None);
        }
        let peer = with_socket(fd, |socket| address(socket, &peer, true))?;
        send(fd, &bytes, Some(&peer))
    }

    fn sys_recv as recv(fd: i32, buf: *mut u8, len: usize, flags: i32) -> isize
    where buffer: UserBuffer::buffer(buf, len) {
        receive(fd, buffer, flags).map(|(count, _)| count)
    }

    fn sys_recvfrom as recvfrom(
        fd: i32, buf: *mut u8, len: usize, flags: i32, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> isize
    where buffer: UserBuffer::buffer(buf, len), out: UserResult::new(from, from_len) {
        let (count, sender) = receive(fd, buffer, flags)?;
        addresses::write_if_wanted(&sender, out)?;
        Ok(count)
    }

    fn sys_shutdown as shutdown(fd: i32, how: i32) -> i32 {
        shutdown(fd, how)
    }

    fn sys_shutdown_socket as shutdown_socket(fd: i32, how: i32) -> i32 {
        shutdown(fd, how)
    }

    fn sys_getsockname as getsockname(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32
    where out: UserResult::new(name, len) {
        addresses::write(&with_socket(fd, Socket::local)?, out).map(|()| 0)
    }

    fn sys_getpeername as getpeername(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32
    where out: UserResult::new(name, len) {
        addresses::write(&with_socket(fd, Socket::remote)?, out).map(|()| 0)
    }

    fn sys_getsockopt as getsockopt(
        fd: i32, level: i32, name: i32, value: *mut c_void, len: *mut socklen_t
    ) -> i32
    where out: UserResult::new(value, len) {
        with_socket(fd, |socket| options::get(socket, (level, name), out)).map(|()| 0)
    }

    fn sys_setsockopt as setsockopt(
        fd: i32, level: i32, name: i32, value: *const c_void, len: socklen_t
    ) -> i32
    where value: UserSlice::sized(value, len) {
        with_socket(fd, |socket| options::set(socket, (level, name), &value)).map(|()| 0)
    }
}
