//! Sockets and name lookups.
//!
//! All take and give the descriptors of [`socket`] and fail with `-EBADF` if one is not open and with `-ENOTSOCK` if
//! it is no socket's. Where an address is given back, its length is in `addrlen` or `namelen`: on entry the room there
//! is, on return what was needed.

use core::ffi::{c_char, c_void};

use crate::types::net::{addrinfo, sockaddr};
use crate::types::scalar::socklen_t;

unsafe extern "C" {
    /// Starts the network. Programs need not call it: the kernel does before `main`.
    #[link_name = "sys_network_init"]
    pub fn network_init() -> i32;

    /// Creates a socket of the family `domain`, the kind `type_` and the protocol `protocol` (0 for the usual one) and
    /// returns its descriptor.
    ///
    /// Fails with `-EAFNOSUPPORT`, `-ESOCKTNOSUPPORT` or `-EPROTONOSUPPORT` for one there is not, and with `-EMFILE`
    /// if no descriptor is free.
    #[link_name = "sys_socket"]
    pub fn socket(domain: i32, type_: i32, protocol: i32) -> i32;

    /// Gives a socket the local address `name`. Fails with `-EADDRINUSE` if it is taken and with `-EADDRNOTAVAIL` if
    /// it is not an address of this machine.
    ///
    /// # Safety
    ///
    /// `name` must be valid for reading `namelen` bytes.
    #[link_name = "sys_bind"]
    pub fn bind(s: i32, name: *const sockaddr, namelen: socklen_t) -> i32;

    /// Lets a socket take connections, `backlog` of which may wait to be accepted.
    #[link_name = "sys_listen"]
    pub fn listen(s: i32, backlog: i32) -> i32;

    /// Waits for a connection to a listening socket, and returns a descriptor for it and the other side's address.
    ///
    /// # Safety
    ///
    /// `addr` and `addrlen` must be null, or valid for writing the length given and the length itself.
    #[link_name = "sys_accept"]
    pub fn accept(s: i32, addr: *mut sockaddr, addrlen: *mut socklen_t) -> i32;

    /// Connects to `name`, or sets the peer of a datagram socket.
    ///
    /// Fails among others with `-ECONNREFUSED`, `-ETIMEDOUT`, `-ENETUNREACH`, `-EISCONN`, and with `-EINPROGRESS` if it
    /// must not wait: then [`poll`](crate::poll) tells when it is done and [`SO_ERROR`](crate::SO_ERROR) how it went.
    ///
    /// # Safety
    ///
    /// `name` must be valid for reading `namelen` bytes.
    #[link_name = "sys_connect"]
    pub fn connect(s: i32, name: *const sockaddr, namelen: socklen_t) -> i32;

    /// Sends `len` bytes to the peer and returns how many were taken; `flags` are `MSG_` bits. Fails with `-ENOTCONN`
    /// without a peer and with `-EPIPE` if the connection is shut down.
    ///
    /// # Safety
    ///
    /// `mem` must be valid for reading `len` bytes.
    #[link_name = "sys_send"]
    pub fn send(s: i32, mem: *const c_void, len: usize, flags: i32) -> isize;

    /// Sends `len` bytes to the address `to` and returns how many were taken; `flags` are `MSG_` bits. Fails with
    /// `-EMSGSIZE` if they are too many for one message.
    ///
    /// # Safety
    ///
    /// `mem` must be valid for reading `len` bytes, and `to` for reading `tolen`.
    #[link_name = "sys_sendto"]
    pub fn sendto(
        s: i32,
        mem: *const c_void,
        len: usize,
        flags: i32,
        to: *const sockaddr,
        tolen: socklen_t,
    ) -> isize;

    /// Receives at most `len` bytes into `buf` and returns how many: 0 if the other side will send no more. `flags`
    /// are `MSG_` bits.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_recv"]
    pub fn recv(socket: i32, buf: *mut u8, len: usize, flags: i32) -> isize;

    /// As [`recv`], and gives the sender's address.
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

    /// Gives the peer's address. Fails with `-ENOTCONN` without a peer.
    ///
    /// # Safety
    ///
    /// `namelen` must be valid for reading and writing, and `name` for writing the length it holds.
    #[link_name = "sys_getpeername"]
    pub fn getpeername(s: i32, name: *mut sockaddr, namelen: *mut socklen_t) -> i32;

    /// Gives the socket's own address.
    ///
    /// # Safety
    ///
    /// As for [`getpeername`].
    #[link_name = "sys_getsockname"]
    pub fn getsockname(s: i32, name: *mut sockaddr, namelen: *mut socklen_t) -> i32;

    /// Gives the option `optname` of the level `level`. Fails with `-ENOPROTOOPT` for one there is not.
    ///
    /// # Safety
    ///
    /// `optlen` must be valid for reading and writing, and `optval` for writing the length it holds.
    #[link_name = "sys_getsockopt"]
    pub fn getsockopt(s: i32, level: i32, optname: i32, optval: *mut c_void, optlen: *mut socklen_t) -> i32;

    /// Sets the option `optname` of the level `level`. Fails with `-ENOPROTOOPT` for one there is not and with
    /// `-EINVAL` for a value of the wrong length.
    ///
    /// # Safety
    ///
    /// `optval` must be valid for reading `optlen` bytes.
    #[link_name = "sys_setsockopt"]
    pub fn setsockopt(s: i32, level: i32, optname: i32, optval: *const c_void, optlen: socklen_t) -> i32;

    /// Ends one direction of a connection or both, as `how` says, one of the `SHUT_` numbers. The descriptor stays.
    #[link_name = "sys_shutdown"]
    pub fn shutdown(sockfd: i32, how: i32) -> i32;

    /// The same as [`shutdown`].
    #[deprecated(since = "0.4.0", note = "use `shutdown`")]
    #[link_name = "sys_shutdown_socket"]
    pub fn shutdown_socket(s: i32, how: i32) -> i32;

    /// Looks up the addresses of the host `nodename` and the port of the service `servname`, either of which may be
    /// null, within the limits of `hints`, which may be null too. Stores a chain of answers in `res`, to be given to
    /// [`freeaddrinfo`]. Unlike the others it fails with one of the positive `EAI_` numbers.
    ///
    /// # Safety
    ///
    /// The names must end with a zero byte, and `res` must be valid for writing.
    #[link_name = "sys_getaddrinfo"]
    pub fn getaddrinfo(
        nodename: *const c_char,
        servname: *const c_char,
        hints: *const addrinfo,
        res: *mut *mut addrinfo,
    ) -> i32;

    /// Gives back a chain of answers.
    ///
    /// # Safety
    ///
    /// `ai` must come from [`getaddrinfo`], and nothing of the chain may be used again.
    #[link_name = "sys_freeaddrinfo"]
    pub fn freeaddrinfo(ai: *mut addrinfo);

    /// Looks up one address of the host `name` and stores it in the `len` bytes at `inaddr`: an
    /// [`in_addr`](crate::in_addr) if they are 4, an [`in6_addr`](crate::in6_addr) if they are 16.
    ///
    /// # Safety
    ///
    /// `name` must end with a zero byte, and `inaddr` must be valid for writing `len` bytes.
    #[link_name = "sys_getaddrbyname"]
    pub fn getaddrbyname(name: *const c_char, inaddr: *mut u8, len: usize) -> i32;
}
