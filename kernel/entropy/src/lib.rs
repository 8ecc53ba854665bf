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
}

impl Generator {
    /// Creates a generator from a seed, which must be unpredictable.
    #[must_use]
    pub const fn new(seed: [u8; SEED_SIZE]) -> Self {
        Self { key: seed }
    }

    /// Mixes in another seed. A predictable seed does not weaken the state.
    pub fn reseed(&mut self, seed: &[u8; SEED_SIZE]) {
        self.key.iter_mut().zip(seed).for_each(|(key, seed)| *key ^= seed);
        self.fill_with(|_| {});
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.fill_with(|stream| stream.fill_bytes(bytes));
    }

    /// Replaces the key with the start of the key stream, and passes the rest of the stream to `use_stream`.
    fn fill_with(&mut self, use_stream: impl FnOnce(&mut ChaCha20Rng)) {
        let mut stream = ChaCha20Rng::from_seed(self.key);
        stream.fill_bytes(&mut self.key);
        use_stream(&mut stream);
    }
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
    fn fill_supports_every_length() {
        for length in [0, 1, 63, 64, 65, 1000] {
            let mut bytes = std::vec![0; length];
            Generator::new([9; 32]).fill(&mut bytes);
            assert!(length < 63 || bytes.iter().any(|&byte| byte != 0));
        }
    }

    extern crate std;
}
