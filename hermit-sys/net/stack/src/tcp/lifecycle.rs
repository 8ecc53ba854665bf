//! Connections in the tables: how they get there, and how they end.

use hermit_interface::Errno;

use crate::core::{Body, Core, Entry};
use crate::host::Host;
use crate::tcp::connection::{Connection, Phase};

impl Entry {
    /// The connection, if it is one.
    pub(crate) const fn connection(&self) -> Option<&Connection> {
        if let Body::Connection(connection) = &self.body { Some(connection) } else { None }
    }

    /// The same, to be changed.
    pub(crate) const fn connection_mut(&mut self) -> Option<&mut Connection> {
        if let Body::Connection(connection) = &mut self.body { Some(connection) } else { None }
    }

    /// Whether it is a connection that was closed by its owner.
    pub(crate) fn is_orphan(&self) -> bool {
        self.cookie.is_none() && self.connection().is_some_and(|connection| connection.phase == Phase::Open)
    }
}

impl Core {
    /// The connection in a slot.
    pub(crate) fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.sockets.get_mut(slot).and_then(Entry::connection_mut)
    }

    /// Takes a connection into the tables.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn map(&mut self, slot: u32) -> Result<(), Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Ok(()) };
        let reuse = entry.settings.reuse;
        let Some(connection) = entry.connection_mut() else { return Ok(()) };
        self.tcp.connections.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.tcp.ports.connected(connection.tuple.local.port, reuse)?;
        self.tcp.connections.insert(connection.tuple, slot);
        connection.is_mapped = true;
        Ok(())
    }

    /// Takes a connection out of the tables.
    pub(crate) fn unmap(&mut self, slot: u32) {
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        let reuse = entry.settings.reuse;
        let Some(connection) = entry.connection_mut() else { return };
        if core::mem::take(&mut connection.is_mapped) {
            self.tcp.connections.remove(&connection.tuple);
            self.tcp.ports.disconnected(connection.tuple.local.port, reuse);
        }
    }

    /// A connection is over, for a reason or because both sides are done.
    pub(crate) fn end(&mut self, slot: u32, error: Option<Errno>, host: &mut dyn Host) {
        self.unmap(slot);
        self.timers.set(slot, None);
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        if error.is_some() {
            entry.error = error;
        }
        let is_orphan = entry.is_orphan();
        if let Some(connection) = entry.connection_mut() {
            connection.is_over = true;
        }
        entry.wake(host);
        if is_orphan {
            self.discard(slot);
        }
    }

    /// Resets the peer of a connection, which is over then. One without a socket is removed once the reset has been sent.
    pub(crate) fn reset(&mut self, slot: u32, error: Option<Errno>, host: &mut dyn Host) {
        let Self { sockets, budget, .. } = self;
        if let Some(connection) = sockets.get_mut(slot).and_then(Entry::connection_mut) {
            connection.tcp.abort(budget.pool());
        }
        self.finish(slot, error, host);
    }

    /// A connection is over but for a reset that is to be sent.
    pub(crate) fn finish(&mut self, slot: u32, error: Option<Errno>, host: &mut dyn Host) {
        self.unmap(slot);
        self.timers.set(slot, None);
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        if error.is_some() {
            entry.error = error;
        }
        if let Some(connection) = entry.connection_mut() {
            connection.is_over = true;
        }
        entry.wake(host);
        self.mark(slot);
    }

    /// A connection did not come to be.
    pub(crate) fn fail(&mut self, slot: u32, error: Errno, host: &mut dyn Host) {
        let Self { sockets, budget, .. } = self;
        if let Some(connection) = sockets.get_mut(slot).and_then(Entry::connection_mut) {
            connection.tcp.abort(budget.pool());
        }
        self.end(slot, Some(error), host);
    }

    /// Removes a connection that no socket has and no listener will accept.
    pub(crate) fn discard(&mut self, slot: u32) {
        self.detach(slot);
        self.unmap(slot);
        if let Some(Entry { body: Body::Connection(mut connection), .. }) = self.remove(slot) {
            self.budget.disconnect(&mut connection.tcp);
        }
    }
}
