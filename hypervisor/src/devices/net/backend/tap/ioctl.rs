//! ioctl(2) requests on TAP devices (linux/if_tun.h) and network interfaces (netdevice(7), linux/sockios.h).
#![expect(unsafe_code, reason = "requests of ioctl(2)")]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsFd;

use libc::{c_int, c_uint};
use rustix::ioctl::opcode::write;
use rustix::ioctl::{IntegerSetter, Ioctl, IoctlOutput, Opcode, Setter, ioctl};

use crate::devices::net::header::Offloads;

/// Size in bytes of an interface's name with its terminating zero (`IFNAMSIZ`).
pub const IFNAMSIZ: usize = 16;

/// Type of the requests on /dev/net/tun.
const TUN_TYPE: u8 = b'T';

/// Sets the offloads of the program that reads a TAP device. Of all requests in this file, uhyve makes only
/// this one while the guest runs.
pub const TUNSETOFFLOAD: Opcode = write::<c_uint>(TUN_TYPE, 208);
/// Sets the size of the vnet headers of a TAP device.
const TUNSETVNETHDRSZ: Opcode = write::<c_int>(TUN_TYPE, 216);

/// Flags of `TUNSETIFF`: Ethernet frames; no packet information before a frame; a vnet header before a frame;
/// several queues.
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const IFF_MULTI_QUEUE: u16 = 0x0100;

/// Flag of an interface that is up.
const IFF_UP: u16 = 1;

/// Flags of `TUNSETOFFLOAD`: partial checksums, and large TCP segments over IPv4 and IPv6.
const TUN_F_CSUM: c_int = 1;
const TUN_F_TSO4: c_int = 2;
const TUN_F_TSO6: c_int = 4;

/// All flags of `TUNSETOFFLOAD` that uhyve uses.
pub const USED_OFFLOADS: c_int = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;

/// `struct ifreq`: the name of an interface, and a value, which is 16 bits of flags or a 32-bit number.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Ifreq {
    name: [u8; IFNAMSIZ],
    value: [u8; 4],
    rest: [u8; 20],
}

const _: () = assert!(size_of::<Ifreq>() == size_of::<libc::ifreq>());

impl Ifreq {
    fn new(name: [u8; IFNAMSIZ], value: [u8; 4]) -> Self {
        Self { name, value, rest: [0; 20] }
    }

    fn with_flags(name: [u8; IFNAMSIZ], flags: u16) -> Self {
        let [a, b] = flags.to_le_bytes();
        Self::new(name, [a, b, 0, 0])
    }
}

/// Requests whose argument is a `struct ifreq`.
#[derive(Clone, Copy, Debug)]
enum IfreqOpcode {
    /// `TUNSETIFF`: attaches an open /dev/net/tun to a TAP interface.
    SetInterface,
    /// `SIOCGIFFLAGS`.
    GetFlags,
    /// `SIOCSIFFLAGS`.
    SetFlags,
    /// `SIOCGIFMTU`.
    GetMtu,
    /// `SIOCSIFMTU`.
    SetMtu,
}

/// A request and its argument, which the kernel reads and may write.
#[derive(Debug)]
struct IfreqRequest {
    opcode: IfreqOpcode,
    argument: Ifreq,
}

// SAFETY: for every opcode of `IfreqOpcode` the kernel reads or writes one `struct ifreq` at the pointer, and
// nothing else of this process. `as_ptr` returns a pointer to `argument`. `argument` has the size of a
// `struct ifreq` (asserted above), is borrowed exclusively while the kernel uses it, and is valid for any
// bytes that the kernel writes.
unsafe impl Ioctl for IfreqRequest {
    /// The value that the kernel leaves in the argument.
    type Output = [u8; 4];

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        match self.opcode {
            IfreqOpcode::SetInterface => write::<c_int>(TUN_TYPE, 202),
            IfreqOpcode::GetFlags => 0x8913,
            IfreqOpcode::SetFlags => 0x8914,
            IfreqOpcode::GetMtu => 0x8921,
            IfreqOpcode::SetMtu => 0x8922,
        }
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.argument).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, argument: *mut c_void) -> rustix::io::Result<[u8; 4]> {
        // SAFETY: the caller passes the pointer that `as_ptr` has returned, which points to an initialised
        // `Ifreq` that outlives the request.
        Ok(unsafe { argument.cast::<Ifreq>().read() }.value)
    }
}

