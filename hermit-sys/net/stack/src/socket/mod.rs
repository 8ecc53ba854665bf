//! Sockets: their identifiers, families, types, readiness and state.

pub(crate) mod address;
mod bind;
pub(crate) mod buffers;
pub(crate) mod id;
pub(crate) mod options;
pub(crate) mod ports;
pub(crate) mod slab;

use hermit_interface::Errno;

use crate::host::Host;
use crate::inner::StackInner;
use crate::socket::address::{Endpoint, Scope};
use crate::socket::options::SocketSettings;
use crate::socket::ports::Ports;
use crate::tcp::Tcp;
use crate::tcp::connection::Connection;
use crate::tcp::listener::Listener;
use crate::udp::UdpSocket;

/// Address family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 by mapped addresses unless `IPV6_V6ONLY` is set.
    V6,
}

/// Type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP (`SOCK_STREAM`).
    Stream,
    /// UDP (`SOCK_DGRAM`).
    Datagram,
}

/// Direction that `shutdown` closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// `SHUT_RD`: no more is received.
    Read,
    /// `SHUT_WR`: no more is sent.
    Write,
    /// `SHUT_RDWR`: both directions.
    Both,
}

impl Shutdown {
    pub(crate) const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Both)
    }

    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }
}

/// Readiness of a socket, as `poll` returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// `POLLIN`: receiving or accepting does not block.
    pub read: bool,
    /// `POLLOUT`: sending does not block.
    pub write: bool,
    /// `POLLHUP`: both directions are shut down, or the socket was never connected.
    pub hang_up: bool,
    /// `POLLRDHUP`: the peer has sent its FIN, or the receive direction is shut down.
    pub read_hang_up: bool,
    /// `POLLERR`: there is a pending error.
    pub error: bool,
}

/// State of a socket by its protocol.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most sockets are connections, and a box cannot be made fallibly"
)]
pub(crate) enum SocketState {
    /// A stream that is neither connected nor listening.
    Idle,
    Listener(Listener),
    Connection(Connection),
    Udp(UdpSocket),
}

/// A socket, or a connection without one: not accepted yet, or closed.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Argument of [`Host::wake`]. `None` for a connection without a socket.
    pub(crate) waker_key: Option<usize>,
    pub(crate) family: Family,
    pub(crate) settings: SocketSettings,
    /// Pending error (`SO_ERROR`).
    pub(crate) error: Option<Errno>,
    /// Local address as bound. With port 0 the socket has no binding in the port table.
    pub(crate) own: Endpoint,
    /// Whether the stack chose the port, which is then released when the socket is disconnected.
    pub(crate) has_any_port: bool,
    pub(crate) state: SocketState,
    /// Whether the socket is in the queue of those that may have something to send.
    pub(crate) is_dirty: bool,
}

impl Socket {
    /// A socket that is not bound.
    pub(crate) fn new(
        waker_key: Option<usize>,
        family: Family,
        settings: SocketSettings,
        state: SocketState,
    ) -> Self {
        let own = StackInner::nowhere(family);
        Self { waker_key, family, settings, error: None, own, has_any_port: false, state, is_dirty: false }
    }

    /// Whether the socket is bound.
    pub(crate) const fn is_bound(&self) -> bool {
        self.own.port != 0
    }

    /// The local addresses at which the socket receives, if it is bound.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.own.address, self.family, self.settings.only_v6)
    }

    pub(crate) fn wake(&self, host: &mut dyn Host) {
        if let Some(waker_key) = self.waker_key {
            host.wake(waker_key);
        }
    }

    pub(crate) const fn is_udp(&self) -> bool {
        matches!(self.state, SocketState::Udp(_))
    }

    /// The port table of the socket's protocol.
    pub(crate) const fn ports<'a>(&self, udp: &'a mut Ports, tcp: &'a mut Tcp) -> &'a mut Ports {
        if self.is_udp() { udp } else { &mut tcp.ports }
    }
}
