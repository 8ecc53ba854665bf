//! Service of connections by the poll: expired deadlines, queued connections, and connections that were held
//! up.
//!
//! Each call and each received segment only marks connections that may have something to send. The poll then
//! serves them from the queue `dirty` of each shard, together with the segments of the loopback. A connection
//! that finds the transmit queue full moves to the list `blocked`; a connection that holds small data back,
//! to be coalesced, is in the list `corked`. The connections of both lists are marked again when the device
//! has sent frames. The functions of [`Tcp`] call the same function of each shard.

use alloc::vec::Vec;

use hermit_interface::Errno;
use hermit_tcp::Pool;

use crate::phy::tx_queue::Link;
use crate::socket::buffers::BufferAccounting;
use crate::socket::context::Context;
use crate::socket::ports::Ports;
use crate::socket::table::Socket;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::deferred::RETRY_INTERVAL;
use crate::tcp::layer::Tcp;
use crate::tcp::shard::Shard;

impl Tcp {
    /// Removes connections whose TIME-WAIT has expired.
    #[inline]
    pub(crate) fn expire_time_wait(&mut self, ports: &mut Ports, pool: &mut Pool, now: u64) {
        self.first.expire_time_wait(ports, pool, now);
        self.others.iter_mut().for_each(|shard| shard.expire_time_wait(ports, pool, now));
    }

    /// Answers deferred SYNs while their listeners have room.
    pub(crate) fn admit_deferred(&mut self, context: &mut Context<'_>) {
        self.first.admit_deferred(context);
        self.others.iter_mut().for_each(|shard| shard.admit_deferred(context));
    }

    /// Handles expired timers.
    pub(crate) fn run_timers(&mut self, context: &mut Context<'_>) {
        self.first.run_timers(context);
        self.others.iter_mut().for_each(|shard| shard.run_timers(context));
    }

    /// Queues the connections that wait for room in the device's transmit queue, and those that hold data
    /// back.
    pub(crate) fn resume_held(&mut self) {
        self.first.resume_held();
        self.others.iter_mut().for_each(Shard::resume_held);
    }

    /// Queues the connections that waited for a neighbor.
    pub(crate) fn resume(&mut self, connections: Vec<u32>) {
        connections.into_iter().for_each(|slot| self.of_mut(slot).mark(slot));
    }

    /// Fails the connections that waited for a neighbor which has not answered.
    pub(crate) fn give_up(&mut self, connections: Vec<u32>, context: &mut Context<'_>) {
        connections.into_iter().for_each(|slot| self.of_mut(slot).give_up(slot, context));
    }

    /// Serves all queued connections, and receives loopback segments; returns true if nothing is left.
    pub(crate) fn work(&mut self, link: &mut dyn Link, context: &mut Context<'_>) -> bool {
        // Works on all shards, also if one of them has work left.
        let is_done = self.first.work(link, context);
        self.others.iter_mut().fold(is_done, |is_done, shard| shard.work(link, context) && is_done)
    }

    /// Wakes the writers that found no memory for their data. Called when memory is free again.
    #[cold]
    pub(crate) fn resume_writers(&mut self, buffers: &mut BufferAccounting) {
        for slot in buffers.take_resumed() {
            let shard = self.of_mut(slot);
            if let Some(connection) = shard.connection(slot) {
                connection.is_refused = false;
                shard.sockets.wake(slot);
            }
        }
    }

    /// True if a socket has an event.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        self.first.sockets.has_events() || self.has_other(|shard| shard.sockets.has_events())
    }

    /// Takes an event of a socket; returns its waker key.
    pub(crate) fn take_event(&mut self) -> Option<usize> {
        let event = self.first.sockets.take_event();
        event.or_else(|| self.others.iter_mut().find_map(|shard| shard.sockets.take_event()))
    }

    /// True if neither connections nor loopback segments are queued.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.first.is_settled() && !self.has_other(|shard| !shard.is_settled())
    }

    /// True if connections wait for room in the transmit queue of the device.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.first.is_waiting() || self.has_other(Shard::is_waiting)
    }

    /// True if connections wait for the device, or SYNs for room in their listener.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.first.is_held() || self.has_other(Shard::is_held)
    }

    /// True if all data sent on connections is acknowledged. Called after all sockets were closed.
    pub(crate) fn is_delivered(&mut self) -> bool {
        self.shards_mut().all(Shard::is_delivered)
    }

    /// Returns a number that changes when a segment of the loopback is received.
    pub(crate) fn received_locally(&self) -> u64 {
        let first = self.first.loopback.taken();
        self.others.iter().fold(first, |sum, shard| sum.wrapping_add(shard.loopback.taken()))
    }

    /// Time of the next timer; `u64::MAX` without a timer.
    #[inline]
    pub(crate) fn next(&self, now: u64) -> u64 {
        let first = self.first.next(now);
        if self.others.is_empty() { first } else { first.min(self.next_of_others(now)) }
    }
}

