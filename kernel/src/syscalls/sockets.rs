//! Sockets.

use core::ffi::c_void;

use hermit_abi::{
    MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL, SHUT_RDWR, SOCK_CLOEXEC, SOCK_NONBLOCK, sockaddr,
    socklen_t,
};
use hermit_interface::Errno;
use hermit_io::{MessageFlags, Object, ReadBuffer, Socket, ValueResult};

use super::user::{UserBuffer, UserResult, UserSlice};
use super::{count, export};
use crate::descriptors;
use crate::net::socket::create;

/// Returns the socket of an object. Fails with `ENOTSOCK` if the object is not a socket.
fn expect_socket(object: &dyn Object) -> Result<&dyn Socket, Errno> {
    object.as_socket().ok_or(Errno::ENOTSOCK)
}

/// Calls `action` with the socket of a descriptor.
fn with_socket<R>(fd: i32, action: impl FnOnce(&dyn Socket) -> Result<R, Errno>) -> Result<R, Errno> {
    action(expect_socket(&*descriptors::get(fd)?)?)
}

/// Calls `action` with the socket of a descriptor and an argument for its result.
fn with_result(
    fd: i32,
    mut out: UserResult<'_>,
    action: impl FnOnce(&dyn Socket, &mut dyn ValueResult) -> Result<(), Errno>,
) -> Result<i32, Errno> {
    with_socket(fd, |socket| action(socket, &mut out)).map(|()| 0)
}

fn accept(fd: i32, mut from: UserResult<'_>) -> Result<i32, Errno> {
    // The descriptor is reserved first. If no descriptor is free, the connection stays in the listener's
    // queue.
    let (listener, reserved) = descriptors::get_and_reserve(fd)?;
    let socket = expect_socket(&*listener)?.accept(from.if_wanted())?;
    Ok(reserved.open(socket))
}

/// The flags that sending calls accept, and the flags that receiving calls accept. `MSG_NOSIGNAL` has no
/// effect, since `SIGPIPE` does not exist.
const SEND_FLAGS: i32 = MSG_DONTWAIT | MSG_NOSIGNAL;
const RECEIVE_FLAGS: i32 = MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL;

/// Converts the flags of a call. Fails with `EOPNOTSUPP` for flags that the call does not support, and for
/// `MSG_PEEK` with `MSG_WAITALL`.
fn message_flags(flags: i32, known: i32) -> Result<MessageFlags, Errno> {
    const PEEK_ALL: i32 = MSG_PEEK | MSG_WAITALL;
    if flags & !known != 0 || flags & PEEK_ALL == PEEK_ALL {
        return Err(Errno::EOPNOTSUPP);
    }
    let has = |flag| flags & flag != 0;
    Ok(MessageFlags { peek: has(MSG_PEEK), dont_wait: has(MSG_DONTWAIT), wait_all: has(MSG_WAITALL) })
}

fn send(fd: i32, bytes: &UserSlice<'_, u8>, flags: i32) -> Result<isize, Errno> {
    let bytes = bytes.get()?;
    with_socket(fd, |socket| socket.send(bytes, message_flags(flags, SEND_FLAGS)?)).map(count)
}

/// Receives bytes; returns their number.
fn receive(
    fd: i32,
    buffer: UserBuffer<'_>,
    flags: i32,
    from: Option<&mut dyn ValueResult>,
) -> Result<isize, Errno> {
    let mut buffer = ReadBuffer::new(buffer.get()?);
    with_socket(fd, |socket| socket.receive(&mut buffer, message_flags(flags, RECEIVE_FLAGS)?, from))?;
    Ok(count(buffer.len()))
}

/// Does [`receive`], and stores the sender's address.
fn receive_from(
    fd: i32,
    buffer: UserBuffer<'_>,
    flags: i32,
    mut from: UserResult<'_>,
) -> Result<isize, Errno> {
    receive(fd, buffer, flags, from.if_wanted())
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
        let socket_type = type_ & !(SOCK_NONBLOCK | SOCK_CLOEXEC);
        descriptors::open(create(domain, socket_type, protocol, type_ & SOCK_NONBLOCK != 0)?)
    }

    fn sys_bind as bind(fd: i32, name: *const sockaddr, len: socklen_t) -> i32
    where name: UserSlice::sized(name, len) {
        with_socket(fd, |socket| socket.bind(name.get()?)).map(|()| 0)
    }

    fn sys_listen as listen(fd: i32, backlog: i32) -> i32 {
        with_socket(fd, |socket| socket.listen(backlog)).map(|()| 0)
    }

    fn sys_accept as accept(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32
    where out: UserResult::new(name, len) {
        accept(fd, out)
    }

    fn sys_connect as connect(fd: i32, name: *const sockaddr, len: socklen_t) -> i32
    where name: UserSlice::sized(name, len) {
        with_socket(fd, |socket| socket.connect(name.get()?)).map(|()| 0)
    }

    fn sys_send as send(fd: i32, mem: *const c_void, len: usize, flags: i32) -> isize
    where bytes: UserSlice::bytes(mem, len) {
        send(fd, &bytes, flags)
    }

    fn sys_sendto as sendto(
        fd: i32, mem: *const c_void, len: usize, flags: i32, to: *const sockaddr, to_len: socklen_t
    ) -> isize
    where bytes: UserSlice::bytes(mem, len), peer: UserSlice::sized(to, to_len) {
        if to.is_null() {
            return send(fd, &bytes, flags);
        }
        with_socket(fd, |socket| {
            socket.send_to(bytes.into(), peer.get()?, message_flags(flags, SEND_FLAGS)?)
        })
        .map(count)
    }

    fn sys_recv as recv(fd: i32, buf: *mut u8, len: usize, flags: i32) -> isize
    where buffer: UserBuffer::buffer(buf, len) {
        receive(fd, buffer, flags, None)
    }

    fn sys_recvfrom as recvfrom(
        fd: i32, buf: *mut u8, len: usize, flags: i32, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> isize
    where buffer: UserBuffer::buffer(buf, len), out: UserResult::new(from, from_len) {
        receive_from(fd, buffer, flags, out)
    }

    fn sys_shutdown as shutdown(fd: i32, how: i32) -> i32 {
        shutdown(fd, how)
    }

    fn sys_shutdown_socket as shutdown_socket(fd: i32, how: i32) -> i32 {
        shutdown(fd, how)
    }

    fn sys_getsockname as getsockname(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32
    where out: UserResult::new(name, len) {
        with_result(fd, out, |socket, out| socket.local(out))
    }

    fn sys_getpeername as getpeername(fd: i32, name: *mut sockaddr, len: *mut socklen_t) -> i32
    where out: UserResult::new(name, len) {
        with_result(fd, out, |socket, out| socket.remote(out))
    }

    fn sys_getsockopt as getsockopt(
        fd: i32, level: i32, name: i32, value: *mut c_void, len: *mut socklen_t
    ) -> i32
    where out: UserResult::new(value, len) {
        with_result(fd, out, |socket, out| socket.option((level, name), out))
    }

    fn sys_setsockopt as setsockopt(
        fd: i32, level: i32, name: i32, value: *const c_void, len: socklen_t
    ) -> i32
    where value: UserSlice::sized(value, len) {
        with_socket(fd, |socket| socket.set_option((level, name), &value.into())).map(|()| 0)
    }
}
