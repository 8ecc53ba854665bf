//! Buffer accounting: memory for data and connections, within a total limit.
//!
//! The more connections there are, the smaller are the initial buffers of a new one. A buffer then grows as
//! its connection needs it, while less than half of the memory is in use. All data is charged to one
//! [`Pool`]. A writer that finds all memory in use fails with `EAGAIN`. The writer is recorded here, and
//! woken when there is memory again.

use alloc::collections::VecDeque;

use hermit_interface::Errno;
use hermit_tcp::{Pool, Purpose};

/// Maximum and minimum initial size in bytes of a connection's buffer per direction. Miri takes minutes to
/// fill a large one.
pub(crate) const LARGEST: usize = if cfg!(miri) { 32 << 10 } else { 512 << 10 };
pub(crate) const SMALLEST: usize = 8 << 10;

/// Maximum size in bytes to which a buffer grows: the bandwidth-delay product of 100 Mbit/s and 300 ms.
const MAX_GROWN: usize = if cfg!(miri) { LARGEST } else { 4 << 20 };

/// Divisor of the total limit: a buffer grows to at most this part of it.
const GROWN_SHARE: usize = 4;

/// Default total limit in bytes.
const DEFAULT_LIMIT: usize = 16 << 20;

/// The n-th connection starts with buffers of the total limit divided by `n * SHARES`. The sum of 1/n grows
/// like the logarithm of n, so all buffers together stay below the limit.
const SHARES: usize = 10;

/// Divisor of the total limit: data of connections without a socket takes at most this part of it. Peers
/// decide how long such data stays.
pub(crate) const ORPHANED_PART: usize = 2;

/// Approximate size in bytes of a connection without data.
pub(crate) const CONNECTION: usize = 2 << 10;

/// Accounting of the memory for data that waits to be sent or read.
#[derive(Debug)]
pub(crate) struct BufferAccounting {
    pool: Pool,
    connections: usize,
    /// Bytes that connections without a socket still had to deliver when their sockets were closed, and the
    /// maximum of this number.
    orphaned: usize,
    max_orphaned: usize,
    /// Slots of connections whose writers wait for memory, in the order in which they were refused.
    refused: VecDeque<u32>,
}

impl BufferAccounting {
    pub(crate) const fn new(limit: usize) -> Self {
        let limit = if limit == 0 { DEFAULT_LIMIT } else { limit };
        let max_orphaned = limit / ORPHANED_PART;
        Self { pool: Pool::new(limit), connections: 0, orphaned: 0, max_orphaned, refused: VecDeque::new() }
    }

    /// Returns the buffer pool.
    pub(crate) const fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Bytes in use, without the buffers that the pool caches.
    #[cfg(test)]
    pub(crate) const fn used(&self) -> usize {
        self.pool.used()
    }

    /// Size in bytes of the buffers that the pool caches.
    pub(crate) const fn kept(&self) -> usize {
        self.pool.kept()
    }

    /// Frees the buffers that the pool caches.
    pub(crate) fn reclaim(&mut self) {
        self.pool.reclaim();
    }

    /// Total limit in bytes.
    pub(crate) const fn limit(&self) -> usize {
        self.pool.limit()
    }

    /// Charges `bytes` of received data; `false` without memory for received data.
    pub(crate) const fn charge(&mut self, bytes: usize) -> bool {
        self.pool.charge(bytes, Purpose::Received)
    }

    /// Records that the writer of a connection waits for memory. Returns false, and records nothing, if it
    /// was not the pool but the heap that ran out of memory.
    pub(crate) fn refuse(&mut self, slot: u32) -> bool {
        let is_noted = self.pool.left() == 0 && self.refused.try_reserve(1).is_ok();
        if is_noted {
            self.refused.push_back(slot);
        }
        is_noted
    }

    /// True if a writer waits for memory, and memory is free.
    #[inline]
    pub(crate) fn may_resume(&self) -> bool {
        !self.refused.is_empty() && self.pool.left() > 0
    }

    /// Takes the connections whose writers may continue: one connection for each free chunk.
    pub(crate) fn take_resumed(&mut self) -> impl Iterator<Item = u32> {
        let count = self.pool.left().min(self.refused.len());
        self.refused.drain(..count)
    }

    /// Refunds `bytes`.
    pub(crate) const fn refund(&mut self, bytes: usize) {
        self.pool.refund(bytes);
    }

