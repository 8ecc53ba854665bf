//! Deferred SYNs: SYNs for which their listener has no room yet.
//!
//! A peer retransmits a SYN that is dropped, first after 1 s. passt does not (2023-03, Debian 12): it resets
//! its client 10 s later. The stack therefore keeps such SYNs, and answers them in order as the program
//! accepts connections. When there are too many, it answers further ones with SYN cookies.

use alloc::collections::VecDeque;

use hermit_tcp::{Purpose, Segment};

use crate::ip::delivery::Via;
use crate::socket::address::Tuple;
use crate::socket::buffers::BufferAccounting;
use crate::socket::context::Context;
use crate::tcp::backlog::DeferredSyn;
use crate::tcp::shard::Shard;

/// Maximum number of deferred SYNs of all listeners, in all shards.
const MAX_DEFERRED: usize = 8192;

/// Approximate size in bytes of a deferred SYN in memory.
pub(crate) const SIZE: usize = 200;

/// Divisor of the total buffer limit: deferred SYNs take at most this part of it.
const SHARE: usize = 16;

/// Time in nanoseconds after which a deferred SYN is dropped. passt has given up by then, and other peers
/// have retransmitted it.
const LIFETIME: u64 = 10_000_000_000;

/// Waiting time in nanoseconds of a deferred SYN that indicates a flood. It is half of the lifetime, so that
/// the SYN can still be answered in the other half.
const MAX_WAIT: u64 = LIFETIME / 2;

/// Interval in nanoseconds at which deferred SYNs are tried again if nothing else causes a poll.
pub(crate) const RETRY_INTERVAL: u64 = 100_000_000;

impl Shard {
    /// Maximum number of deferred SYNs.
    fn max_deferred(&self, buffers: &BufferAccounting) -> usize {
        MAX_DEFERRED.min(buffers.limit() / SHARE / SIZE) / self.sharding.count()
    }

    fn deferred_of(&mut self, listener: u32) -> Option<&mut VecDeque<DeferredSyn>> {
        self.listener(listener).map(|listener| &mut listener.deferred)
    }

    /// True if a listener has deferred SYNs. A new one is then queued after them.
    pub(crate) fn has_deferred(&mut self, listener: u32) -> bool {
        !self.deferred.is_empty() && self.deferred_of(listener).is_some_and(|queue| !queue.is_empty())
    }

    /// True if the maximum number of SYNs is deferred, which indicates a flood.
    pub(crate) fn has_too_many_deferred(&mut self, buffers: &BufferAccounting) -> bool {
        let is_full = self.deferred.count >= self.max_deferred(buffers);
        self.deferred.is_flood |= is_full;
        is_full
    }

    /// Defers a valid SYN. If there are too many, drops the oldest SYN of the listener: in a SYN flood, its
    /// peer is the least likely to be still waiting. If the listener has no deferred SYN, drops the new one.
    pub(crate) fn defer(
        &mut self,
        listener: u32,
        (segment, tuple): (&Segment<'_>, Tuple),
        via: Via,
        context: &mut Context<'_>,
    ) {
        let (received, is_full) = (context.now, self.deferred.count >= self.max_deferred(context.buffers));
        if self.deferred.listeners.try_reserve(1).is_err() {
            return;
        }
        let Some(queue) = self.deferred_of(listener) else { return };
        if queue.try_reserve(1).is_err() {
            return;
        }
        let is_first = queue.is_empty();
        let has_place = if is_full {
            queue.pop_front().is_some()
        } else {
            context.buffers.pool().charge(SIZE, Purpose::Connection)
        };
        if !has_place {
            return;
        }
        queue.push_back(DeferredSyn { received, via, tuple, header: segment.header });
        let deferred = &mut self.deferred;
        deferred.count += usize::from(!is_full);
        deferred.is_flood |= is_full;
        if is_first {
            deferred.listeners.push(listener);
        }
    }

    /// Answers deferred SYNs while their listeners have room.
    pub(crate) fn admit_deferred(&mut self, context: &mut Context<'_>) {
        if self.deferred.is_empty() {
            return;
        }
        let mut listeners = core::mem::take(&mut self.deferred.listeners);
        listeners.retain(|&listener| self.admit_deferred_of(listener, context));
        self.deferred.listeners = listeners;
    }

    /// Answers deferred SYNs of a listener; returns true if some are left.
    fn admit_deferred_of(&mut self, listener: u32, context: &mut Context<'_>) -> bool {
        while let Some(syn) = self.deferred_of(listener).and_then(VecDeque::pop_front) {
            let wait = context.now - syn.received;
            self.deferred.is_flood |= wait >= MAX_WAIT;
            if wait < LIFETIME && !self.admit(listener, &syn, context) {
                self.put_back(listener, syn);
                return true;
            }
            self.forget_deferred(1, context.buffers);
        }
        false
    }

    /// Subtracts `count` deferred SYNs from their total number and from the accounted memory.
    fn forget_deferred(&mut self, count: usize, buffers: &mut BufferAccounting) {
        self.deferred.subtract(count);
        buffers.refund(count * SIZE);
    }

    fn put_back(&mut self, listener: u32, syn: DeferredSyn) {
        if let Some(queue) = self.deferred_of(listener) {
            queue.push_front(syn);
        }
    }

    /// Answers a SYN; returns true if it must be removed from the queue.
    fn admit(&mut self, listener: u32, syn: &DeferredSyn, context: &mut Context<'_>) -> bool {
        // The connection exists if the peer has retransmitted the SYN.
        let is_known = self.connections.contains_key(&syn.tuple);
        is_known || self.add_half_open(listener, (&syn.segment(), syn.tuple), syn.via, context)
    }

    /// Resets the peers of deferred SYNs when their listener is closed.
    pub(crate) fn reset_deferred(
        &mut self,
        listener: u32,
        queue: VecDeque<DeferredSyn>,
        context: &mut Context<'_>,
    ) {
        self.forget_deferred(queue.len(), context.buffers);
        self.deferred.listeners.retain(|&other| other != listener);
        for syn in queue {
            self.refuse(syn.tuple, &syn.segment(), syn.via, context.phy);
        }
    }
}
