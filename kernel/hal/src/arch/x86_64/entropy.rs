//! Random bits from the processor (SDM volume 1, section 7.3.17).

use core::arch::x86_64::{__cpuid, __cpuid_count, _rdrand64_step, _rdseed64_step};

/// How often an instruction that has no bits ready is tried again; Intel recommends ten for `RDRAND`, `RDSEED`
/// may run dry for longer.
const TRIES: usize = 100;

/// A word of hardware entropy, from `RDSEED` if there is one, else from `RDRAND`, else `None`.
pub(crate) fn word() -> Option<u64> {
    let has_seed = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 18 != 0;
    let has_random = __cpuid(1).ecx & 1 << 30 != 0;
    let seed = || if has_seed { repeat(seed_step) } else { None };
    let random = || if has_random { repeat(random_step) } else { None };
    seed().or_else(random)
}

fn repeat(step: fn() -> Option<u64>) -> Option<u64> {
    (0..TRIES).find_map(|_| step())
}

fn seed_step() -> Option<u64> {
    #[target_feature(enable = "rdseed")]
    fn step(bits: &mut u64) -> i32 {
        _rdseed64_step(bits)
    }
    let mut bits = 0;
    // SAFETY: called only if CPUID shows RDSEED.
    (unsafe { step(&mut bits) } == 1).then_some(bits)
}

fn random_step() -> Option<u64> {
    #[target_feature(enable = "rdrand")]
    fn step(bits: &mut u64) -> i32 {
        _rdrand64_step(bits)
    }
    let mut bits = 0;
    // SAFETY: called only if CPUID shows RDRAND.
    (unsafe { step(&mut bits) } == 1).then_some(bits)
}
