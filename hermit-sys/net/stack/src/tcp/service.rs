//! Service of connections by the poll: deadlines, and what was held up.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::phy::tx_queue::Link;
use crate::socket::context::Context;
use crate::socket::table::Socket;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::deferred::RETRY_INTERVAL;
use crate::tcp::layer::Tcp;

impl Tcp {
    /// Handles expired timers.
    pub(crate) fn run_timers(&mut self, context: &mut Context<'_>) {
        while let Some(slot) = self.timers.pop_due(context.now) {
            self.on_timer(slot, context);
        }
    }

    /// Serves the first connection in the queue; `false` if there is none.
    pub(crate) fn serve_next(&mut self, link: &mut dyn Link, context: &mut Context<'_>) -> bool {
        let Some(slot) = self.dirty.pop_front() else { return false };
        let Some(connection) = self.connection(slot) else { return true };
        connection.is_dirty = false;
        let is_blocked = self.transmit(slot, link, context);
        // Without memory for the list, the connection is queued again.
        if is_blocked && self.blocked.try_reserve(1).map(|()| self.blocked.push(slot)).is_err() {
            self.mark(slot);
        }
        true
    }

    /// Queues the connections that waited for a neighbor, or for room in the transmit queue.
    pub(crate) fn resume(&mut self, connections: Vec<u32>) {
        connections.into_iter().for_each(|slot| self.mark(slot));
    }

    /// Queues the connections that wait for room in the transmit queue of the device, and those that hold data back.
    pub(crate) fn resume_held(&mut self) {
        while let Some(slot) = self.corked.pop() {
            if let Some(connection) = self.connection(slot) {
                connection.is_corked = false;
                self.mark(slot);
            }
        }
        while let Some(slot) = self.blocked.pop() {
            self.mark(slot);
        }
    }

    /// Fails the connections that waited for a neighbor which does not answer.
    pub(crate) fn give_up(&mut self, connections: Vec<u32>, context: &mut Context<'_>) {
        for slot in connections {
            let Some(connection) = self.connection(slot) else { continue };
            if connection.phase == Phase::Connecting && !connection.is_over {
                self.fail(slot, Errno::EHOSTUNREACH, context.buffers);
            }
        }
    }

    /// Whether neither connections nor loopback segments are queued.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.loopback.is_empty()
    }

    /// Whether connections wait for room in the transmit queue of the device.
    #[inline]
    pub(crate) const fn is_waiting(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Whether connections wait for anything but time, or SYNs for room.
    #[inline]
    pub(crate) const fn is_held(&self) -> bool {
        !self.blocked.is_empty() || !self.corked.is_empty() || !self.deferred.is_empty()
    }

    /// Whether all data sent on connections is acknowledged.
    ///
    /// All sockets are closed, so a connection whose data has been delivered gets no new data, and is not checked again.
    pub(crate) fn is_delivered(&mut self) -> bool {
        if !self.blocked.is_empty() || !self.corked.is_empty() {
            return false;
        }
        while self.delivered < self.sockets.slots() {
            self.visit();
            let connection = self.sockets.get(self.delivered).and_then(Socket::connection);
            if connection.is_some_and(Connection::is_undelivered) {
                return false;
            }
            self.delivered += 1;
        }
        true
    }

    /// Time of the next timer; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn next(&self, now: u64) -> u64 {
        let retry = if self.deferred.is_empty() { u64::MAX } else { now.saturating_add(RETRY_INTERVAL) };
        self.timers.next().unwrap_or(u64::MAX).min(retry)
    }
}
