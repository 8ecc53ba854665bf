//! Identification fields of packets that may be fragmented.
//!
//! If all destinations shared one counter, each of them could see how much is sent to the others. A host that
//! sees no packet at all could guess the next number, and use it to replace a fragment (RFC 7739, section 4).
//! There are therefore many counters, and each pair of addresses starts at a secret number.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::host::Random;
use crate::sip_hash::{low, sip_hash, words};

/// Number of counters. Pairs of addresses with equal hashes share a counter.
const COUNTERS: usize = 1024;

/// The counters, by hash of source and destination (RFC 7739, section 5.3).
#[derive(Debug)]
pub(super) struct Identifications {
    secret: [u64; 2],
    counters: Vec<u32>,
    /// Last pair of addresses and its hash. Most packets in a row have the same destination.
    last: Option<(IpAddr, IpAddr, u64)>,
}

impl Identifications {
    pub(super) fn new(random: &mut dyn Random) -> Self {
        Self { secret: [random.random(), random.random()], counters: vec![0; COUNTERS], last: None }
    }

    /// Returns the identification of the next packet from one address to another.
    pub(super) fn next(&mut self, source: IpAddr, destination: IpAddr) -> u32 {
        let hash = match self.last {
            Some((from, to, hash)) if from == source && to == destination => hash,
            _ => self.hash(source, destination),
        };
        let place = usize::try_from(hash >> 32).unwrap_or(0) % COUNTERS;
        let Some(counter) = self.counters.get_mut(place) else { return low(hash) };
        *counter = counter.wrapping_add(1);
        low(hash).wrapping_add(*counter)
    }

    fn hash(&mut self, source: IpAddr, destination: IpAddr) -> u64 {
        let hash = match (source, destination) {
            // One word is enough for both addresses.
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let both = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
                sip_hash(self.secret, [both])
            }
            _ => sip_hash(self.secret, words(source).into_iter().chain(words(destination))),
        };
        self.last = Some((source, destination, hash));
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::Identifications;
    use crate::testing::{System, v4, v6};
    use core::net::IpAddr;
    use std::collections::HashSet;

    #[test]
    fn numbers_of_a_destination_do_not_repeat_and_say_nothing_about_others() {
        let mut all = Identifications::new(&mut System::new(1));
        for (source, destination, other) in [(v4(0), v4(1), v4(5)), (v6(0), v6(1), v6(5))] {
            let first = all.next(source, destination);
            // Every other packet is for another destination.
            for count in 1..=1000 {
                all.next(source, other);
                assert_eq!(all.next(source, destination), first.wrapping_add(count));
            }
        }
        let firsts: HashSet<u32> =
            (1..=250_u8).map(|number| all.next(v4(0), IpAddr::from([10, 0, 1, number])) & 0xffff).collect();
        // In half of all sets of 250 random numbers of 16 bits, two numbers are equal.
        assert!(firsts.len() > 240, "{}", firsts.len());
        let mut other = Identifications::new(&mut System::new(2));
        let distance = other.next(v4(0), v4(1)).wrapping_sub(all.next(v4(0), v4(1)));
        assert!((10_000..u32::MAX - 10_000).contains(&distance), "{distance}");
    }
}
