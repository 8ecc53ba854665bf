//! Socket addresses of the ABI: `sockaddr_in` and `sockaddr_in6`.

use core::mem::offset_of;

use hermit_abi::{AF_INET, AF_INET6, AF_UNSPEC, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};
use hermit_io::{ValueResult, field, set_field};

/// Minimum size of an IPv6 socket address in bytes: Linux accepts one without the last field,
/// `sin6_scope_id`.
const MIN_V6_SIZE: usize = offset_of!(sockaddr_in6, sin6_scope_id);

/// Number of bytes at the start of a socket address, up to the end of its family.
const HEADER_SIZE: usize = 2;

/// Converts an address family to its `AF_` number.
pub(crate) const fn family_number(family: u16) -> i32 {
    if family == V4 { AF_INET } else { AF_INET6 }
}

/// Returns the `AF_` number in a socket address, if the address is long enough to have one.
fn family(bytes: &[u8]) -> Option<i32> {
    bytes.get(offset_of!(sockaddr, sa_family)).copied().map(i32::from)
}

/// Reads an address.
///
/// # Errors
///
/// `EINVAL` if it is too short, `EAFNOSUPPORT` if it is of another family.
fn read(bytes: &[u8]) -> Result<Endpoint, Errno> {
    if bytes.len() < HEADER_SIZE {
        return Err(Errno::EINVAL);
    }
    match family(bytes) {
        Some(AF_INET) => v4(bytes),
        Some(AF_INET6) => v6(bytes),
        _ => return Err(Errno::EAFNOSUPPORT),
    }
    .ok_or(Errno::EINVAL)
}

/// Reads an address for a socket of an IP version.
///
/// # Errors
///
/// `EINVAL` if it is too short, `EAFNOSUPPORT` if it is of another family.
pub(super) fn of_version(version: u16, bytes: &[u8]) -> Result<Endpoint, Errno> {
    check(version, read(bytes)?)
}

/// Reads an address for a socket of an IP version. For IPv6, an IPv4 address becomes an IPv4-mapped address.
///
/// # Errors
///
/// As [`of_version`].
pub(super) fn mapped_to(version: u16, bytes: &[u8]) -> Result<Endpoint, Errno> {
    let address = read(bytes)?;
    if (version, address.family) == (V6, V4) {
        let mapped = address.v4().to_ipv6_mapped().octets();
        return Ok(Endpoint { family: V6, address: mapped, ..address });
    }
    check(version, address)
}

fn check(version: u16, address: Endpoint) -> Result<Endpoint, Errno> {
    match (version, address.family) {
        // An IPv4 address is too short for IPv6, so Linux returns `EINVAL`.
        (V6, V4) => Err(Errno::EINVAL),
        (V4, V6) => Err(Errno::EAFNOSUPPORT),
        _ => Ok(address),
    }
}

/// Returns true if the family of an address is `AF_UNSPEC`.
pub(super) fn is_unspecified(bytes: &[u8]) -> bool {
    bytes.len() >= size_of::<sockaddr>() && family(bytes) == Some(AF_UNSPEC)
}

fn v4(bytes: &[u8]) -> Option<Endpoint> {
    let mut address = [0; 16];
    let (octets, _) = address.split_first_chunk_mut::<4>()?;
    *octets = field(bytes, offset_of!(sockaddr_in, sin_addr))?;
    let port = u16::from_be_bytes(field(bytes, offset_of!(sockaddr_in, sin_port))?);
    // Linux requires the whole structure.
    let _: [u8; 8] = field(bytes, offset_of!(sockaddr_in, sin_zero))?;
    Some(Endpoint { family: V4, port, address, ..Endpoint::default() })
}

fn v6(bytes: &[u8]) -> Option<Endpoint> {
    if bytes.len() < MIN_V6_SIZE {
        return None;
    }
    let number = |offset| field(bytes, offset).map_or(0, u32::from_ne_bytes);
    Some(Endpoint {
        family: V6,
        port: u16::from_be_bytes(field(bytes, offset_of!(sockaddr_in6, sin6_port))?),
        scope: number(MIN_V6_SIZE),
        flow: number(offset_of!(sockaddr_in6, sin6_flowinfo)),
        address: field(bytes, offset_of!(sockaddr_in6, sin6_addr))?,
    })
}

/// A `sockaddr_in` or a `sockaddr_in6`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Address {
    bytes: [u8; size_of::<sockaddr_in6>()],
    size: usize,
}

impl Address {
    /// Creates the socket address of an endpoint. The result is empty if the endpoint has no family.
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        let [a, b, c, d, ..] = endpoint.address;
        let mut address = Self { bytes: [0; size_of::<sockaddr_in6>()], size: 0 };
        match endpoint.family {
            V4 => {
                address.write_header(size_of::<sockaddr_in>(), AF_INET, endpoint.port);
                address.put(offset_of!(sockaddr_in, sin_addr), &[a, b, c, d]);
            }
            V6 => {
                address.write_header(size_of::<sockaddr_in6>(), AF_INET6, endpoint.port);
                address.put(offset_of!(sockaddr_in6, sin6_flowinfo), &endpoint.flow.to_ne_bytes());
                address.put(offset_of!(sockaddr_in6, sin6_addr), &endpoint.address);
                address.put(MIN_V6_SIZE, &endpoint.scope.to_ne_bytes());
            }
            _ => {}
        }
        address
    }

    /// Writes the fields that both families have: length, family, port.
    fn write_header(&mut self, size: usize, family: i32, port: u16) {
        self.size = size;
        self.put(offset_of!(sockaddr, sa_len), &size.to_le_bytes()[..1]);
        self.put(offset_of!(sockaddr, sa_family), &family.to_le_bytes()[..1]);
        self.put(offset_of!(sockaddr, sa_data), &port.to_be_bytes());
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        set_field(&mut self.bytes, offset, bytes);
    }

    /// The bytes of the address.
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.size).unwrap_or_default()
    }

    /// Size of the address in bytes.
    pub(crate) fn size(&self) -> socklen_t {
        // 28 at most.
        socklen_t::try_from(self.size).unwrap_or(0)
    }

    /// Pointer to the address.
    pub(crate) const fn as_mut_ptr(&mut self) -> *mut sockaddr {
        (&raw mut self.bytes).cast()
    }
}

/// Writes as much of an endpoint's address as there is room for. Writes no bytes if the endpoint has no
/// family.
///
/// # Errors
///
/// Those of `out`.
pub(super) fn write(endpoint: &Endpoint, out: &mut dyn ValueResult) -> Result<(), Errno> {
    out.write_truncated(Address::new(endpoint).bytes())
}
