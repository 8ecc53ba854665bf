//! One poll: receive frames, handle expired timers, transmit.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::neighbors::{Due, Waited};
use crate::phy::device::{NetDevice, Offload};
use crate::phy::tx_queue::{DeviceLink, Link};
use crate::socket::{Socket, SocketState};
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::deferred::RETRY_INTERVAL;

/// Maximum number of frames received, and of units of work, in one poll.
const FRAMES: usize = 256;
const WORK: usize = 1024;

/// Time in nanoseconds after which a full transmit queue is polled again. Devices interrupt when there is room, but not
/// all do, and a bulk sender waits for nothing else: the first retry is early, and the interval doubles while the queue
/// stays full.
const FULL: u64 = 50_000;
const STUCK: u64 = 10_000_000;

/// A time that is never reached.
const NEVER: u64 = u64::MAX;

impl StackInner {
    /// Polls; returns the time of the next timer.
    pub(crate) fn poll<H: NetDevice>(
        &mut self,
        device: &mut Option<H>,
        host: &mut dyn Host,
        now: u64,
    ) -> Option<u64> {
        self.now = self.now.max(now);
        // TIME-WAIT records that have expired meanwhile must not answer the segments that are received now.
        self.expire_time_wait();
        let is_crowded = self.receive_frames(device, host);
        if !is_crowded {
            self.caught_up = self.now;
        }
        self.admit_deferred(host);
        let mut link = DeviceLink::new(device);
        // Queued answers are sent before segments of connections.
        self.flush(&mut link);
        self.uncork();
        self.unblock_all(&mut link, host);
        self.run_timers(&mut link, host);
        self.poll_control(&mut link, host);
        let local = self.local.taken();
        let is_done = self.work(&mut link, host);
        let has_moved = link.has_taken || self.local.taken() != local;
        self.stuck_since =
            self.is_waiting().then(|| self.stuck_since.filter(|_| !has_moved).unwrap_or(self.now));
        self.next(is_crowded || !is_done)
    }

    /// Receives frames; returns whether there may be more.
    fn receive_frames<H: NetDevice>(&mut self, device: &mut Option<H>, host: &mut dyn Host) -> bool {
        let Some(device) = device else { return false };
        for _ in 0..FRAMES {
            if device.receive(|frame, info| self.receive_frame(frame, info, host)).is_none() {
                return false;
            }
        }
        true
    }

    fn run_timers(&mut self, link: &mut dyn Link, host: &mut dyn Host) {
        let now = self.now;
        while let Some(slot) = self.timers.pop_due(now) {
            self.on_timer(slot, host);
        }
        while let Some(due) = self.neighbors.due(now) {
            match due {
                Due::Ask(address) => self.ask(address, None, link),
                Due::GiveUp(waited) => self.give_up(waited, host),
            }
        }
    }

    /// Fails the packets and connections that waited for a neighbor which does not answer.
    fn give_up(&mut self, waited: Waited, host: &mut dyn Host) {
        for slot in waited.connections {
            let Some(connection) = self.connection(slot) else { continue };
            if connection.phase == Phase::Connecting && !connection.is_over {
                self.fail(slot, Errno::EHOSTUNREACH, host);
            }
        }
    }

    fn poll_control(&mut self, link: &mut dyn Link, host: &mut dyn Host) {
        let now = self.now;
        let Some(config) = self.config.as_mut().filter(|config| config.next <= now) else { return };
        config.poll(now, link);
        self.learn_addresses();
        self.update_queries(host);
    }

    /// Serves all queued sockets, and receives loopback packets; returns whether nothing is left.
    fn work(&mut self, link: &mut dyn Link, host: &mut dyn Host) -> bool {
        for _ in 0..WORK {
            if let Some(packet) = self.local.pop() {
                self.receive_local(&packet, host);
                self.local.recycle(packet);
                continue;
            }
            let Some(slot) = self.dirty.pop_front() else { return true };
            self.serve(slot, link, host);
        }
        self.dirty.is_empty() && self.local.is_empty()
    }

