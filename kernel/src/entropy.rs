//! The kernel's random number generator.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_entropy::{Generator, SEED_SIZE};
use hermit_hal::boot::Boot;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;

use crate::sync::OnceLock;
use crate::{devices, report};

/// The hypervisor's seed, until the generator takes it.
static HOST_SEED: SpinLock<Option<[u8; SEED_SIZE]>> = SpinLock::new(None);

/// The generator; `None` if the machine has no source of entropy.
static GENERATOR: OnceLock<Option<SpinLock<Generator>>> = OnceLock::new();

/// Keeps the hypervisor's seed. The generator is created only when the program first asks for random numbers.
/// So programs that never ask do not contain the generator's code.
pub(crate) fn init(boot: &Boot) {
    let fixed = boot.info.fixed;
    *HOST_SEED.lock() = (fixed.seed_size as usize >= SEED_SIZE).then_some(fixed.seed);
}

/// Creates a generator. Its seed comes from the processor, or else from the hypervisor, or else from a
/// device. The hypervisor's seed is mixed in even if the processor has a seed. Returns `None` if there is no
/// source.
///
/// # Errors
///
/// `ENOMEM` if there is no memory for the device. Another attempt may succeed.
fn seeded() -> Result<Option<SpinLock<Generator>>, Errno> {
    let mut seed = [0; SEED_SIZE];
    let from_host = HOST_SEED.lock().take();
    let from_processor = hermit_hal::entropy::fill(&mut seed).then_some(seed);
    let mut seeds = [from_processor, from_host].into_iter().flatten();
    let Some(first) = seeds.next() else {
        return Ok(devices::seed(&mut seed)?.then(|| SpinLock::new(Generator::new(seed))));
    };
    let mut generator = Generator::new(first);
    if let Some(second) = seeds.next() {
        generator.reseed(&second);
    }
    Ok(Some(SpinLock::new(generator)))
}

/// Fills `bytes` with random numbers fit for cryptography. The first call may sleep.
///
/// # Errors
///
/// `ENOSYS` if the machine has no source of entropy, `ENOMEM`.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Errno> {
    let generator = GENERATOR.get_or_try_init(seeded)?.as_ref().ok_or(Errno::ENOSYS)?;
    generator.lock().fill(bytes);
    Ok(())
}

/// Prints a hint on how to give the machine a source of entropy, when random numbers first fail for the
/// program.
pub(crate) fn warn_of_missing_source() {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    if !HAS_WARNED.swap(true, Relaxed) {
        report::warn(format_args!(
            "this machine has no source of random numbers: add `-cpu max` (RDRAND) or `-device virtio-rng-pci` to \
             QEMU's command line"
        ));
    }
}
