//! Random bytes for programs: ChaCha20, keyed with hardware entropy, that forgets what it gave out.
//!
//! After each request the generator takes a new key from its own output ("fast key erasure"), so that whoever
//! sees its state later cannot tell earlier bytes.
#![no_std]
#![forbid(unsafe_code)]

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Bytes of a seed.
pub const SEED_SIZE: usize = 32;

/// The generator. There is none without a seed.
#[derive(Debug)]
pub struct Generator {
    key: [u8; SEED_SIZE],
}

impl Generator {
    /// A generator from a seed that nobody can guess.
    #[must_use]
    pub const fn new(seed: [u8; SEED_SIZE]) -> Self {
        Self { key: seed }
    }

    /// Mixes more entropy in. A bad seed does no harm.
    pub fn reseed(&mut self, seed: &[u8; SEED_SIZE]) {
        self.key.iter_mut().zip(seed).for_each(|(key, seed)| *key ^= seed);
        self.fill_with(|_| {});
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.fill_with(|stream| stream.fill_bytes(bytes));
    }

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
    fn the_key_changes_with_every_request() {
        let mut generator = Generator::new([7; 32]);
        let (first, key) = (take::<64>(&mut generator), generator.key);
        assert_ne!(first, take::<64>(&mut generator));
        assert_ne!(key, generator.key);
        assert!(!first.windows(32).any(|bytes| bytes == key));
    }

    #[test]
    fn seeds_matter() {
        let mut one = Generator::new([1; 32]);
        let mut two = Generator::new([1; 32]);
        assert_eq!(take::<32>(&mut one), take::<32>(&mut two));
        two.reseed(&[3; 32]);
        assert_ne!(take::<32>(&mut one), take::<32>(&mut two));
    }

    #[test]
    fn every_length_is_filled() {
        for length in [0, 1, 63, 64, 65, 1000] {
            let mut bytes = std::vec![0; length];
            Generator::new([9; 32]).fill(&mut bytes);
            assert!(length < 63 || bytes.iter().any(|&byte| byte != 0));
        }
    }

    extern crate std;
}
