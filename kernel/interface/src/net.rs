//! What kernel and network stack call of each other.
//!
//! The stack (`hermit-sys/net`) is compiled with vector registers, the kernel without: they are two objects in one image, and
//! share neither types of Rust's own layout nor an allocator's insides. The kernel calls [`START`] when a program makes its
//! first socket. From then on each has a table of the other's functions.
//!
//! The kernel has a lock around the stack and waits for nobody while it holds it: only who holds it calls a function of
//! [`Calls`], in a thread, never in an interrupt. Functions of [`Services`] are called from inside of those, so the lock is held
//! there, too. The stack never waits: calls fail with `EAGAIN` and the like, and [`Services::wake`] says when to ask again.
//!
//! Functions return what is not negative, or `-errno`. Times are in nanoseconds of the kernel's monotonic clock.

use core::ffi::c_void;
use core::net::IpAddr;

use crate::Errno;

/// The only symbol by which the linker joins the two: a [`Start`].
pub const START: &str = "hermit_net_start";

/// Most addresses of its own that a machine takes. Beside them it has that of its link (IPv6).
pub const MAX_ADDRESSES: usize = 7;

/// Most name servers that it takes.
pub const MAX_NAMESERVERS: usize = 4;

/// Least MTU of a network with IPv6 (RFC 8200, section 5).
pub const LEAST_MTU_V6: u16 = 1280;

/// Has the stack begin; null without memory. Both tables and the settings stay as they are for ever.
pub type Start = unsafe extern "C" fn(services: *const Services, settings: *const Settings) -> *const Network;

/// A stack that has begun.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Network {
    /// The stack's own.
    pub stack: *mut c_void,
    /// Its functions.
    pub calls: Calls,
}

/// An address with a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Endpoint {
    /// [`V4`], of which the first four bytes count, [`V6`], or 0 for none.
    pub family: u16,
    /// The port.
    pub port: u16,
    /// Of IPv6: the interface that the address belongs to.
    pub scope: u32,
    /// Of IPv6: the flow.
    pub flow: u32,
    /// The address, its first byte first.
    pub address: [u8; 16],
}

impl From<IpAddr> for Endpoint {
    /// An address without a port.
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

/// Internet Protocol, version 4.
pub const V4: u16 = 4;
/// Internet Protocol, version 6.
pub const V6: u16 = 6;

/// A socket of connections.
pub const STREAM: u32 = 1;
/// A socket of datagrams.
pub const DATAGRAM: u32 = 2;

/// What a socket is ready for, as bits.
pub mod ready {
    /// A read would not wait.
    pub const READ: u32 = 1;
    /// A write would not wait.
    pub const WRITE: u32 = 2;
    /// The other side writes no more.
    pub const READ_HANG_UP: u32 = 4;
    /// Nothing goes on in either direction.
    pub const HANG_UP: u32 = 8;
    /// An error waits to be taken.
    pub const ERROR: u32 = 16;
}

/// An option of a socket, with its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SocketOption {
    /// An [`OptionName`].
    pub name: u32,
    /// The value, for what has a number; of multicast groups, the index of an interface or 0.
    pub value: u32,
    /// A group's address and, for IPv4, perhaps the interface's address in `interface`.
    pub group: Endpoint,
    /// The address of an interface.
    pub interface: Endpoint,
}

/// Which option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OptionName {
    /// `SO_ERROR`: why the socket failed; asking takes it.
    Error = 1,
    /// `SO_REUSEADDR`.
    ReuseAddress,
    /// `SO_KEEPALIVE`.
    KeepAlive,
    /// `SO_BROADCAST`.
    Broadcast,
    /// `SO_SNDBUF`, bytes.
    SendBuffer,
    /// `SO_RCVBUF`, bytes.
    ReceiveBuffer,
    /// `TCP_NODELAY`.
    NoDelay,
    /// `IP_TTL`.
    Ttl,
    /// `IP_TOS`.
    TypeOfService,
    /// `IP_MULTICAST_TTL`.
    MulticastTtl,
    /// `IP_MULTICAST_LOOP`.
    MulticastLoopV4,
    /// `IPV6_MULTICAST_LOOP`.
    MulticastLoopV6,
    /// `IPV6_V6ONLY`.
    OnlyV6,
    /// `IP_ADD_MEMBERSHIP`, `IPV6_ADD_MEMBERSHIP`.
    Join,
    /// `IP_DROP_MEMBERSHIP`, `IPV6_DROP_MEMBERSHIP`.
    Leave,
}

