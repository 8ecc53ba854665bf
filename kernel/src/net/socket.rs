//! Creates sockets. Each address family has a line here.

use alloc::sync::Arc;

use hermit_abi::{AF_INET, AF_INET6};
use hermit_interface::Errno;
use hermit_interface::net::{V4, V6};
use hermit_io::Socket;

use super::inet;

/// Creates a socket of an address family, a type and a protocol. The type has no flags. Protocol 0 is the
/// default protocol of the type.
///
/// # Errors
///
/// `EAFNOSUPPORT`, `EINVAL` or `EPROTONOSUPPORT` if family, type or protocol is not supported, `ENOMEM`, or
/// an error of the family.
pub(crate) fn create(
    domain: i32,
    socket_type: i32,
    protocol: i32,
    nonblocking: bool,
) -> Result<Arc<dyn Socket>, Errno> {
    match domain {
        AF_INET => inet::create(V4, socket_type, protocol, nonblocking),
        AF_INET6 => inet::create(V6, socket_type, protocol, nonblocking),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}
