//! What programs do with streams.

use core::net::SocketAddr;

use hermit_interface::Errno;
use hermit_tcp::State;

use crate::address::Endpoint;
use crate::core::{Body, Core, Entry};
use crate::host::Host;
use crate::link::Link;
use crate::socket::Shutdown;
use crate::tcp::connection::Phase;

impl Core {
    /// Gives a stream its own address.
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
        self.forget_old();
        let Some(entry) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        if entry.is_bound() || !matches!(entry.body, Body::Idle) {
            return Err(Errno::EINVAL);
        }
        self.check_own(entry.family, &entry.settings, local.address)?;
        self.take_address(slot, local, host)
    }

    /// Adds a connection, of which the tables know then.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn adopt(&mut self, entry: Entry) -> Result<u32, Errno> {
        self.budget.connect()?;
        let slot = self.insert(entry).inspect_err(|_| self.budget.uncount())?;
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
        let Self { sockets, budget, .. } = self;
        let Some(entry) = sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if let Some(error) = entry.error.take() {
            return Err(error);
        }
        let Some(connection) = entry.connection_mut() else { return Err(Errno::EPIPE) };
        if connection.is_over || connection.shut_write {
            return Err(Errno::EPIPE);
        }
        if !connection.is_established() {
            return Err(Errno::EAGAIN);
        }
        let sent = connection.tcp.write(bytes, budget.pool());
        if sent == 0 && !bytes.is_empty() {
            // A peer that reads makes room in the buffer; other connections have all the memory.
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
        let Self { sockets, budget, now, .. } = self;
        let Some(entry) = sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let error = entry.error;
        let Some(connection) = entry.connection_mut() else { return Err(Errno::ENOTCONN) };
        let tcp = &mut connection.tcp;
        if tcp.readable() > 0 && connection.phase == Phase::Open {
            let taken = tcp.read(peek, sink, budget.pool(), *now);
            // The peer may have to be told that there is room again.
            if tcp.is_ack_due(*now) {
                self.mark(slot);
            }
            return Ok(usize::try_from(taken).unwrap_or(usize::MAX));
        }
        let is_read_over = connection.is_read_over();
        // What happens after the end does not concern who reads.
        if let Some(error) = error.filter(|_| !connection.tcp.is_read_closed()) {
            entry.error = None;
            return Err(error);
        }
        if is_read_over { Ok(0) } else { Err(Errno::EAGAIN) }
    }

    /// Shuts halves of a stream down.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shut_stream(&mut self, slot: u32, how: Shutdown, host: &mut dyn Host) -> Result<(), Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if matches!(entry.body, Body::Listener(_)) {
            if how.reads() {
                self.stop_listening(slot, host);
            }
            return Ok(());
        }
        let connection = entry.connection_mut();
        let alive = connection.filter(|alive| !alive.is_over && alive.state() != State::TimeWait);
        let Some(connection) = alive else { return Err(Errno::ENOTCONN) };
        if connection.phase == Phase::Connecting {
            self.fail(slot, Errno::ECONNRESET, host);
            return Ok(());
        }
        connection.shut(how);
        entry.wake(host);
        self.mark(slot);
        Ok(())
    }

    /// Closes a stream, which may live on until its data has been delivered.
    pub(crate) fn close_stream(&mut self, slot: u32, is_reset: bool, host: &mut dyn Host) {
        self.dismiss(slot, host);
        let now = self.now;
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.cookie = None;
        let Some(connection) = entry.connection_mut() else {
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
            // The reset is tried once more, and the rest goes with it.
            return self.mark(slot);
        }
        // What was received and not read would be lost without the peer's knowledge (RFC 2525, section 2.17).
        if is_reset || is_unread || connection.state() == State::SynReceived {
            return self.reset(slot, None, host);
        }
        connection.shut(Shutdown::Write);
        self.mark(slot);
    }

    /// Ends both halves of a stream as closing it does, and tells whether there is still something to be waited for.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: the peer has not acknowledged everything.
    pub(crate) fn finish_stream(&mut self, slot: u32) -> Result<(), Errno> {
        let connection = self.connection(slot).filter(|connection| connection.is_established());
        let Some(connection) = connection.filter(|connection| !connection.is_over) else { return Ok(()) };
        // Closing resets the peer then.
        if connection.tcp.readable() > 0 {
            return Ok(());
        }
        connection.shut(Shutdown::Both);
        let is_outstanding = connection.is_outstanding();
        self.mark(slot);
        if is_outstanding { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// The own address of a stream.
    pub(crate) fn local_of_stream(entry: &Entry) -> SocketAddr {
        let connected = entry.connection().map(|connection| connection.tuple.local);
        connected.unwrap_or(entry.own).present(entry.family)
    }

    /// The address of the peer of a stream.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn remote_of_stream(entry: &Entry) -> Result<SocketAddr, Errno> {
        let connection =
            entry.connection().filter(|connection| connection.is_established() && !connection.is_over);
        connection.map(|connection| connection.tuple.remote.present(entry.family)).ok_or(Errno::ENOTCONN)
    }
}
