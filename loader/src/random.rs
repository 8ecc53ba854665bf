//! Random numbers for the address space layout.

use core::arch::x86_64::_rdtsc;

use hermit_boot::Randomness;
use x86_64::instructions::random::RdRand;

/// Random numbers from the processor. On a processor without `RDRAND`, the numbers come from the time-stamp
/// counter. The addresses then differ from run to run, but can be guessed. (Entropy for programs never comes
/// from here.)
pub(crate) fn randomness() -> Randomness {
    let generator = RdRand::new();
    let number =
        || generator.and_then(|generator| (0..10).find_map(|_| generator.get_u64())).unwrap_or_else(time);
    Randomness { image: number(), direct_map: number(), free_addresses: number() }
}

/// The time-stamp counter, its bits spread (the finaliser of SplitMix64).
fn time() -> u64 {
    // SAFETY: every 64-bit processor has a time-stamp counter, and RDTSC is always allowed at privilege level
    // 0, at which the loader runs.
    let mut bits = unsafe { _rdtsc() };
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
