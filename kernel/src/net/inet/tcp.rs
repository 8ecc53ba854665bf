//! Sockets of TCP.

use hermit_abi::{IPPROTO_TCP, SOCK_STREAM};
use hermit_interface::net::{Endpoint, STREAM};
use hermit_interface::{Errno, Readiness};
use hermit_io::{Direction, MessageFlags, ReadBuffer};

use super::stack_socket::StackSocket;
use super::{Protocol, address};

/// TCP.
#[derive(Debug)]
pub(super) struct Tcp;

impl Protocol for Tcp {
    const SOCKET_TYPE: i32 = SOCK_STREAM;
    const STACK_TYPE: u32 = STREAM;
    const NUMBER: i32 = IPPROTO_TCP;

    fn peer(version: u16, address: &[u8]) -> Result<Endpoint, Errno> {
        address::of_version(version, address)
    }

    /// Blocks until the handshake ends, unless the socket is non-blocking.
    fn connect(socket: &StackSocket, version: u16, address: &[u8]) -> Result<(), Errno> {
        let peer = Self::peer(version, address)?;
        let begun = match socket.connect(&peer) {
            // The handshake was started by this call, by another thread, or by an earlier call that timed
            // out.
            Err(error @ (Errno::EINPROGRESS | Errno::EALREADY)) => error,
            result => return result,
        };
        if socket.settings().is_nonblocking() {
            return Err(begun);
        }
        // Another call of `connect` returns the result of the handshake.
        let flags = MessageFlags::default();
        let waited =
            socket.wait(Direction::Send, flags, |stack, number| match stack.connect(number, &peer) {
                Err(Errno::EINPROGRESS | Errno::EALREADY) => Err(Errno::EAGAIN),
                // The success has already been reported to another thread.
                Err(Errno::EISCONN) => Ok(()),
                result => result,
            });
        waited.map_err(|error| if error == Errno::EAGAIN { begun } else { error })
    }

    /// Sends all bytes, unless the socket or the call is non-blocking. If an error occurs after a part was
    /// sent, this call returns the size of that part, and the next call reports the error.
    fn send(
        socket: &StackSocket,
        bytes: &[u8],
        to: Option<&Endpoint>,
        flags: MessageFlags,
    ) -> Result<usize, Errno> {
        let sends_all = socket.blocks(flags);
        let mut sent = 0;
        let result = socket.wait(Direction::Send, flags, |stack, number| {
            if sent > 0 && Readiness::from_bits(stack.readiness(number)).error {
                return Err(Errno::EPIPE);
            }
            sent += stack.send(number, bytes.get(sent..).unwrap_or_default(), to)?;
            // The timeout covers all parts together.
            if sends_all && sent < bytes.len() { Err(Errno::EAGAIN) } else { Ok(()) }
        });
        match result {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }

    fn receive(
        socket: &StackSocket,
        buffer: &mut ReadBuffer<'_>,
        flags: MessageFlags,
        from: Option<&mut Endpoint>,
    ) -> Result<(), Errno> {
        let result = if flags.wait_all {
            socket.receive_all(buffer, flags)
        } else {
            socket.receive(socket.waiters(), buffer, flags, from)
        };
        // As on Linux, a call that asks for 0 bytes waits until bytes arrive, as other calls do, but does not
        // fail after a timeout.
        if result == Err(Errno::EAGAIN) && buffer.room() == 0 && socket.blocks(flags) {
            Ok(())
        } else {
            result
        }
    }
}
