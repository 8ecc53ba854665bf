//! The processor's random number generator: RDSEED and RDRAND (SDM volume 1, section 7.3.17).

use core::arch::x86_64::{_rdrand64_step, _rdseed64_step};

use super::cpu;

/// Attempts per word before the generator counts as broken. Intel recommends ten for RDRAND; RDSEED may have
/// no bits for longer.
const MAX_ATTEMPTS: usize = 100;

/// The processor's generators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomNumbers {
    has_seed: bool,
    has_random: bool,
}

impl RandomNumbers {
    /// Finds the generators, once the CPU is prepared.
    pub(crate) fn of_processor() -> Self {
        Self { has_seed: cpu::has_rdseed(), has_random: cpu::has_rdrand() }
    }

    /// 64 random bits from RDSEED, else from RDRAND; `None` if the processor has neither or both fail.
    pub(crate) fn word(self) -> Option<u64> {
        let seed = || if self.has_seed { repeat(seed_step) } else { None };
        let random = || if self.has_random { repeat(random_step) } else { None };
        seed().or_else(random)
    }
}

fn repeat(step: fn() -> Option<u64>) -> Option<u64> {
    (0..MAX_ATTEMPTS).find_map(|_| step())
}

fn seed_step() -> Option<u64> {
    #[target_feature(enable = "rdseed")]
    fn step(bits: &mut u64) -> i32 {
        _rdseed64_step(bits)
    }
    let mut bits = 0;
    // SAFETY: `RandomNumbers::word`, the only caller, calls this only if CPUID reports RDSEED.
    (unsafe { step(&mut bits) } == 1).then_some(bits)
}

fn random_step() -> Option<u64> {
    #[target_feature(enable = "rdrand")]
    fn step(bits: &mut u64) -> i32 {
        _rdrand64_step(bits)
    }
    let mut bits = 0;
    // SAFETY: `RandomNumbers::word`, the only caller, calls this only if CPUID reports RDRAND.
    (unsafe { step(&mut bits) } == 1).then_some(bits)
}
