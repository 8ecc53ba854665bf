//! One round of work: what arrived, what is due, what is to be sent.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::core::{Body, Core, Entry};
use crate::hardware::{Hardware, Offload};
use crate::host::Host;
use crate::link::{Device, Link};
use crate::network::neighbors::{Due, Waited};
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::deferred::RETRY_INTERVAL;

/// Most frames that are received, and most pieces of work that are done, in one round.
const FRAMES: usize = 256;
const WORK: usize = 1024;

/// When the device is looked at again that had no room. It interrupts when it has some, so that this need not be soon; but
/// who sends much waits for nothing else, and not every device is known to: it is looked at soon at first, then more seldom, as
/// long as it takes nothing.
const FULL: u64 = 50_000;
const STUCK: u64 = 10_000_000;

/// A deadline that is not reached.
const NEVER: u64 = u64::MAX;

impl Core {
    /// Does one round; returns when to do the next.
    pub(crate) fn poll<H: Hardware>(
        &mut self,
        hardware: &mut Option<H>,
        host: &mut dyn Host,
        now: u64,
    ) -> Option<u64> {
        self.now = self.now.max(now);
        // A record that has expired while nothing was polled must not judge what arrives now.
        self.forget_old();
        let is_crowded = self.receive_frames(hardware, host);
        if !is_crowded {
            self.caught_up = self.now;
        }
        self.admit_deferred(host);
        let mut link = Device::new(hardware);
        // Answers to what arrived go before what it gave rise to.
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
    fn receive_frames<H: Hardware>(&mut self, hardware: &mut Option<H>, host: &mut dyn Host) -> bool {
        let Some(hardware) = hardware else { return false };
        for _ in 0..FRAMES {
            if hardware.receive(|frame, info| self.receive_frame(frame, info, host)).is_none() {
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

    /// A neighbor is not there.
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
        let Some(control) = self.control.as_mut().filter(|control| control.next <= now) else { return };
        control.poll(now, link);
        self.learn_addresses();
        self.look_for_answers(host);
    }

    /// Has everybody send who has something, and receives what this host sends to itself; returns whether that
    /// was all.
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

    /// Has one send what it has.
    fn serve(&mut self, slot: u32, link: &mut dyn Link, host: &mut dyn Host) {
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.is_dirty = false;
        let is_blocked = match &entry.body {
            Body::Connection(_) => self.transmit(slot, link, host),
            Body::Datagrams(_) => self.unblock(slot, link, host),
            Body::Idle | Body::Listener(_) => false,
        };
        // Without memory to remember it, it is tried again at once.
        if is_blocked && self.blocked.try_reserve(1).map(|()| self.blocked.push(slot)).is_err() {
            self.mark(slot);
        }
    }

    /// Has those try again who had to wait for the device, or for the queue of local packets.
    fn unblock_all(&mut self, link: &mut dyn Link, host: &mut dyn Host) {
        let mut blocked: Vec<u32> = core::mem::take(&mut self.blocked);
        for slot in blocked.drain(..) {
            let is_connection = self.sockets.get(slot).and_then(Entry::connection).is_some();
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

    /// Transmits frames that waited for the device.
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

    /// Whether nothing is to be sent now.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.local.is_empty() && self.outbox.is_empty()
    }

    /// Whether other hosts have acknowledged everything that was sent to them over connections, and the device has the rest,
    /// but for what is for neighbors that are not there.
    ///
    /// All sockets have been closed, so nothing new comes to what has been delivered, and it need not be looked at again.
    pub(crate) fn is_delivered(&mut self) -> bool {
        let is_waiting = !self.blocked.is_empty() || !self.corked.is_empty() || self.neighbors.has_frames();
        if !self.is_settled() || is_waiting {
            return false;
        }
        while usize::try_from(self.delivered).is_ok_and(|slot| slot < self.sockets.slots()) {
            self.visit();
            let connection = self.sockets.get(self.delivered).and_then(Entry::connection);
            if connection.is_some_and(Connection::is_owed) {
                return false;
            }
            self.delivered += 1;
        }
        true
    }

    /// Whether somebody waits for room, in the device or in the queue of local packets.
    fn is_waiting(&self) -> bool {
        !self.blocked.is_empty() || !self.outbox.is_empty()
    }

    /// When to do the next round.
    pub(crate) fn next(&self, is_more: bool) -> Option<u64> {
        let now = self.now;
        // Each call asks for this. As an iterator over an array of deadlines it took 143 instructions.
        let mut next = if is_more { now } else { NEVER };
        if self.is_waiting() {
            // As long again as it has been so already: each time is twice the one before.
            let stuck = now.saturating_sub(self.stuck_since.unwrap_or(now));
            next = next.min(now.saturating_add(stuck.clamp(FULL, STUCK)));
        }
        if !self.tcp.deferred.is_empty() {
            next = next.min(now.saturating_add(RETRY_INTERVAL));
        }
        next = next.min(self.timers.next().unwrap_or(NEVER));
        next = next.min(self.neighbors.deadline().unwrap_or(NEVER));
        next = next.min(self.control.as_ref().map_or(NEVER, |control| control.next));
        (next != NEVER).then_some(next)
    }
}
