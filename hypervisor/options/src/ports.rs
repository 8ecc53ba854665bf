//! Sockets at the forwarded ports of the host.
//!
//! `-p HOST:GUEST` forwards the clients of a port of the host to a port of the guest. The ports are bound
//! before uhyve is confined: a TCP port becomes a listener, a UDP port becomes one socket for all clients.
//! Without an address, a port is bound to all addresses of the host. One IPv6 socket covers both IP versions;
//! on a host without IPv6, an IPv4 socket is used instead.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU16;
use std::ops::Deref;
use std::os::fd::OwnedFd;

use hermit_interface::port_forward::{PortForward, Protocol};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Maximum number of connections that wait to be accepted, unless the host's limit is lower
/// (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;

/// The option for forwarded ports. It dereferences to the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct PortOptions {
    /// Forward a port of the host to the guest, such as 8080:80, or a range, such as 8000-8010:8000-8010;
    /// port 0 of the host is any free one, which is printed; TCP, or UDP with /udp at its end; may be given
    /// several times
    #[arg(short = 'p', long = "publish", alias = "port", value_name = "[ADDRESS:]HOST:GUEST[/udp]")]
    ports: Vec<PortForward>,
}

impl Deref for PortOptions {
    type Target = Vec<PortForward>;

    fn deref(&self) -> &Self::Target {
        &self.ports
    }
}

impl From<PortOptions> for Vec<PortForward> {
    fn from(options: PortOptions) -> Self {
        options.ports
    }
}

/// Reason why a port of the host cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Another socket is bound to the port (`EADDRINUSE`).
    #[error(
        "port {0} of the host is in use: forward another one, or stop the program that uses it (`ss -ltnup`)"
    )]
    InUse(u16),
    /// The user has no permission to bind the port (`EACCES`).
    #[error("no permission for port {0} of the host: forward one from 1024 on, such as 8080")]
    Forbidden(u16),
    /// The host has no such address (`EADDRNOTAVAIL`).
    #[error("{0} is no address of this host: `ip address` prints its addresses")]
    Address(IpAddr),
    /// A passed socket is neither a TCP listener nor a UDP socket.
    #[error(
        "--listen-fd: the descriptor for port {0} of the guest is {1}: it has to be a TCP socket that listens, or a UDP socket"
    )]
    Passed(NonZeroU16, &'static str),
    /// Any other error of the host.
    #[error("port {0} of the host cannot be used: {1}")]
    Host(u16, io::Error),
}

/// Sockets that are bound to forwarded ports.
#[derive(Debug, Default)]
pub struct BoundPorts {
    /// TCP listeners, each with the port of the guest.
    pub listeners: Vec<(TcpListener, u16)>,
    /// UDP sockets, each with the port of the guest.
    pub sockets: Vec<(UdpSocket, u16)>,
    /// The forwards for which the host has chosen the port.
    pub chosen: Vec<PortForward>,
}

/// Binds all ports. For port 0, the host chooses a free port.
///
/// # Errors
///
/// See [`PortError`].
pub fn bind(forwards: &[PortForward]) -> Result<BoundPorts, PortError> {
    let mut bound = BoundPorts::default();
    // Binds the ports with a number first, so that the host cannot choose one of them for port 0.
    let given = forwards.iter().filter(|forward| forward.host != 0);
    for forward in given.flat_map(|forward| forward.each()) {
        bound.add(bind_forward(&forward)?, forward.guest.get());
    }
    for &forward in forwards.iter().filter(|forward| forward.host == 0) {
        let socket = bind_forward(&forward)?;
        let host = socket.port().map_err(|error| PortError::Host(0, error))?;
        bound.chosen.push(PortForward { host, ..forward });
        bound.add(socket, forward.guest.get());
    }
    Ok(bound)
}

