//! Insertion of connections into the tables, and their removal.

use hermit_interface::Errno;

use crate::socket::context::Context;
use crate::socket::ports::Ports;
use crate::socket::table::Socket;
use crate::tcp::shard::{Shard, TcpState};

impl Shard {
    /// Adds a connection to the socket table and the connection tables; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn adopt(
        &mut self,
        socket: Socket<TcpState>,
        context: &mut Context<'_>,
    ) -> Result<u32, Errno> {
        context.buffers.connect()?;
        let slot = self.insert(socket).inspect_err(|_| context.buffers.uncount())?;
        if let Err(error) = self.map(slot, context.tcp_ports) {
            self.discard(slot, context);
            return Err(error);
        }
        Ok(slot)
    }

    /// Inserts a connection into the tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn map(&mut self, slot: u32, ports: &mut Ports) -> Result<(), Errno> {
        let Self { sockets, connections, .. } = self;
        let Some(socket) = sockets.get(slot) else { return Ok(()) };
        let reuse = socket.settings.reuse;
        let Some(connection) = socket.connection() else { return Ok(()) };
        let tuple = connection.tuple;
        connections.try_reserve(&tuple)?;
        ports.connected(tuple.local.port, reuse)?;
        connections.insert(tuple, slot);
        if let Some(connection) = self.connection(slot) {
            connection.is_mapped = true;
        }
        Ok(())
    }

    /// Removes a connection from the tables.
    pub(super) fn unmap(&mut self, slot: u32, ports: &mut Ports) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        let reuse = socket.settings.reuse;
        let Some(connection) = socket.connection_mut() else { return };
        if core::mem::take(&mut connection.is_mapped) {
            let tuple = connection.tuple;
            self.connections.remove(&tuple);
            ports.disconnected(tuple.local.port, reuse);
        }
    }

    /// Ends a connection, with an error or after both FINs.
    pub(super) fn end(&mut self, slot: u32, error: Option<Errno>, context: &mut Context<'_>) {
        self.stop(slot, error, context.tcp_ports);
        if self.sockets.get(slot).is_some_and(Socket::is_orphan) {
            self.discard(slot, context);
        }
    }

    /// Removes a connection that is over from the tables, and wakes its waiters.
    fn stop(&mut self, slot: u32, error: Option<Errno>, ports: &mut Ports) {
        self.unmap(slot, ports);
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

    /// Resets a connection, and ends it. A connection without a socket is removed after the RST has been
    /// sent.
    pub(super) fn reset(&mut self, slot: u32, error: Option<Errno>, context: &mut Context<'_>) {
        if let Some(connection) = self.connection(slot) {
            connection.tcp.abort(context.buffers.pool());
        }
        self.finish(slot, error, context.tcp_ports);
    }

    /// Ends a connection, which may still have to send a RST.
    pub(super) fn finish(&mut self, slot: u32, error: Option<Errno>, ports: &mut Ports) {
        self.stop(slot, error, ports);
        self.mark(slot);
    }

    /// Fails a connection during the handshake.
    pub(super) fn fail(&mut self, slot: u32, error: Errno, context: &mut Context<'_>) {
        if let Some(connection) = self.connection(slot) {
            connection.tcp.abort(context.buffers.pool());
        }
        self.end(slot, Some(error), context);
    }

    /// Removes a connection that has no socket and is in no accept queue.
    pub(super) fn discard(&mut self, slot: u32, context: &mut Context<'_>) {
        self.detach(slot);
        self.unmap(slot, context.tcp_ports);
        let socket = self.remove(slot, context.tcp_ports);
        if let Some(Socket { state: TcpState::Connection(mut connection), .. }) = socket {
            context.buffers.disown(connection.orphaned);
            context.buffers.disconnect(&mut connection.tcp);
        }
    }

    /// Turns a failed connection into an unconnected stream.
    pub(super) fn make_idle(&mut self, slot: u32, context: &mut Context<'_>) {
        self.unmap(slot, context.tcp_ports);
        self.timers.set(slot, None);
        self.sockets.release_port(slot, context.tcp_ports);
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        socket.error = None;
        if let TcpState::Connection(mut connection) = core::mem::replace(&mut socket.state, TcpState::Idle) {
            context.buffers.disconnect(&mut connection.tcp);
        }
    }
}
