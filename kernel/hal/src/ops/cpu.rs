//! Operations on the calling CPU.

use crate::arch::processor::Processor;

/// Control of the calling CPU. The platform decides whether it uses privileged instructions.
pub(crate) trait CpuControl: Sync {
    /// Prepares the CPU for kernel code: loads its CPU-local block, sets up exceptions and processor
    /// features. Precedes everything else on every CPU.
    fn enter(&self, processor: &Processor);

    /// Enables interrupts on this CPU for the first time.
    fn enable_interrupts(&self);

    /// Waits for an interrupt unless `woken` returns true. No interrupt between that check and the wait is
    /// lost. May return early.
    fn wait_unless(&self, woken: &dyn Fn() -> bool);

    /// Does the work that was deferred by setting [`crate::interrupts::DEFERRED_BIT`]. Called with interrupts
    /// masked, before a thread runs.
    fn run_deferred(&self) {}

    /// Hint in a spin loop. The platform may give the time of this CPU to the CPU for which this one waits.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Returns true if software emulates the CPU, as far as the platform knows.
    fn is_emulated(&self) -> bool {
        false
    }

    /// Stops this CPU until the machine ends.
    fn stop(&self) -> !;
}
