//! Sockets of UDP.

use hermit_abi::{IPPROTO_UDP, SOCK_DGRAM};
use hermit_interface::Errno;
use hermit_interface::net::{DATAGRAM, Endpoint};
use hermit_io::{Direction, MessageFlags, ReadBuffer};

use super::stack_socket::StackSocket;
use super::{Protocol, address};

/// UDP.
#[derive(Debug)]
pub(super) struct Udp;

impl Protocol for Udp {
    const SOCKET_TYPE: i32 = SOCK_DGRAM;
    const STACK_TYPE: u32 = DATAGRAM;
    const NUMBER: i32 = IPPROTO_UDP;

    /// On an IPv6 socket, converts an IPv4 address to an IPv4-mapped address, as Linux does.
    fn peer(version: u16, address: &[u8]) -> Result<Endpoint, Errno> {
        address::mapped_to(version, address)
    }

    /// Sets the peer, or removes it if the address is unspecified.
    fn connect(socket: &StackSocket, version: u16, address: &[u8]) -> Result<(), Errno> {
        if address::is_unspecified(address) {
            return socket.connect(&Endpoint::default());
        }
        socket.connect(&Self::peer(version, address)?)
    }

    fn send(
        socket: &StackSocket,
        bytes: &[u8],
        to: Option<&Endpoint>,
        flags: MessageFlags,
    ) -> Result<usize, Errno> {
        socket.wait(Direction::Send, flags, |stack, number| stack.send(number, bytes, to))
    }

    /// Only one thread receives a datagram, so one waiter is woken, as on Linux. But a datagram that is only
    /// peeked stays for other threads.
    fn receive(
        socket: &StackSocket,
        buffer: &mut ReadBuffer<'_>,
        flags: MessageFlags,
        from: Option<&mut Endpoint>,
    ) -> Result<(), Errno> {
        let waiters = if flags.peek { socket.waiters() } else { socket.exclusive_waiters() };
        socket.receive(waiters, buffer, flags, from)
    }
}
