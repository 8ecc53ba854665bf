//! Check that the forwarded ports of the host are free. passt and QEMU report little about a port that is in use, and
//! passt nothing if it is so at some addresses only.
//!
//! Between that check and passt's own bind(2), another user could take a port, and would get the clients'
//! connections. passt takes no sockets from its parent. So afterwards [`verify`] looks up who listens.

mod listeners;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use hermit_interface::port_forward::{PortForward, Protocol};
use rustix::io::Errno;

/// Reason for which a port of the host cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Another socket is bound to the port (`EADDRINUSE`).
    #[error(
        "port {0} of the host is in use: forward another one, or stop the program that uses it (`ss -ltnup`)"
    )]
    InUse(u16),
    /// Another user has bound the port after it was checked, or passt has not bound it.
    #[error("port {0} of the host was taken by another program meanwhile: forward another one, or try again")]
    Taken(u16),
    /// The host does not list its sockets.
    #[error("/proc/self/net, which lists the programs that listen at forwarded ports: {0}")]
    Listeners(io::Error),
    /// The user has no permission to bind the port (`EACCES`).
    #[error("no permission for port {0} of the host: forward one from 1024 on, such as 8080")]
    Forbidden(u16),
    /// The host has no such address (`EADDRNOTAVAIL`).
    #[error("{0} is no address of this host: `ip address` prints its addresses")]
    Address(IpAddr),
    /// Any other error of the host.
    #[error("port {0} of the host cannot be used: {1}")]
    Host(u16, io::Error),
}

/// Binds all ports, replaces port 0 of the host by the free one that it got, and closes the sockets. Returns the
/// forwards whose port was chosen.
///
/// # Errors
///
/// See [`PortError`].
pub fn choose(forwards: &mut [PortForward]) -> Result<Vec<PortForward>, PortError> {
    // The sockets stay open until all are bound.
    bind(forwards).map(|bound| bound.chosen)
}

/// Sockets that are bound to forwarded ports.
#[derive(Debug, Default)]
pub struct BoundPorts {
    /// TCP listeners, each with the port of the guest.
    pub listeners: Vec<(TcpListener, u16)>,
    /// UDP sockets, each with the port of the guest.
    pub sockets: Vec<(UdpSocket, u16)>,
    /// The forwards whose port of the host was chosen.
    pub chosen: Vec<PortForward>,
}

/// Binds all ports, and replaces port 0 of the host by the free one that it got.
///
/// # Errors
///
/// See [`PortError`].
pub fn bind(forwards: &mut [PortForward]) -> Result<BoundPorts, PortError> {
    let mut bound = BoundPorts::default();
    // The given ports come first, so that none of them is chosen for another.
    for forward in forwards.iter().filter(|forward| forward.host != 0) {
        bound.add(bind_forward(forward)?, forward.guest.get());
    }
    for forward in forwards.iter_mut().filter(|forward| forward.host == 0) {
        let socket = bind_forward(forward)?;
        forward.host = socket.port().map_err(|error| PortError::Host(0, error))?;
        bound.chosen.push(*forward);
        bound.add(socket, forward.guest.get());
    }
    Ok(bound)
}

impl BoundPorts {
    fn add(&mut self, socket: Socket, guest: u16) {
        match socket {
            Socket::Tcp(listener) => self.listeners.push((listener, guest)),
            Socket::Udp(socket) => self.sockets.push((socket, guest)),
        }
    }
}

/// Checks that sockets are bound to the forwarded ports now, and that they belong to the users `owners`.
///
/// # Errors
///
/// See [`PortError`].
pub fn verify(forwards: &[PortForward], owners: &[u32]) -> Result<(), PortError> {
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let mut forwards = forwards.iter().filter(|forward| forward.protocol == protocol).peekable();
        if forwards.peek().is_none() {
            continue;
        }
        let listeners = listeners::all(protocol).map_err(PortError::Listeners)?;
        let is_taken = |forward: &&PortForward| !listeners::belongs(&listeners, forward, owners);
        if let Some(forward) = forwards.find(is_taken) {
            return Err(PortError::Taken(forward.host));
        }
    }
    Ok(())
}

/// The message about a port that [`choose`] chose.
#[must_use]
pub fn message(forward: &PortForward) -> String {
    let PortForward { protocol, address, host, guest } = forward;
    let protocol = if *protocol == Protocol::Udp { "UDP port" } else { "port" };
    let at = address.map(|address| format!(" at {address}")).unwrap_or_default();
    format!("{protocol} {host} of the host{at} is forwarded to port {guest} of the guest")
}

/// A bound socket.
enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Socket {
    /// Binds a socket. The unspecified IPv6 address covers all IPv4 addresses, too.
    fn bind(protocol: Protocol, address: IpAddr, port: u16) -> io::Result<Self> {
        let address = SocketAddr::new(address, port);
        match protocol {
            Protocol::Tcp => TcpListener::bind(address).map(Self::Tcp),
            Protocol::Udp => UdpSocket::bind(address).map(Self::Udp),
        }
    }

    fn port(&self) -> io::Result<u16> {
        let address = match self {
            Self::Tcp(socket) => socket.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        };
        address.map(|address| address.port())
    }
}

