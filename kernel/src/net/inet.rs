//! The IP family: sockets of TCP and UDP over IPv4 and IPv6.
//!
//! | module | |
//! | --- | --- |
//! | [`stack_socket`] | a socket of the network stack, whose calls block |
//! | [`tcp`], [`udp`] | what differs between the protocols |
//! | [`mod@address`] | `sockaddr_in` and `sockaddr_in6` |
//! | [`options`] | values of options |

pub(crate) mod address;
mod options;
mod stack_socket;
mod tcp;
mod udp;

use alloc::sync::Arc;
use core::fmt::Debug;
use core::marker::PhantomData;
use core::task::{Context, Poll};

use hermit_abi::{IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM};
use hermit_interface::Errno;
use hermit_interface::net::Endpoint;
use hermit_io::{
    Argument, CommonSettings, MessageFlags, Object, OptionId, ReadBuffer, Readiness, Socket, Stat,
    ValueResult,
};

use self::options::Scope;
use self::stack_socket::StackSocket;
use self::tcp::Tcp;
use self::udp::Udp;
use crate::fallible;

/// A protocol over IP: the parts of its sockets that differ from sockets of other protocols.
trait Protocol: Debug + Send + Sync + 'static {
    /// Type of the protocol's sockets.
    const SOCKET_TYPE: i32;

    /// The socket type in the numbers of the network stack.
    const STACK_TYPE: u32;

    /// The protocol's number, which is also the level of its socket options.
    const NUMBER: i32;

    /// Reads the address of a peer, for a socket of the given IP version.
    fn peer(version: u16, address: &[u8]) -> Result<Endpoint, Errno>;

    /// Connects a socket.
    fn connect(socket: &StackSocket, version: u16, address: &[u8]) -> Result<(), Errno>;

    /// Sends bytes and returns their number.
    fn send(
        socket: &StackSocket,
        bytes: &[u8],
        to: Option<&Endpoint>,
        flags: MessageFlags,
    ) -> Result<usize, Errno>;

    /// Receives bytes. For a datagram, also stores the sender's address.
    fn receive(
        socket: &StackSocket,
        buffer: &mut ReadBuffer<'_>,
        flags: MessageFlags,
        from: Option<&mut Endpoint>,
    ) -> Result<(), Errno>;
}

/// Creates a socket of an IP version.
///
/// # Errors
///
/// As [`create`](super::socket::create).
pub(super) fn create(
    version: u16,
    socket_type: i32,
    protocol: i32,
    nonblocking: bool,
) -> Result<Arc<dyn Socket>, Errno> {
    // IPPROTO_IP, 0, is the default protocol of a type.
    match (socket_type, protocol) {
        (SOCK_STREAM, IPPROTO_IP | IPPROTO_TCP) => InetSocket::<Tcp>::create(version, nonblocking),
        (SOCK_DGRAM, IPPROTO_IP | IPPROTO_UDP) => InetSocket::<Udp>::create(version, nonblocking),
        (SOCK_STREAM | SOCK_DGRAM, _) => Err(Errno::EPROTONOSUPPORT),
        // Linux: unknown or unsupported socket type.
        _ => Err(Errno::EINVAL),
    }
}

/// A socket of a protocol.
#[derive(Debug)]
struct InetSocket<P> {
    socket: StackSocket,
    /// [`V4`](hermit_interface::net::V4) or [`V6`](hermit_interface::net::V6).
    version: u16,
    protocol: PhantomData<P>,
}

impl<P: Protocol> InetSocket<P> {
    fn create(version: u16, nonblocking: bool) -> Result<Arc<dyn Socket>, Errno> {
        let settings = CommonSettings::new(P::SOCKET_TYPE, nonblocking);
        Self::shared(StackSocket::new(version, P::STACK_TYPE, settings)?, version)
    }

    /// Moves a socket to the heap. Without memory, the socket is closed.
    fn shared(socket: StackSocket, version: u16) -> Result<Arc<dyn Socket>, Errno> {
        let socket = fallible::arc(Self { socket, version, protocol: PhantomData }).ok_or(Errno::ENOMEM)?;
        Ok(socket)
    }

    /// Returns the properties that determine which options the socket has.
    const fn scope(&self) -> Scope {
        Scope { version: self.version, protocol: P::NUMBER }
    }
}

impl<P: Protocol> Socket for InetSocket<P> {
    fn settings(&self) -> &CommonSettings {
        self.socket.settings()
    }

    fn bind(&self, address: &[u8]) -> Result<(), Errno> {
        self.socket.bind(&address::of_version(self.version, address)?)
    }

    fn listen(&self, backlog: i32) -> Result<(), Errno> {
        self.socket.listen(backlog)
    }

    fn accept(&self, from: Option<&mut dyn ValueResult>) -> Result<Arc<dyn Socket>, Errno> {
        let (socket, peer) = self.socket.accept()?;
        let accepted = Self::shared(socket, self.version)?;
        if let Some(from) = from {
            address::write(&peer, from)?;
        }
        Ok(accepted)
    }

    fn connect(&self, address: &[u8]) -> Result<(), Errno> {
        P::connect(&self.socket, self.version, address)
    }

    fn send(&self, bytes: &[u8], flags: MessageFlags) -> Result<usize, Errno> {
        P::send(&self.socket, bytes, None, flags)
    }

    fn send_to(&self, bytes: Argument<'_>, address: &[u8], flags: MessageFlags) -> Result<usize, Errno> {
        let peer = P::peer(self.version, address)?;
        let bytes = bytes.get()?;
        self.socket.wait_for_route(&peer);
        P::send(&self.socket, bytes, Some(&peer), flags)
    }

    fn receive(
        &self,
        buffer: &mut ReadBuffer<'_>,
        flags: MessageFlags,
        from: Option<&mut dyn ValueResult>,
    ) -> Result<(), Errno> {
        let Some(from) = from else { return P::receive(&self.socket, buffer, flags, None) };
        let mut sender = Endpoint::default();
        P::receive(&self.socket, buffer, flags, Some(&mut sender))?;
        address::write(&sender, from)
    }

    fn shutdown(&self, how: i32) -> Result<(), Errno> {
        self.socket.shutdown(how)
    }

    fn local(&self, address: &mut dyn ValueResult) -> Result<(), Errno> {
        address::write(&self.socket.local()?, address)
    }

    fn remote(&self, address: &mut dyn ValueResult) -> Result<(), Errno> {
        address::write(&self.socket.remote()?, address)
    }

    fn set_family_option(&self, option: OptionId, value: &Argument<'_>) -> Result<(), Errno> {
        options::set(&self.socket, self.scope(), option, value)
    }

    fn family_option(&self, option: OptionId, value: &mut dyn ValueResult) -> Result<(), Errno> {
        options::write(&self.socket, self.scope(), option, value)
    }
}

impl<P: Protocol> Object for InetSocket<P> {
    fn as_socket(&self) -> Option<&dyn Socket> {
        Some(self)
    }

    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        // As in Linux, `read` of 0 bytes does not block, while `recv` does.
        if buffer.room() == 0 {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(self.receive(buffer, MessageFlags::default(), None))
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.send(bytes, MessageFlags::default()))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat::SOCKET)
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        self.socket.poll_ready(context)
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        self.socket.watch(context)
    }

    fn watch_exclusive(&self, context: &mut Context<'_>) -> Readiness {
        self.socket.watch_exclusive(context)
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.socket.unwatch(context);
    }

    fn is_nonblocking(&self) -> bool {
        self.settings().is_nonblocking()
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        self.settings().set_nonblocking(nonblocking);
        Ok(())
    }
}
