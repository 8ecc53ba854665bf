//! Memory for buffers: much for each while there are few, little when there are many, never more than allowed.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::tcp::channel::Channel;

/// The buffer of a connection, in each direction: as much as a fast path is worth, and as little as works. Miri takes
/// minutes to fill a large one.
pub(crate) const LARGEST: usize = if cfg!(miri) { 32 << 10 } else { 512 << 10 };
const SMALLEST: usize = 8 << 10;

/// What may be used if nothing else is said.
const DEFAULT_LIMIT: usize = 16 << 20;

/// The n-th of those who hold buffers gets a share of 1/(n · this). The sum stays below the limit for as many
/// as there can be, because it grows like the logarithm of n.
const SHARES: usize = 10;

/// What part of the limit may lie unused in sockets that wait to be used again.
const POOLED_PART: usize = 4;

/// The bytes of all buffers.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: usize,
    /// How many connections there are.
    holders: usize,
    /// Channels that are used again: making one means clearing its memory.
    pool: Vec<Channel>,
    pooled: usize,
}

impl Budget {
    pub(crate) const fn new(limit: usize) -> Self {
        let limit = if limit == 0 { DEFAULT_LIMIT } else { limit };
        Self { limit, used: 0, holders: 0, pool: Vec::new(), pooled: 0 }
    }

    /// Bytes that are used; what waits to be used again does not count.
    #[cfg(test)]
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Bytes that wait to be used again.
    pub(crate) const fn pooled_bytes(&self) -> usize {
        self.pooled
    }

    /// Frees what waits to be used again.
    pub(crate) fn reclaim(&mut self) {
        self.shrink_pool(0);
    }

    /// Bytes that may be used.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that a connection needs at least.
    pub(crate) const fn least(&self) -> usize {
        Channel::footprint(SMALLEST, SMALLEST)
    }

    /// Takes `bytes`, if they are left.
    pub(crate) fn charge(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.limit.saturating_sub(self.used);
        if fits {
            self.used += bytes;
            self.shrink_pool(self.limit - self.used);
        }
        fits
    }

    /// Gives `bytes` back.
    pub(crate) const fn refund(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// The size of a buffer for one more connection.
    pub(crate) fn share(&self) -> usize {
        let share = self.limit / SHARES / (self.holders + 1) / 2;
        let power = share.checked_ilog2().map_or(0, |log| 1 << log);
        power.clamp(SMALLEST, LARGEST)
    }

    /// Buffers for one more connection; of the sizes that are wanted, if any are, within reason.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn channel(&mut self, receive: Option<usize>, send: Option<usize>) -> Result<Channel, Errno> {
        let share = self.share();
        let size = |wanted: Option<usize>| wanted.map_or(share, |wanted| wanted.clamp(SMALLEST / 2, LARGEST));
        let (mut receive, mut send) = (size(receive), size(send));
        loop {
            match self.channel_of(receive, send) {
                Err(_) if receive > SMALLEST || send > SMALLEST => {
                    receive = (receive / 2).max(SMALLEST.min(receive));
                    send = (send / 2).max(SMALLEST.min(send));
                }
                result => return result,
            }
        }
    }

    fn channel_of(&mut self, receive: usize, send: usize) -> Result<Channel, Errno> {
        let bytes = Channel::footprint(receive, send);
        if !self.charge(bytes) {
            return Err(Errno::ENOMEM);
        }
        let channel = self.pooled(receive, send).map_or_else(|| self.new_channel(receive, send), Ok);
        match channel {
            Ok(_) => self.holders += 1,
            Err(_) => self.refund(bytes),
        }
        channel
    }

    fn pooled(&mut self, receive: usize, send: usize) -> Option<Channel> {
        let place = self.pool.iter().position(|channel| channel.sizes() == (receive, send))?;
        let channel = self.pool.swap_remove(place);
        self.pooled -= channel.bytes();
        Some(channel)
    }

    /// New buffers; without memory for them those of other sizes are freed first.
    fn new_channel(&mut self, receive: usize, send: usize) -> Result<Channel, Errno> {
        Channel::new(receive, send).or_else(|error| {
            if self.pool.is_empty() {
                return Err(error);
            }
            self.reclaim();
            Channel::new(receive, send)
        })
    }

    /// Takes the buffers of a connection back.
    pub(crate) fn give_back(&mut self, channel: Channel) {
        self.refund(channel.bytes());
        self.holders = self.holders.saturating_sub(1);
        let room = (self.limit / POOLED_PART).min(self.limit.saturating_sub(self.used));
        // Those of another size than the next one would get are of no use.
        let is_wanted = channel.sizes() == (self.share(), self.share());
        if is_wanted && self.pooled + channel.bytes() <= room && self.pool.try_reserve(1).is_ok() {
            self.pooled += channel.bytes();
            self.pool.push(channel);
        }
    }

    /// Frees pooled channels until at most `room` bytes are left.
    fn shrink_pool(&mut self, room: usize) {
        while self.pooled > room {
            let Some(channel) = self.pool.pop() else { return };
            self.pooled -= channel.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, LARGEST, SMALLEST};
    use std::vec::Vec;

    #[test]
    fn many_connections_fit_because_later_ones_get_less() {
        let limit = if cfg!(miri) { 1 << 20 } else { 64 << 20 };
        let mut budget = Budget::new(limit);
        let channels: Vec<_> = core::iter::from_fn(|| budget.channel(None, None).ok()).collect();
        assert!(channels.len() > limit >> 15, "{}", channels.len());
        assert!(budget.used() <= limit);
        assert_eq!(channels.first().unwrap().sizes(), (LARGEST, LARGEST));
        assert_eq!(channels.last().unwrap().sizes(), (SMALLEST, SMALLEST));
        for channel in channels {
            budget.give_back(channel);
        }
        assert_eq!(budget.used(), 0);
        assert!(budget.pooled <= limit / 4);
    }

    #[test]
    fn a_pooled_channel_is_used_again_and_gives_way() {
        let mut budget = Budget::new(8 << 20);
        let channel = budget.channel(None, None).unwrap();
        let bytes = channel.bytes();
        budget.give_back(channel);
        assert_eq!(budget.pooled, bytes);
        let again = budget.channel(None, None).unwrap();
        assert_eq!((again.bytes(), budget.pooled), (bytes, 0));
        budget.give_back(again);
        assert_eq!(budget.pooled_bytes(), bytes);
        budget.reclaim();
        assert_eq!((budget.pooled_bytes(), budget.used()), (0, 0));
        let another = budget.channel(None, None).unwrap();
        budget.give_back(another);
        assert!(budget.charge(8 << 20));
        assert_eq!(budget.pooled_bytes(), 0);
        assert!(!budget.charge(1));
        assert!(budget.channel(None, None).is_err());
        budget.refund(8 << 20);
        assert_eq!(budget.channel(Some(1), Some(usize::MAX)).unwrap().sizes(), (SMALLEST / 2, LARGEST));
    }
}
