//! Random bytes for the program.

use hermit_entropy::{Generator, SEED_SIZE};
use hermit_hal::boot::Boot;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;

static GENERATOR: SpinLock<Option<Generator>> = SpinLock::new(None);

/// Seeds the generator from the processor, and from the hypervisor if it gave a seed. Without either there is no
/// generator.
pub(crate) fn init(boot: &Boot) {
    let mut seed = [0; SEED_SIZE];
    let fixed = boot.info.fixed;
    let from_host = (fixed.seed_size as usize >= SEED_SIZE).then_some(fixed.seed);
    let from_processor = hermit_hal::entropy::fill(&mut seed).then_some(seed);
    let mut generator = from_processor.or(from_host).map(Generator::new);
    if let (Some(generator), Some(seed)) = (&mut generator, from_host) {
        generator.reseed(&seed);
    }
    *GENERATOR.lock() = generator;
}

/// Fills `bytes`.
///
/// # Errors
///
/// `ENOSYS` if the machine has no source of entropy.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Errno> {
    GENERATOR.lock().as_mut().ok_or(Errno::ENOSYS)?.fill(bytes);
    Ok(())
}
