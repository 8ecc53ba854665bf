//! Operations on the calling CPU.

use crate::arch::processor::Processor;

/// Control of the calling CPU. Whether it takes privileged instructions is the platform's matter.
pub(crate) trait CpuControl: Sync {
    /// Prepares the CPU for kernel code: loads its CPU-local block, sets up exceptions and processor
    /// features. Precedes everything else on every CPU.
    fn enter(&self, processor: &Processor);

    /// Lets interrupts interrupt this CPU, for the first time.
    fn enable_interrupts(&self);

    /// Waits for an interrupt unless `woken` returns true; no interrupt between that check and the wait is
    /// lost. May return early.
    fn wait_unless(&self, woken: &dyn Fn() -> bool);

    /// Does the work that was deferred by setting [`crate::interrupts::DEFERRED_BIT`]. Called with interrupts
    /// masked, before a thread runs.
    fn run_deferred(&self) {}

    /// A hint in a spin loop: the CPU that is waited for may need this one's time.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Whether software emulates the CPU, as far as the platform knows.
    fn is_emulated(&self) -> bool {
        false
    }

    /// Stops this CPU until the machine ends.
    fn stop(&self) -> !;
}