    /// Initial buffer size in bytes of the next connection.
    pub(crate) fn share(&self) -> usize {
        let share = self.limit() / SHARES / (self.connections + 1) / 2;
        let power = share.checked_ilog2().map_or(0, |log| 1 << log);
        power.clamp(SMALLEST, LARGEST)
    }

    /// Initial and maximum buffer size in bytes of the next connection. If a size is wanted, both are this
    /// size, within limits. The maximum determines the window scale, and must not depend on the number of
    /// connections: it must be the same when a SYN cookie is sent and when it is acknowledged.
    pub(crate) fn buffer(&self, wanted: Option<u32>) -> (u32, u32) {
        let to_u32 = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        if let Some(wanted) = wanted {
            let size = wanted.clamp(to_u32(SMALLEST / 2), to_u32(MAX_GROWN));
            return (size, size);
        }
        let share = self.share();
        (to_u32(share), to_u32(share.max((self.limit() / GROWN_SHARE).min(MAX_GROWN))))
    }

    /// Charges a new connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) const fn connect(&mut self) -> Result<(), Errno> {
        if !self.pool.charge(CONNECTION, Purpose::Connection) {
            return Err(Errno::ENOMEM);
        }
        self.connections += 1;
        Ok(())
    }

    /// Counts the `bytes` that a connection still has to deliver when its socket is closed. Returns `false`
    /// if there would be too many: the connection may not deliver them. If no bytes of others are counted, it
    /// always may.
    pub(crate) const fn orphan(&mut self, bytes: usize) -> bool {
        let fits = self.orphaned == 0 || bytes <= self.max_orphaned.saturating_sub(self.orphaned);
        if fits {
            self.orphaned += bytes;
        }
        fits
    }

    /// Removes the bytes of a connection without a socket from the count.
    pub(crate) const fn disown(&mut self, bytes: usize) {
        self.orphaned = self.orphaned.saturating_sub(bytes);
    }

    /// Allows all connections to deliver their data at shutdown.
    pub(crate) const fn keep_orphans(&mut self) {
        self.max_orphaned = usize::MAX;
    }

    /// Refunds a connection, and frees its buffers.
    pub(crate) fn disconnect(&mut self, connection: &mut hermit_tcp::Connection) {
        connection.release(&mut self.pool);
        self.uncount();
    }

    /// Refunds a connection that has no buffers.
    pub(crate) const fn uncount(&mut self) {
        self.refund(CONNECTION);
        self.connections = self.connections.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferAccounting, CONNECTION, LARGEST, MAX_GROWN, SMALLEST};
    use std::vec::Vec;

    #[test]
    fn buffer_shares_shrink_with_the_number_of_connections() {
        let limit = 64 << 20;
        let mut buffers = BufferAccounting::new(limit);
        let shares: Vec<_> = core::iter::from_fn(|| {
            let share = buffers.share();
            buffers.connect().ok().map(|()| share)
        })
        .collect();
        assert_eq!(shares.len(), limit / 4 * 3 / CONNECTION);
        assert_eq!((shares[0], *shares.last().unwrap()), (LARGEST, SMALLEST));
        // All buffers above the minimum size can be full at once.
        let sum: usize = shares.iter().take_while(|&&share| share > SMALLEST).map(|share| 2 * share).sum();
        assert!(sum < limit, "{sum}");
    }

    #[test]
    fn buffer_size_is_the_wanted_one_or_grows() {
        let buffers = BufferAccounting::new(1 << 30);
        let [least, largest, grown] =
            [SMALLEST / 2, LARGEST, MAX_GROWN].map(|size| u32::try_from(size).unwrap());
        assert_eq!(buffers.buffer(Some(1)), (least, least));
        assert_eq!(buffers.buffer(Some(u32::MAX)), (grown, grown));
        assert_eq!(buffers.buffer(None), (largest, grown));
    }

    #[test]
    fn maximum_buffer_size_does_not_depend_on_the_number_of_connections() {
        for limit in (13..27).map(|log| 1 << log) {
            let mut buffers = BufferAccounting::new(limit);
            let (_, max) = buffers.buffer(None);
            while buffers.connect().is_ok() {
                assert_eq!(buffers.buffer(None).1, max, "{limit}");
            }
        }
    }
}
