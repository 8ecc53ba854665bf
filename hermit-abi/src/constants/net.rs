//! Address families, socket options, errors of name resolution.

/// Unspecified address family: any.
pub const AF_UNSPEC: i32 = 0;
/// IPv6.
pub const AF_INET6: i32 = 1;
/// Sockets between a virtual machine and its host (vsock); not supported.
pub const AF_VSOCK: i32 = 2;
/// IPv4.
pub const AF_INET: i32 = 3;

/// A connection: a reliable, ordered stream of bytes.
pub const SOCK_STREAM: i32 = 1;
/// Datagrams: messages of limited size, without connection, reliability or order.
pub const SOCK_DGRAM: i32 = 2;
/// Flag of the socket type: the socket is non-blocking.
pub const SOCK_NONBLOCK: i32 = 0o4000;
/// Flag of the socket type: as [`FD_CLOEXEC`](crate::FD_CLOEXEC).
pub const SOCK_CLOEXEC: i32 = 0o40000;

/// Protocol and option level of IPv4.
pub const IPPROTO_IP: i32 = 0;
/// Protocol and option level of TCP.
pub const IPPROTO_TCP: i32 = 6;
/// Protocol and option level of UDP.
pub const IPPROTO_UDP: i32 = 17;
/// Protocol and option level of IPv6.
pub const IPPROTO_IPV6: i32 = 41;
/// Option level of the `SO_` options, which all sockets have.
pub const SOL_SOCKET: i32 = 4095;

/// Allow binding to an address with connections in TIME-WAIT.
pub const SO_REUSEADDR: i32 = 0x4;
/// Send keep-alive probes on an idle connection.
pub const SO_KEEPALIVE: i32 = 0x8;
/// Allow sending to broadcast addresses.
pub const SO_BROADCAST: i32 = 0x20;
/// Behavior of a close while data are not delivered: a [`linger`](crate::linger).
pub const SO_LINGER: i32 = 0x80;
/// Size of the send buffer in bytes.
pub const SO_SNDBUF: i32 = 0x1001;
/// Size of the receive buffer in bytes.
pub const SO_RCVBUF: i32 = 0x1002;
/// Timeout of sends, a [`timeval`](crate::timeval); zero for none.
pub const SO_SNDTIMEO: i32 = 0x1005;
/// Timeout of receives, a [`timeval`](crate::timeval); zero for none.
pub const SO_RCVTIMEO: i32 = 0x1006;
/// Pending error, an `i32`; reading it clears it.
pub const SO_ERROR: i32 = 0x1007;
/// Type of a socket, `SOCK_STREAM` or `SOCK_DGRAM`. This option cannot be set. Not part of the published ABI.
pub const SO_TYPE: i32 = 0x1008;

/// Type of service of sent IPv4 packets.
pub const IP_TOS: i32 = 1;
/// Time to live of sent IPv4 packets.
pub const IP_TTL: i32 = 2;
/// Join the group of an [`ip_mreq`](crate::ip_mreq).
pub const IP_ADD_MEMBERSHIP: i32 = 3;
/// Leave the group of an [`ip_mreq`](crate::ip_mreq).
pub const IP_DROP_MEMBERSHIP: i32 = 4;
/// Time to live of sent IPv4 multicast packets.
pub const IP_MULTICAST_TTL: i32 = 5;
/// Loop back sent IPv4 multicast packets.
pub const IP_MULTICAST_LOOP: i32 = 7;

/// Hop limit of sent IPv6 packets; -1 for the default. Not part of the published ABI.
pub const IPV6_UNICAST_HOPS: i32 = 16;
/// Hop limit of sent IPv6 multicast packets; -1 for the default. Not part of the published ABI.
pub const IPV6_MULTICAST_HOPS: i32 = 18;
/// Join the group of an [`ipv6_mreq`](crate::ipv6_mreq).
pub const IPV6_ADD_MEMBERSHIP: i32 = 12;
/// Leave the group of an [`ipv6_mreq`](crate::ipv6_mreq).
pub const IPV6_DROP_MEMBERSHIP: i32 = 13;
/// Loop back sent IPv6 multicast packets.
pub const IPV6_MULTICAST_LOOP: i32 = 19;
/// The IPv6 socket takes no IPv4 traffic.
pub const IPV6_V6ONLY: i32 = 27;

/// Send small TCP segments at once: disables Nagle's algorithm.
pub const TCP_NODELAY: i32 = 1;
/// Seconds of silence before the first keep-alive probe. Not part of the published ABI.
pub const TCP_KEEPIDLE: i32 = 3;
/// Seconds between keep-alive probes. Not part of the published ABI.
pub const TCP_KEEPINTVL: i32 = 4;
/// Number of keep-alive probes without an answer that end the connection. Not part of the published ABI.
pub const TCP_KEEPCNT: i32 = 5;
/// Acknowledgements are not delayed. Not part of the published ABI.
pub const TCP_QUICKACK: i32 = 12;
/// Name of the congestion control, such as `cubic`. Not part of the published ABI.
pub const TCP_CONGESTION: i32 = 13;
/// Milliseconds without an acknowledgement that end the connection; 0 for the default. Not part of the
/// published ABI.
pub const TCP_USER_TIMEOUT: i32 = 18;

/// Receive without removing the data from the buffer. Linux's number is 2.
pub const MSG_PEEK: i32 = 1;
/// This call does not wait, even if the descriptor is blocking. Linux has the same numbers for this flag and
/// the next two. Not part of the published ABI.
pub const MSG_DONTWAIT: i32 = 0x40;
/// Receive until the buffer is full. Not part of the published ABI.
pub const MSG_WAITALL: i32 = 0x100;
/// No SIGPIPE is sent, as always. Not part of the published ABI.
pub const MSG_NOSIGNAL: i32 = 0x4000;

/// Shut down receiving.
pub const SHUT_RD: i32 = 0;
/// Shut down sending.
pub const SHUT_WR: i32 = 1;
/// Shut down both directions.
pub const SHUT_RDWR: i32 = 2;

/// Context ID of the hypervisor.
pub const VMADDR_CID_HYPERVISOR: u32 = 0;
/// Context ID of the local machine.
pub const VMADDR_CID_LOCAL: u32 = 1;
/// Context ID of the host.
pub const VMADDR_CID_HOST: u32 = 2;
/// Any context ID, for binding.
pub const VMADDR_CID_ANY: u32 = u32::MAX;

/// Name resolution: temporary failure.
pub const EAI_AGAIN: i32 = 2;
/// Name resolution: invalid flags.
pub const EAI_BADFLAGS: i32 = 3;
/// Name resolution: permanent failure.
pub const EAI_FAIL: i32 = 4;
/// Name resolution: address family not supported.
pub const EAI_FAMILY: i32 = 5;
/// Name resolution: out of memory.
pub const EAI_MEMORY: i32 = 6;
/// Name resolution: the name has no address of the family.
pub const EAI_NODATA: i32 = 7;
/// Name resolution: the name does not exist.
pub const EAI_NONAME: i32 = 8;
/// Name resolution: service not supported for the socket type.
pub const EAI_SERVICE: i32 = 9;
/// Name resolution: socket type not supported.
pub const EAI_SOCKTYPE: i32 = 10;
/// Name resolution: system error, see [`get_errno`](crate::get_errno).
pub const EAI_SYSTEM: i32 = 11;
/// Name resolution: buffer too small.
pub const EAI_OVERFLOW: i32 = 14;