impl Tcp {
    /// True if a condition holds for one of the other shards. With a single shard, this check takes two
    /// instructions.
    #[inline]
    fn has_other(&self, condition: impl Fn(&Shard) -> bool) -> bool {
        #[cold]
        fn any(others: &[Shard], condition: impl Fn(&Shard) -> bool) -> bool {
            others.iter().any(condition)
        }
        !self.others.is_empty() && any(&self.others, condition)
    }

    #[cold]
    fn next_of_others(&self, now: u64) -> u64 {
        self.others.iter().fold(u64::MAX, |next, shard| next.min(shard.next(now)))
    }
}

/// Maximum number of units of work of a shard in one poll.
const WORK: usize = 1024;

impl Shard {
    /// Handles expired timers.
    pub(super) fn run_timers(&mut self, context: &mut Context<'_>) {
        while let Some(slot) = self.timers.pop_due(context.now) {
            self.on_timer(slot, context);
        }
    }

    /// Serves all queued connections, and receives loopback segments, up to a limit. Returns true if nothing
    /// is left.
    pub(super) fn work(&mut self, link: &mut dyn Link, context: &mut Context<'_>) -> bool {
        for _ in 0..WORK {
            if !self.receive_local(context) && !self.serve_next(link, context) {
                return true;
            }
        }
        self.is_settled()
    }

    /// Serves the first connection in the queue; `false` if it is empty.
    pub(super) fn serve_next(&mut self, link: &mut dyn Link, context: &mut Context<'_>) -> bool {
        let Some(slot) = self.dirty.pop_front() else { return false };
        let Some(connection) = self.connection(slot) else { return true };
        connection.is_dirty = false;
        let is_blocked = self.transmit(slot, link, context);
        // Without memory for the list, the connection is queued again.
        if is_blocked && !self.block(slot) {
            self.mark(slot);
        }
        true
    }

    /// Adds a connection to the list of connections that wait for room in the device's transmit queue.
    /// Returns `false` if there is no memory for that.
    fn block(&mut self, slot: u32) -> bool {
        if self.connection(slot).is_none_or(|connection| connection.is_blocked) {
            return true;
        }
        // Slots of connections that have ended stay in the list until there is room. When they are the
        // majority, the list is emptied, and all other connections are queued again. Otherwise peers could
        // make the list grow without limit.
        if self.blocked.len() >= 2 * self.sockets.slots() {
            self.resume_blocked();
        }
        if self.blocked.try_reserve(1).is_err() {
            return false;
        }
        self.blocked.push(slot);
        if let Some(connection) = self.connection(slot) {
            connection.is_blocked = true;
        }
        true
    }

    /// Queues the connections that wait for room in the transmit queue of the device.
    fn resume_blocked(&mut self) {
        while let Some(slot) = self.blocked.pop() {
            if let Some(connection) = self.connection(slot) {
                connection.is_blocked = false;
            }
            self.mark(slot);
        }
    }

    /// Queues the connections that wait for room in the device's transmit queue, and those that hold data
    /// back.
    pub(super) fn resume_held(&mut self) {
        while let Some(slot) = self.corked.pop() {
            if let Some(connection) = self.connection(slot) {
                connection.is_corked = false;
                self.mark(slot);
            }
        }
        self.resume_blocked();
    }

    /// Fails a connection that waited for a neighbor which has not answered.
    pub(super) fn give_up(&mut self, slot: u32, context: &mut Context<'_>) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.phase == Phase::Connecting && !connection.is_over {
            self.fail(slot, Errno::EHOSTUNREACH, context);
        }
    }

    /// True if neither connections nor loopback segments are queued.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.loopback.is_empty()
    }

    /// True if connections wait for room in the transmit queue of the device.
    #[inline]
    pub(super) const fn is_waiting(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// True if connections wait for the device, or SYNs for room in their listener.
    #[inline]
    pub(super) const fn is_held(&self) -> bool {
        !self.blocked.is_empty() || !self.corked.is_empty() || !self.deferred.is_empty()
    }

    /// True if all data sent on connections is acknowledged.
    ///
    /// All sockets are closed, so a connection whose data has been delivered gets no new data, and is not
    /// checked again.
    pub(super) fn is_delivered(&mut self) -> bool {
        if !self.blocked.is_empty() || !self.corked.is_empty() {
            return false;
        }
        while let Some(slot) = self.sockets.slot_at(self.delivered) {
            self.visit();
            let connection = self.sockets.get(slot).and_then(Socket::connection);
            if connection.is_some_and(Connection::is_undelivered) {
                return false;
            }
            self.delivered += 1;
        }
        true
    }

    /// Time of the next timer; `u64::MAX` without a timer.
    #[inline]
    pub(super) fn next(&self, now: u64) -> u64 {
        let retry = if self.deferred.is_empty() { u64::MAX } else { now.saturating_add(RETRY_INTERVAL) };
        self.timers.next().unwrap_or(u64::MAX).min(retry)
    }
}
