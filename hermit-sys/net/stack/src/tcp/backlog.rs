//! Queues of a listener: half-open connections (SYN queue), the accept queue, and deferred SYNs.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hermit_tcp::{Header, Segment};

use crate::ip::delivery::Via;
use crate::socket::address::Tuple;

/// Queues and limits of a listening socket.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    pub(super) backlog: usize,
    /// Slots of the listener's replicas in the other shards.
    pub(super) replicas: Vec<u32>,
    /// Index of the accept queue that `accept` checks next: 0 is the listener's own, the others belong to its
    /// replicas.
    pub(super) turn: usize,
    /// Slots of half-open connections, oldest first.
    pub(super) half_open: VecDeque<u32>,
    pub(super) ready: VecDeque<u32>,
    /// Deferred SYNs, oldest first.
    pub(super) deferred: VecDeque<DeferredSyn>,
}

impl Listener {
    /// True if the accept queue is full: as in Linux, it holds one more than the backlog.
    pub(super) fn is_full(&self) -> bool {
        self.ready.len() > self.backlog
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

/// Appends a connection to a queue; `false` if out of memory.
pub(super) fn enqueue(queue: &mut VecDeque<u32>, slot: u32) -> bool {
    queue.try_reserve(1).map(|()| queue.push_back(slot)).is_ok()
}

/// Removes a connection from a queue.
pub(super) fn dequeue(queue: &mut VecDeque<u32>, slot: u32) {
    if let Some(place) = queue.iter().position(|&other| other == slot) {
        queue.remove(place);
    }
}

/// A deferred SYN.
#[derive(Debug)]
pub(crate) struct DeferredSyn {
    pub(super) received: u64,
    pub(super) via: Via,
    pub(super) tuple: Tuple,
    pub(super) header: Header,
}

impl DeferredSyn {
    /// Returns the SYN without its data, which the peer retransmits.
    pub(super) const fn segment(&self) -> Segment<'static> {
        Segment { header: self.header, payload: &[], is_marked: false }
    }
}

/// Listeners with deferred SYNs.
#[derive(Debug, Default)]
pub(crate) struct DeferredSyns {
    /// Number of deferred SYNs of all listeners.
    pub(super) count: usize,
    pub(super) listeners: Vec<u32>,
    /// Set when there are too many deferred SYNs, or one of them has waited too long. Cleared when no SYN is
    /// deferred any more.
    pub(super) is_flood: bool,
}

impl DeferredSyns {
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of deferred SYNs of all listeners.
    #[cfg(test)]
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// True if a SYN flood is likely: there are more SYNs than a burst of clients sends.
    pub(crate) const fn is_flood(&self) -> bool {
        self.is_flood
    }

    /// Subtracts `count` from the number of all deferred SYNs.
    pub(super) const fn subtract(&mut self, count: usize) {
        self.count -= count;
        self.is_flood &= self.count > 0;
    }
}
