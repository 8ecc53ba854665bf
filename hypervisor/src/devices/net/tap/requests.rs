//! What the host's kernel is asked about its network interfaces (linux/if_tun.h, netdevice(7)).
#![expect(unsafe_code, reason = "requests of ioctl(2)")]

use std::os::fd::AsFd;

use libc::{c_int, c_uint};
use rustix::ioctl::opcode::write;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl};

use super::super::header::Offloads;

/// Bytes of an interface's name, the zero behind it among them.
pub const NAME: usize = 16;

/// The group of requests about taps.
const GROUP: u8 = b'T';

const SET_INTERFACE: Opcode = write::<c_int>(GROUP, 202);
/// `TUNSETOFFLOAD`: the one request that is made while the guest runs.
pub const SET_OFFLOADS: Opcode = write::<c_uint>(GROUP, 208);
const SET_HEADER_SIZE: Opcode = write::<c_int>(GROUP, 216);

/// Requests about any interface (linux/sockios.h).
const GET_FLAGS: Opcode = 0x8913;
const SET_FLAGS: Opcode = 0x8914;
const GET_MTU: Opcode = 0x8921;
const SET_MTU: Opcode = 0x8922;

/// Kinds of taps: Ethernet frames, nothing before them but the header of virtio.
const TAP: u16 = 0x0002;
const NO_INFORMATION: u16 = 0x1000;
const HEADER: u16 = 0x4000;
const MANY_QUEUES: u16 = 0x0100;

/// An interface is switched on.
const UP: u16 = 1;

/// What whoever reads a tap does with frames.
const COMPLETES_CHECKSUMS: c_int = 1;
const TAKES_TCP4: c_int = 2;
const TAKES_TCP6: c_int = 4;

/// All bits of a request for offloads.
pub const OFFLOADS: c_int = COMPLETES_CHECKSUMS | TAKES_TCP4 | TAKES_TCP6;

/// A request about an interface (`struct ifreq`): its name, and a value, which is flags of 16 bits or a number of 32.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Request {
    name: [u8; NAME],
    value: [u8; 4],
    rest: [u8; 20],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

impl Request {
    fn new(name: [u8; NAME], value: [u8; 4]) -> Self {
        Self { name, value, rest: [0; 20] }
    }

    fn flags(name: [u8; NAME], flags: u16) -> Self {
        let [a, b] = flags.to_le_bytes();
        Self::new(name, [a, b, 0, 0])
    }
}

/// Connects an open /dev/net/tun with the tap of this name, which is made if it is missing. `shared` is for taps that were made
/// for many queues.
pub(super) fn set_interface(tap: impl AsFd, name: [u8; NAME], shared: bool) -> rustix::io::Result<()> {
    let flags = TAP | NO_INFORMATION | HEADER | if shared { MANY_QUEUES } else { 0 };
    // SAFETY: for this request the kernel reads a `struct ifreq`.
    let request = unsafe { Setter::<SET_INTERFACE, _>::new(Request::flags(name, flags)) };
    // SAFETY: the request does nothing to this process but to its descriptor.
    unsafe { ioctl(tap, request) }
}

/// Has headers before frames be of this size.
pub(super) fn set_header_size(tap: impl AsFd, size: c_int) -> rustix::io::Result<()> {
    // SAFETY: for this request the kernel reads an `int`.
    let request = unsafe { Setter::<SET_HEADER_SIZE, c_int>::new(size) };
    // SAFETY: as above.
    unsafe { ioctl(tap, request) }
}

/// Says what whoever reads the tap does with frames.
pub(super) fn set_offloads(tap: impl AsFd, offloads: Offloads) -> rustix::io::Result<()> {
    let bits =
        [(offloads.checksum, COMPLETES_CHECKSUMS), (offloads.tcp4, TAKES_TCP4), (offloads.tcp6, TAKES_TCP6)];
    let bits = bits.into_iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, bit): (_, c_int)| all | bit);
    let bits = usize::try_from(bits).unwrap_or_default();
    // SAFETY: for this request the argument is a number.
    let request = unsafe { IntegerSetter::<SET_OFFLOADS>::new_usize(bits) };
    // SAFETY: as above.
    unsafe { ioctl(tap, request) }
}

/// Whether the interface is switched on.
pub(super) fn is_up(socket: impl AsFd, name: [u8; NAME]) -> rustix::io::Result<bool> {
    let [a, b, ..] = get::<GET_FLAGS>(socket, name)?;
    Ok(u16::from_le_bytes([a, b]) & UP != 0)
}

/// Switches an interface on that is fresh: it has no other flags that are worth keeping.
pub(super) fn switch_on(socket: impl AsFd, name: [u8; NAME]) -> rustix::io::Result<()> {
    let [a, b, ..] = get::<GET_FLAGS>(&socket, name)?;
    let flags = u16::from_le_bytes([a, b]) | UP;
    set::<SET_FLAGS>(socket, Request::flags(name, flags))
}

/// Most bytes of a packet.
pub(super) fn mtu(socket: impl AsFd, name: [u8; NAME]) -> rustix::io::Result<u32> {
    get::<GET_MTU>(socket, name).map(u32::from_le_bytes)
}

/// Sets it.
pub(super) fn set_mtu(socket: impl AsFd, name: [u8; NAME], mtu: u16) -> rustix::io::Result<()> {
    set::<SET_MTU>(socket, Request::new(name, u32::from(mtu).to_le_bytes()))
}

fn get<const REQUEST: Opcode>(socket: impl AsFd, name: [u8; NAME]) -> rustix::io::Result<[u8; 4]> {
    let mut request = Request::new(name, [0; 4]);
    // SAFETY: for these requests, which this module names, the kernel reads and writes a `struct ifreq`.
    let updater = unsafe { Updater::<REQUEST, _>::new(&mut request) };
    // SAFETY: they change nothing.
    unsafe { ioctl(socket, updater) }?;
    Ok(request.value)
}

fn set<const REQUEST: Opcode>(socket: impl AsFd, request: Request) -> rustix::io::Result<()> {
    // SAFETY: for these requests, which this module names, the kernel reads a `struct ifreq`.
    let setter = unsafe { Setter::<REQUEST, _>::new(request) };
    // SAFETY: they change an interface and nothing of this process.
    unsafe { ioctl(socket, setter) }
}
