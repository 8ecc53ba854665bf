//! The boundary between kernel and network stack: function tables of both sides, and their data types.
//!
//! The stack (`hermit-sys/net`) is compiled with vector registers, the kernel without: they are two objects
//! in one image, and share neither types with Rust's layout nor an allocator. The kernel calls [`START`] when
//! a program creates its first socket. After that, each side has a table of the other side's functions:
//! [`Calls`] are the functions of the stack, [`Services`] those of the kernel.
//!
//! The kernel serialises all calls of the stack with a sleeping mutex: it calls the functions of [`Calls`]
//! only with the mutex held, in thread context, never in interrupt context. The stack calls the functions of
//! [`Services`] from within those calls, so with the mutex held, too. The stack never blocks: calls fail with
//! `EAGAIN` or the like, and [`Services::wake`] reports when to retry.
//!
//! Functions return a value that is not negative, or `-errno`. Times are in nanoseconds of the kernel's
//! monotonic clock.

mod options;

use core::ffi::c_void;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use self::options::{CongestionControl, OptionName, SocketOption, ValueKind};
use crate::Errno;

/// Name of the only symbol through which the two objects are linked: a [`Start`] function.
pub const START: &str = "hermit_net_start";

/// Maximum number of configured addresses of the interface, besides its link-local address (IPv6).
pub const MAX_ADDRESSES: usize = 7;

/// Maximum number of configured name servers.
pub const MAX_NAMESERVERS: usize = 4;

/// Maximum number of configured domains that complete names.
pub const MAX_DOMAINS: usize = 6;

/// Maximum length in bytes of a search list in the format of DNS messages: of the configured domains, or of a
/// lease.
pub const MAX_SEARCH_LEN: usize = MAX_DOMAINS * 256;

/// Name of the machine's host for programs, if they may reach it.
pub const HOST_NAME: &str = "host.hermit.internal";

/// Minimum MTU of an IPv6 link in bytes (RFC 8200, section 5).
pub const MIN_MTU_V6: u16 = 1280;

/// Starts the stack. Returns null if there is not enough memory. The function table and the configuration
/// stay valid and unchanged for the life of the machine.
pub type Start =
    unsafe extern "C" fn(services: *const Services, config: *const StackConfig) -> *const StackInstance;

/// A started stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StackInstance {
    /// The stack, passed as first argument of each of its functions.
    pub stack: *mut c_void,
    /// Functions of the stack.
    pub calls: Calls,
}

/// An IP address with a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Endpoint {
    /// [`V4`] (only the first four bytes of the address are used), [`V6`], or 0 for no address.
    pub family: u16,
    /// The port, in host byte order.
    pub port: u16,
    /// IPv6 only: scope identifier, the index of the interface.
    pub scope: u32,
    /// IPv6 only: flow information.
    pub flow: u32,
    /// The address, in network byte order.
    pub address: [u8; 16],
}

impl Endpoint {
    /// The address of an endpoint of [`V4`].
    #[must_use]
    pub const fn v4(&self) -> Ipv4Addr {
        let [a, b, c, d, ..] = self.address;
        Ipv4Addr::new(a, b, c, d)
    }

    /// The address of an endpoint of [`V6`].
    #[must_use]
    pub const fn v6(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.address)
    }
}

impl From<IpAddr> for Endpoint {
    /// The endpoint of this address, with port 0.
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                let address = [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                Self { family: V4, address, ..Self::default() }
            }
            IpAddr::V6(address) => Self { family: V6, address: address.octets(), ..Self::default() },
        }
    }
}

/// Address family IPv4.
pub const V4: u16 = 4;
/// Address family IPv6.
pub const V6: u16 = 6;

/// Socket type of TCP (`SOCK_STREAM`).
pub const STREAM: u32 = 1;
/// Socket type of UDP (`SOCK_DGRAM`).
pub const DATAGRAM: u32 = 2;

/// Flags of [`Calls::receive`].
pub mod receive {
    /// Received bytes stay in the receive queue (`MSG_PEEK`).
    pub const PEEK: u32 = 1;
}

/// Result of a call: a value that is not negative, or `-errno`.
pub type CallResult = i64;

