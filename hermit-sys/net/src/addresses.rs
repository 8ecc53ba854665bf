//! Conversion of addresses between kernel and stack.

use core::net::{SocketAddr, SocketAddrV6};

use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};

/// Converts an address of the kernel to the stack's type.
///
/// # Errors
///
/// `EAFNOSUPPORT` for an endpoint without a family.
pub(crate) fn from_kernel(endpoint: &Endpoint) -> Result<SocketAddr, Errno> {
    match endpoint.family {
        V4 => Ok((endpoint.v4(), endpoint.port).into()),
        V6 => Ok(SocketAddrV6::new(endpoint.v6(), endpoint.port, endpoint.flow, endpoint.scope).into()),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Converts an address of the stack to the kernel's type.
pub(crate) fn to_kernel(address: SocketAddr) -> Endpoint {
    let endpoint = Endpoint { port: address.port(), ..Endpoint::from(address.ip()) };
    match address {
        SocketAddr::V4(_) => endpoint,
        SocketAddr::V6(address) => {
            Endpoint { scope: address.scope_id(), flow: address.flowinfo(), ..endpoint }
        }
    }
}