/// Makes a request and returns the value that the kernel leaves in its argument.
fn request(fd: impl AsFd, opcode: IfreqOpcode, argument: Ifreq) -> rustix::io::Result<[u8; 4]> {
    // SAFETY: `IfreqRequest` describes the memory that the kernel uses (see its `Ioctl`). Its requests change
    // a network interface or the TUN file, no memory mapping and no file descriptor of this process.
    unsafe { ioctl(fd, IfreqRequest { opcode, argument }) }
}

/// Attaches an open /dev/net/tun to the TAP interface of this name; creates the interface if it is missing.
/// `is_multi_queue` must match the interface.
pub(super) fn set_interface(
    tap: &File,
    name: [u8; IFNAMSIZ],
    is_multi_queue: bool,
) -> rustix::io::Result<()> {
    let flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | if is_multi_queue { IFF_MULTI_QUEUE } else { 0 };
    request(tap, IfreqOpcode::SetInterface, Ifreq::with_flags(name, flags)).map(drop)
}

/// Sets the size in bytes of the vnet headers.
pub(super) fn set_vnet_header_size(tap: &File, size: c_int) -> rustix::io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads an `int` at the pointer, and this `Setter` holds an `int`.
    let request = unsafe { Setter::<TUNSETVNETHDRSZ, c_int>::new(size) };
    // SAFETY: the request changes a setting of the TUN file, no memory of this process.
    unsafe { ioctl(tap, request) }
}

/// Sets the offloads that frames read from the TAP device may use.
pub(super) fn set_offloads(tap: &File, offloads: Offloads) -> rustix::io::Result<()> {
    let flags = [(offloads.checksum, TUN_F_CSUM), (offloads.tcp4, TUN_F_TSO4), (offloads.tcp6, TUN_F_TSO6)];
    let flags =
        flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag): (_, c_int)| all | flag);
    let flags = usize::try_from(flags).unwrap_or_default();
    // SAFETY: TUNSETOFFLOAD takes its argument as an integer, which the kernel never uses as a pointer.
    let request = unsafe { IntegerSetter::<TUNSETOFFLOAD>::new_usize(flags) };
    // SAFETY: the request changes a setting of the TUN file, no memory of this process.
    unsafe { ioctl(tap, request) }
}

/// Returns true if the interface is up.
pub(super) fn is_up(socket: impl AsFd, name: [u8; IFNAMSIZ]) -> rustix::io::Result<bool> {
    Ok(flags(socket, name)? & IFF_UP != 0)
}

/// Brings the interface up.
pub(super) fn set_up(socket: impl AsFd, name: [u8; IFNAMSIZ]) -> rustix::io::Result<()> {
    let flags = flags(&socket, name)? | IFF_UP;
    request(socket, IfreqOpcode::SetFlags, Ifreq::with_flags(name, flags)).map(drop)
}

/// Returns the MTU of the interface in bytes.
pub(super) fn mtu(socket: impl AsFd, name: [u8; IFNAMSIZ]) -> rustix::io::Result<u32> {
    request(socket, IfreqOpcode::GetMtu, Ifreq::new(name, [0; 4])).map(u32::from_le_bytes)
}

/// Sets the MTU of the interface in bytes.
pub(super) fn set_mtu(socket: impl AsFd, name: [u8; IFNAMSIZ], mtu: u16) -> rustix::io::Result<()> {
    request(socket, IfreqOpcode::SetMtu, Ifreq::new(name, u32::from(mtu).to_le_bytes())).map(drop)
}

fn flags(socket: impl AsFd, name: [u8; IFNAMSIZ]) -> rustix::io::Result<u16> {
    let [a, b, ..] = request(socket, IfreqOpcode::GetFlags, Ifreq::new(name, [0; 4]))?;
    Ok(u16::from_le_bytes([a, b]))
}
