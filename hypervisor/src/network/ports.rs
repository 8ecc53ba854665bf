//! Whether ports of the host are free. passt says little about those that are not, and nothing if they are only in part.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use crate::config::network::{PortForward, Protocol};

/// Why a port of the host cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Somebody has it.
    #[error("port {0} of the host is in use: forward another one, or end who uses it")]
    InUse(u16),
    /// It is not for this user.
    #[error("port {0} of the host is not for this user: forward one from 1024 on, such as 8080")]
    Forbidden(u16),
    /// The host has no such address.
    #[error("{0} is no address of this host")]
    Address(IpAddr),
    /// The host refuses something else.
    #[error("port {0} of the host cannot be used: {1}")]
    Host(u16, io::Error),
}

/// Checks that ports are free, by taking all of them for a moment.
pub(super) fn check(forwards: &[PortForward]) -> Result<(), PortError> {
    forwards.iter().map(take).collect::<Result<Vec<_>, _>>().map(drop)
}

fn take(forward: &PortForward) -> Result<OwnedFd, PortError> {
    let port = forward.host.get();
    let everywhere = || match bind(forward.protocol, Ipv6Addr::UNSPECIFIED.into(), port) {
        // A host without IPv6.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
            bind(forward.protocol, Ipv4Addr::UNSPECIFIED.into(), port)
        }
        result => result,
    };
    let taken = forward.address.map_or_else(everywhere, |address| bind(forward.protocol, address, port));
    taken.map_err(|error| match (error.kind(), forward.address) {
        (ErrorKind::AddrInUse, _) => PortError::InUse(port),
        (ErrorKind::PermissionDenied, _) => PortError::Forbidden(port),
        (ErrorKind::AddrNotAvailable, Some(address)) => PortError::Address(address),
        _ => PortError::Host(port, error),
    })
}

/// The address of all of IPv6 stands for all of IPv4, too.
fn bind(protocol: Protocol, address: IpAddr, port: u16) -> io::Result<OwnedFd> {
    let place = SocketAddr::new(address, port);
    match protocol {
        Protocol::Tcp => TcpListener::bind(place).map(OwnedFd::from),
        Protocol::Udp => UdpSocket::bind(place).map(OwnedFd::from),
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
    fn ports_in_use_are_noticed_whoever_listens_where() {
        for place in ["127.0.0.1:0", "0.0.0.0:0"] {
            let listener = TcpListener::bind(place).unwrap();
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
    fn addresses_of_others_are_noticed() {
        let error = check(&[forward("203.0.113.1:8080:80")]).unwrap_err();
        assert_eq!(error.to_string(), "203.0.113.1 is no address of this host");
    }
}
