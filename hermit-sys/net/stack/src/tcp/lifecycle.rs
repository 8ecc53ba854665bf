//! Insertion of connections into the tables, and their removal.

use hermit_interface::Errno;

use crate::host::Host;
use crate::inner::StackInner;
use crate::socket::{Socket, SocketState};
use crate::tcp::connection::{Connection, Phase};

impl Socket {
    /// The connection, unless the socket has another state.
    pub(crate) const fn connection(&self) -> Option<&Connection> {
        if let SocketState::Connection(connection) = &self.state { Some(connection) } else { None }
    }

    /// The connection, mutable, unless the socket has another state.
    pub(crate) const fn connection_mut(&mut self) -> Option<&mut Connection> {
        if let SocketState::Connection(connection) = &mut self.state { Some(connection) } else { None }
    }

    /// Whether it is a connection whose socket was closed.
    pub(crate) fn is_orphan(&self) -> bool {
        self.waker_key.is_none()
            && self.connection().is_some_and(|connection| connection.phase == Phase::Open)
    }
}

impl StackInner {
    /// The connection in a slot.
    pub(crate) fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.sockets.get_mut(slot).and_then(Socket::connection_mut)
    }

    /// Inserts a connection into the tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn map(&mut self, slot: u32) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(slot) else { return Ok(()) };
        let reuse = socket.settings.reuse;
        let Some(connection) = socket.connection_mut() else { return Ok(()) };
        self.tcp.connections.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.tcp.ports.connected(connection.tuple.local.port, reuse)?;
        self.tcp.connections.insert(connection.tuple, slot);
        connection.is_mapped = true;
        Ok(())
    }

    /// Removes a connection from the tables.
    pub(crate) fn unmap(&mut self, slot: u32) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        let reuse = socket.settings.reuse;
        let Some(connection) = socket.connection_mut() else { return };
        if core::mem::take(&mut connection.is_mapped) {
            self.tcp.connections.remove(&connection.tuple);
            self.tcp.ports.disconnected(connection.tuple.local.port, reuse);
        }
    }

    /// Ends a connection, with an error or after both FINs.
    pub(crate) fn end(&mut self, slot: u32, error: Option<Errno>, host: &mut dyn Host) {
        self.unmap(slot);
        self.timers.set(slot, None);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        if error.is_some() {
            socket.error = error;
        }
        let is_orphan = socket.is_orphan();
        if let Some(connection) = socket.connection_mut() {
            connection.is_over = true;
        }
        socket.wake(host);
        if is_orphan {
            self.discard(slot);
        }
    }

    /// Resets a connection, and ends it. One without a socket is removed once the RST has been sent.
    pub(crate) fn reset(&mut self, slot: u32, error: Option<Errno>, host: &mut dyn Host) {
        let Self { sockets, buffers, .. } = self;
        if let Some(connection) = sockets.get_mut(slot).and_then(Socket::connection_mut) {
            connection.tcp.abort(buffers.pool());
        }
        self.finish(slot, error, host);
    }

    /// Ends a connection, except for a RST that is to be sent.
    pub(crate) fn finish(&mut self, slot: u32, error: Option<Errno>, host: &mut dyn Host) {
        self.unmap(slot);
        self.timers.set(slot, None);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        if error.is_some() {
            socket.error = error;
        }
        if let Some(connection) = socket.connection_mut() {
            connection.is_over = true;
        }
        socket.wake(host);
        self.mark(slot);
    }

    /// Fails a connection during the handshake.
    pub(crate) fn fail(&mut self, slot: u32, error: Errno, host: &mut dyn Host) {
        let Self { sockets, buffers, .. } = self;
        if let Some(connection) = sockets.get_mut(slot).and_then(Socket::connection_mut) {
            connection.tcp.abort(buffers.pool());
        }
        self.end(slot, Some(error), host);
    }

    /// Removes a connection that has no socket and is in no accept queue.
    pub(crate) fn discard(&mut self, slot: u32) {
        self.detach(slot);
        self.unmap(slot);
        if let Some(Socket { state: SocketState::Connection(mut connection), .. }) = self.remove(slot) {
            self.buffers.disconnect(&mut connection.tcp);
        }
    }
}
