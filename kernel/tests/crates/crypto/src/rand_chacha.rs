//! Reproducible random numbers by ChaCha.

use rand_chacha::rand_core::{RngCore, SeedableRng};
use rand_chacha::{ChaCha8Rng, ChaCha12Rng, ChaCha20Rng};

pub fn run() -> crate_uses::Result {
    let mut random = ChaCha20Rng::from_seed([1; 32]);
    println!("{:x} {:x}", random.next_u64(), random.next_u32());
    random.set_word_pos(1 << 40);
    let mut bytes = [0; 1000];
    random.fill_bytes(&mut bytes);
    println!("{} {}", crate_uses::digest(&bytes), random.get_word_pos());
    random.set_stream(9);
    println!("{:x} {}", random.next_u64(), random.get_stream());
    println!("{:x} {:x}", ChaCha8Rng::seed_from_u64(0).next_u64(), ChaCha12Rng::seed_from_u64(0).next_u64());
    crate_uses::ensure(ChaCha8Rng::from_os_rng() != ChaCha8Rng::from_os_rng(), "the same seeds")
}
