//! Conversion of addresses between kernel and stack.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};

/// The stack's type for an address of the kernel.
///
/// # Errors
///
/// `EAFNOSUPPORT` for an endpoint without a family.
pub(crate) fn from_kernel(endpoint: &Endpoint) -> Result<SocketAddr, Errno> {
    match endpoint.family {
        V4 => Ok((v4(endpoint), endpoint.port).into()),
        V6 => Ok(SocketAddrV6::new(v6(endpoint), endpoint.port, endpoint.flow, endpoint.scope).into()),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// The IPv4 address of an endpoint.
pub(crate) const fn v4(endpoint: &Endpoint) -> Ipv4Addr {
    let [a, b, c, d, ..] = endpoint.address;
    Ipv4Addr::new(a, b, c, d)
}

/// The IPv6 address of an endpoint.
pub(crate) fn v6(endpoint: &Endpoint) -> Ipv6Addr {
    endpoint.address.into()
}

/// The kernel's type for an address of the stack.
pub(crate) fn to_kernel(address: SocketAddr) -> Endpoint {
    let endpoint = Endpoint { port: address.port(), ..Endpoint::from(address.ip()) };
    match address {
        SocketAddr::V4(_) => endpoint,
        SocketAddr::V6(address) => {
            Endpoint { scope: address.scope_id(), flow: address.flowinfo(), ..endpoint }
        }
    }
}