/// Functions of the stack. The first argument of each is [`StackInstance::stack`]. Sockets are identified by
/// numbers that the stack assigns; the number of a closed socket is reused.
///
/// A *waker key* is a number of the kernel's that the stack passes to [`Services::wake`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Calls {
    /// Sets the current time for the calls that follow.
    pub advance: unsafe extern "C" fn(*mut c_void, now: u64),
    /// Receives frames, handles expired timers and transmits. Returns the time of the next timer, or
    /// `u64::MAX`.
    pub poll: unsafe extern "C" fn(*mut c_void, now: u64) -> u64,
    /// Transmits the frames that preceding calls have queued. It is fast if no frames are queued. Returns the
    /// time of the next timer, as `poll` does.
    pub settle: unsafe extern "C" fn(*mut c_void, now: u64) -> u64,
    /// Returns true if automatic configuration of the interface (DHCP) has completed or is not enabled.
    pub is_configured: unsafe extern "C" fn(*mut c_void) -> bool,
    /// Creates a socket of a family ([`V4`], [`V6`]) and a type ([`STREAM`], [`DATAGRAM`]).
    pub socket: unsafe extern "C" fn(*mut c_void, family: u32, kind: u32, waker_key: usize) -> CallResult,
    /// Shuts a socket down before a lingering close (`SO_LINGER`): no more data can be sent or received.
    /// `EAGAIN` while sent data is not yet acknowledged.
    pub finish: unsafe extern "C" fn(*mut c_void, socket: u64) -> CallResult,
    /// Closes a socket, whose waker key is not used any more. Sent data is still delivered, unless the
    /// connection is reset (`abort`).
    pub close: unsafe extern "C" fn(*mut c_void, socket: u64, abort: bool),
    /// Closes all sockets at shutdown. The kernel then polls the stack until sent data has been delivered.
    pub close_all: unsafe extern "C" fn(*mut c_void),
    /// Returns true if all sent data has been delivered, after `close_all`.
    pub is_delivered: unsafe extern "C" fn(*mut c_void) -> bool,
    /// Size in bytes of the buffers that are kept for later connections.
    pub kept_memory: unsafe extern "C" fn(*mut c_void) -> usize,
    /// Frees the buffers that are kept for later connections.
    pub reclaim: unsafe extern "C" fn(*mut c_void),
    /// Binds a socket to a local address.
    pub bind: unsafe extern "C" fn(*mut c_void, socket: u64, *const Endpoint) -> CallResult,
    /// Makes a socket listen for connections.
    pub listen: unsafe extern "C" fn(*mut c_void, socket: u64, backlog: i32) -> CallResult,
    /// Accepts a connection; returns its socket. Writes the peer's address to `from`.
    pub accept:
        unsafe extern "C" fn(*mut c_void, socket: u64, waker_key: usize, from: *mut Endpoint) -> CallResult,
    /// Connects a socket.
    pub connect: unsafe extern "C" fn(*mut c_void, socket: u64, *const Endpoint) -> CallResult,
    /// Sends bytes, to `to` if that is not null; returns their number.
    pub send: unsafe extern "C" fn(*mut c_void, u64, *const u8, usize, to: *const Endpoint) -> CallResult,
    /// Receives bytes into memory that need not be initialised; returns their number. Writes the sender of a
    /// datagram to the last argument, unless that is null.
    pub receive:
        unsafe extern "C" fn(*mut c_void, u64, *mut u8, usize, flags: u32, *mut Endpoint) -> CallResult,
    /// Shuts down one or both directions: `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`.
    pub shutdown: unsafe extern "C" fn(*mut c_void, socket: u64, how: i32) -> CallResult,
    /// Reads the local address of a socket.
    pub local: unsafe extern "C" fn(*mut c_void, socket: u64, *mut Endpoint) -> CallResult,
    /// Reads the address of a socket's peer.
    pub remote: unsafe extern "C" fn(*mut c_void, socket: u64, *mut Endpoint) -> CallResult,
    /// Sets an option.
    pub set_option: unsafe extern "C" fn(*mut c_void, socket: u64, *const SocketOption) -> CallResult,
    /// Reads an option: fills in its value.
    pub option: unsafe extern "C" fn(*mut c_void, socket: u64, *mut SocketOption) -> CallResult,
    /// Readiness of a socket, packed ([`Readiness::to_bits`](crate::Readiness::to_bits)).
    pub readiness: unsafe extern "C" fn(*mut c_void, socket: u64) -> u32,
    /// Writes as many addresses of a name that the machine defines itself as fit, and returns their number;
    /// `ENOENT` for any other name. [`HOST_NAME`] may have none.
    pub known_addresses:
        unsafe extern "C" fn(*mut c_void, *const u8, usize, *mut Endpoint, usize) -> CallResult,
    /// Writes the network's configuration of names.
    pub name_config: unsafe extern "C" fn(*mut c_void, *mut NameConfig),
}

