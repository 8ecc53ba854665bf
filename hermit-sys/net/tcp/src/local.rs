//! Shortcut between the two ends of a connection within one host: written data is received at once, without
//! segments.

use crate::buffers::Pool;
use crate::connection::Connection;

impl Connection {
    /// Writes bytes into the receive buffer of `peer`, the other end of this connection in the same host.
    /// Returns the number of bytes. Both ends are then in the same state as after a segment with the data and
    /// its acknowledgement.
    ///
    /// Transfers nothing unless all data written before has been acknowledged. No segment between the two
    /// ends may be in flight.
    pub fn pass(&mut self, bytes: &[u8], peer: &mut Self, pool: &mut Pool, now: u64) -> usize {
        if !self.may_pass_to(peer) {
            return 0;
        }
        let receiving = &mut peer.receiving;
        let next = receiving.buffer.next();
        let window = self.sending.window.min(receiving.edge.since(next));
        let size = usize::try_from(window).map_or(bytes.len(), |window| window.min(bytes.len()));
        let bytes = bytes.get(..size).unwrap_or_default();
        let passed = receiving.buffer.insert(next, bytes, pool).in_order;
        if passed == 0 {
            return 0;
        }
        self.recovery.skip(passed);
        peer.timers.on_heard(now);
        self.timers.on_heard(now);
        self.take_window_of(peer);
        // A data segment would also have acknowledged the peer's data: a delayed acknowledgement becomes due.
        self.ack.hasten();
        usize::try_from(passed).unwrap_or(0)
    }

    /// True if all earlier data is acknowledged, and `peer` expects the next byte.
    fn may_pass_to(&self, peer: &Self) -> bool {
        self.can_write()
            && self.sending.buffer.size() == 0
            && self.recovery.is_at_rest()
            && peer.can_receive()
            && peer.receiving.fin.is_none()
            && !peer.receiving.buffer.has_gap()
            && peer.receive_next() == self.send_next()
    }

    /// Replaces an acknowledgement of `peer`: this end learns the peer's window.
    fn take_window_of(&mut self, peer: &mut Self) {
        let window = peer.window_to_advertise();
        let next = peer.receiving.buffer.next();
        peer.receiving.edge = next + window;
        peer.ack.on_sent(next);
        let sending = &mut self.sending;
        sending.window = window;
        sending.max_window = sending.max_window.max(window);
        sending.wl2 = next;
    }
}
