//! Random bytes for the program.

use hermit_entropy::{Generator, SEED_SIZE};
use hermit_hal::boot::Boot;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;

use crate::devices;

static GENERATOR: SpinLock<Option<Generator>> = SpinLock::new(None);

/// Seeds the generator from the processor, and from the hypervisor if it gave a seed; without either from an entropy
/// device. If there is none either, there is no generator.
pub(crate) fn init(boot: &Boot) {
    let mut seed = [0; SEED_SIZE];
    let fixed = boot.info.fixed;
    let from_host = (fixed.seed_size as usize >= SEED_SIZE).then_some(fixed.seed);
    let from_processor = hermit_hal::entropy::fill(&mut seed).then_some(seed);
    let known = from_processor.or(from_host);
    let mut generator = known.or_else(from_device).map(Generator::new);
    if let (Some(generator), Some(seed)) = (&mut generator, from_host) {
        generator.reseed(&seed);
    }
    *GENERATOR.lock() = generator;
}

/// A seed from an entropy device.
fn from_device() -> Option<[u8; SEED_SIZE]> {
    let mut seed = [0; SEED_SIZE];
    devices::seed(&mut seed).then_some(seed)
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