impl OptionName {
    /// All of them.
    const ALL: [Self; 15] = [
        Self::Error,
        Self::ReuseAddress,
        Self::KeepAlive,
        Self::Broadcast,
        Self::SendBuffer,
        Self::ReceiveBuffer,
        Self::NoDelay,
        Self::Ttl,
        Self::TypeOfService,
        Self::MulticastTtl,
        Self::MulticastLoopV4,
        Self::MulticastLoopV6,
        Self::OnlyV6,
        Self::Join,
        Self::Leave,
    ];

    /// The option of this number, if there is one.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|name| *name as u32 == number)
    }
}

/// Flags of [`Calls::receive`].
pub mod receive {
    /// What is given stays to be received again (`MSG_PEEK`).
    pub const PEEK: u32 = 1;
}

/// A call's result: what is not negative, or `-errno`.
pub type Number = i64;

/// The functions of the stack. Each takes the stack itself first. Sockets are numbers that the stack has given out; one that has been
/// closed is given out again.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Calls {
    /// Tells the time at which the calls that follow act.
    pub advance: unsafe extern "C" fn(*mut c_void, now: u64),
    /// Takes what has arrived, does what is due, sends what can be sent; when to call again, or `u64::MAX`.
    pub poll: unsafe extern "C" fn(*mut c_void, now: u64) -> u64,
    /// Sends what calls gave rise to; as `poll`, but cheap if that is nothing. When to call `poll` at the latest.
    pub settle: unsafe extern "C" fn(*mut c_void, now: u64) -> u64,
    /// Whether the machine has the address that it asks others for, if it asks for one.
    pub is_configured: unsafe extern "C" fn(*mut c_void) -> bool,
    /// Makes a socket of a family ([`V4`], [`V6`]) and a kind. The cookie is for [`Services::wake`].
    pub socket: unsafe extern "C" fn(*mut c_void, family: u32, kind: u32, cookie: usize) -> Number,
    /// Begins to close a socket, for who waits until what was sent has been delivered: nothing is sent or received any more. `EAGAIN`
    /// if not everything has been delivered.
    pub finish: unsafe extern "C" fn(*mut c_void, socket: u64) -> Number,
    /// Closes a socket: the cookie is never used again. What was sent is delivered, unless it is to be dropped `at_once`.
    pub close: unsafe extern "C" fn(*mut c_void, socket: u64, at_once: bool),
    /// Closes all sockets, for the machine ends; then the stack is polled until everything has been delivered.
    pub wind_up: unsafe extern "C" fn(*mut c_void),
    /// Whether everything has been delivered, after `wind_up`.
    pub is_delivered: unsafe extern "C" fn(*mut c_void) -> bool,
    /// Gives it a local address.
    pub bind: unsafe extern "C" fn(*mut c_void, socket: u64, *const Endpoint) -> Number,
    /// Has it take connections.
    pub listen: unsafe extern "C" fn(*mut c_void, socket: u64, backlog: i32) -> Number,
    /// Takes a connection; the socket.
    pub accept: unsafe extern "C" fn(*mut c_void, socket: u64, cookie: usize, from: *mut Endpoint) -> Number,
    /// Connects it.
    pub connect: unsafe extern "C" fn(*mut c_void, socket: u64, *const Endpoint) -> Number,
    /// Sends bytes, to a peer if that is not null; how many.
    pub send: unsafe extern "C" fn(*mut c_void, u64, *const u8, usize, to: *const Endpoint) -> Number,
    /// Receives bytes into memory that need not be initialised; how many. Of a datagram also from where, unless that is null.
    pub receive: unsafe extern "C" fn(*mut c_void, u64, *mut u8, usize, flags: u32, *mut Endpoint) -> Number,
    /// Closes directions: `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`.
    pub shutdown: unsafe extern "C" fn(*mut c_void, socket: u64, how: i32) -> Number,
    /// Its own address.
    pub local: unsafe extern "C" fn(*mut c_void, socket: u64, *mut Endpoint) -> Number,
    /// Its peer's address.
    pub remote: unsafe extern "C" fn(*mut c_void, socket: u64, *mut Endpoint) -> Number,
    /// Sets an option.
    pub set_option: unsafe extern "C" fn(*mut c_void, socket: u64, *const SocketOption) -> Number,
    /// Fills in the value of an option.
    pub option: unsafe extern "C" fn(*mut c_void, socket: u64, *mut SocketOption) -> Number,
    /// What it is [`ready`] for.
    pub readiness: unsafe extern "C" fn(*mut c_void, socket: u64) -> u32,
    /// Asks for the addresses of a name, of one family or, with 0, of both; a number for the question.
    pub resolve: unsafe extern "C" fn(*mut c_void, *const u8, usize, family: u32, cookie: usize) -> Number,
    /// The answer: how many addresses, of which as many are written as fit. `EAGAIN` if there is none yet, `ENOENT` if there is no
    /// such name, `ETIMEDOUT`, `ENETUNREACH` without a server. Ends the question unless it is `EAGAIN`.
    pub resolved: unsafe extern "C" fn(*mut c_void, question: u64, *mut Endpoint, usize) -> Number,
}