fn bind_forward(forward: &PortForward) -> Result<Socket, PortError> {
    let PortForward { protocol, host: port, .. } = *forward;
    let bind_any = || match Socket::bind(protocol, Ipv6Addr::UNSPECIFIED.into(), port) {
        Err(error) if lacks_ipv6(&error) => Socket::bind(protocol, Ipv4Addr::UNSPECIFIED.into(), port),
        result => result,
    };
    let socket = forward.address.map_or_else(bind_any, |address| Socket::bind(protocol, address, port));
    socket.map_err(|error| match (error.kind(), forward.address) {
        (ErrorKind::AddrInUse, _) => PortError::InUse(port),
        (ErrorKind::PermissionDenied, _) => PortError::Forbidden(port),
        (ErrorKind::AddrNotAvailable, Some(address)) => PortError::Address(address),
        _ => PortError::Host(port, error),
    })
}

/// Whether an IPv6 socket cannot be bound because the host has no IPv6.
fn lacks_ipv6(error: &io::Error) -> bool {
    let errors = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| errors.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::{PortError, choose, message, verify};
    use hermit_interface::port_forward::{PortForward, Protocol};
    use std::iter;
    use std::net::{TcpListener, UdpSocket};
    use std::ops::Range;
    use std::process;
    use std::sync::atomic::{AtomicU16, Ordering};

    /// Ports that hosts give no socket which asks for any: no other program takes one of them meanwhile.
    const UNASSIGNED: Range<u16> = 20_000..30_000;

    /// Number of ports of [`UNASSIGNED`] that were tried: tests run at the same time, and none tries another one's port.
    static TRIED: AtomicU16 = AtomicU16::new(0);

    fn forward(text: &str) -> PortForward {
        text.parse().unwrap()
    }

    /// A listener at a port that is free for UDP, too.
    fn listen(address: &str) -> (u16, TcpListener) {
        let start = UNASSIGNED.start + process::id().to_le_bytes().map(u16::from)[0] * 20;
        let ports = iter::repeat_with(|| start + TRIED.fetch_add(1, Ordering::Relaxed));
        let mut ports = ports.take_while(|port| UNASSIGNED.contains(port));
        let bind = |port| UdpSocket::bind(("0.0.0.0", port)).and_then(|_| TcpListener::bind((address, port)));
        ports.find_map(|port| Some((port, bind(port).ok()?))).unwrap()
    }

    #[test]
    fn port_in_use_at_any_address_is_an_error() {
        for address in ["127.0.0.1", "0.0.0.0"] {
            let (port, listener) = listen(address);
            let wanted = forward(&format!("{port}:80"));
            assert!(matches!(choose(&mut [wanted]), Err(PortError::InUse(found)) if found == port));
            let other = PortForward { protocol: Protocol::Udp, ..wanted };
            assert!(choose(&mut [other]).is_ok());
            drop(listener);
            assert!(choose(&mut [wanted]).is_ok());
            assert!(matches!(choose(&mut [wanted, wanted]), Err(PortError::InUse(_))));
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let error = choose(&mut [forward(&format!("127.0.0.1:{port}:53/udp"))]).unwrap_err();
        assert!(error.to_string().contains("is in use"));
    }

    #[test]
    fn port_is_verified_by_the_user_of_its_socket() {
        let user = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1", "0.0.0.0"] {
            let (port, listener) = listen(address);
            let at = forward(&format!("{address}:{port}:80"));
            assert!(verify(&[at], &[user + 1, user]).is_ok());
            assert!(matches!(verify(&[at], &[user + 1]), Err(PortError::Taken(found)) if found == port));
            drop(listener);
            assert!(verify(&[at], &[user + 1, user]).is_err());
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let at = forward(&format!("127.0.0.1:{port}:53/udp"));
        assert!(verify(&[at], &[user + 1, user]).is_ok() && verify(&[at], &[user + 1]).is_err());
        assert!(verify(&[], &[]).is_ok());
    }

    #[test]
    fn address_of_another_host_is_an_error() {
        let error = choose(&mut [forward("203.0.113.1:8080:80")]).unwrap_err();
        assert!(error.to_string().starts_with("203.0.113.1 is no address of this host"), "{error}");
    }

    #[test]
    fn port_0_becomes_a_free_port_of_its_own() {
        let mut forwards = ["0:80", "127.0.0.1:0:81", "0:53/udp"].map(forward);
        let chosen = choose(&mut forwards).unwrap();
        assert_eq!(chosen, forwards);
        assert!(forwards.iter().all(|forward| forward.host != 0) && forwards[0].host != forwards[1].host);
        let mut given = [forward(&format!("{}:80", listen("0.0.0.0").0))];
        assert_eq!(choose(&mut given).unwrap(), []);
        let text = message(&forward("127.0.0.1:4000:53/udp"));
        assert_eq!(text, "UDP port 4000 of the host at 127.0.0.1 is forwarded to port 53 of the guest");
        assert_eq!(
            message(&forward("8080:80")),
            "port 8080 of the host is forwarded to port 80 of the guest"
        );
    }
}
