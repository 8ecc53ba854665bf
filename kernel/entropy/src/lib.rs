//! The random number generator: ChaCha20 with fast key erasure, seeded with hardware entropy.
//!
//! The generator replaces its key with the first bytes of each output ("fast key erasure"), so that a later
//! compromise of its state does not reveal earlier output.
//!
//! ```
//! let mut generator = hermit_entropy::Generator::new([7; hermit_entropy::SEED_SIZE]);
//! let (mut first, mut second) = ([0; 16], [0; 16]);
//! generator.fill(&mut first);
//! generator.fill(&mut second);
//! assert_ne!(first, second);
//! ```
#![no_std]
#![forbid(unsafe_code)]

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Size of a seed in bytes.
pub const SEED_SIZE: usize = 32;

/// The generator's state.
#[derive(Debug)]
pub struct Generator {
    key: [u8; SEED_SIZE],
    /// Seeds that the next output mixes in, combined by XOR; they are not in the key yet.
    pending: Option<[u8; SEED_SIZE]>,
}

impl Generator {
    /// Creates a generator from a seed, which must be unpredictable.
    #[must_use]
    pub const fn new(seed: [u8; SEED_SIZE]) -> Self {
        Self { key: seed, pending: None }
    }

    /// Mixes in another seed, before the next output. A predictable seed does not weaken the state.
    ///
    /// The cipher only runs with [`fill`](Self::fill), so that programs without random numbers do not contain
    /// it.
    pub fn reseed(&mut self, seed: &[u8; SEED_SIZE]) {
        xor(self.pending.get_or_insert_default(), seed);
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        // The key is replaced before the seeds are mixed in. Otherwise a seed equal to the key, such as the
        // one that was passed to `new`, would make the key zero. After the replacement, no seed can cancel
        // the key, since the key stream is unknown without the old key.
        if let Some(seeds) = self.pending.take() {
            self.replace_key();
            xor(&mut self.key, &seeds);
        }
        self.replace_key().fill_bytes(bytes);
    }

    /// Replaces the key with the start of its key stream, and returns the rest of the stream.
    #[inline(never)] // Keeps the cipher in the image once.
    fn replace_key(&mut self) -> ChaCha20Rng {
        let mut stream = ChaCha20Rng::from_seed(self.key);
        stream.fill_bytes(&mut self.key);
        stream
    }
}

fn xor(bytes: &mut [u8; SEED_SIZE], others: &[u8; SEED_SIZE]) {
    bytes.iter_mut().zip(others).for_each(|(byte, other)| *byte ^= other);
}

#[cfg(test)]
mod tests {
    use super::Generator;

    fn take<const N: usize>(generator: &mut Generator) -> [u8; N] {
        let mut bytes = [0; N];
        generator.fill(&mut bytes);
        bytes
    }

    #[test]
    fn fill_replaces_the_key() {
        let mut generator = Generator::new([7; 32]);
        let (first, key) = (take::<64>(&mut generator), generator.key);
        assert_ne!(first, take::<64>(&mut generator));
        assert_ne!(key, generator.key);
        assert!(!first.windows(32).any(|bytes| bytes == key));
    }

    #[test]
    fn output_depends_on_all_seeds() {
        let mut one = Generator::new([1; 32]);
        let mut two = Generator::new([1; 32]);
        assert_eq!(take::<32>(&mut one), take::<32>(&mut two));
        two.reseed(&[3; 32]);
        assert_ne!(take::<32>(&mut one), take::<32>(&mut two));
    }

    #[test]
    fn seed_does_not_cancel_itself() {
        let from_same_twice = |byte| {
            let mut generator = Generator::new([byte; 32]);
            generator.reseed(&[byte; 32]);
            take::<32>(&mut generator)
        };
        assert_ne!(from_same_twice(1), from_same_twice(2));
    }

    #[test]
    fn reseed_twice_with_one_seed_leaves_the_first() {
        let reseeded = |byte| {
            let mut generator = Generator::new([byte; 32]);
            generator.reseed(&[3; 32]);
            generator.reseed(&[3; 32]);
            take::<32>(&mut generator)
        };
        assert_ne!(reseeded(1), reseeded(2));
    }

    #[test]
    fn fill_mixes_in_a_seed_once() {
        let mut one = Generator::new([1; 32]);
        one.reseed(&[3; 32]);
        take::<32>(&mut one);
        assert!(one.pending.is_none());
        let mut two = Generator::new(one.key);
        assert_eq!(take::<32>(&mut one), take::<32>(&mut two));
    }

    #[test]
    fn fill_supports_every_length() {
        for length in [0, 1, 63, 64, 65, 1000] {
            let mut bytes = std::vec![0; length];
            Generator::new([9; 32]).fill(&mut bytes);
            assert!(length < 63 || bytes.iter().any(|&byte| byte != 0));
        }
    }

    extern crate std;
}
