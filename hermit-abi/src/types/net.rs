//! Socket addresses, address lookups and the structures that socket options take.

use core::ffi::c_char;

use super::assert_layout;
use super::scalar::{in_addr_t, in_port_t, sa_family_t, socklen_t};

/// An IPv4 address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct in_addr {
    /// The address in network byte order.
    pub s_addr: in_addr_t,
}
assert_layout!(in_addr, size 4, s_addr @ 0);

/// An IPv6 address.
#[repr(C, align(4))]
#[derive(Clone, Copy, Debug, Default)]
pub struct in6_addr {
    /// The sixteen bytes, in the order they are written.
    pub s6_addr: [u8; 16],
}
assert_layout!(in6_addr, size 16, s6_addr @ 0);
const _: () = assert!(align_of::<in6_addr>() == 4);

/// A socket address of any family: what every address begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sockaddr {
    /// The length in bytes of the whole address.
    pub sa_len: u8,
    /// The family, which says how to read the rest.
    pub sa_family: sa_family_t,
    /// The rest.
    pub sa_data: [c_char; 14],
}
assert_layout!(sockaddr, size 16, sa_len @ 0, sa_family @ 1, sa_data @ 2);

/// An address between a virtual machine and its host: [`AF_VSOCK`](crate::AF_VSOCK).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sockaddr_vm {
    /// The length in bytes of this structure.
    pub svm_len: u8,
    /// [`AF_VSOCK`](crate::AF_VSOCK).
    pub svm_family: sa_family_t,
    /// Zero.
    pub svm_reserved1: u16,
    /// The port, in the machine's own byte order.
    pub svm_port: u32,
    /// The machine, a number or one of the `VMADDR_CID_` names.
    pub svm_cid: u32,
    /// Zeros.
    pub svm_zero: [u8; 4],
}
assert_layout!(
    sockaddr_vm, size 16,
    svm_len @ 0, svm_family @ 1, svm_reserved1 @ 2, svm_port @ 4, svm_cid @ 8, svm_zero @ 12,
);

/// An IPv4 address and port: [`AF_INET`](crate::AF_INET).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sockaddr_in {
    /// The length in bytes of this structure.
    pub sin_len: u8,
    /// [`AF_INET`](crate::AF_INET).
    pub sin_family: sa_family_t,
    /// The port in network byte order.
    pub sin_port: in_port_t,
    /// The address.
    pub sin_addr: in_addr,
    /// Zeros.
    pub sin_zero: [c_char; 8],
}
assert_layout!(
    sockaddr_in, size 16,
    sin_len @ 0, sin_family @ 1, sin_port @ 2, sin_addr @ 4, sin_zero @ 8,
);

/// An IPv6 address and port: [`AF_INET6`](crate::AF_INET6).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sockaddr_in6 {
    /// The length in bytes of this structure.
    pub sin6_len: u8,
    /// [`AF_INET6`](crate::AF_INET6).
    pub sin6_family: sa_family_t,
    /// The port in network byte order.
    pub sin6_port: in_port_t,
    /// The flow that packets belong to, 0 for none.
    pub sin6_flowinfo: u32,
    /// The address.
    pub sin6_addr: in6_addr,
    /// For an address that is only valid on one link, the interface of that link.
    pub sin6_scope_id: u32,
}
assert_layout!(
    sockaddr_in6, size 28,
    sin6_len @ 0, sin6_family @ 1, sin6_port @ 2, sin6_flowinfo @ 4, sin6_addr @ 8, sin6_scope_id @ 24,
);

/// Room for a socket address of any family, aligned for each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sockaddr_storage {
    /// The length in bytes of the address within.
    pub s2_len: u8,
    /// Its family.
    pub ss_family: sa_family_t,
    __ss_pad1: [u8; 6],
    __ss_align: i64,
    __ss_pad2: [u8; 112],
}
assert_layout!(sockaddr_storage, size 128, s2_len @ 0, ss_family @ 1, __ss_align @ 8, __ss_pad2 @ 16);

/// One answer of [`getaddrinfo`](crate::getaddrinfo), and its question's limits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct addrinfo {
    /// How to look up; 0 asks for nothing special.
    pub ai_flags: i32,
    /// The address family, [`AF_UNSPEC`](crate::AF_UNSPEC) in a question for any.
    pub ai_family: i32,
    /// The kind of socket, 0 in a question for any.
    pub ai_socktype: i32,
    /// The protocol, 0 in a question for any.
    pub ai_protocol: i32,
    /// The length in bytes of what [`ai_addr`](Self::ai_addr) points to.
    pub ai_addrlen: socklen_t,
    /// The host's official name, or null.
    pub ai_canonname: *mut c_char,
    /// The address.
    pub ai_addr: *mut sockaddr,
    /// The next answer, or null after the last.
    pub ai_next: *mut addrinfo,
}
assert_layout!(
    addrinfo, size 48,
    ai_flags @ 0, ai_family @ 4, ai_socktype @ 8, ai_protocol @ 12,
    ai_addrlen @ 16, ai_canonname @ 24, ai_addr @ 32, ai_next @ 40,
);

/// An IPv4 multicast group and the interface to join or leave it on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ip_mreq {
    /// The group.
    pub imr_multiaddr: in_addr,
    /// An address of the interface, or zero for the kernel's choice.
    pub imr_interface: in_addr,
}
assert_layout!(ip_mreq, size 8, imr_multiaddr @ 0, imr_interface @ 4);

/// An IPv6 multicast group and the interface to join or leave it on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ipv6_mreq {
    /// The group.
    pub ipv6mr_multiaddr: in6_addr,
    /// The interface's number, or zero for the kernel's choice.
    pub ipv6mr_interface: u32,
}
assert_layout!(ipv6_mreq, size 20, ipv6mr_multiaddr @ 0, ipv6mr_interface @ 16);

/// Whether [`close`](crate::close) waits for unsent data: the value of [`SO_LINGER`](crate::SO_LINGER).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct linger {
    /// Not zero: wait.
    pub l_onoff: i32,
    /// The longest wait in seconds.
    pub l_linger: i32,
}
assert_layout!(linger, size 8, l_onoff @ 0, l_linger @ 4);