impl core::fmt::Debug for Calls {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Calls").finish_non_exhaustive()
    }
}

/// The network device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Device {
    /// Its address on the link.
    pub address: [u8; 6],
    /// The longest packet of the Internet Protocol that goes over the link in one piece.
    pub mtu: u16,
    /// It completes checksums of TCP and UDP.
    pub completes_checksums: bool,
    /// The longest frame with a segment of TCP over IPv4 that it cuts into pieces; 0 if it does not.
    pub segments_v4: u32,
    /// The same over IPv6.
    pub segments_v6: u32,
}

/// What the device is to do with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Offload {
    /// From where on the checksum is computed; 0 if it is complete.
    pub checksum_start: u16,
    /// Where behind that it is put; the sum of the pseudo header is there.
    pub checksum_offset: u16,
    /// The bytes of each piece into which the segment is cut; 0 if it is not.
    pub segment_size: u16,
    /// The bytes of headers before those.
    pub header_size: u16,
    /// [`V4`] or [`V6`] if it is cut.
    pub family: u16,
}

/// Takes a frame that has arrived, during the call.
pub type Take = unsafe extern "C" fn(context: *mut c_void, frame: *const u8, size: usize, is_checked: bool);

/// Writes a frame, during the call.
pub type Fill = unsafe extern "C" fn(context: *mut c_void, frame: *mut u8, size: usize);

/// The functions of the kernel.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Services {
    /// Describes the device; `false` if there is none, and then none of the next five is called.
    pub device: unsafe extern "C" fn(*mut Device) -> bool,
    /// Hands over the next frame, if there is one.
    pub receive: unsafe extern "C" fn(context: *mut c_void, Take) -> bool,
    /// There is room for another frame of this size.
    pub can_transmit: unsafe extern "C" fn(size: usize) -> bool,
    /// Has a frame of this size written, and sends it.
    pub transmit: unsafe extern "C" fn(size: usize, *const Offload, context: *mut c_void, Fill),
    /// The device still has frames to send. Then the stack is polled when it has sent them.
    pub is_sending: unsafe extern "C" fn() -> bool,
    /// A strong random number.
    pub random: unsafe extern "C" fn() -> u64,
    /// What the socket or question with this cookie is ready for may have changed.
    pub wake: unsafe extern "C" fn(cookie: usize),
    /// Prints a line of UTF-8 text for whoever runs the machine.
    pub warn: unsafe extern "C" fn(text: *const u8, size: usize),
}

impl core::fmt::Debug for Services {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Services").finish_non_exhaustive()
    }
}

/// How the stack is to begin.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Settings {
    /// The monotonic clock now.
    pub now: u64,
    /// Most bytes that the buffers of all connections take.
    pub buffers: usize,
    /// The command line ([`crate::command_line`]), which configures the network.
    pub command_line: *const u8,
    /// How many bytes it has.
    pub command_line_size: usize,
}

/// The result of a call.
///
/// # Errors
///
/// The error that a negative number stands for.
pub fn result(number: Number) -> Result<u64, Errno> {
    u64::try_from(number).map_err(|_| Errno::from_number(i32::try_from(number.wrapping_neg()).unwrap_or(0)))
}
