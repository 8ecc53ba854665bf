//! Insertion of connections into the tables, and their removal.

use hermit_interface::Errno;

use crate::socket::buffers::BufferAccounting;
use crate::socket::context::Context;
use crate::socket::table::Socket;
use crate::tcp::layer::{Tcp, TcpState};

impl Tcp {
    /// Adds a connection to the socket table and the connection tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn adopt(
        &mut self,
        socket: Socket<TcpState>,
        buffers: &mut BufferAccounting,
    ) -> Result<u32, Errno> {
        buffers.connect()?;
        let slot = self.insert(socket).inspect_err(|_| buffers.uncount())?;
        if let Err(error) = self.map(slot) {
            self.discard(slot, buffers);
            return Err(error);
        }
        Ok(slot)
    }

    /// Inserts a connection into the tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn map(&mut self, slot: u32) -> Result<(), Errno> {
        let Self { sockets, connections, .. } = self;
        let Some(socket) = sockets.get(slot) else { return Ok(()) };
        let reuse = socket.settings.reuse;
        let Some(connection) = socket.connection() else { return Ok(()) };
        let tuple = connection.tuple;
        connections.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        sockets.ports.connected(tuple.local.port, reuse)?;
        connections.insert(tuple, slot);
        if let Some(connection) = self.connection(slot) {
            connection.is_mapped = true;
        }
        Ok(())
    }

    /// Removes a connection from the tables.
    pub(super) fn unmap(&mut self, slot: u32) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        let reuse = socket.settings.reuse;
        let Some(connection) = socket.connection_mut() else { return };
        if core::mem::take(&mut connection.is_mapped) {
            let tuple = connection.tuple;
            self.connections.remove(&tuple);
            self.sockets.ports.disconnected(tuple.local.port, reuse);
        }
    }

    /// Ends a connection, with an error or after both FINs.
    pub(super) fn end(&mut self, slot: u32, error: Option<Errno>, buffers: &mut BufferAccounting) {
        self.stop(slot, error);
        if self.sockets.get(slot).is_some_and(Socket::is_orphan) {
            self.discard(slot, buffers);
        }
    }

    /// Takes a connection that is over out of the tables, and wakes its waiters.
    fn stop(&mut self, slot: u32, error: Option<Errno>) {
        self.unmap(slot);
        self.timers.set(slot, None);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        if error.is_some() {
            socket.error = error;
        }
        if let Some(connection) = socket.connection_mut() {
            connection.is_over = true;
        }
        self.sockets.wake(slot);
    }

    /// Resets a connection, and ends it. One without a socket is removed once the RST has been sent.
    pub(super) fn reset(&mut self, slot: u32, error: Option<Errno>, buffers: &mut BufferAccounting) {
        if let Some(connection) = self.connection(slot) {
            connection.tcp.abort(buffers.pool());
        }
        self.finish(slot, error);
    }

    /// Ends a connection, except for a RST that is to be sent.
    pub(super) fn finish(&mut self, slot: u32, error: Option<Errno>) {
        self.stop(slot, error);
        self.mark(slot);
    }

    /// Fails a connection during the handshake.
    pub(super) fn fail(&mut self, slot: u32, error: Errno, buffers: &mut BufferAccounting) {
        if let Some(connection) = self.connection(slot) {
            connection.tcp.abort(buffers.pool());
        }
        self.end(slot, Some(error), buffers);
    }

    /// Removes a connection that has no socket and is in no accept queue.
    pub(super) fn discard(&mut self, slot: u32, buffers: &mut BufferAccounting) {
        self.detach(slot);
        self.unmap(slot);
        if let Some(Socket { state: TcpState::Connection(mut connection), .. }) = self.remove(slot) {
            buffers.disconnect(&mut connection.tcp);
        }
    }

    /// Turns a failed connection into an unconnected stream.
    pub(super) fn make_idle(&mut self, slot: u32, context: &mut Context<'_>) {
        self.unmap(slot);
        self.timers.set(slot, None);
        self.sockets.release_port(slot);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        socket.error = None;
        if let TcpState::Connection(mut connection) = core::mem::replace(&mut socket.state, TcpState::Idle) {
            context.buffers.disconnect(&mut connection.tcp);
        }
    }
}
