//! Socket addresses of the ABI.

use core::mem::offset_of;

use hermit_abi::{AF_INET, AF_INET6, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};

use super::user;

/// The shortest address of IPv6: without the scope, as Linux takes it.
const SHORTEST_V6: usize = offset_of!(sockaddr_in6, sin6_scope_id);

/// An address family as the ABI has it.
pub(super) const fn family_number(family: u16) -> i32 {
    if family == V4 { AF_INET } else { AF_INET6 }
}

/// The bytes of an address, whose family is known then.
const HEAD: usize = 2;

/// Reads an address.
///
/// # Errors
///
/// `EINVAL` if it is too short, `EAFNOSUPPORT` if it is of another family, `EFAULT`.
///
/// # Safety
///
/// Null, or valid for reads of `size` bytes that do not change meanwhile.
pub(super) unsafe fn read(address: *const sockaddr, size: socklen_t) -> Result<Endpoint, Errno> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { user::bytes(address.cast(), size as usize) }?;
    if bytes.len() < HEAD {
        return Err(Errno::EINVAL);
    }
    let family = bytes.get(offset_of!(sockaddr, sa_family)).copied().map(i32::from);
    match family {
        Some(AF_INET) => v4(bytes),
        Some(AF_INET6) => v6(bytes),
        _ => return Err(Errno::EAFNOSUPPORT),
    }
    .ok_or(Errno::EINVAL)
}

/// The bytes of a field, if they are all there.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

fn v4(bytes: &[u8]) -> Option<Endpoint> {
    let mut address = [0; 16];
    let (octets, _) = address.split_first_chunk_mut::<4>()?;
    *octets = field(bytes, offset_of!(sockaddr_in, sin_addr))?;
    let port = u16::from_be_bytes(field(bytes, offset_of!(sockaddr_in, sin_port))?);
    // The whole structure must be there.
    let _: [u8; 8] = field(bytes, offset_of!(sockaddr_in, sin_zero))?;
    Some(Endpoint { family: V4, port, address, ..Endpoint::default() })
}

fn v6(bytes: &[u8]) -> Option<Endpoint> {
    if bytes.len() < SHORTEST_V6 {
        return None;
    }
    let number = |offset| field(bytes, offset).map_or(0, u32::from_ne_bytes);
    Some(Endpoint {
        family: V6,
        port: u16::from_be_bytes(field(bytes, offset_of!(sockaddr_in6, sin6_port))?),
        scope: number(SHORTEST_V6),
        flow: number(offset_of!(sockaddr_in6, sin6_flowinfo)),
        address: field(bytes, offset_of!(sockaddr_in6, sin6_addr))?,
    })
}

/// An address as the ABI has it: a `sockaddr_in` or a `sockaddr_in6`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Address {
    bytes: [u8; size_of::<sockaddr_in6>()],
    size: usize,
}

impl Address {
    /// The same address; nothing if it is none.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        let [a, b, c, d, ..] = endpoint.address;
        let mut address = Self { bytes: [0; size_of::<sockaddr_in6>()], size: 0 };
        match endpoint.family {
            V4 => {
                address.begin(size_of::<sockaddr_in>(), AF_INET, endpoint.port);
                address.put(offset_of!(sockaddr_in, sin_addr), &[a, b, c, d]);
            }
            V6 => {
                address.begin(size_of::<sockaddr_in6>(), AF_INET6, endpoint.port);
                address.put(offset_of!(sockaddr_in6, sin6_flowinfo), &endpoint.flow.to_ne_bytes());
                address.put(offset_of!(sockaddr_in6, sin6_addr), &endpoint.address);
                address.put(SHORTEST_V6, &endpoint.scope.to_ne_bytes());
            }
            _ => {}
        }
        address
    }

    /// Writes what both have alike: length, family, port.
    fn begin(&mut self, size: usize, family: i32, port: u16) {
        self.size = size;
        self.put(offset_of!(sockaddr, sa_len), &size.to_le_bytes()[..1]);
        self.put(offset_of!(sockaddr, sa_family), &family.to_le_bytes()[..1]);
        self.put(offset_of!(sockaddr, sa_data), &port.to_be_bytes());
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(offset).zip(bytes) {
            *to = *from;
        }
    }

    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.size).unwrap_or_default()
    }

    /// How many bytes it has.
    pub(super) fn size(&self) -> socklen_t {
        // 28 at most.
        socklen_t::try_from(self.size).unwrap_or(0)
    }

    /// Where it lies.
    pub(super) const fn place(&mut self) -> *mut sockaddr {
        (&raw mut self.bytes).cast()
    }
}

/// Stores an address, as much of it as there is room for, and how long it is.
///
/// # Errors
///
/// `EFAULT`; `EINVAL` if there is less than no room.
///
/// # Safety
///
/// `size` is null, or valid for a read and a write; `place` is null, or valid for writes of as many bytes as `size` says.
pub(super) unsafe fn write(
    endpoint: &Endpoint,
    place: *mut sockaddr,
    size: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let room = unsafe { user::read(size.cast_const()) }?;
    if room.cast_signed() < 0 {
        return Err(Errno::EINVAL);
    }
    let address = Address::new(endpoint);
    let bytes = address.bytes();
    // SAFETY: the caller's promise.
    let buffer = unsafe { user::buffer(place.cast(), room as usize) }?;
    let count = bytes.len().min(buffer.len());
    for (to, from) in buffer.iter_mut().zip(bytes.iter().take(count)) {
        to.write(*from);
    }
    // SAFETY: the caller's promise.
    unsafe { user::write(size, address.size()) }
}

/// As [`write`], unless the program does not want to know.
///
/// # Errors
///
/// As [`write`].
///
/// # Safety
///
/// As for [`write`].
pub(super) unsafe fn write_if_wanted(
    endpoint: &Endpoint,
    place: *mut sockaddr,
    size: *mut socklen_t,
) -> Result<(), Errno> {
    if place.is_null() || size.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { write(endpoint, place, size) }
}