impl core::fmt::Debug for Calls {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Calls").finish_non_exhaustive()
    }
}

/// Name servers and search list, of the command line or of a DHCP server.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NameConfig {
    /// Name servers. Entries without an address family are unused.
    pub servers: [Endpoint; MAX_NAMESERVERS],
    /// Domains in the format of DNS messages, perhaps compressed within the list (RFC 3397).
    pub search: [u8; MAX_SEARCH_LEN],
    /// Number of bytes of [`Self::search`] in use.
    pub search_len: usize,
}

impl Default for NameConfig {
    fn default() -> Self {
        let servers = [Endpoint::default(); MAX_NAMESERVERS];
        Self { servers, search: [0; MAX_SEARCH_LEN], search_len: 0 }
    }
}

/// Properties of the network device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DeviceInfo {
    /// MAC address.
    pub address: [u8; 6],
    /// MTU: maximum size of an IP packet in bytes.
    pub mtu: u16,
    /// True if the device completes TCP and UDP checksums on transmit (checksum offload).
    pub completes_checksums: bool,
    /// Maximum size of a frame for TCP segmentation offload over IPv4, in bytes; 0 if the device does not
    /// support it.
    pub segments_v4: u32,
    /// Maximum size of a frame for TCP segmentation offload over IPv6, in bytes; 0 if the device does not
    /// support it.
    pub segments_v6: u32,
}

/// Transmit offloads of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Offload {
    /// Offset at which the checksummed bytes start; 0 if the checksum is complete.
    pub checksum_start: u16,
    /// Offset of the checksum field from `checksum_start`. The field holds the sum of the pseudo header.
    pub checksum_offset: u16,
    /// Payload bytes per segment (MSS) for TCP segmentation offload; 0 without it.
    pub segment_size: u16,
    /// Size of the headers before the payload in bytes, for TCP segmentation offload.
    pub header_size: u16,
    /// [`V4`] or [`V6`], for TCP segmentation offload.
    pub family: u16,
}

/// Callback that reads a received frame, which is valid during the call.
pub type ReceiveFrame =
    unsafe extern "C" fn(context: *mut c_void, frame: *const u8, size: usize, is_checked: bool);

/// Callback that writes a frame to be transmitted, which is valid during the call.
pub type FillFrame = unsafe extern "C" fn(context: *mut c_void, frame: *mut u8, size: usize);

/// Functions of the kernel.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Services {
    /// Reads the properties of the device. Returns `false` if there is no device. Then the stack does not
    /// call the next four functions.
    pub device: unsafe extern "C" fn(*mut DeviceInfo) -> bool,
    /// Calls back with the next received frame. Returns `false` if there is no frame.
    pub receive: unsafe extern "C" fn(context: *mut c_void, ReceiveFrame) -> bool,
    /// Returns true if the transmit queue has room for a frame of this size.
    pub can_transmit: unsafe extern "C" fn(size: usize) -> bool,
    /// Calls back to write a frame of this size, and transmits it.
    pub transmit: unsafe extern "C" fn(size: usize, *const Offload, context: *mut c_void, FillFrame),
    /// Returns true if the device has not yet transmitted all frames. Then the kernel polls the stack when
    /// the device has transmitted them.
    pub is_sending: unsafe extern "C" fn() -> bool,
    /// A cryptographically secure random number.
    pub random: unsafe extern "C" fn() -> u64,
    /// Reports that the readiness of the socket with this waker key may have changed.
    pub wake: unsafe extern "C" fn(waker_key: usize),
    /// Prints a warning, a line of UTF-8 text, on the console.
    pub warn: unsafe extern "C" fn(text: *const u8, size: usize),
}

impl core::fmt::Debug for Services {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Services").finish_non_exhaustive()
    }
}

/// Configuration of the stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StackConfig {
    /// Current time.
    pub now: u64,
    /// Maximum total size of the buffers of all connections in bytes.
    pub buffers: usize,
    /// The kernel command line ([`crate::command_line`]), which has the network options.
    pub command_line: *const u8,
    /// Length of the command line in bytes.
    pub command_line_size: usize,
}

/// Converts the result of a call.
///
/// # Errors
///
/// The error of a negative result.
pub fn result(result: CallResult) -> Result<u64, Errno> {
    u64::try_from(result).map_err(|_| Errno::from_number(i32::try_from(result.wrapping_neg()).unwrap_or(0)))
}
