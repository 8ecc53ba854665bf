//! Check that the forwarded ports of the host are free. passt reports little about a port that is in use, and nothing if
//! it is so at some addresses only.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use crate::config::network::{PortForward, Protocol};

/// Reason for which a port of the host cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Another socket is bound to the port (`EADDRINUSE`).
    #[error("port {0} of the host is in use: forward another one, or end the program that uses it")]
    InUse(u16),
    /// The user has no permission to bind the port (`EACCES`).
    #[error("port {0} of the host is not for this user: forward one from 1024 on, such as 8080")]
    Forbidden(u16),
    /// The host has no such address (`EADDRNOTAVAIL`).
    #[error("{0} is no address of this host")]
    Address(IpAddr),
    /// Any other error of the host.
    #[error("port {0} of the host cannot be used: {1}")]
    Host(u16, io::Error),
}

/// Checks that all ports are free: binds all of them, then closes the sockets.
pub(super) fn check(forwards: &[PortForward]) -> Result<(), PortError> {
    forwards.iter().map(bind_forward).collect::<Result<Vec<_>, _>>().map(drop)
}

fn bind_forward(forward: &PortForward) -> Result<OwnedFd, PortError> {
    let port = forward.host.get();
    let bind_any = || match bind(forward.protocol, Ipv6Addr::UNSPECIFIED.into(), port) {
        // The host has no IPv6.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
            bind(forward.protocol, Ipv4Addr::UNSPECIFIED.into(), port)
        }
        result => result,
    };
    let socket = forward.address.map_or_else(bind_any, |address| bind(forward.protocol, address, port));
    socket.map_err(|error| match (error.kind(), forward.address) {
        (ErrorKind::AddrInUse, _) => PortError::InUse(port),
        (ErrorKind::PermissionDenied, _) => PortError::Forbidden(port),
        (ErrorKind::AddrNotAvailable, Some(address)) => PortError::Address(address),
        _ => PortError::Host(port, error),
    })
}

/// Binds a socket. The unspecified IPv6 address covers all IPv4 addresses, too.
fn bind(protocol: Protocol, address: IpAddr, port: u16) -> io::Result<OwnedFd> {
    let address = SocketAddr::new(address, port);
    match protocol {
        Protocol::Tcp => TcpListener::bind(address).map(OwnedFd::from),
        Protocol::Udp => UdpSocket::bind(address).map(OwnedFd::from),
    }
}

#[cfg(test)]
mod tests {
    use super::{PortError, check};
    use crate::config::network::{PortForward, Protocol};
    use std::net::{TcpListener, UdpSocket};

    fn forward(text: &str) -> PortForward {
        text.parse().unwrap()
    }

    #[test]
    fn port_in_use_at_any_address_is_an_error() {
        for address in ["127.0.0.1:0", "0.0.0.0:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            let wanted = forward(&format!("{port}:80"));
            assert!(matches!(check(&[wanted]), Err(PortError::InUse(found)) if found == port));
            let other = PortForward { protocol: Protocol::Udp, ..wanted };
            assert!(check(&[other]).is_ok());
            drop(listener);
            assert!(check(&[wanted]).is_ok());
            assert!(matches!(check(&[wanted, wanted]), Err(PortError::InUse(_))));
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let error = check(&[forward(&format!("127.0.0.1:{port}:53/udp"))]).unwrap_err();
        assert!(error.to_string().contains("is in use"));
    }

    #[test]
    fn address_of_another_host_is_an_error() {
        let error = check(&[forward("203.0.113.1:8080:80")]).unwrap_err();
        assert_eq!(error.to_string(), "203.0.113.1 is no address of this host");
    }
}
