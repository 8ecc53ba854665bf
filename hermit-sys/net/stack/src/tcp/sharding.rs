//! Assignment of connections to shards.

use core::hash::BuildHasher as _;

use foldhash::quality::FixedState;

use crate::host::Random;
use crate::socket::address::Tuple;
use crate::socket::slab::MAX_TABLES;

/// Number of shards, and the hash that assigns connections to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharding {
    count: u32,
    /// Seed of the hash.
    seed: u64,
}

impl Sharding {
    /// Creates the assignment for a number of shards, at least one.
    pub(super) fn new(count: u32, random: &mut dyn Random) -> Self {
        Self { count: count.clamp(1, MAX_TABLES), seed: random.random() }
    }

    /// Number of shards.
    pub(super) fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(1)
    }

    /// Numbers of all shards.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.count
    }

    /// Number of the shard of a connection. Both ends of a connection within this host belong to the same
    /// shard.
    #[inline]
    pub(super) fn shard_of(&self, tuple: &Tuple) -> u32 {
        if self.count == 1 {
            return 0;
        }
        let hasher = FixedState::with_seed(self.seed);
        let [local, remote] = [tuple.local, tuple.remote].map(|end| hasher.hash_one(end));
        // The high half of the product scales the hash to the number of shards, without a division.
        let number = (((local ^ remote) >> 32) * u64::from(self.count)) >> 32;
        u32::try_from(number).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Sharding;
    use crate::socket::address::{Endpoint, Tuple};
    use crate::testing::System;
    use core::net::{IpAddr, Ipv4Addr};

    #[test]
    fn connections_are_distributed_and_both_ends_are_in_one_shard() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for count in [0, 1, 2, 3, 16] {
            let sharding = Sharding::new(count, &mut System::new(u64::from(count) + 1));
            let mut connections = [0; 16];
            for port in 0..1600 {
                let tuple = Tuple { local: Endpoint::new(here, port), remote: Endpoint::new(here, 80) };
                let number = sharding.shard_of(&tuple);
                assert_eq!(sharding.shard_of(&tuple.reversed()), number);
                connections[number as usize] += 1;
            }
            let (used, unused) = connections.split_at(sharding.count());
            let mean = 1600 / sharding.count();
            assert!(used.iter().all(|count| (mean / 2..=2 * mean).contains(count)), "{connections:?}");
            assert!(unused.iter().all(|&count| count == 0));
        }
    }
}
