//! Sockets and name resolution.
//!
//! Calls fail with `-EBADF` if the descriptor is not open and with `-ENOTSOCK` if it does not refer to a
//! socket.
//! The length of a returned address is a value-result argument: before the call the size of the buffer,
//! afterwards the length of the whole address.

use core::ffi::{c_char, c_void};

use crate::types::net::{addrinfo, sockaddr};
use crate::types::scalar::socklen_t;

unsafe extern "C" {
    /// Does nothing: the network starts with the first socket.
    #[link_name = "sys_network_init"]
    pub fn network_init() -> i32;

    /// Creates a socket of the address family `domain`, the socket type `type_` and the protocol `protocol`
    /// (0 for the default) and returns its descriptor.
    ///
    /// Fails with `-EAFNOSUPPORT`, `-EINVAL` or `-EPROTONOSUPPORT` if family, type or protocol is not
    /// supported, and with `-EMFILE` if no descriptor is free.
    #[link_name = "sys_socket"]
    pub fn socket(domain: i32, type_: i32, protocol: i32) -> i32;

    /// Binds a socket to the local address `name`. Fails with `-EADDRINUSE` if the address is in use and with
    /// `-EADDRNOTAVAIL` if it is not an address of this machine.
    ///
    /// # Safety
    ///
    /// `name` must be valid for reading `namelen` bytes.
    #[link_name = "sys_bind"]
    pub fn bind(s: i32, name: *const sockaddr, namelen: socklen_t) -> i32;

    /// Makes a socket listen for connections, with a queue of `backlog` connections that are not accepted
    /// yet.
    #[link_name = "sys_listen"]
    pub fn listen(s: i32, backlog: i32) -> i32;

    /// Waits for a connection to a listening socket. Returns the descriptor of the connection, and stores the
    /// peer's address.
    ///
    /// # Safety
    ///
    /// `addrlen` must be null, or valid for reading and writing; `addr` must be null, or valid for writing
    /// `*addrlen` bytes.
    #[link_name = "sys_accept"]
    pub fn accept(s: i32, addr: *mut sockaddr, addrlen: *mut socklen_t) -> i32;

    /// Connects to `name`, or sets the peer of a datagram socket.
    ///
    /// Fails among others with `-ECONNREFUSED`, `-ETIMEDOUT`, `-ENETUNREACH`, `-EISCONN`, and with
    /// `-EINPROGRESS` if the socket is non-blocking. [`POLLOUT`](crate::POLLOUT) then reports the end of the
    /// attempt, and [`SO_ERROR`](crate::SO_ERROR) its result.
    ///
    /// # Safety
    ///
    /// `name` must be valid for reading `namelen` bytes.
    #[link_name = "sys_connect"]
    pub fn connect(s: i32, name: *const sockaddr, namelen: socklen_t) -> i32;

    /// Sends `len` bytes to the peer and returns the number of bytes queued; `flags` are `MSG_` bits. Fails
    /// with `-ENOTCONN` without a peer and with `-EPIPE` if the connection is shut down.
    ///
    /// # Safety
    ///
    /// `mem` must be valid for reading `len` bytes.
    #[link_name = "sys_send"]
    pub fn send(s: i32, mem: *const c_void, len: usize, flags: i32) -> isize;

    /// Sends `len` bytes to the address `to` and returns the number of bytes queued; `flags` are `MSG_` bits.
    /// Fails with `-EMSGSIZE` if they do not fit in a datagram.
    ///
    /// # Safety
    ///
    /// `mem` must be valid for reading `len` bytes; `to` must be null, or valid for reading `tolen` bytes.
    #[link_name = "sys_sendto"]
    pub fn sendto(
        s: i32,
        mem: *const c_void,
        len: usize,
        flags: i32,
        to: *const sockaddr,
        tolen: socklen_t,
    ) -> isize;

    /// Receives at most `len` bytes into `buf` and returns their number: 0 if the peer has shut down sending.
    /// `flags` are `MSG_` bits.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_recv"]
    pub fn recv(socket: i32, buf: *mut u8, len: usize, flags: i32) -> isize;

    /// As [`recv`], and stores the sender's address.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes; `addr` and `addrlen` as for [`accept`].
    #[link_name = "sys_recvfrom"]
    pub fn recvfrom(
        socket: i32,
        buf: *mut u8,
        len: usize,
        flags: i32,
        addr: *mut sockaddr,
        addrlen: *mut socklen_t,
    ) -> isize;

    /// Stores the peer's address. Fails with `-ENOTCONN` without a peer.
    ///
    /// # Safety
    ///
    /// `namelen` must be valid for reading and writing, and `name` for writing the length it holds.
    #[link_name = "sys_getpeername"]
    pub fn getpeername(s: i32, name: *mut sockaddr, namelen: *mut socklen_t) -> i32;

    /// Stores the socket's local address.
    ///
    /// # Safety
    ///
    /// As for [`getpeername`].
    #[link_name = "sys_getsockname"]
    pub fn getsockname(s: i32, name: *mut sockaddr, namelen: *mut socklen_t) -> i32;

    /// Stores the value of the option `optname` of the level `level`. Fails with `-ENOPROTOOPT` for an
    /// unknown option.
    ///
    /// # Safety
    ///
    /// `optlen` must be valid for reading and writing, and `optval` for writing the length it holds.
    #[link_name = "sys_getsockopt"]
    pub fn getsockopt(s: i32, level: i32, optname: i32, optval: *mut c_void, optlen: *mut socklen_t) -> i32;

    /// Sets the option `optname` of the level `level`. Fails with `-ENOPROTOOPT` for an unknown option and
    /// with `-EINVAL` for a value that is too short.
    ///
    /// # Safety
    ///
    /// `optval` must be valid for reading `optlen` bytes.
    #[link_name = "sys_setsockopt"]
    pub fn setsockopt(s: i32, level: i32, optname: i32, optval: *const c_void, optlen: socklen_t) -> i32;

    /// Shuts down one direction of a connection or both: `how` is one of the `SHUT_` numbers. The descriptor
    /// stays open.
    #[link_name = "sys_shutdown"]
    pub fn shutdown(sockfd: i32, how: i32) -> i32;

    /// The same as [`shutdown`].
    #[deprecated(since = "0.4.0", note = "use `shutdown`")]
    #[link_name = "sys_shutdown_socket"]
    pub fn shutdown_socket(s: i32, how: i32) -> i32;

    /// Resolves the host name `nodename` and the service `servname`. One of the two may be null. `hints`
    /// restrict the results, unless they are null. Stores a linked list of results in `res`, to be freed by
    /// [`freeaddrinfo`]. Returns one of the positive `EAI_` numbers on failure, unlike the other functions.
    ///
    /// # Safety
    ///
    /// The names must be null or end with a zero byte; `hints` must be null or valid for reading; `res` must
    /// be valid for writing.
    #[link_name = "sys_getaddrinfo"]
    pub fn getaddrinfo(
        nodename: *const c_char,
        servname: *const c_char,
        hints: *const addrinfo,
        res: *mut *mut addrinfo,
    ) -> i32;

    /// Frees a list of results.
    ///
    /// # Safety
    ///
    /// `ai` must come from [`getaddrinfo`] and must not be freed yet; the list must not be used any more.
    #[link_name = "sys_freeaddrinfo"]
    pub fn freeaddrinfo(ai: *mut addrinfo);

    /// Resolves the host name `name` to one address, which it stores in the `len` bytes at `inaddr`: an
    /// [`in_addr`](crate::in_addr) if `len` is 4, an [`in6_addr`](crate::in6_addr) if it is 16.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte, and `inaddr` must be valid for writing `len` bytes.
    #[link_name = "sys_getaddrbyname"]
    pub fn getaddrbyname(name: *const c_char, inaddr: *mut u8, len: usize) -> i32;
}
