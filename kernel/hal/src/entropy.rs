//! Random bits from hardware.

use crate::arch::entropy;

/// Fills `seed` with hardware entropy.
///
/// Returns `false`, and leaves `seed` in no particular state, if the machine has no source: there is no weak
/// substitute.
#[must_use]
pub fn fill(seed: &mut [u8; 32]) -> bool {
    seed.chunks_exact_mut(8).all(|chunk| match entropy::word() {
        Some(word) => {
            chunk.copy_from_slice(&word.to_le_bytes());
            true
        }
        None => false,
    })
}