impl BoundPorts {
    /// Adds a socket that another program has bound.
    ///
    /// # Errors
    ///
    /// [`PortError::Passed`].
    pub fn add_passed(&mut self, socket: OwnedFd, guest: NonZeroU16) -> Result<(), PortError> {
        let failed = |what| PortError::Passed(guest, what);
        let domain = sockopt::socket_domain(&socket).map_err(|_| failed("no socket"))?;
        if domain != AddressFamily::INET && domain != AddressFamily::INET6 {
            return Err(failed("no socket of IP"));
        }
        let kind = sockopt::socket_type(&socket);
        let socket = match kind {
            Ok(SocketType::STREAM) if sockopt::socket_acceptconn(&socket) == Ok(true) => {
                Socket::Tcp(socket.into())
            }
            Ok(SocketType::STREAM) => return Err(failed("a connection")),
            Ok(SocketType::DGRAM) => Socket::Udp(socket.into()),
            _ => return Err(failed("a socket of another kind")),
        };
        self.add(socket, guest.get());
        Ok(())
    }

    fn add(&mut self, socket: Socket, guest: u16) {
        match socket {
            Socket::Tcp(listener) => self.listeners.push((listener, guest)),
            Socket::Udp(socket) => self.sockets.push((socket, guest)),
        }
    }
}

