//! Hardware entropy.

use crate::arch::entropy::RandomNumbers;

/// Fills `seed` with random bits from the processor.
///
/// Returns `false`, with the contents of `seed` unspecified, if the processor has no random number generator:
/// there is no weak substitute.
#[must_use]
pub fn fill(seed: &mut [u8; 32]) -> bool {
    let processor = RandomNumbers::of_processor();
    seed.chunks_exact_mut(8).all(|chunk| match processor.word() {
        Some(word) => {
            chunk.copy_from_slice(&word.to_le_bytes());
            true
        }
        None => false,
    })
}