    /// Transmits what a socket has to send.
    fn serve(&mut self, slot: u32, link: &mut dyn Link, host: &mut dyn Host) {
        let Some(socket) = self.sockets.get_mut(slot) else { return };
        socket.is_dirty = false;
        let is_blocked = match &socket.state {
            SocketState::Connection(_) => self.transmit(slot, link, host),
            SocketState::Udp(_) => self.unblock(slot, link, host),
            SocketState::Idle | SocketState::Listener(_) => false,
        };
        // Without memory for the list, the socket is queued again.
        if is_blocked && self.blocked.try_reserve(1).map(|()| self.blocked.push(slot)).is_err() {
            self.mark(slot);
        }
    }

    /// Serves the sockets that wait for room in the transmit queue of the device or of the loopback.
    fn unblock_all(&mut self, link: &mut dyn Link, host: &mut dyn Host) {
        let mut blocked: Vec<u32> = core::mem::take(&mut self.blocked);
        for slot in blocked.drain(..) {
            let is_connection = self.sockets.get(slot).and_then(Socket::connection).is_some();
            if is_connection {
                self.mark(slot);
            } else if self.unblock(slot, link, host) {
                self.blocked.push(slot);
            }
        }
        if self.blocked.is_empty() {
            self.blocked = blocked;
        }
    }

    /// Transmits frames of the outbox.
    pub(crate) fn flush(&mut self, link: &mut dyn Link) {
        while let Some(size) = self.outbox.next_size() {
            if !link.can_transmit(size) {
                return;
            }
            if let Some(frame) = self.outbox.pop() {
                link.transmit(size, Offload::default(), &mut |bytes| bytes.copy_from_slice(&frame));
                self.outbox.recycle(frame);
            }
        }
    }

    /// Whether nothing is queued for transmission.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.local.is_empty() && self.outbox.is_empty()
    }

    /// Whether all data sent on connections is acknowledged, and all other frames are passed to the device, except
    /// those to neighbors that do not answer.
    ///
    /// All sockets are closed, so a socket whose data has been delivered gets no new data, and is not checked again.
    pub(crate) fn is_delivered(&mut self) -> bool {
        let is_waiting = !self.blocked.is_empty() || !self.corked.is_empty() || self.neighbors.has_frames();
        if !self.is_settled() || is_waiting {
            return false;
        }
        while usize::try_from(self.delivered).is_ok_and(|slot| slot < self.sockets.slots()) {
            self.visit();
            let connection = self.sockets.get(self.delivered).and_then(Socket::connection);
            if connection.is_some_and(Connection::is_undelivered) {
                return false;
            }
            self.delivered += 1;
        }
        true
    }

    /// Whether sockets wait for room in the transmit queue of the device or of the loopback.
    fn is_waiting(&self) -> bool {
        !self.blocked.is_empty() || !self.outbox.is_empty()
    }

    /// Time of the next timer.
    pub(crate) fn next(&self, is_more: bool) -> Option<u64> {
        let now = self.now;
        // Runs in every call. As an iterator over an array of deadlines it took 143 instructions.
        let mut next = if is_more { now } else { NEVER };
        if self.is_waiting() {
            // The interval is the time for which the queue has been full already, so it doubles each time.
            let stuck = now.saturating_sub(self.stuck_since.unwrap_or(now));
            next = next.min(now.saturating_add(stuck.clamp(FULL, STUCK)));
        }
        if !self.tcp.deferred.is_empty() {
            next = next.min(now.saturating_add(RETRY_INTERVAL));
        }
        next = next.min(self.timers.next().unwrap_or(NEVER));
        next = next.min(self.neighbors.deadline().unwrap_or(NEVER));
        next = next.min(self.config.as_ref().map_or(NEVER, |config| config.next));
        (next != NEVER).then_some(next)
    }
}
