//! Memory for data: much for each connection while there are few, little when there are many, never more than allowed.

use hermit_interface::Errno;
use hermit_tcp::Pool;

/// Bytes of a connection's buffer, in each direction, at the start: at most, and at least. Miri takes minutes to fill a
/// large one.
pub(crate) const LARGEST: usize = if cfg!(miri) { 32 << 10 } else { 512 << 10 };
const SMALLEST: usize = 8 << 10;

/// Maximum number of bytes to which a buffer grows: what a path of 100 Mbit/s and 300 ms has in flight.
const MAX_GROWN: usize = if cfg!(miri) { LARGEST } else { 4 << 20 };

/// A buffer grows to one part in this many of all memory at most.
const GROWN_SHARE: usize = 4;

/// What may be used if nothing else is said.
const DEFAULT_LIMIT: usize = 16 << 20;

/// The n-th connection begins with buffers of a share of 1/(n · this). The sum stays below the limit for as many as there
/// can be, because it grows like the logarithm of n.
const SHARES: usize = 10;

/// Bytes of a connection without data, roughly.
pub(crate) const CONNECTION: usize = 2 << 10;

/// The bytes of all data that waits to be sent or read.
#[derive(Debug)]
pub(crate) struct Budget {
    pool: Pool,
    connections: usize,
}

impl Budget {
    pub(crate) const fn new(limit: usize) -> Self {
        let limit = if limit == 0 { DEFAULT_LIMIT } else { limit };
        Self { pool: Pool::new(limit), connections: 0 }
    }

    /// The memory of streams.
    pub(crate) const fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Bytes in use; what is kept for later data does not count.
    #[cfg(test)]
    pub(crate) const fn used(&self) -> usize {
        self.pool.used()
    }

    /// Bytes that are kept for later data.
    pub(crate) const fn kept(&self) -> usize {
        self.pool.kept()
    }

    /// Frees what is kept for later data.
    pub(crate) fn reclaim(&mut self) {
        self.pool.reclaim();
    }

    /// Bytes that may be used.
    pub(crate) const fn limit(&self) -> usize {
        self.pool.limit()
    }

    /// Takes `bytes`, if they are left.
    pub(crate) const fn charge(&mut self, bytes: usize) -> bool {
        self.pool.charge(bytes)
    }

    /// Gives `bytes` back.
    pub(crate) const fn refund(&mut self, bytes: usize) {
        self.pool.refund(bytes);
    }

    /// The size of a buffer with which one more connection begins.
    pub(crate) fn share(&self) -> usize {
        let share = self.limit() / SHARES / (self.connections + 1) / 2;
        let power = share.checked_ilog2().map_or(0, |log| 1 << log);
        power.clamp(SMALLEST, LARGEST)
    }

    /// Bytes of a buffer at the start and at most, for one more connection; of the size that is wanted, if one is, within
    /// reason.
    pub(crate) fn buffer(&self, wanted: Option<u32>) -> (u32, u32) {
        let to_u32 = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        if let Some(wanted) = wanted {
            let size = wanted.clamp(to_u32(SMALLEST / 2), to_u32(MAX_GROWN));
            return (size, size);
        }
        let share = self.share();
        (to_u32(share), to_u32(share.max((self.limit() / GROWN_SHARE).min(MAX_GROWN))))
    }

    /// Counts one more connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) const fn connect(&mut self) -> Result<(), Errno> {
        if !self.charge(CONNECTION) {
            return Err(Errno::ENOMEM);
        }
        self.connections += 1;
        Ok(())
    }

    /// Counts a connection no longer, and frees what it has.
    pub(crate) fn disconnect(&mut self, connection: &mut hermit_tcp::Connection) {
        connection.release(&mut self.pool);
        self.uncount();
    }

    /// Counts a connection no longer that has nothing.
    pub(crate) const fn uncount(&mut self) {
        self.refund(CONNECTION);
        self.connections = self.connections.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, CONNECTION, LARGEST, MAX_GROWN, SMALLEST};
    use std::vec::Vec;

    #[test]
    fn many_connections_fit_because_later_ones_get_less() {
        let limit = 64 << 20;
        let mut budget = Budget::new(limit);
        let shares: Vec<_> = core::iter::from_fn(|| {
            let share = budget.share();
            budget.connect().ok().map(|()| share)
        })
        .collect();
        assert_eq!(shares.len(), limit / CONNECTION);
        assert_eq!((shares[0], *shares.last().unwrap()), (LARGEST, SMALLEST));
        // As long as they are not the smallest ones, all can be full at once.
        let sum: usize = shares.iter().take_while(|&&share| share > SMALLEST).map(|share| 2 * share).sum();
        assert!(sum < limit, "{sum}");
    }

    #[test]
    fn buffers_have_the_size_that_is_wanted_or_grow() {
        let budget = Budget::new(1 << 30);
        let [least, largest, grown] =
            [SMALLEST / 2, LARGEST, MAX_GROWN].map(|size| u32::try_from(size).unwrap());
        assert_eq!(budget.buffer(Some(1)), (least, least));
        assert_eq!(budget.buffer(Some(u32::MAX)), (grown, grown));
        assert_eq!(budget.buffer(None), (largest, grown));
    }
}
