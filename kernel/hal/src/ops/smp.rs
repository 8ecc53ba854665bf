//! Operations on CPUs other than the calling one.

use hermit_interface::boot_info::BootInfo;

/// The number of CPUs, start of secondary CPUs, and interrupts between CPUs.
pub(crate) trait Smp: Sync {
    /// Stores the facts about CPUs in the boot information.
    fn init_topology(&self, info: &BootInfo);

    /// Number of CPUs of the machine, from 1 to 64.
    fn cpu_count(&self) -> u32;

    /// Starts the secondary CPUs 1 to `prepared - 1`, for which [`crate::arch::startup::prepare`] has
    /// allocated memory. Called once, by the first CPU.
    fn start_secondary(&self, prepared: u32);

    /// Initialises the interrupt controller of the calling secondary CPU, which has this number.
    fn init_secondary(&self, cpu: u32);

    /// Sends the reschedule IPI to another CPU. Interrupts are masked.
    fn send_reschedule(&self, cpu: u32);

    /// Interrupts all other CPUs so that they stop, whether or not they mask interrupts.
    fn stop_others(&self);
}
