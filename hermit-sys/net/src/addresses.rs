//! Addresses as kernel and stack have them.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};

/// As the stack has it.
///
/// # Errors
///
/// `EAFNOSUPPORT` for one that is none.
pub(crate) fn from_kernel(endpoint: &Endpoint) -> Result<SocketAddr, Errno> {
    match endpoint.family {
        V4 => Ok((v4(endpoint), endpoint.port).into()),
        V6 => Ok(SocketAddrV6::new(v6(endpoint), endpoint.port, endpoint.flow, endpoint.scope).into()),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// The address of IPv4.
pub(crate) const fn v4(endpoint: &Endpoint) -> Ipv4Addr {
    let [a, b, c, d, ..] = endpoint.address;
    Ipv4Addr::new(a, b, c, d)
}

/// The address of IPv6.
pub(crate) fn v6(endpoint: &Endpoint) -> Ipv6Addr {
    endpoint.address.into()
}

/// As the kernel has it.
pub(crate) fn to_kernel(address: SocketAddr) -> Endpoint {
    let endpoint = Endpoint { port: address.port(), ..Endpoint::from(address.ip()) };
    match address {
        SocketAddr::V4(_) => endpoint,
        SocketAddr::V6(address) => {
            Endpoint { scope: address.scope_id(), flow: address.flowinfo(), ..endpoint }
        }
    }
}
