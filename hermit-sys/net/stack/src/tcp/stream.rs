//! Calls on stream sockets.

use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_tcp::State;

use crate::host::Host;
use crate::inner::StackInner;
use crate::phy::tx_queue::Link;
use crate::socket::address::Endpoint;
use crate::socket::{Shutdown, Socket, SocketState};
use crate::tcp::connection::Phase;

impl StackInner {
    /// Binds a stream.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(crate) fn bind_stream(
        &mut self,
        slot: u32,
        local: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        self.expire_time_wait();
        let Some(socket) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        if socket.is_bound() || !matches!(socket.state, SocketState::Idle) {
            return Err(Errno::EINVAL);
        }
        self.check_own(socket.family, &socket.settings, local.address)?;
        self.take_address(slot, local, host)
    }

    /// Adds a connection to the socket table and the connection tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn adopt(&mut self, socket: Socket) -> Result<u32, Errno> {
        self.buffers.connect()?;
        let slot = self.insert(socket).inspect_err(|_| self.buffers.uncount())?;
        if let Err(error) = self.map(slot) {
            self.discard(slot);
            return Err(error);
        }
        Ok(slot)
    }

    /// Sends bytes on a stream.
    ///
    /// # Errors
    ///
    /// See [`Stack::send`](crate::Stack::send).
    pub(crate) fn send_stream(
        &mut self,
        slot: u32,
        bytes: &[u8],
        link: &mut dyn Link,
    ) -> Result<usize, Errno> {
        let Self { sockets, buffers, .. } = self;
        let Some(socket) = sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let Some(connection) = socket.connection_mut() else { return Err(Errno::EPIPE) };
        if connection.is_over || connection.shut_write {
            return Err(Errno::EPIPE);
        }
        if !connection.is_established() {
            return Err(Errno::EAGAIN);
        }
        let sent = connection.tcp.write(bytes, buffers.pool());
        if sent == 0 && !bytes.is_empty() {
            // A full buffer drains when the peer acknowledges; otherwise other connections use all the memory.
            let is_full = connection.tcp.writable() == 0;
            return Err(if is_full { Errno::EAGAIN } else { Errno::ENOBUFS });
        }
        connection.held += sent;
        self.offer(slot, link);
        Ok(sent)
    }

    /// Receives bytes of a stream.
    ///
    /// # Errors
    ///
    /// See [`Stack::receive`](crate::Stack::receive).
    pub(crate) fn receive_stream(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, Errno> {
        let Self { sockets, buffers, now, .. } = self;
        let Some(socket) = sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let error = socket.error;
        let Some(connection) = socket.connection_mut() else { return Err(Errno::ENOTCONN) };
        let tcp = &mut connection.tcp;
        if tcp.readable() > 0 && connection.phase == Phase::Open {
            let taken = tcp.read(peek, sink, buffers.pool(), *now);
            // A window update may be due.
            if tcp.is_ack_due(*now) {
                self.mark(slot);
            }
            return Ok(usize::try_from(taken).unwrap_or(usize::MAX));
        }
        let is_read_over = connection.is_read_over();
        // Errors after the FIN are not reported to readers.
        if let Some(error) = error.filter(|_| !connection.tcp.is_read_closed()) {
            socket.error = None;
            return Err(error);
        }
        if is_read_over { Ok(0) } else { Err(Errno::EAGAIN) }
    }

    /// Shuts down one or both directions of a stream.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shut_stream(&mut self, slot: u32, how: Shutdown, host: &mut dyn Host) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if matches!(socket.state, SocketState::Listener(_)) {
            if how.reads() {
                self.stop_listening(slot, host);
            }
            return Ok(());
        }
        let connection = socket.connection_mut();
        let alive = connection.filter(|alive| !alive.is_over && alive.state() != State::TimeWait);
        let Some(connection) = alive else { return Err(Errno::ENOTCONN) };
        if connection.phase == Phase::Connecting {
            self.fail(slot, Errno::ECONNRESET, host);
            return Ok(());
        }
        connection.shut(how);
        socket.wake(host);
        self.mark(slot);
        Ok(())
    }

    /// Closes a stream; the connection stays until its data is acknowledged.
    pub(crate) fn close_stream(&mut self, slot: u32, is_reset: bool, host: &mut dyn Host) {
        self.close_listener(slot, host);
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        socket.waker_key = None;
        let Some(connection) = socket.connection_mut() else {
            self.remove(slot);
            return;
        };
        connection.tcp.set_orphan(now);
        let is_unread = connection.tcp.readable() > 0;
        if connection.is_over && !connection.tcp.has_reset_to_send() || connection.phase == Phase::Connecting
        {
            return self.discard(slot);
        }
        if connection.is_over {
            // The RST is sent by the next poll, which then removes the connection.
            return self.mark(slot);
        }
        // Unread data resets the connection, so that the peer learns of the loss (RFC 2525, section 2.17).
        if is_reset || is_unread || connection.state() == State::SynReceived {
            return self.reset(slot, None, host);
        }
        connection.shut(Shutdown::Write);
        self.mark(slot);
    }

    /// Shuts a stream down as a close does, before a lingering close.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: sent data is not acknowledged yet.
    pub(crate) fn finish_stream(&mut self, slot: u32) -> Result<(), Errno> {
        let connection = self.connection(slot).filter(|connection| connection.is_established());
        let Some(connection) = connection.filter(|connection| !connection.is_over) else { return Ok(()) };
        // The close will reset the connection.
        if connection.tcp.readable() > 0 {
            return Ok(());
        }
        connection.shut(Shutdown::Both);
        let is_outstanding = connection.is_outstanding();
        self.mark(slot);
        if is_outstanding { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// Local address of a stream.
    pub(crate) fn local_of_stream(socket: &Socket) -> SocketAddr {
        let connected = socket.connection().map(|connection| connection.tuple.local);
        connected.unwrap_or(socket.own).present(socket.family)
    }

    /// Address of a stream's peer.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn remote_of_stream(socket: &Socket) -> Result<SocketAddr, Errno> {
        let connection =
            socket.connection().filter(|connection| connection.is_established() && !connection.is_over);
        connection.map(|connection| connection.tuple.remote.present(socket.family)).ok_or(Errno::ENOTCONN)
    }
}
