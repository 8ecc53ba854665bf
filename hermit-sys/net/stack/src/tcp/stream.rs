//! Calls on stream sockets: bind, send, receive, shutdown, close and options.
//!
//! A call changes the state of the connection, and marks it if segments may have to be sent. The kernel polls
//! the stack after the call, and the poll sends them. Each call on a socket without the right state returns
//! the errno of Linux. `Tcp` has the calls that concern several shards, such as `listen` and `accept`.

use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_interface::net::{OptionName, SocketOption};
use hermit_tcp::State;

use crate::phy::tx_queue::Link;
use crate::socket::address::Endpoint;
use crate::socket::context::Context;
use crate::socket::kind::Shutdown;
use crate::socket::options::MembershipChange;
use crate::tcp::connect::algorithm;
use crate::tcp::connection::Phase;
use crate::tcp::path::Path;
use crate::tcp::shard::{Shard, TcpState};

impl Shard {
    /// Binds a stream.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(super) fn bind(
        &mut self,
        slot: u32,
        local: Endpoint,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let socket = self.socket(slot)?;
        if socket.is_bound() || !matches!(socket.state, TcpState::Idle) {
            return Err(Errno::EINVAL);
        }
        socket.check_local(local.address, &context.ip.routes)?;
        self.sockets.bind(slot, local, context.tcp_ports, context.random)
    }

    /// Sends bytes on a stream; returns their number.
    ///
    /// # Errors
    ///
    /// See [`Stack::send`](crate::Stack::send).
    pub(crate) fn send(
        &mut self,
        slot: u32,
        bytes: &[u8],
        link: &mut dyn Link,
        context: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        let socket = self.socket(slot)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let Some(mut connection) = socket.connection_mut() else { return Err(Errno::EPIPE) };
        if connection.is_over || connection.shut_write {
            return Err(Errno::EPIPE);
        }
        if !connection.is_established() {
            return Err(Errno::EAGAIN);
        }
        let mut passed = 0;
        // Bytes bypass the send buffer only if it is empty: they must not overtake earlier ones.
        if connection.path == Path::Local && connection.tcp.unacknowledged().0 == 0 {
            passed = self.pass(slot, bytes, context.buffers.pool(), context.now);
            if passed > 0 && passed == bytes.len() {
                return Ok(passed);
            }
            connection = self.connection(slot).ok_or(Errno::EPIPE)?;
        }
        let rest = bytes.get(passed..).unwrap_or_default();
        let sent = connection.tcp.write(rest, context.buffers.pool());
        if sent < rest.len() {
            let error = connection.refuse(slot, context.buffers);
            if passed + sent == 0 {
                return Err(error);
            }
        }
        connection.held += sent;
        if !connection.is_held_back() {
            self.offer(slot, link);
        }
        Ok(passed + sent)
    }

    /// Receives bytes of a stream; returns their number.
    ///
    /// # Errors
    ///
    /// See [`Stack::receive`](crate::Stack::receive).
    pub(crate) fn read(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
        context: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        let socket = self.socket(slot)?;
        let error = socket.error;
        let Some(connection) = socket.connection_mut() else { return Err(Errno::ENOTCONN) };
        let tcp = &mut connection.tcp;
        if tcp.readable() > 0 && connection.phase == Phase::Open {
            let taken = tcp.read(peek, sink, context.buffers.pool(), context.now);
            // A window update may be due.
            if tcp.is_ack_due(context.now) {
                self.mark(slot);
            }
            return Ok(usize::try_from(taken).unwrap_or(usize::MAX));
        }
        let is_read_over = connection.is_read_over();
        // Readers do not see errors after the FIN.
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
    pub(crate) fn shutdown(
        &mut self,
        slot: u32,
        how: Shutdown,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let socket = self.socket(slot)?;
        if matches!(socket.state, TcpState::Listener(_)) {
            if how.reads() {
                self.stop_listening(slot, context);
            }
            return Ok(());
        }
        let connection = socket.connection_mut();
        let alive = connection.filter(|alive| !alive.is_over && alive.state() != State::TimeWait);
        let Some(connection) = alive else { return Err(Errno::ENOTCONN) };
        if connection.phase == Phase::Connecting {
            self.fail(slot, Errno::ECONNRESET, context);
            return Ok(());
        }
        connection.shut(how);
        self.sockets.wake(slot);
        self.mark(slot);
        Ok(())
    }

    /// Closes a stream; the connection stays until its data is acknowledged.
    ///
    /// # Errors
    ///
    /// `EBADF`: a connection that is not accepted yet, or was closed.
    pub(crate) fn close(
        &mut self,
        slot: u32,
        is_reset: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        self.socket(slot)?.waker_key.take().ok_or(Errno::EBADF)?;
        self.close_listener(slot, context);
        let Some(connection) = self.connection(slot) else {
            self.remove(slot, context.tcp_ports);
            return Ok(());
        };
        connection.tcp.set_orphan(context.now);
        let is_unread = connection.tcp.readable() > 0;
        let is_sent = connection.is_over && !connection.tcp.has_reset_to_send();
        if is_sent || connection.phase == Phase::Connecting {
            self.discard(slot, context);
        } else if connection.is_over {
            // The next poll sends the RST, and then removes the connection.
            self.mark(slot);
        } else if is_reset || is_unread || connection.state() == State::SynReceived {
            // Unread data resets the connection, so that the peer learns of the loss (RFC 2525, section
            // 2.17).
            self.reset(slot, None, context);
        } else {
            connection.shut(Shutdown::Write);
            let bytes = usize::try_from(connection.tcp.unacknowledged().0).unwrap_or(usize::MAX);
            // Connections without a socket have too much data. Linux limits the number of these connections
            // instead (`tcp_max_orphans`).
            if !context.buffers.orphan(bytes) {
                self.reset(slot, None, context);
                return Ok(());
            }
            connection.orphaned = bytes;
            self.mark(slot);
        }
        Ok(())
    }

    /// Shuts down both directions of a stream before a lingering close (`SO_LINGER`).
    ///
    /// # Errors
    ///
    /// `EAGAIN`: sent data is not acknowledged yet.
    pub(crate) fn shut_to_linger(&mut self, slot: u32) -> Result<(), Errno> {
        let connection = self.connection(slot).filter(|connection| connection.is_established());
        let Some(connection) = connection.filter(|connection| !connection.is_over) else { return Ok(()) };
        // Because of the unread data, the close will reset the connection: there is nothing to wait for.
        if connection.tcp.readable() > 0 {
            return Ok(());
        }
        connection.shut(Shutdown::Both);
        let is_outstanding = connection.is_outstanding();
        self.mark(slot);
        if is_outstanding { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// Local address of a stream.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(crate) fn local(&self, slot: u32) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(slot).ok_or(Errno::EBADF)?;
        let connected = socket.connection().map(|connection| connection.tuple.local);
        Ok(connected.unwrap_or(socket.local).present(socket.family))
    }

    /// Address of a stream's peer.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn remote(&self, slot: u32) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get(slot).ok_or(Errno::EBADF)?;
        let connection =
            socket.connection().filter(|connection| connection.is_established() && !connection.is_over);
        connection.map(|connection| connection.tuple.remote.present(socket.family)).ok_or(Errno::ENOTCONN)
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// See [`Stack::set_option`](crate::Stack::set_option).
    pub(crate) fn set_option(
        &mut self,
        slot: u32,
        option: &SocketOption,
        context: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let name = OptionName::from_number(option.name).ok_or(Errno::ENOPROTOOPT)?;
        let socket = self.socket(slot)?;
        let is_connection = socket.connection().is_some();
        if MembershipChange::of(option, name, socket.family)?.is_some() {
            return Err(Errno::ENOPROTOOPT);
        }
        self.sockets.set_option(slot, name, option.value, is_connection, context.tcp_ports)?;
        let socket = self.socket(slot)?;
        let settings = socket.settings;
        if let Some(connection) = socket.connection_mut() {
            connection.apply(&settings);
            if name == OptionName::Congestion {
                connection.tcp.set_algorithm(algorithm(settings.congestion), context.now);
            }
            match (name, settings.send_buffer, settings.receive_buffer) {
                (OptionName::SendBuffer, Some(size), _) => connection.tcp.set_send_buffer(size),
                (OptionName::ReceiveBuffer, _, Some(size)) => connection.tcp.set_receive_buffer(size),
                _ => (),
            }
        }
        // Some options change timers or pending segments.
        self.mark(slot);
        Ok(())
    }

    /// Reads an option.
    ///
    /// # Errors
    ///
    /// See [`Stack::option`](crate::Stack::option).
    pub(crate) fn option(
        &mut self,
        slot: u32,
        name: OptionName,
        context: &Context<'_>,
    ) -> Result<u32, Errno> {
        let socket = self.socket(slot)?;
        let buffers = match socket.connection() {
            Some(connection) => connection.tcp.buffer_limits(),
            None => {
                let initial = context.buffers.buffer(None).0;
                let settings = &socket.settings;
                let sizes = [settings.receive_buffer, settings.send_buffer];
                sizes.map(|size| size.unwrap_or(initial)).into()
            }
        };
        self.sockets.option(slot, name, buffers)
    }
}
