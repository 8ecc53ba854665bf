//! Socket addresses, name resolution, and structures of socket options.

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
    /// The address in network byte order.
    pub s6_addr: [u8; 16],
}
assert_layout!(in6_addr, size 16, s6_addr @ 0);
const _: () = assert!(align_of::<in6_addr>() == 4);

/// A socket address of any family: the fields that all families have in common.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sockaddr {
    /// Length of the address in bytes.
    pub sa_len: u8,
    /// Address family, which determines the type of the rest.
    pub sa_family: sa_family_t,
    /// The rest of the address.
    pub sa_data: [c_char; 14],
}
assert_layout!(sockaddr, size 16, sa_len @ 0, sa_family @ 1, sa_data @ 2);

/// An address between a virtual machine and its host: [`AF_VSOCK`](crate::AF_VSOCK).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct sockaddr_vm {
    /// Length of this structure in bytes.
    pub svm_len: u8,
    /// [`AF_VSOCK`](crate::AF_VSOCK).
    pub svm_family: sa_family_t,
    /// Zero.
    pub svm_reserved1: u16,
    /// Port, in native byte order.
    pub svm_port: u32,
    /// Context ID of the machine, or one of the `VMADDR_CID_` numbers.
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
    /// Length of this structure in bytes.
    pub sin_len: u8,
    /// [`AF_INET`](crate::AF_INET).
    pub sin_family: sa_family_t,
    /// Port in network byte order.
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
    /// Length of this structure in bytes.
    pub sin6_len: u8,
    /// [`AF_INET6`](crate::AF_INET6).
    pub sin6_family: sa_family_t,
    /// Port in network byte order.
    pub sin6_port: in_port_t,
    /// Flow label of packets, or 0.
    pub sin6_flowinfo: u32,
    /// The address.
    pub sin6_addr: in6_addr,
    /// Index of the interface of a link-local address.
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
    /// Length of the stored address in bytes.
    pub s2_len: u8,
    /// Address family.
    pub ss_family: sa_family_t,
    __ss_pad1: [u8; 6],
    __ss_align: i64,
    __ss_pad2: [u8; 112],
}
assert_layout!(sockaddr_storage, size 128, s2_len @ 0, ss_family @ 1, __ss_align @ 8, __ss_pad2 @ 16);

/// A result of [`getaddrinfo`](crate::getaddrinfo), and its hints.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct addrinfo {
    /// `AI_` flags; ignored by this kernel.
    pub ai_flags: i32,
    /// Address family; [`AF_UNSPEC`](crate::AF_UNSPEC) in hints for any.
    pub ai_family: i32,
    /// Socket type; 0 in hints for any.
    pub ai_socktype: i32,
    /// Protocol; 0 in hints for any.
    pub ai_protocol: i32,
    /// Length in bytes of the address that [`ai_addr`](Self::ai_addr) points to.
    pub ai_addrlen: socklen_t,
    /// Canonical name of the host, or null.
    pub ai_canonname: *mut c_char,
    /// The address.
    pub ai_addr: *mut sockaddr,
    /// The next result, or null.
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
    /// An address of the interface, or 0 for the default interface.
    pub imr_interface: in_addr,
}
assert_layout!(ip_mreq, size 8, imr_multiaddr @ 0, imr_interface @ 4);

/// An IPv6 multicast group and the interface to join or leave it on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ipv6_mreq {
    /// The group.
    pub ipv6mr_multiaddr: in6_addr,
    /// Index of the interface, or 0 for the default interface.
    pub ipv6mr_interface: u32,
}
assert_layout!(ipv6_mreq, size 20, ipv6mr_multiaddr @ 0, ipv6mr_interface @ 16);

/// Value of [`SO_LINGER`](crate::SO_LINGER): behavior of [`close`](crate::close) while sent data are not
/// delivered.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct linger {
    /// Not 0: [`close`](crate::close) waits.
    pub l_onoff: i32,
    /// Limit on the wait in seconds; 0 drops data that are not delivered, and resets the connection.
    pub l_linger: i32,
}
assert_layout!(linger, size 8, l_onoff @ 0, l_linger @ 4);
