//! Address families, socket options and lookup errors.

/// Any address family.
pub const AF_UNSPEC: i32 = 0;
/// IPv6.
pub const AF_INET6: i32 = 1;
/// Sockets between a virtual machine and its host.
pub const AF_VSOCK: i32 = 2;
/// IPv4.
pub const AF_INET: i32 = 3;

/// A stream of bytes, in order and without loss, over a connection.
pub const SOCK_STREAM: i32 = 1;
/// Messages of bounded length, which may be lost or overtake each other.
pub const SOCK_DGRAM: i32 = 2;
/// Added to the kind of socket: fail with [`EAGAIN`](crate::EAGAIN) rather than wait.
pub const SOCK_NONBLOCK: i32 = 0o4000;
/// Added to the kind of socket: as [`FD_CLOEXEC`](crate::FD_CLOEXEC).
pub const SOCK_CLOEXEC: i32 = 0o40000;

/// The protocol, and option level, of IPv4.
pub const IPPROTO_IP: i32 = 0;
/// The protocol, and option level, of TCP.
pub const IPPROTO_TCP: i32 = 6;
/// The protocol, and option level, of UDP.
pub const IPPROTO_UDP: i32 = 17;
/// The protocol, and option level, of IPv6.
pub const IPPROTO_IPV6: i32 = 41;
/// The option level of sockets of any kind, to which the `SO_` options belong.
pub const SOL_SOCKET: i32 = 4095;

/// Bind to an address that is still winding down.
pub const SO_REUSEADDR: i32 = 0x4;
/// Probe a silent connection.
pub const SO_KEEPALIVE: i32 = 0x8;
/// Allow sending to broadcast addresses.
pub const SO_BROADCAST: i32 = 0x20;
/// What closing does with unsent data, a [`linger`](crate::linger).
pub const SO_LINGER: i32 = 0x80;
/// The size in bytes of the send buffer.
pub const SO_SNDBUF: i32 = 0x1001;
/// The size in bytes of the receive buffer.
pub const SO_RCVBUF: i32 = 0x1002;
/// The longest wait of a send, a [`timeval`](crate::timeval); zero for ever.
pub const SO_SNDTIMEO: i32 = 0x1005;
/// The longest wait of a receive, a [`timeval`](crate::timeval); zero for ever.
pub const SO_RCVTIMEO: i32 = 0x1006;
/// The pending error, an `i32`; reading it clears it.
pub const SO_ERROR: i32 = 0x1007;

/// The type of service of the IPv4 packets sent.
pub const IP_TOS: i32 = 1;
/// The time to live of the IPv4 packets sent.
pub const IP_TTL: i32 = 2;
/// Join the group of an [`ip_mreq`](crate::ip_mreq).
pub const IP_ADD_MEMBERSHIP: i32 = 3;
/// Leave the group of an [`ip_mreq`](crate::ip_mreq).
pub const IP_DROP_MEMBERSHIP: i32 = 4;
/// The time to live of the IPv4 multicast packets sent.
pub const IP_MULTICAST_TTL: i32 = 5;
/// Whether own IPv4 multicast packets come back.
pub const IP_MULTICAST_LOOP: i32 = 7;

/// Join the group of an [`ipv6_mreq`](crate::ipv6_mreq).
pub const IPV6_ADD_MEMBERSHIP: i32 = 12;
/// Leave the group of an [`ipv6_mreq`](crate::ipv6_mreq).
pub const IPV6_DROP_MEMBERSHIP: i32 = 13;
/// Whether own IPv6 multicast packets come back.
pub const IPV6_MULTICAST_LOOP: i32 = 19;
/// Do not serve IPv4 through the IPv6 socket.
pub const IPV6_V6ONLY: i32 = 27;

/// Send small TCP segments at once, without waiting to fill them.
pub const TCP_NODELAY: i32 = 1;

/// Receive without taking what was received out of the buffer.
pub const MSG_PEEK: i32 = 1;

/// Shut down receiving.
pub const SHUT_RD: i32 = 0;
/// Shut down sending.
pub const SHUT_WR: i32 = 1;
/// Shut down both directions.
pub const SHUT_RDWR: i32 = 2;

/// The machine number of the hypervisor.
pub const VMADDR_CID_HYPERVISOR: u32 = 0;
/// The machine number of oneself.
pub const VMADDR_CID_LOCAL: u32 = 1;
/// The machine number of the host.
pub const VMADDR_CID_HOST: u32 = 2;
/// The machine number that stands for every address in a bind.
pub const VMADDR_CID_ANY: u32 = u32::MAX;

/// Lookup: no answer for now; try later.
pub const EAI_AGAIN: i32 = 2;
/// Lookup: a flag is not known.
pub const EAI_BADFLAGS: i32 = 3;
/// Lookup: failed for good.
pub const EAI_FAIL: i32 = 4;
/// Lookup: the address family is not supported.
pub const EAI_FAMILY: i32 = 5;
/// Lookup: out of memory.
pub const EAI_MEMORY: i32 = 6;
/// Lookup: the name exists and has no address of the kind asked for.
pub const EAI_NODATA: i32 = 7;
/// Lookup: the name does not exist.
pub const EAI_NONAME: i32 = 8;
/// Lookup: the kind of socket does not offer the service.
pub const EAI_SERVICE: i32 = 9;
/// Lookup: the kind of socket is not supported.
pub const EAI_SOCKTYPE: i32 = 10;
/// Lookup: another error, which [`get_errno`](crate::get_errno) tells.
pub const EAI_SYSTEM: i32 = 11;
/// Lookup: a buffer was too small.
pub const EAI_OVERFLOW: i32 = 14;