/// Returns the message about a port that the host has chosen.
#[must_use]
pub fn message(forward: &PortForward) -> String {
    let PortForward { protocol, address, host, guest, .. } = forward;
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
    /// Binds a socket. The unspecified IPv6 address covers all IPv4 addresses, too, whatever the host's
    /// default is (`net.ipv6.bindv6only`).
    fn bind(protocol: Protocol, address: IpAddr, port: u16) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let kind = if protocol == Protocol::Tcp { SocketType::STREAM } else { SocketType::DGRAM };
        let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, false)?;
        }
        if protocol == Protocol::Tcp {
            // Permits binding the port although connections of a previous listener linger.
            sockopt::set_socket_reuseaddr(&socket, true)?;
        }
        net::bind(&socket, &SocketAddr::new(address, port))?;
        match protocol {
            Protocol::Tcp => {
                // Fails if there is another listener at the port.
                net::listen(&socket, BACKLOG)?;
                Ok(Self::Tcp(socket.into()))
            }
            Protocol::Udp => Ok(Self::Udp(socket.into())),
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

/// Returns true if an IPv6 socket cannot be bound because the host has no IPv6.
fn lacks_ipv6(error: &io::Error) -> bool {
    let errors = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| errors.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::{BoundPorts, PortError, bind, message};
    use hermit_interface::port_forward::{PortForward, Protocol};
    use std::fs::File;
    use std::io::ErrorKind;
    use std::iter;
    use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
    use std::ops::Range;
    use std::os::unix::net::UnixStream;
    use std::process;
    use std::sync::atomic::{AtomicU16, Ordering};

    /// Ports outside the ephemeral range: no other program that asks for any port gets one of them meanwhile.
    const UNASSIGNED: Range<u16> = 20_000..30_000;

    /// Number of ports of [`UNASSIGNED`] that were tried. Tests run at the same time, and each must try
    /// different ports.
    static TRIED: AtomicU16 = AtomicU16::new(0);

    fn forward(text: &str) -> PortForward {
        text.parse().unwrap()
    }

    /// A listener at a port that is free for UDP, too.
    fn listen(address: &str) -> (u16, TcpListener) {
        let start = UNASSIGNED.start + process::id().to_le_bytes().map(u16::from)[0] * 20;
        let ports = iter::repeat_with(|| start + TRIED.fetch_add(1, Ordering::Relaxed));
        let mut ports = ports.take_while(|port| UNASSIGNED.contains(port));
        let try_bind =
            |port| UdpSocket::bind(("0.0.0.0", port)).and_then(|_| TcpListener::bind((address, port)));
        ports.find_map(|port| Some((port, try_bind(port).ok()?))).unwrap()
    }

    #[test]
    fn port_in_use_at_any_address_is_an_error() {
        for address in ["127.0.0.1", "0.0.0.0"] {
            let (port, listener) = listen(address);
            let wanted = forward(&format!("{port}:80"));
            assert!(matches!(bind(&[wanted]), Err(PortError::InUse(found)) if found == port));
            let other = PortForward { protocol: Protocol::Udp, ..wanted };
            assert!(bind(&[other]).is_ok());
            drop(listener);
            assert!(bind(&[wanted]).is_ok());
            assert!(matches!(bind(&[wanted, wanted]), Err(PortError::InUse(_))));
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let error = bind(&[forward(&format!("127.0.0.1:{port}:53/udp"))]).unwrap_err();
        assert!(error.to_string().contains("is in use"));
    }

    #[test]
    fn range_is_bound_whole_or_not_at_all() {
        let (port, listener) = listen("127.0.0.1");
        let range = forward(&format!("127.0.0.1:{}-{}:80-82", port - 2, port));
        assert!(matches!(bind(&[range]), Err(PortError::InUse(_))));
        drop(listener);
        // Another program may have taken one of the others.
        if let Ok(bound) = bind(&[range]) {
            let port_of = |listener: &TcpListener| listener.local_addr().unwrap().port();
            let ports: Vec<_> = bound.listeners.iter().map(|(host, guest)| (port_of(host), *guest)).collect();
            assert_eq!(ports, [(port - 2, 80), (port - 1, 81), (port, 82)]);
        }
    }

    #[test]
    fn port_without_an_address_is_bound_for_both_versions() {
        let [tcp, udp] = ["0:80", "0:80/udp"].map(|text| bind(&[forward(text)]).unwrap());
        let is_there = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
        let addresses = ["127.0.0.1", "::1"].map(|text| text.parse::<IpAddr>().unwrap());
        for address in addresses.into_iter().filter(is_there) {
            TcpStream::connect((address, tcp.chosen[0].host)).unwrap();
            let error = UdpSocket::bind((address, udp.chosen[0].host)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn passed_socket_is_bound_already() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let (unix, _) = UnixStream::pair().unwrap();
        let (mut bound, guest) = (BoundPorts::default(), 80.try_into().unwrap());
        bound.add_passed(tcp.into(), guest).unwrap();
        bound.add_passed(udp.into(), guest).unwrap();
        assert_eq!((bound.listeners.len(), bound.sockets.len()), (1, 1));
        for (socket, text) in [
            (connection.into(), "a connection"),
            (unix.into(), "no socket of IP"),
            (File::open("/dev/null").unwrap().into(), "no socket:"),
        ] {
            let error = bound.add_passed(socket, guest).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn address_of_another_host_is_an_error() {
        let error = bind(&[forward("203.0.113.1:8080:80")]).unwrap_err();
        assert!(error.to_string().starts_with("203.0.113.1 is no address of this host"), "{error}");
    }

    #[test]
    fn port_0_becomes_a_free_port_of_its_own() {
        let forwards = ["0:80", "127.0.0.1:0:81", "0:53/udp"].map(forward);
        let chosen = bind(&forwards).unwrap().chosen;
        assert!(chosen.iter().all(|forward| forward.host != 0) && chosen[0].host != chosen[1].host);
        let without_port: Vec<_> = chosen.iter().map(|&forward| PortForward { host: 0, ..forward }).collect();
        assert_eq!(without_port, forwards);
        let given = [forward(&format!("{}:80", listen("0.0.0.0").0))];
        assert_eq!(bind(&given).unwrap().chosen, []);
        let text = message(&forward("127.0.0.1:4000:53/udp"));
        assert_eq!(text, "UDP port 4000 of the host at 127.0.0.1 is forwarded to port 53 of the guest");
        assert_eq!(
            message(&forward("8080:80")),
            "port 8080 of the host is forwarded to port 80 of the guest"
        );
    }
}
