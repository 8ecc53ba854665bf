//! The kernel's random number generator.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_entropy::{Generator, SEED_SIZE};
use hermit_hal::boot::Boot;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;

use crate::report;

static GENERATOR: SpinLock<Option<Generator>> = SpinLock::new(None);

/// Seeds the generator from the processor, else from the hypervisor's seed, else by `fill_from_device`, which returns
/// `false` if it cannot. The hypervisor's seed is mixed in even if it is not the first. Without any source there is no
/// generator.
pub(crate) fn init(boot: &Boot, fill_from_device: impl FnOnce(&mut [u8]) -> bool) {
    let mut seed = [0; SEED_SIZE];
    let fixed = boot.info.fixed;
    let from_host = (fixed.seed_size as usize >= SEED_SIZE).then_some(fixed.seed);
    let from_processor = hermit_hal::entropy::fill(&mut seed).then_some(seed);
    let from_device = || {
        let mut seed = [0; SEED_SIZE];
        fill_from_device(&mut seed).then_some(seed)
    };
    let mut seeds = [from_processor, from_host].into_iter().flatten();
    let mut generator = seeds.next().or_else(from_device).map(Generator::new);
    if let (Some(generator), Some(seed)) = (&mut generator, seeds.next()) {
        generator.reseed(&seed);
    }
    *GENERATOR.lock() = generator;
}

/// Fills `bytes` with random numbers fit for cryptography.
///
/// # Errors
///
/// `ENOSYS` if the machine has no source of entropy.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Errno> {
    let Some(generator) = &mut *GENERATOR.lock() else { return Err(Errno::ENOSYS) };
    generator.fill(bytes);
    Ok(())
}

/// Says, at the first failure for the program, how to give the machine a source of entropy.
pub(crate) fn warn_of_missing_source() {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    if !HAS_WARNED.swap(true, Relaxed) {
        report::warn(format_args!(
            "this machine has no source of random numbers: add `-cpu max` (RDRAND) or `-device virtio-rng-pci` to \
             QEMU's command line"
        ));
    }
}
