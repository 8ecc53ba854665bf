//! Sockets. There is no network yet, so no descriptor is a socket.

use core::ffi::{c_char, c_void};

use hermit_abi::{EAI_FAIL, addrinfo, sockaddr, socklen_t};
use hermit_interface::Errno;

use super::{export_plain, returned, unsupported};
use crate::descriptors;

/// What a call on a descriptor returns that is no socket.
fn no_socket<T>(fd: i32) -> Result<T, Errno> {
    descriptors::get(fd).and(Err(Errno::ENOTSOCK))
}

export_plain! {
    fn sys_listen as listen(fd: i32, _backlog: i32) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_shutdown as shutdown(fd: i32, _how: i32) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_shutdown_socket as shutdown_socket(fd: i32, _how: i32) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_bind as bind(fd: i32, _name: *const sockaddr, _len: socklen_t) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_connect as connect(fd: i32, _name: *const sockaddr, _len: socklen_t) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_accept as accept(fd: i32, _name: *mut sockaddr, _len: *mut socklen_t) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_getpeername as getpeername(fd: i32, _name: *mut sockaddr, _len: *mut socklen_t) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_getsockname as getsockname(fd: i32, _name: *mut sockaddr, _len: *mut socklen_t) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_send as send(fd: i32, _mem: *const c_void, _len: usize, _flags: i32) -> isize {
        returned(no_socket(fd))
    }

    fn sys_sendto as sendto(
        fd: i32, _mem: *const c_void, _len: usize, _flags: i32, _to: *const sockaddr, _to_len: socklen_t
    ) -> isize {
        returned(no_socket(fd))
    }

    fn sys_recv as recv(fd: i32, _buf: *mut u8, _len: usize, _flags: i32) -> isize {
        returned(no_socket(fd))
    }

    fn sys_recvfrom as recvfrom(
        fd: i32, _buf: *mut u8, _len: usize, _flags: i32, _from: *mut sockaddr, _from_len: *mut socklen_t
    ) -> isize {
        returned(no_socket(fd))
    }

    fn sys_getsockopt as getsockopt(
        fd: i32, _level: i32, _name: i32, _value: *mut c_void, _len: *mut socklen_t
    ) -> i32 {
        returned(no_socket(fd))
    }

    fn sys_setsockopt as setsockopt(
        fd: i32, _level: i32, _name: i32, _value: *const c_void, _len: socklen_t
    ) -> i32 {
        returned(no_socket(fd))
    }

    /// Its errors are `EAI_*`, not `errno`.
    fn sys_getaddrinfo as getaddrinfo(
        _node: *const c_char, _service: *const c_char, _hints: *const addrinfo, _result: *mut *mut addrinfo
    ) -> i32 {
        EAI_FAIL
    }

    /// Nothing was ever handed out that could be freed.
    fn sys_freeaddrinfo as freeaddrinfo(_list: *mut addrinfo) {}
}

unsupported! {
    ENOSYS;
    sys_socket as socket(i32, i32, i32) -> i32,
    sys_getaddrbyname as getaddrbyname(*const c_char, *mut u8, usize) -> i32,
    sys_network_init as network_init() -> i32,
}
